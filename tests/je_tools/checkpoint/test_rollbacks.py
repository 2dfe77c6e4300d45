"""An interrupted rollback leaves exactly those entries to be marked that the engine marks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from je_tools.checkpoint.apply import apply_checkpoint
from je_tools.checkpoint.checks import check_writable
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.checkpoint.pending_work import is_needed
from je_tools.checkpoint.rollbacks import InvisibleMark, missing_invisible_marks
from je_tools.checkpoint.vlsn_records import read_index
from je_tools.errors import RefusedError
from je_tools.formats.je.header import NULL_LSN
from je_tools.log.scan import Scanner
from je_tools.recovery.interval_tables import RollbackPeriod
from je_tools.recovery.snapshot import Snapshot
from je_tools.writing.session import Session
from tests.corpus import Environment, environments, marked_beyond_fixtures
from tests.je_tools.checkpoint.nodes import (
    FLAGS_AT,
    INVISIBLE,
    OFFSET,
    ROLLBACK_START,
    copy_up_to,
    entries_of,
    member,
    node,
    stream_of,
    write,
)

ROLLBACK_END = 29
ROLLED_BACK = "starrocks-rep-uncommitted/node1"


def rolled_back() -> list[Any]:
    """Return the nodes that rolled LNs back."""
    return [
        pytest.param(each, id=each.name, marks=marked_beyond_fixtures(each))
        for each in environments()
        if "-rep-uncommitted/node1" in each.name
    ]


def cut_short(home: Path, target: Path, *, type_no: int = ROLLBACK_START) -> tuple[Path, list[int]]:
    """Copy a log through a rollback's start or end, unmarked; return it and the marked LSNs."""
    entries = entries_of(home)
    (at,) = (i for i, each in enumerate(entries) if each.type_no == type_no)
    marked = [each.lsn for each in entries[:at] if each.invisible]
    assert marked
    return copy_up_to(home, entries[at + 1].lsn, target, unmarked=True), marked


def lsns_of(marks: list[InvisibleMark]) -> list[int]:
    return [mark.file_no << 32 | mark.offset - FLAGS_AT for mark in marks]


def with_periods(snapshot: Snapshot, *periods: RollbackPeriod) -> Snapshot:
    return replace(snapshot, interval=replace(snapshot.interval, periods=periods))


@pytest.mark.parametrize("some_node", rolled_back())
def test_what_the_engine_has_marked(some_node: Environment, tmp_path: Path) -> None:
    home, marked = cut_short(some_node.home, tmp_path / "a")
    snapshot = member(home)
    marks = missing_invisible_marks(snapshot)
    assert lsns_of(marks) == marked
    whole = (some_node.home / "00000000.jdb").read_bytes()
    data = bytearray((home / "00000000.jdb").read_bytes())
    for mark in marks:
        assert data[mark.offset : mark.offset + 1] == mark.old
        data[mark.offset : mark.offset + 1] = mark.new
    assert whole.startswith(bytes(data))
    (home / "00000000.jdb").write_bytes(data)
    assert not missing_invisible_marks(member(home))


def test_a_rollback_with_its_end_is_left(tmp_path: Path) -> None:
    home, _ = cut_short(node(ROLLED_BACK).home, tmp_path / "a", type_no=ROLLBACK_END)
    assert not missing_invisible_marks(member(home))


def test_a_checkpoint_does_not_go_before_the_marks(tmp_path: Path) -> None:
    home, marked = cut_short(node(ROLLED_BACK).home, tmp_path / "a")
    snapshot = member(home)
    assert is_needed(snapshot)
    with pytest.raises(RefusedError, match="a rollback was not finished"):
        check_writable(snapshot, cuts=False)
    check_writable(snapshot, cuts=True)
    data = bytearray((home / "00000000.jdb").read_bytes())
    for lsn in marked:
        data[(lsn & OFFSET) + FLAGS_AT] |= INVISIBLE
    (home / "00000000.jdb").write_bytes(data)
    # After the checkpoint no RollbackEnd is needed.
    write(home)
    assert not is_needed(member(home))


def test_the_innermost_rollback_decides(tmp_path: Path) -> None:
    home, marked = cut_short(node(ROLLED_BACK).home, tmp_path / "a")
    snapshot = member(home)
    (period,) = snapshot.interval.periods
    half = marked[len(marked) // 2]
    ended = replace(period, start_lsn=half + 1, end_lsn=half + 2)
    assert lsns_of(missing_invisible_marks(with_periods(snapshot, ended, period))) == marked[13:]
    others = replace(ended, txn_ids=frozenset({-1}))
    assert lsns_of(missing_invisible_marks(with_periods(snapshot, others, period))) == marked
    inner = replace(period, start_lsn=half + 1)
    outer = replace(period, end_lsn=period.start_lsn + 1)
    assert lsns_of(missing_invisible_marks(with_periods(snapshot, inner, outer))) == marked[:13]


def test_a_rollback_of_other_transactions_marks_nothing(tmp_path: Path) -> None:
    home, _ = cut_short(node(ROLLED_BACK).home, tmp_path / "a")
    snapshot = member(home)
    (period,) = snapshot.interval.periods
    assert period.end_lsn == NULL_LSN
    for ids in (frozenset({-1}), frozenset(), None):
        assert not missing_invisible_marks(with_periods(snapshot, replace(period, txn_ids=ids)))


def test_marks_are_in_the_files_before_a_checkpoint_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, marked = cut_short(node(ROLLED_BACK).home, tmp_path / "a")
    now_ms = member(home).now_ms
    scanner = Scanner(threads=1)
    seen = []

    append = Session.append

    def looked(*arguments: Any) -> None:
        seen.append([each.lsn for each in entries_of(home) if each.invisible])
        append(*arguments)

    monkeypatch.setattr(Session, "append", looked)
    outcome = apply_checkpoint(home, scanner, CheckpointOptions(cuts=True), now_ms)[1]
    assert outcome.checkpoint is not None
    assert seen[0] == marked
    after = member(home)
    assert not missing_invisible_marks(after)
    assert read_index(after).range.last == max(stream_of(home))
    assert (
        apply_checkpoint(home, scanner, CheckpointOptions(cuts=True), now_ms)[1].checkpoint is None
    )
