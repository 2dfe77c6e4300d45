"""A log for each finding code, and exactly the findings that `verify` must report of it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.builders.logs import (
    CKPT_END,
    CKPT_START,
    CREATED_MS,
    ERASED,
    FILE_SUMMARY,
    INVISIBLE,
    OLD_DELTA,
    RESTORE_REQUIRED,
    ROLLBACK_START,
    TRACE,
    UPD_LN,
    LogFile,
    entry,
    packed,
    text,
    write_log,
)
from tests.builders.trees import PROVISIONAL, TreeLog, lsn_of, rooted, slot

MARKER_NO = 0x7FFFFFFF
UNKNOWN_TYPE = 99
FILE_HEADER_SIZE, HEADER_SIZE = 38, 14


class Told(NamedTuple):
    """Code, severity and place of a finding."""

    code: str
    severity: str
    file_no: int | None
    offset: int | None = None
    length: int | None = None
    resume: int | None = None


Planted = tuple[Path, list[Told]]


def log(count: int = 6, no: int = 0, version: int = 17) -> LogFile:
    """Return a file of good entries, the first of them a root."""
    file = rooted(LogFile(no, version))
    for size in range(20, 20 + count):
        file.trace(size)
    return file


def clean_end(folder: Path) -> Planted:
    file = log()
    return write_log(folder, [file]), [Told("clean-end", "note", 0, len(file.data), 0)]


def zero_tail(folder: Path) -> Planted:
    first = log()
    size = len(first.data)
    first.data += bytes(100)
    told = [Told("zero-tail", "error", 0, size, 100)]
    second = first.follower()
    second.trace(20)
    told.append(Told("zero-tail", "note", 1, len(second.data), 64))
    second.data += bytes(64)
    return write_log(folder, [first, second]), told


def torn_tail(folder: Path) -> Planted:
    file = log()
    start = file.last
    del file.data[-5:]
    size = len(file.data) - start
    return write_log(folder, [file]), [Told("torn-tail", "note", 0, start, size)]


def truncated_file(folder: Path) -> Planted:
    """Cut one file inside an entry, and one between two."""
    first = log()
    second = first.follower()
    second.trace(40)
    second.trace(50)
    third = second.follower()
    third.trace(30)
    del first.data[-5:]
    del second.data[second.last :]
    told = [
        Told("truncated-file", "error", 0, first.last, len(first.data) - first.last),
        Told("truncated-file", "error", 1, len(second.data)),
    ]
    return write_log(folder, [first, second, third]), told


def damaged_entry(folder: Path) -> Planted:
    file = log()
    start, stop = file.placed[3]
    file.data[stop - 1] ^= 1
    told = [Told("damaged-entry", "error", 0, start, stop - start, stop)]
    return write_log(folder, [file]), told


def damaged_gap(folder: Path) -> Planted:
    file = log()
    start, stop = file.placed[2].start, file.placed[3].stop
    file.data[start:stop] = b"\xa5" * (stop - start)
    told = [Told("damaged-gap", "error", 0, start, stop - start, stop)]
    return write_log(folder, [file]), told


def unknown_type(folder: Path) -> Planted:
    """Add an entry of a type that does not exist, and one of a type of other log versions."""
    file = log()
    none = file.add(UNKNOWN_TYPE, b"abc")
    old = file.add(OLD_DELTA, b"abcd")
    told = [Told("unknown-type", "error", 0, start, stop - start) for start, stop in (none, old)]
    file.trace(20)
    return write_log(folder, [file]), told


def bad_file_header(folder: Path) -> Planted:
    file = log()
    file.data[20] ^= 1
    return write_log(folder, [file]), [Told("bad-file-header", "error", 0, 0, FILE_HEADER_SIZE)]


def unsupported_version(folder: Path) -> Planted:
    first = log()
    second = LogFile(1, 99, first.last)
    second.trace(20)
    told = [Told("unsupported-version", "error", 1, 0, FILE_HEADER_SIZE)]
    return write_log(folder, [first, second]), told


def wrong_file_number(folder: Path) -> Planted:
    file = log(no=5)
    write_log(folder, [])
    (folder / "00000000.jdb").write_bytes(file.data)
    return folder, [Told("wrong-file-number", "error", 0, 0, FILE_HEADER_SIZE)]


def duplicate_file(folder: Path) -> Planted:
    file = log()
    write_log(folder, [file])
    write_log(folder / "data001", [file])
    return folder, [
        Told("misplaced-file", "error", 0),
        Told("duplicate-file", "error", 0),
    ]


def misplaced_file(folder: Path) -> Planted:
    first = log()
    second = first.follower()
    second.trace(20)
    write_log(folder / "data001", [first, second])
    write_log(folder / "data002", [])
    return folder, [Told("misplaced-file", "error", 1)]


def missing_file(folder: Path) -> Planted:
    """Omit file 1, which is not needed, file 3, counted as in use, and 5, needed by recovery."""
    first = log()
    last = LogFile(6, 17, 100)
    others = [LogFile(no, 17, 100) for no in (2, 4)]
    tree = TreeLog([first, *others, last])
    key = struct.pack(">II", 3, 1)
    summaries = [slot(key, tree.here)]
    last.add(FILE_SUMMARY, _file_summary(key))
    tree.database(b"_jeUtilization", tree.tree(summaries, db=2), db=2)
    tree.checkpoint(first_active_lsn=lsn_of(5, 77))
    for other in others:
        other.trace(20)
    told = [
        Told("missing-file", "note", 1),
        Told("missing-file", "error", 3),
        Told("missing-file", "error", 5),
    ]
    return tree.write(folder), told


def _file_summary(key: bytes) -> bytes:
    """Encode a record of v17 that counts a file as in use: flags, database, data, numbers, key."""
    data = b"utilization"
    numbers = struct.pack("<11i", 5, 500, 1, 100, 4, 400, 90, 0, 1, 90, 1)
    return b"\0\0" + packed(2) + packed(len(data)) + data + numbers + packed(0) * 2 + key


def _ckpt_start() -> bytes:
    return packed(CREATED_MS) + packed(1) + text("test")


def _ckpt_end(start_lsn: int) -> bytes:
    """Encode a CkptEnd: recovery begins at the start of the checkpoint."""
    numbers = packed(start_lsn) + packed(0) * 8 + packed(1)
    return text("test") + packed(CREATED_MS) + packed(start_lsn) + b"\0" + numbers


def last_entry_mismatch(folder: Path) -> Planted:
    first = log()
    second = LogFile(1, 17, first.placed[2].start)
    second.trace(20)
    told = [Told("last-entry-mismatch", "error", 0, first.last)]
    return write_log(folder, [first, second]), told


def foreign_file(folder: Path) -> Planted:
    """Put a file of another log between two files."""
    first = log()
    foreign = LogFile(1, 17, first.placed[2].start)
    foreign.trace(20)
    foreign.trace(60)
    last = LogFile(2, 17, foreign.placed[1].start)
    told = [
        Told("last-entry-mismatch", "error", 0, first.last),
        Told("last-entry-mismatch", "error", 1, foreign.last),
        Told("foreign-file", "error", 1),
    ]
    return write_log(folder, [first, foreign, last]), told


def impossible_flags(folder: Path) -> Planted:
    """Add invisible records, one without a VLSN and one of no rollback, and a provisional Trace."""
    file = rooted(LogFile(0, 17))
    item = b"\0\0" + packed(6) + packed(1) + b"v" + b"key"
    alone = file.add(UPD_LN, item, flags=INVISIBLE)
    taken = file.add(UPD_LN, item, flags=INVISIBLE, vlsn=7)
    matchpoint = file.trace(20)
    covered = file.add(UPD_LN, item, flags=INVISIBLE, vlsn=8)
    numbers = packed(7) + packed(matchpoint.start) + packed(CREATED_MS) + packed(0)
    file.add(ROLLBACK_START, numbers)
    provisional = file.add(TRACE, bytes(30), flags=PROVISIONAL)
    assert covered.start > matchpoint.start
    told = [
        Told("impossible-flags", "error", 0, alone.start),
        Told("impossible-flags", "warning", 0, provisional.start),
        Told("impossible-flags", "error", 0, taken.start),
    ]
    return write_log(folder, [file]), told


def version_step(folder: Path) -> Planted:
    first = log(version=14)
    second = LogFile(1, 17, first.last)
    second.trace(20)
    third = LogFile(2, 15, second.last)
    told = [Told("version-step", "note", 1, 0), Told("version-step", "warning", 2, 0)]
    return write_log(folder, [first, second, third]), told


def restore_marker(folder: Path) -> Planted:
    """Add a marker to the marker file, and to a file of the log."""
    item = text("NETWORK_RESTORE") + packed(CREATED_MS) + text("p=1\n")
    file = log()
    start, stop = file.add(RESTORE_REQUIRED, item)
    marker = LogFile(MARKER_NO, 17)
    marker.add(RESTORE_REQUIRED, item)
    told = [
        Told("restore-marker", "error", 0, start, stop - start),
        Told("restore-marker", "error", MARKER_NO, 0),
    ]
    return write_log(folder, [file, marker]), told


def erased_not_zero(folder: Path) -> Planted:
    """Add erased entries: neighbours are one finding; those of zeros are none."""
    file = log()
    first = file.add(ERASED, b"left over")
    second = file.add(ERASED, bytes(20) + b"x")
    file.add(ERASED, bytes(30))
    file.trace(20)
    size = second.stop - first.start
    told = [Told("erased-not-zero", "warning", 0, first.start, size)]
    return write_log(folder, [file]), told


def erasure_unfinished(folder: Path) -> Planted:
    """Add the redo journal of an erasure in kind."""
    home = write_log(folder, [log(version=15)])
    (home / ".je-tools-erase").mkdir()
    (home / ".je-tools-erase" / "redo").touch()
    return home, [Told("erasure-unfinished", "warning", None)]


def _with_vlsns(folder: Path, vlsns: list[int], code: str, severity: str) -> Planted:
    """Return a log with these VLSNs, the last of which has the finding."""
    file = rooted(LogFile(0, 17))
    places = [file.trace(20, vlsn=vlsn) for vlsn in vlsns]
    return write_log(folder, [file]), [Told(code, severity, 0, places[-1].start)]


def vlsn_duplicate(folder: Path) -> Planted:
    return _with_vlsns(folder, [5, 6, 7, 6], "vlsn-duplicate", "error")


def vlsn_backward(folder: Path) -> Planted:
    return _with_vlsns(folder, [5, 6, 7, 3], "vlsn-backward", "error")


def vlsn_gap(folder: Path) -> Planted:
    return _with_vlsns(folder, [5, 6, 7, 9], "vlsn-gap", "warning")


def prev_offset_mismatch(folder: Path) -> Planted:
    file = log()
    start = len(file.data)
    file._append(entry(TRACE, bytes(30), file.placed[1].start))
    file.trace(20)
    told = [Told("prev-offset-mismatch", "error", 0, start, HEADER_SIZE)]
    return write_log(folder, [file]), told


def old_form_to_replay(folder: Path) -> Planted:
    """Add a BIN-delta after the last checkpoint, and one before it, which is not replayed."""
    file = rooted(LogFile(0, 7))
    file.add(OLD_DELTA, bytes(5))
    begin = file.add(CKPT_START, _ckpt_start()).start
    file.add(CKPT_END, _ckpt_end(begin))
    start, _ = file.add(OLD_DELTA, bytes(5))
    file.trace(20)
    return write_log(folder, [file]), [Told("old-form-to-replay", "warning", 0, start)]


PLANTED: dict[str, Callable[[Path], Planted]] = {
    make.__name__.replace("_", "-"): make
    for make in (
        clean_end,
        zero_tail,
        torn_tail,
        truncated_file,
        damaged_entry,
        damaged_gap,
        unknown_type,
        bad_file_header,
        unsupported_version,
        wrong_file_number,
        duplicate_file,
        misplaced_file,
        missing_file,
        last_entry_mismatch,
        foreign_file,
        impossible_flags,
        version_step,
        restore_marker,
        erased_not_zero,
        erasure_unfinished,
        vlsn_duplicate,
        vlsn_backward,
        vlsn_gap,
        prev_offset_mismatch,
        old_form_to_replay,
    )
}
"""Builders by code; the other codes need a device, an engine or another command."""
