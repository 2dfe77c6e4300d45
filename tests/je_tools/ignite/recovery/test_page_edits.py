"""Edits of files of pages: the bytes that were lost, and the state of a finished checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.ignite.recovery.plan import StartOutcome, plan_recovery
from je_tools.ignite.recovery.repair import apply_repairs, plan_repairs
from je_tools.ignite.repairs.edits import EditKind
from je_tools.ignite.store import open_store
from tests.corpus import corpus, damaged_store, undamaged_store
from tests.engine.ignite import writable_copy

REBUILT = {
    "ignite-page-corrupt-data": 4096,
    "ignite-page-corrupt-leaf": 4096,
    "ignite-page-corrupt-meta": 4096,
    "ignite-page-zero": 4096,
    "ignite-partition-lost": 45056,
}
"""Stores with damaged pages or a lost file, and the bytes that are written."""

LOST = "db/node1/cache-atom/part-0.bin"
MID = "ignite-crash-mid-checkpoint"


def _files(store: Path) -> dict[str, bytes]:
    """Return the files of pages and markers."""
    found = (path for path in store.rglob("*.bin") if "je-tools" not in str(path))
    return {str(path.relative_to(store)): path.read_bytes() for path in found if path.is_file()}


@pytest.mark.parametrize("name", REBUILT if corpus() else [])
def test_what_is_rebuilt_has_the_bytes_that_were_lost(name: str, tmp_path: Path) -> None:
    whole = corpus()
    assert whole is not None
    store = writable_copy(damaged_store(whole / name, tmp_path), tmp_path / "work")
    found = open_store([store])
    ((repairs, journal),) = apply_repairs(found, found.nodes[0], 1)
    assert (journal, repairs.is_of_log) == (1, False)
    assert sum(edit.size for edit in repairs.edits) == REBUILT[name]
    assert repairs.left == ()
    expected = (undamaged_store(whole / name) / LOST).read_bytes()
    assert (store / LOST).read_bytes() == expected


@pytest.mark.skipif(corpus() is None, reason="only the corpus has such stores")
def test_a_finished_checkpoint_needs_no_physical_part(tmp_path: Path) -> None:
    whole = corpus()
    assert whole is not None
    store = writable_copy(whole / MID / "store", tmp_path / "work")
    before = _files(store)
    found = open_store([store])
    ((repairs, _),) = apply_repairs(found, found.nodes[0], 1)
    assert [edit.kind for edit in repairs.edits].count(EditKind.CREATE) == 1
    assert repairs.edits[-1].path.name.endswith("-END.bin")
    (plan,) = plan_recovery(open_store([store]), 1)
    assert (plan.outcome, plan.physical.status, plan.findings) == (
        StartOutcome.STARTS,
        "finished",
        (),
    )
    after = _files(store)
    (marker,) = after.keys() - before.keys()
    assert after[marker] == before[marker.replace("END", "START")]
    assert apply_repairs(open_store([store]), open_store([store]).nodes[0], 1) == []


@pytest.mark.skipif(corpus() is None, reason="only the corpus has such stores")
def test_a_checkpoint_without_its_log_is_not_finished(tmp_path: Path) -> None:
    whole = corpus()
    assert whole is not None
    store = writable_copy(
        damaged_store(whole / "ignite-bitflip-physical", tmp_path), tmp_path / "work"
    )
    (plan,) = plan_recovery(open_store([store]), 1)
    repairs = plan_repairs(plan, 1)
    assert repairs.edits == ()
    assert "cannot be finished" in repairs.left[-1]


@pytest.mark.skipif(corpus() is None, reason="only the corpus has such stores")
def test_a_page_whose_history_is_gone_is_left(tmp_path: Path) -> None:
    whole = corpus()
    assert whole is not None
    store = writable_copy(
        damaged_store(whole / "ignite-page-corrupt-leaf", tmp_path), tmp_path / "work"
    )
    for path in store.rglob("*0000.wal"):
        path.unlink()
    (plan,) = plan_recovery(open_store([store]), 1)
    repairs = plan_repairs(plan, 1)
    assert repairs.edits == ()
    assert "whole history" in repairs.left[-1]


@pytest.mark.skipif(corpus() is None, reason="only the corpus has such stores")
def test_a_damaged_index_is_moved_away(tmp_path: Path) -> None:
    whole = corpus()
    assert whole is not None
    store = writable_copy(whole / MID / "store", tmp_path / "work")
    index = store / "db/node1/cache-tx/index.bin"
    data = bytearray(index.read_bytes())
    data[3 * 4096 + 100] ^= 1
    index.write_bytes(data)
    (plan,) = plan_recovery(open_store([store]), 1)
    kinds = [(edit.kind, edit.path) for edit in plan_repairs(plan, 1).edits if edit.path == index]
    assert kinds == [(EditKind.SET_ASIDE, index)]
