"""Where the engine takes a log to end, and the checkpoint from which it would recover.

The last file is read forward until something is no entry, or has a wrong checksum; all behind it
is cut off. Files that hold no more than a header are passed over.

Source: je-log.md "Where a log ends, and what damage costs" and "Recovery";
LastFileReader, RecoveryManager.findEndOfLog, findLastCheckpoint, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.environment import Environment, LogFile, reopened
from je_tools.formats.arrays import Ints
from je_tools.formats.je.header import FILE_HEADER_SIZE, NULL_LSN, lsn_of
from je_tools.formats.je.reader import Rows
from je_tools.formats.je.types import (
    BY_NAME,
    CKPT_END_NO,
    CKPT_START_NO,
    COMMIT_NO,
    ENTRY_TYPES,
    RESTORE_REQUIRED_NO,
    mask_of,
)
from je_tools.scan import Scanner

DB_TREE_NO, IMMUTABLE_NO = BY_NAME["DbTree"].no, BY_NAME["ImmutableFile"].no

_MARKS = mask_of((DB_TREE_NO, CKPT_START_NO, CKPT_END_NO, IMMUTABLE_NO, RESTORE_REQUIRED_NO))
_KNOWN = mask_of(ENTRY_TYPES)
_NO_END = 1 << 62
_PIECE_SIZE = 1 << 20


class EndReason(StrEnum):
    """Why nothing behind the last entry counts."""

    CLEAN = "clean"
    """The file ends there."""
    ZEROS = "zeros"
    """Zeros follow: space that was not yet written."""
    TORN = "torn"
    """An entry that is not whole follows."""
    DAMAGED = "damaged"
    """An entry with a wrong checksum, or what is no entry, follows, and more behind it."""
    CHOSEN = "chosen"
    """The user asked for the log up to there."""


class Refusal(StrEnum):
    """Why the engine would not open the log."""

    NO_FILES = "no-files"
    BAD_FILE_HEADER = "bad-file-header"
    NO_ROOT = "no-root"
    MISSING_FILE = "missing-file"
    RESTORE_REQUIRED = "restore-marker"
    DAMAGED_INTERVAL = "damaged-interval"
    COMMIT_ROLLED_BACK = "commit-rolled-back"
    OWN_DATABASE_LOST = "own-database-lost"
    HALT_CHOSEN = "halt-chosen"
    BROKEN_CHAIN = "broken-chain"
    NAMELESS_TEMPORARY = "nameless-temporary"
    UNLOGGED_ROOT = "unlogged-root"


MENDED_REFUSALS = frozenset({Refusal.NAMELESS_TEMPORARY, Refusal.UNLOGGED_ROOT})
"""States that a crash can leave, and that a checkpoint written without the engine mends."""


class Mark(Struct, frozen=True):
    """A checkpoint's entry, a DbTree, or one that says what may be done with the log."""

    lsn: int
    type_no: int
    fields: Mapping[str, Any]


class Skipped(Struct, frozen=True):
    """A last file that holds nothing: `put_aside` when the engine gives it the suffix .bad."""

    file: LogFile
    put_aside: bool


class LogEnd(Struct, frozen=True):
    """The end of a log.

    Attributes:
        files: of the log, the last one the file in which it ends; not those passed over.
        skipped: files behind it.
        last_lsn: of the last entry; NULL_LSN where there is none.
        next_offset: in the last file, behind that entry.
        reason: why it ends there.
        commits_behind: int64 LSNs of whole Commits behind the end, which would be lost.
        marks: of the last file, in order.
        refusal: why the engine would not come so far; None where it would.
    """

    files: tuple[LogFile, ...]
    skipped: tuple[Skipped, ...]
    last_lsn: int
    next_offset: int
    reason: EndReason
    commits_behind: Ints
    marks: tuple[Mark, ...]
    refusal: Refusal | None = None

    @property
    def cut_size(self) -> int:
        """Bytes of the last file that do not count."""
        return max(self.files[-1].size - self.next_offset, 0) if self.files else 0

    @property
    def next_lsn(self) -> int:
        """Behind the last entry."""
        return lsn_of(self.files[-1].file_no, self.next_offset) if self.files else NULL_LSN


class Checkpoint(Struct, frozen=True):
    """Where recovery begins.

    Attributes:
        end_lsn: of the CkptEnd; NULL_LSN without a checkpoint.
        start_lsn, first_active_lsn: as it names them; NULL_LSN without one: from the beginning.
        partial_start_lsn: of the first CkptStart behind it, of a checkpoint without an end.
        root: the DbTree; None where there is none, and the engine refuses the log.
        fields: of the CkptEnd; empty without one.
    """

    end_lsn: int
    start_lsn: int
    first_active_lsn: int
    partial_start_lsn: int
    root_lsn: int
    fields: Mapping[str, Any]


class _FilePart(Struct, frozen=True):
    """Some rows of a file.

    Attributes:
        marks: in order.
        commits: int64 LSNs of Commits.
        stop: offset of the first entry that ends a log, _NO_END for none.
        last: int64 offsets of the last entry in front of `stop`, and behind it; none or two.
    """

    marks: list[Mark]
    commits: Ints
    stop: int
    last: tuple[int, ...]


def collect_marks(rows: Rows, limit: int = _NO_END, *, past_damage: bool = False) -> _FilePart:
    """What these rows say of the end of the log; runs in any thread, keeps no view of the bytes.

    Args:
        rows: of one file, in order.
        limit: offset behind which no entry may begin.
        past_damage: also take the marks behind what ends a log: those of a file before the last.
    """
    offsets = rows.offset.astype(np.int64)
    ends = ~rows.good | ~_KNOWN[rows.type] | (offsets > limit)
    at = int(np.argmax(ends)) if ends.any() else len(rows)
    stop = int(offsets[at]) if at < len(rows) else _NO_END
    counting = rows.good if past_damage else np.arange(len(rows)) < at
    marked = np.flatnonzero(_MARKS[rows.type] & counting).tolist()
    marks = [Mark(int(rows.lsn[i]), int(rows.type[i]), rows.fields(i)) for i in marked]
    commits = rows.lsn[(rows.type == COMMIT_NO) & rows.good]
    last = (int(offsets[at - 1]), int(offsets[at - 1]) + rows.size_of(at - 1)) if at else ()
    return _FilePart(marks, commits, stop, last)


def find_end(environment: Environment, scanner: Scanner, limit_lsn: int | None = None) -> LogEnd:
    """Where the log ends.

    Args:
        environment: the log.
        scanner: how it is read.
        limit_lsn: take the entry there, or the last one before, for the last of the log.
    """
    files = list(environment.files)
    if limit_lsn is not None:
        files = [file for file in files if file.file_no <= limit_lsn >> 32]
    skipped = []
    while files and files[-1].size <= FILE_HEADER_SIZE:
        last = files.pop()
        skipped.append(Skipped(last, last.size > 0 and not last.header.good))
    nothing = np.empty(0, np.int64)
    if not files or not files[-1].header.good or files[-1].header.file_no != files[-1].file_no:
        refusal = Refusal.BAD_FILE_HEADER if files else Refusal.NO_FILES
        return LogEnd(
            tuple(files), tuple(skipped), NULL_LSN, 0, EndReason.DAMAGED, nothing, (), refusal
        )
    return _end_in(environment, files, tuple(skipped), scanner, limit_lsn)


def _end_in(
    environment: Environment,
    files: Sequence[LogFile],
    skipped: tuple[Skipped, ...],
    scanner: Scanner,
    limit_lsn: int | None,
) -> LogEnd:
    last = files[-1]
    limit = _NO_END
    if limit_lsn is not None and limit_lsn >> 32 == last.file_no:
        limit = limit_lsn & 0xFFFFFFFF
    found, gap_at, tail = _read_file(environment, last, scanner, limit)
    if any(part.last and part.last[0] > gap_at for part in found):
        # Entries behind a gap may be told together with those in front of it.
        quiet = replace(scanner, progress=None)
        found, _, _ = _read_file(environment, last, quiet, min(limit, gap_at - 1))
    stop = min([gap_at, *(part.stop for part in found)])
    places = [part.last for part in found if part.last and part.last[0] < stop]
    last_offset, next_offset = places[-1] if places else (0, FILE_HEADER_SIZE)
    marks = tuple(m for part in found for m in part.marks if m.lsn & 0xFFFFFFFF < stop)
    commits = np.concatenate([np.empty(0, np.int64), *(part.commits for part in found)])
    reason = _reason(last, stop, min(limit, gap_at), next_offset, tail)
    if reason is not EndReason.DAMAGED and environment.files[-1].file_no > _last_no(files, skipped):
        reason = EndReason.CHOSEN
    refusal = None
    if any(mark.type_no == RESTORE_REQUIRED_NO for mark in marks) or environment.marker:
        refusal = Refusal.RESTORE_REQUIRED
    return LogEnd(
        tuple(files),
        skipped,
        lsn_of(last.file_no, last_offset),
        next_offset,
        reason,
        commits[commits & 0xFFFFFFFF >= next_offset],
        marks,
        refusal,
    )


def _last_no(files: Sequence[LogFile], skipped: Sequence[Skipped]) -> int:
    return max(file.file_no for file in (*files, *(each.file for each in skipped)))


def _reason(file: LogFile, stop: int, limit: int, next_offset: int, tail: int) -> EndReason:
    if stop != _NO_END:
        return EndReason.CHOSEN if stop > limit else EndReason.DAMAGED
    if next_offset == file.size:
        return EndReason.CLEAN
    with reopened(file.path, file.size) as source:
        for start in range(tail, file.size, _PIECE_SIZE):
            piece = source.read_bytes(start, min(start + _PIECE_SIZE, file.size))
            if piece.count(0) != len(piece) or source.unreadable:
                return EndReason.TORN
    return EndReason.ZEROS


def _read_file(
    environment: Environment,
    file: LogFile,
    scanner: Scanner,
    limit: int,
    *,
    past_damage: bool = False,
) -> tuple[list[_FilePart], int, int]:
    """What a file holds of interest, where its first gap begins, and where its entries end."""
    found: list[_FilePart] = []
    gap_at, tail = _NO_END, file.size
    work = _Collect(limit, past_damage)
    for part in replace(scanner, wide=True).scan(replace(environment, files=(file,)), work):
        found += part.results
        gap_at = min([gap_at, *(gap.start for gap in part.gaps[:1])])
        if part.end is not None:
            tail = part.end.tail
    return found, gap_at, tail


class _Collect(Struct, frozen=True):
    """`collect_marks` as work for a scan."""

    limit: int
    past_damage: bool

    def __call__(self, rows: Rows) -> _FilePart:
        return collect_marks(rows, self.limit, past_damage=self.past_damage)


def find_checkpoint(
    environment: Environment, end: LogEnd, scanner: Scanner
) -> tuple[Checkpoint, Refusal | None]:
    """The checkpoint from which the engine recovers a log that ends there.

    Files before the last are read only where that one holds no CkptEnd.
    """
    marks = _usable(end.marks)
    roots = [mark for mark in marks if mark.type_no == DB_TREE_NO]
    behind: list[Mark] = []
    refusal = None
    earlier = list(end.files[:-1])
    expected = end.files[-1].file_no
    while not any(mark.type_no == CKPT_END_NO for mark in marks) and earlier:
        behind = marks + behind
        file = earlier.pop()
        expected -= 1
        if file.file_no != expected:
            refusal, expected = Refusal.MISSING_FILE, file.file_no
        # The engine goes backwards here, and so meets what lies behind damage.
        parts, _, _ = _read_file(environment, file, scanner, _NO_END, past_damage=True)
        marks = _usable([mark for part in parts for mark in part.marks])
    at = max((i for i, m in enumerate(marks) if m.type_no == CKPT_END_NO), default=-1)
    later = marks[at + 1 :] + behind
    if at < 0:
        later = marks + behind
    starts = [mark.lsn for mark in later if mark.type_no == CKPT_START_NO]
    # A DbTree of the last file counts wherever it stands there.
    trees = roots or [mark for mark in later if mark.type_no == DB_TREE_NO]
    root = trees[-1].lsn if trees else NULL_LSN
    partial = starts[0] if starts else NULL_LSN
    if at < 0:
        checkpoint = Checkpoint(NULL_LSN, NULL_LSN, NULL_LSN, partial, root, {})
    else:
        fields = marks[at].fields
        if root == NULL_LSN:
            root = fields.get("root_lsn", NULL_LSN)
        start, active = fields["ckpt_start_lsn"], fields["first_active_lsn"]
        checkpoint = Checkpoint(marks[at].lsn, start, active, partial, root, fields)
    if root == NULL_LSN and refusal is None:
        refusal = Refusal.NO_ROOT
    return checkpoint, refusal


def _usable(marks: Sequence[Mark]) -> list[Mark]:
    """Marks without CkptEnds that do not decode, which no engine writes."""
    return [
        mark for mark in marks if "ckpt_start_lsn" in mark.fields or mark.type_no != CKPT_END_NO
    ]
