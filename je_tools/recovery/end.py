"""The end of a log as the engine finds it, and the checkpoint from which recovery starts.

The engine reads the last file forward until it meets bytes that are no entry, or an entry with a
wrong checksum, and cuts off the rest. It passes over last files that hold no more than a header.

Source: je-log.md "Where a log ends, and what damage costs" and "Recovery";
LastFileReader, RecoveryManager.findEndOfLog, findLastCheckpoint, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.header import FILE_HEADER_SIZE, NULL_LSN, lsn_of
from je_tools.formats.je.types import CKPT_END_NO, CKPT_START_NO, RESTORE_REQUIRED_NO
from je_tools.log.sources import reopened
from je_tools.recovery.marks import DB_TREE_NO, NO_END, MarkCollector, MarkedRows, RecoveryMark

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner

_PIECE_SIZE = 1 << 20


class EndReason(StrEnum):
    """Reasons why the log ends after its last entry."""

    CLEAN = "clean"
    """The file ends there."""
    ZEROS = "zeros"
    """Zeros follow: space that was not yet written."""
    TORN = "torn"
    """An incomplete entry follows."""
    DAMAGED = "damaged"
    """An entry with a wrong checksum follows, or bytes that are no entry and more after them."""
    CHOSEN = "chosen"
    """The user asked for the log up to there."""


class Refusal(StrEnum):
    """Reasons why the engine would not open the log."""

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


REPAIRED_REFUSALS = frozenset({Refusal.NAMELESS_TEMPORARY, Refusal.UNLOGGED_ROOT})
"""States that a crash can leave, and that a checkpoint written without the engine repairs."""


class Skipped(Struct, frozen=True):
    """A file without entries after the end of the log.

    Attributes:
        file: the file.
        put_aside: True if the engine renames it, with the suffix .bad.
    """

    file: LogFile
    put_aside: bool


class LogEnd(Struct, frozen=True):
    """The end of a log.

    Attributes:
        files: files of the log up to the one in which it ends.
        skipped: files after that one, which the engine passes over; the last of the log first.
        last_lsn: LSN of the last entry; NULL_LSN if there is no file with a good header.
        next_offset: offset after that entry in the last file.
        reason: reason why the log ends there.
        commits_after_end: int64 LSNs of good Commits after the end, which would be lost.
        marks: marks of the last file up to the end, in order.
        refusal: reason why the engine would not open the log with this end; None if it would.
    """

    files: tuple[LogFile, ...]
    skipped: tuple[Skipped, ...]
    last_lsn: int
    next_offset: int
    reason: EndReason
    commits_after_end: Ints
    marks: tuple[RecoveryMark, ...]
    refusal: Refusal | None = None

    @property
    def cut_size(self) -> int:
        """Number of bytes of the last file after the end of the log."""
        return max(self.files[-1].size - self.next_offset, 0) if self.files else 0

    @property
    def next_lsn(self) -> int:
        """LSN after the last entry."""
        return lsn_of(self.files[-1].file_no, self.next_offset) if self.files else NULL_LSN


class StartCheckpoint(Struct, frozen=True):
    """The checkpoint from which recovery starts.

    Attributes:
        end_lsn: LSN of the CkptEnd; NULL_LSN without a checkpoint.
        start_lsn, first_active_lsn: LSNs that the CkptEnd names; NULL_LSN without a checkpoint:
            recovery starts at the beginning of the log.
        partial_start_lsn: LSN of the first CkptStart after the CkptEnd, that of an unfinished
            checkpoint; NULL_LSN for none.
        root_lsn: LSN of the DbTree; NULL_LSN if there is none, so that the engine refuses the log.
        fields: fields of the CkptEnd; empty without a checkpoint.
    """

    end_lsn: int
    start_lsn: int
    first_active_lsn: int
    partial_start_lsn: int
    root_lsn: int
    fields: Mapping[str, Any]


def find_end(environment: Environment, scanner: Scanner, limit_lsn: int | None = None) -> LogEnd:
    """Find the end of the log as the engine would.

    Args:
        environment: the log.
        scanner: settings for reading it.
        limit_lsn: end the log with the entry at this LSN, or with the last one before it if no
            entry begins there; None for no limit.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    files, skipped = last_files(environment, limit_lsn)
    refusal = _refusal_of(files)
    if refusal is not None:
        nothing = np.empty(0, np.int64)
        return LogEnd(files, skipped, NULL_LSN, 0, EndReason.DAMAGED, nothing, (), refusal)
    return _end_in(environment, files, skipped, scanner, limit_lsn)


def last_files(
    environment: Environment, limit_lsn: int | None = None
) -> tuple[tuple[LogFile, ...], tuple[Skipped, ...]]:
    """Return the files up to the one in which the log ends, and those that the engine passes over.

    Args:
        environment: the log.
        limit_lsn: LSN after which no entry of the log begins; None for no limit.
    """
    files = list(environment.files)
    if limit_lsn is not None:
        files = [file for file in files if file.file_no <= limit_lsn >> 32]
    skipped = []
    while files and files[-1].size <= FILE_HEADER_SIZE:
        last = files.pop()
        skipped.append(Skipped(last, last.size > 0 and not last.header.good))
    return tuple(files), tuple(skipped)


def _refusal_of(files: Sequence[LogFile]) -> Refusal | None:
    """Return the reason why the engine cannot read the last of `files`, or None."""
    if not files:
        return Refusal.NO_FILES
    is_named = files[-1].header.good and files[-1].header.file_no == files[-1].file_no
    return None if is_named else Refusal.BAD_FILE_HEADER


def end_of_whole(
    environment: Environment, marks: Sequence[RecoveryMark], last_offset: int, next_offset: int
) -> LogEnd:
    """Return the end of a log whose last file has been read, and is not damaged.

    Args:
        environment: the log.
        marks: marks of the last of its `last_files`, in order.
        last_offset, next_offset: offset of the last entry of that file, and of the byte after it.
    """
    files, skipped = last_files(environment)
    return LogEnd(
        files,
        skipped,
        lsn_of(files[-1].file_no, last_offset),
        next_offset,
        EndReason.CLEAN if next_offset == files[-1].size else EndReason.TORN,
        np.empty(0, np.int64),
        tuple(marks),
        _refusal_of(files) or _restore_refusal(environment, marks),
    )


def _restore_refusal(environment: Environment, marks: Iterable[RecoveryMark]) -> Refusal | None:
    is_required = any(mark.type_no == RESTORE_REQUIRED_NO for mark in marks) or environment.marker
    return Refusal.RESTORE_REQUIRED if is_required else None


def _end_in(
    environment: Environment,
    files: Sequence[LogFile],
    skipped: tuple[Skipped, ...],
    scanner: Scanner,
    limit_lsn: int | None,
) -> LogEnd:
    last = files[-1]
    limit = NO_END
    if limit_lsn is not None and limit_lsn >> 32 == last.file_no:
        limit = limit_lsn & 0xFFFFFFFF
    found, gap_at, tail = _read_file(environment, last, scanner, limit)
    if any(part.last and part.last[0] > gap_at for part in found):
        # One part may hold entries both before and after a gap: read again up to the gap.
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
    return LogEnd(
        tuple(files),
        skipped,
        lsn_of(last.file_no, last_offset),
        next_offset,
        reason,
        commits[commits & 0xFFFFFFFF >= next_offset],
        marks,
        _restore_refusal(environment, marks),
    )


def _last_no(files: Sequence[LogFile], skipped: Sequence[Skipped]) -> int:
    return max(file.file_no for file in (*files, *(each.file for each in skipped)))


def _reason(file: LogFile, stop: int, limit: int, next_offset: int, tail: int) -> EndReason:
    if stop != NO_END:
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
) -> tuple[list[MarkedRows], int, int]:
    """Return the parts of a file, the offset of its first gap, and that of the end of its entries.

    The offset of the gap is NO_END if there is none.
    """
    found: list[MarkedRows] = []
    gap_at, tail = NO_END, file.size
    work = MarkCollector(limit, past_damage)
    for part in replace(scanner, wide=True).scan(replace(environment, files=(file,)), work):
        found += part.results
        gap_at = min([gap_at, *(gap.start for gap in part.gaps[:1])])
        if part.end is not None:
            tail = part.end.tail
    return found, gap_at, tail


def _marks_of(environment: Environment, file: LogFile, scanner: Scanner) -> list[RecoveryMark]:
    """Return the marks of a file before the last, including those after damage."""
    parts, _, _ = _read_file(environment, file, scanner, NO_END, past_damage=True)
    return [mark for part in parts for mark in part.marks]


def find_checkpoint(
    environment: Environment,
    end: LogEnd,
    scanner: Scanner,
    has_marks: Callable[[LogFile], bool] = lambda _: True,
) -> tuple[StartCheckpoint, Refusal | None]:
    """Find the checkpoint from which the engine recovers a log with this end.

    Files before the last are read, last first, only until one holds a CkptEnd.

    Args:
        environment: the log.
        end: its end.
        scanner: settings for reading it.
        has_marks: returns False for a file that is known to have no marks, and need not be read.

    Returns:
        The checkpoint, and the reason why the engine refuses the log, or None.
    """
    marks = _usable(end.marks)
    roots = [mark for mark in marks if mark.type_no == DB_TREE_NO]
    after: list[RecoveryMark] = []
    refusal = None
    earlier = list(end.files[:-1])
    expected = end.files[-1].file_no
    while not any(mark.type_no == CKPT_END_NO for mark in marks) and earlier:
        after = marks + after
        file = earlier.pop()
        expected -= 1
        if file.file_no != expected:
            refusal, expected = Refusal.MISSING_FILE, file.file_no
        # The engine reads these files backward, so it also sees entries after damage.
        marks = _usable(_marks_of(environment, file, scanner)) if has_marks(file) else []
    at = max((i for i, m in enumerate(marks) if m.type_no == CKPT_END_NO), default=-1)
    later = marks[at + 1 :] + after
    if at < 0:
        later = marks + after
    starts = [mark.lsn for mark in later if mark.type_no == CKPT_START_NO]
    # A DbTree of the last file counts even if it is before the CkptEnd.
    trees = roots or [mark for mark in later if mark.type_no == DB_TREE_NO]
    root = trees[-1].lsn if trees else NULL_LSN
    partial = starts[0] if starts else NULL_LSN
    if at < 0:
        checkpoint = StartCheckpoint(NULL_LSN, NULL_LSN, NULL_LSN, partial, root, {})
    else:
        fields = marks[at].fields
        if root == NULL_LSN:
            root = fields.get("root_lsn", NULL_LSN)
        start, active = fields["ckpt_start_lsn"], fields["first_active_lsn"]
        checkpoint = StartCheckpoint(marks[at].lsn, start, active, partial, root, fields)
    if root == NULL_LSN and refusal is None:
        refusal = Refusal.NO_ROOT
    return checkpoint, refusal


def is_gapless(end: LogEnd, checkpoint: StartCheckpoint) -> bool:
    """Return True if no file is missing between the first active entry and the log's end."""
    if checkpoint.end_lsn == NULL_LSN:
        return True
    first = min(checkpoint.start_lsn, checkpoint.first_active_lsn) >> 32
    there = [file.file_no for file in end.files if file.file_no >= first]
    return there[:1] == [first] and len(there) == end.files[-1].file_no - first + 1


def _usable(marks: Sequence[RecoveryMark]) -> list[RecoveryMark]:
    """Return the marks without undecodable CkptEnds, which no engine writes."""
    return [
        mark for mark in marks if "ckpt_start_lsn" in mark.fields or mark.type_no != CKPT_END_NO
    ]
