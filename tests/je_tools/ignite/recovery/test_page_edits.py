"""Edits of files of pages: the bytes that were lost, and the state of a finished checkpoint."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from je_tools.errors import RefusedError
from je_tools.findings import Severity
from je_tools.ignite.page_check.verify import verify_pages
from je_tools.ignite.recovery.plan import StartOutcome, plan_recovery
from je_tools.ignite.recovery.repair import RepairPlan, apply_repairs, plan_repairs
from je_tools.ignite.repairs.edits import EditKind
from je_tools.ignite.store import open_store
from tests.corpus import FIXTURES, corpus, damaged_store, undamaged_store
from tests.engine.ignite import writable_copy
from tests.je_tools.dumped import je_tools

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
KILLED = FIXTURES / "ignite-killed" / "store"
ACCOUNTS = "db/node1/cache-accounts"


def _files(store: Path) -> dict[str, bytes]:
    """Return the files of pages and markers."""
    found = (path for path in store.rglob("*.bin") if "je-tools" not in str(path))
    return {str(path.relative_to(store)): path.read_bytes() for path in found if path.is_file()}


def _applied(store: Path) -> list[tuple[RepairPlan, int | None]]:
    found = open_store([store])
    return apply_repairs(found, found.nodes[0], 1)


@pytest.mark.parametrize("name", REBUILT if corpus() else [])
def test_what_is_rebuilt_has_the_bytes_that_were_lost(name: str, tmp_path: Path) -> None:
    whole = corpus()
    assert whole is not None
    store = writable_copy(damaged_store(whole / name, tmp_path), tmp_path / "work")
    ((repairs, journal),) = _applied(store)
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
    ((repairs, _),) = _applied(store)
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
    lock = store / "db" / "node1" / "lock"
    lock.unlink()
    assert [(each.edits, journal) for each, journal in _applied(store)] == [((), None)]
    # A lock file is only made to write.
    assert not lock.exists()


def test_a_refusal_after_repairs_of_the_log_tells_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = writable_copy(damaged_store(FIXTURES / "ignite-page-damaged", tmp_path), tmp_path / "s")
    archived = store / "db/wal/archive/node1/0000000000000000.wal"
    data = bytearray(archived.read_bytes())
    data[197000] ^= 1
    archived.write_bytes(data)
    free = [os.statvfs(store), os.statvfs_result((4096, 4096, *[0] * 8))]
    monkeypatch.setattr(os, "statvfs", lambda _: free.pop(0))
    with pytest.raises(RefusedError) as refused:
        _applied(store)
    assert archived.read_bytes() != data
    assert str(refused.value).endswith("free space first; no page was changed")
    (note,) = refused.value.__notes__
    assert note.startswith("before that, 1 edit of the log and the markers was written; the undo")


@pytest.mark.parametrize("size", [None, 0, 4096])
def test_a_file_that_is_lost_or_without_pages_is_made_anew(
    size: int | None, tmp_path: Path
) -> None:
    """A node takes a file that is empty, or has a header alone, for a partition without rows."""
    store = writable_copy(KILLED, tmp_path / "work")
    file = store / ACCOUNTS / "part-0.bin"
    whole = file.read_bytes()
    file.unlink() if size is None else os.truncate(file, size)
    (plan,) = plan_recovery(open_store([store]), 1)
    (loss,) = (each for each in plan.findings if each.code == "recovery-loss")
    assert (plan.outcome, loss.found) == (
        StartOutcome.LOSES,
        "no file" if size is None else "a file without pages",
    )
    report = verify_pages(open_store([store]), 1)
    assert [each.code for each in report.findings if each.severity is Severity.ERROR] == [
        "page-file-missing"
    ]
    assert "newest checkpoint counted" in je_tools("ignite", "export", store).err
    ((repairs, _),) = apply_repairs(open_store([store]), plan.node, 1)
    assert (repairs.left, file.read_bytes()) == ((), whole)


@pytest.mark.parametrize("has_log", [True, False])
def test_a_file_that_ends_inside_a_page_gets_all_pages_that_followed(
    has_log: bool, tmp_path: Path
) -> None:
    """With the cut page alone, the file would look whole, and its last pages be lost."""
    store = writable_copy(KILLED, tmp_path / "work")
    file = store / ACCOUNTS / "part-0.bin"
    whole = file.read_bytes()
    cut = whole[: -3 * 4096 + 100]
    file.write_bytes(cut)
    for path in () if has_log else store.rglob("*0000.wal"):
        path.unlink()
    ((repairs, _),) = _applied(store)
    assert (repairs.left == (), file.read_bytes()) == (has_log, whole if has_log else cut)


@pytest.mark.skipif(corpus() is None, reason="only the corpus has such stores")
def test_a_checkpoint_is_not_finished_around_a_page_that_is_cut(tmp_path: Path) -> None:
    """Writes after the end of the file and the rebuilt page would overlap."""
    base = corpus()
    assert base is not None
    store = writable_copy(base / MID / "store", tmp_path / "work")
    os.truncate(store / "db" / "node1" / "cache-big" / "part-1.bin", 11_321)
    ((repairs, journal),) = _applied(store)
    assert (repairs.edits, journal) == ((), None)
    assert "the file ends inside page 1, which recovery does not write" in repairs.left[-1]


@pytest.mark.skipif(corpus() is None, reason="only the corpus has such stores")
def test_a_file_of_which_the_log_has_some_pages_is_lost(tmp_path: Path) -> None:
    """The pages that an unfinished checkpoint wrote are not all of the file."""
    base = corpus()
    assert base is not None
    store = writable_copy(base / "ignite-walpagezip" / "store", tmp_path / "work")
    (plan,) = plan_recovery(open_store([store]), 1)
    assert (plan.physical.status, plan.outcome) == ("unfinished", StartOutcome.STARTS)
    (store / "db" / "node1" / "cache-ttl" / "part-0.bin").unlink()
    (plan,) = plan_recovery(open_store([store]), 1)
    (loss,) = plan.findings
    assert (plan.outcome, loss.code, loss.expected, loss.found) == (
        StartOutcome.LOSES,
        "recovery-loss",
        "6 rows",
        "no file",
    )


def test_a_page_whose_log_is_gone_is_left(tmp_path: Path) -> None:
    store = damaged_store(FIXTURES / "ignite-page-damaged", tmp_path)
    for path in store.rglob("*0000.wal"):
        path.unlink()
    (plan,) = plan_recovery(open_store([store]), 1)
    repairs = plan_repairs(plan, 1)
    assert repairs.edits == ()
    assert "cannot be rebuilt" in repairs.left[-1]


def test_a_damaged_index_is_moved_away(tmp_path: Path) -> None:
    store = writable_copy(KILLED, tmp_path / "work")
    index = store / ACCOUNTS / "index.bin"
    data = bytearray(index.read_bytes())
    data[3 * 4096 + 100] ^= 1
    index.write_bytes(data)
    (plan,) = plan_recovery(open_store([store]), 1)
    kinds = [(edit.kind, edit.path) for edit in plan_repairs(plan, 1).edits]
    assert kinds == [(EditKind.SET_ASIDE, index)]


def test_pages_are_unpacked_when_they_are_written(tmp_path: Path) -> None:
    """A plan may have more bytes of pages than there is memory."""
    store = writable_copy(KILLED, tmp_path / "work")
    file = store / ACCOUNTS / "part-0.bin"
    whole = file.read_bytes()
    file.unlink()
    (plan,) = plan_recovery(open_store([store]), 1)
    (edit,) = plan_repairs(plan, 1).edits
    assert not isinstance(edit.data, bytes | memoryview)
    assert len(edit.data) == edit.size == len(whole)
    places = [0, 1, 4095, 4096, 4097, 8191, 8192, 20_000, len(whole) - 1, len(whole), None]
    for start, stop in itertools.product(places, repeat=2):
        assert edit.data[start:stop] == whole[start:stop], (start, stop)
