"""Files of pages that lost their ends between two pages: the predicted starts are a node's answers.

A real node of 2.18.0 was started on each of these stores (`tests/engine/test_ignite.py`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from je_tools.findings import Severity
from je_tools.ignite.examination import examine_store
from je_tools.ignite.page_check.verify import verify_pages
from je_tools.ignite.recovery.plan import NodePlan, StartOutcome, plan_recovery
from je_tools.ignite.recovery.repair import apply_repairs
from je_tools.ignite.store import open_store
from tests.corpus import FIXTURES
from tests.engine.ignite import writable_copy

PAGE = 4096
NODE = "db/node1"
STARTS, REFUSED = StartOutcome.STARTS, StartOutcome.REFUSED


def lose_end(path: Path, pages: int, *, is_zeros: bool) -> None:
    """Keep the first pages of a file, and cut off the others, or make them zeros."""
    size = path.stat().st_size
    os.truncate(path, (pages + 1) * PAGE)
    if is_zeros:
        os.truncate(path, size)


def _plan(store: Path) -> NodePlan:
    (plan,) = plan_recovery(open_store([store]), 1)
    return plan


LOST = [
    ("cache-accounts/part-0.bin", 0, True, REFUSED),
    ("cache-accounts/part-0.bin", 1, False, REFUSED),
    ("cache-accounts/part-0.bin", 8, True, REFUSED),
    ("cache-accounts/part-0.bin", 9, False, REFUSED),
    ("cache-accounts/index.bin", 0, True, REFUSED),
    ("cache-accounts/index.bin", 3, False, REFUSED),
    ("cacheGroup-web/part-0.bin", 10, False, REFUSED),
    # The log has an image of page 10, which the node takes for a page with a wrong checksum.
    ("cacheGroup-web/part-0.bin", 10, True, STARTS),
    ("metastorage/part-1.bin", 8, False, REFUSED),
    ("metastorage/part-1.bin", 13, True, REFUSED),
]
"""Files, pages that are left, whether the others are zeros or cut off, and what a node does."""


@pytest.mark.parametrize(("name", "pages", "is_zeros", "outcome"), LOST)
def test_lost_pages_are_the_same_in_all_commands(
    name: str, pages: int, is_zeros: bool, outcome: StartOutcome, tmp_path: Path
) -> None:
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "work")
    path = store / NODE / name
    whole = path.read_bytes()
    lose_end(path, pages, is_zeros=is_zeros)
    plan = _plan(store)
    examination = examine_store(open_store([store]), 1)
    (doctored,) = examination.nodes
    assert (plan.outcome, doctored.outcome) == (outcome, outcome)
    found = [each for each in plan.findings if each.file == f"{NODE}/{name}"]
    assert found
    assert {each.severity for each in found} == {Severity.ERROR}
    lost = [each for each in verify_pages(open_store([store]), 1).findings if each.page is not None]
    lost = [each for each in lost if each.code == "page-lost"]
    assert [(each.offset, each.length) for each in lost] == [
        (each.offset, each.length) for each in found
    ]
    assert found[0].offset is not None
    assert found[0].offset >= (pages + 1) * PAGE
    # The log has the whole history of the caches, and the node makes a new index.
    apply_repairs(open_store([store]), plan.node, 1)
    if "part" in name and "metastorage" not in name:
        assert path.read_bytes() == whole
        assert _plan(store).findings == ()
    elif "index" in name:
        assert not path.exists()
        assert _plan(store).outcome is STARTS


def test_pages_that_are_cut_off_are_named_with_their_bytes(tmp_path: Path) -> None:
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "work")
    lose_end(store / NODE / "cache-accounts" / "part-0.bin", 7, is_zeros=False)
    texts = {each.offset: (each.length, each.found) for each in _plan(store).findings}
    fate = "after the end of the file; the node does not start, or halts when it reads it"
    assert texts == {8 * PAGE: (3 * PAGE, f"page 7 and each of the 2 after it: {fate}")}


def test_a_file_whose_trees_are_not_followed_is_named(tmp_path: Path) -> None:
    """Nothing is said of lost pages of a file that is a hole for the most part."""
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "work")
    os.truncate(store / NODE / "cache-accounts" / "part-0.bin", 5 << 30)
    plan = _plan(store)
    assert plan.outcome is StartOutcome.UNCLEAR
    assert any(text.startswith("Pages that are lost at the ends") for text in plan.not_checked)
