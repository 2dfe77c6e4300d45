"""Predicted starts on headers, pages and configurations that no node leaves: a node's answers."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from je_tools.findings import Severity
from je_tools.ignite.examination import examine_store
from je_tools.ignite.page_check.verify import verify_pages
from je_tools.ignite.recovery.plan import NodePlan, StartOutcome, plan_recovery
from je_tools.ignite.recovery.repair import apply_repairs, plan_repairs
from je_tools.ignite.store import open_store
from tests.builders.ignite import checksum
from tests.builders.ignite_pages import SIZE, page
from tests.builders.ignite_recovery import write_unfinished_store
from tests.corpus import FIXTURES, corpus
from tests.engine.ignite import writable_copy
from tests.je_tools.dumped import je_tools


def _plan(store: Path) -> NodePlan:
    (plan,) = plan_recovery(open_store([store]), 1)
    return plan


@pytest.mark.parametrize("folder", ["archive/node1", "node1"])
@pytest.mark.parametrize(
    ("at", "outcome"),
    [
        (0, StartOutcome.REFUSED),
        (17, StartOutcome.REFUSED),
        (22, StartOutcome.REFUSED),
        (10, StartOutcome.STARTS),
        (26, StartOutcome.STARTS),
    ],
)
def test_damage_in_a_header_that_the_node_reads(
    folder: str, at: int, outcome: StartOutcome, tmp_path: Path
) -> None:
    """It does not check the checksum and the offset in the header."""
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "work")
    path = store / "db/wal" / folder / f"{int(folder == 'node1'):016}.wal"
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)
    plan = _plan(store)
    assert plan.outcome is outcome, [each.found for each in plan.findings]
    assert [edit.path for edit in plan_repairs(plan, 1).edits][:1] == [path]


@pytest.mark.parametrize("at", [0, 17, 22])
@pytest.mark.skipif(corpus() is None, reason="only the corpus has a segment that nothing reads")
def test_damage_in_a_header_of_a_segment_that_recovery_does_not_read(
    at: int, tmp_path: Path
) -> None:
    whole = corpus()
    assert whole is not None
    store = writable_copy(whole / "ignite-crash" / "store", tmp_path / "work")
    path = store / "db/wal/archive/node1/0000000000000000.wal"
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)
    assert _plan(store).outcome is StartOutcome.STARTS


def unlike(path: Path, index: int, type_no: int, version: int | None = None) -> None:
    """Give a page of 4 KiB another type and a right checksum."""
    data = bytearray(path.read_bytes())
    page = slice(4096 * (index + 1), 4096 * (index + 2))
    struct.pack_into("<H", data, page.start, type_no)
    if version is not None:
        struct.pack_into("<H", data, page.start + 2, version)
    data[page.start + 4 : page.start + 8] = bytes(4)
    struct.pack_into("<I", data, page.start + 4, checksum(bytes(data[page])))
    path.write_bytes(data)


UNLIKE = [
    ("part-0.bin", 0, 36, StartOutcome.LOSES),
    ("part-0.bin", 0, 1, StartOutcome.LOSES),
    ("part-0.bin", 1, 36, StartOutcome.UNCLEAR),
    ("part-0.bin", 7, 36, StartOutcome.UNCLEAR),
    ("index.bin", 4, 36, StartOutcome.UNCLEAR),
]
"""Pages of the cache `accounts`, types, and the outcome of the start.

With the second, a node starts with 49 of 59 rows; with the third, with all; at page 7, it halts.
"""


@pytest.mark.parametrize(("name", "index", "type_no", "outcome"), UNLIKE)
def test_pages_of_another_type_are_the_same_in_recover_and_pages_verify(
    name: str, index: int, type_no: int, outcome: StartOutcome, tmp_path: Path
) -> None:
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "work")
    unlike(store / "db/node1/cache-accounts" / name, index, type_no)
    plan = _plan(store)
    assert plan.outcome is outcome
    (found,) = (each for each in plan.findings if each.file and each.file.endswith(name))
    report = verify_pages(open_store([store]), 1)
    worst = {each.severity for each in report.findings if each.file == found.file}
    assert found.severity in worst
    assert not worst - {found.severity, Severity.NOTE}
    apply_repairs(open_store([store]), plan.node, 1)
    assert not [each for each in _plan(store).findings if each.severity is not Severity.NOTE]


def test_a_page_of_an_unknown_type_that_recovery_writes_is_a_note(tmp_path: Path) -> None:
    store = write_unfinished_store(tmp_path)
    path = store / "db/node1/cache-first/part-1.bin"
    data = path.read_bytes()
    path.write_bytes(data[: SIZE * 5] + page(1, 4, 99) + data[SIZE * 6 :])
    plan = _plan(store)
    notes = [each for each in plan.findings if each.file and each.file.endswith("part-1.bin")]
    assert [each.severity for each in notes] == [Severity.NOTE]
    report = verify_pages(open_store([store]), 1, trees=False)
    found = [each for each in report.findings if each.partition == 1 and each.page == 4]
    assert [(each.code, each.severity) for each in found] == [("page-torn", Severity.NOTE)]


@pytest.mark.parametrize(
    ("content", "outcome"),
    [
        (None, StartOutcome.LOSES),
        (b"", StartOutcome.LOSES),
        (b"\xac\xed\0\6", StartOutcome.REFUSED),
        (b"\xac\xed\0\5t\0\5cut", StartOutcome.REFUSED),
    ],
)
def test_a_cache_without_its_configuration(
    content: bytes | None, outcome: StartOutcome, tmp_path: Path
) -> None:
    """A node starts without the cache, and does not start if the file is no configuration."""
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "work")
    path = store / "db/node1/cache-accounts/cache_data.dat"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert _plan(store).outcome is outcome


@pytest.mark.parametrize("content", [None, b""])
@pytest.mark.parametrize("name", ["cache-accounts/", "cacheGroup-web/carts"])
def test_commands_say_the_same_of_a_cache_without_a_configuration(
    name: str, content: bytes | None, tmp_path: Path
) -> None:
    """The configuration of a cache in a group is missing beside those of others."""
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "work")
    path = store / "db/node1" / f"{name}cache_data.dat"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    folder = str(path.parent.relative_to(store))
    plan = _plan(store)
    (node,) = examine_store(open_store([store]), 1).nodes
    assert (plan.outcome, node.outcome) == (StartOutcome.LOSES, StartOutcome.LOSES)
    (found,) = plan.findings
    (verified,) = verify_pages(open_store([store]), 1).findings
    assert (verified.code, verified.file, verified.found) == (
        "cache-unconfigured",
        found.file,
        found.found,
    )
    assert found.file == folder
    assert "cache-unconfigured" in je_tools("ignite", "export", store).err


@pytest.mark.parametrize(
    ("gone", "outcome"),
    [
        ((0,), StartOutcome.REFUSED),
        ((0, 2), StartOutcome.STARTS),
        ((2,), StartOutcome.STARTS),
    ],
)
def test_a_ring_without_its_first_file(
    gone: tuple[int, ...], outcome: StartOutcome, tmp_path: Path
) -> None:
    """The node moves the files of the ring except the last to the archive, and then fails."""
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "work")
    ring = store / "db/wal/node1"
    for number in gone:
        (ring / f"{number:016}.wal").unlink()
    plan = _plan(store)
    (node,) = examine_store(open_store([store]), 1).nodes
    assert (plan.outcome, node.outcome) == (outcome, outcome)
    apply_repairs(open_store([store]), plan.node, 1)
    assert _plan(store).findings == ()
    is_made = outcome is StartOutcome.REFUSED
    assert (ring / f"{0:016}.wal").exists() == (is_made or 0 not in gone)


def test_a_destroyed_cache_needs_no_configuration(tmp_path: Path) -> None:
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "work")
    (store / "db/node1/cache-gone").mkdir()
    assert _plan(store).outcome is StartOutcome.STARTS
