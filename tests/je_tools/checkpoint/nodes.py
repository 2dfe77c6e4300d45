"""Nodes of replication groups, and places to cut their logs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from je_tools.checkpoint.checks import check_writable
from je_tools.checkpoint.contents import CheckpointContents, CheckpointSettings
from je_tools.checkpoint.run import write_checkpoint
from je_tools.checkpoint.utilization_tracker import track_utilization
from je_tools.checkpoint.vlsn_records import recovered_vlsn_index
from je_tools.formats.je.internal.names import VLSN_MAP_DB
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.opening import take_snapshot
from je_tools.recovery.snapshot import Snapshot
from je_tools.vlsn.index import VlsnIndex
from tests.corpus import Environment, environments, marked_if_another
from tests.truth.headers import Header
from tests.truth.log_end import read_log

OFFSET = (1 << 32) - 1
ROLLBACK_START, COMMIT, MATCHPOINT = 28, 17, 30
ENDS, SYNC_POINTS = (17, 18), (17, 18, 30)
FLAGS_AT, INVISIBLE = 5, 0x10
FILE_MAX = 1_000_000


def nodes() -> list[Any]:
    """Return the nodes of groups; those that are like others are exhaustive cases."""
    return [
        pytest.param(each, id=each.name, marks=marked_if_another(each))
        for each in environments()
        if "/node" in each.name and "-fe-hole" not in each.name
    ]


def node(name: str) -> Environment:
    """Return the node with a name."""
    return next(each for each in environments() if each.name == name)


def member(home: Path) -> Snapshot:
    """Return the snapshot that the engine sees if it opens a directory as a member of its group."""
    now_ms = time.time_ns() // 1_000_000
    return take_snapshot(
        open_environment([home]), Scanner(threads=1), now_ms=now_ms, as_member=True
    )


def index_of_member(home: Path) -> VlsnIndex:
    """Return the VLSN index of such a member."""
    snapshot = member(home)
    return recovered_vlsn_index(snapshot, track_utilization(snapshot, frozenset()).stream)


def copy_up_to(home: Path, lsn: int, target: Path, *, unmarked: bool = False) -> Path:
    """Copy a log up to, not including, an entry; `unmarked` shows entries that rollbacks hid."""
    target.mkdir(parents=True)
    for path in sorted(home.glob("*.jdb")):
        if int(path.stem, 16) <= lsn >> 32:
            shutil.copyfile(path, target / path.name)
            (target / path.name).chmod(0o644)
    last = target / f"{lsn >> 32:08x}.jdb"
    data = bytearray(last.read_bytes()[: lsn & OFFSET])
    if unmarked:
        for header in entries_of(home):
            if header.invisible and header.lsn >> 32 == lsn >> 32 and header.lsn < lsn:
                data[(header.lsn & OFFSET) + FLAGS_AT] &= ~INVISIBLE
    last.write_bytes(data)
    return target


def entries_of(home: Path) -> list[Header]:
    """Return the headers of a log's entries."""
    return [header for header, _ in read_log(home).entries()]


class Shown(NamedTuple):
    """An entry of the VLSN sequence."""

    lsn: int
    type_no: int


def stream_of(home: Path) -> dict[int, Shown]:
    """Return the visible replicated entries by VLSN, without those that a rollback undid."""
    found: dict[int, Shown] = {}
    snapshot = member(home)
    for header in entries_of(home):
        if header.type_no == ROLLBACK_START:
            entry = snapshot.entry(header.lsn)
            assert entry is not None
            last = entry.fields["matchpoint_vlsn"]
            found = {vlsn: shown for vlsn, shown in found.items() if vlsn <= last}
        elif header.replicated and not header.invisible and header.vlsn is not None:
            found[header.vlsn] = Shown(header.lsn, header.type_no)
    return found


def index_lns(snapshot: Snapshot) -> Iterator[tuple[Header, bytes, bytes | None]]:
    """Yield the LNs of the VLSN index in the log: header, key and data."""
    (db_id,) = (each.db_id for each in snapshot.databases.values() if each.name == VLSN_MAP_DB)
    for header in entries_of(Path(snapshot.environment.name)):
        if header.type_no not in range(31, 37):
            continue
        entry = snapshot.entry(header.lsn)
        if entry is not None and entry.fields["db_id"] == db_id:
            yield header, entry.fields["key"], entry.fields["data"]


def write(home: Path) -> CheckpointContents:
    """Append a checkpoint to a log in place."""
    snapshot = member(home)
    check_writable(snapshot, cuts=False)
    return write_checkpoint(
        snapshot, CheckpointSettings(FILE_MAX, snapshot.now_ms), appending(home)
    )


def appending(home: Path) -> Callable[[int, int, bytes], None]:
    """Return a function that appends bytes to the files of a directory."""

    def emit(file_no: int, offset: int, data: bytes) -> None:
        with (home / f"{file_no:08x}.jdb").open("ab") as file:
            assert file.tell() == offset
            file.write(data)

    return emit
