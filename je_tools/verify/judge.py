"""Verification of a whole log: damaged ranges, and consistency across files.

Only `Judge` defines damage. A command that reads a log for another purpose passes summaries of all
rows to a `Judge`, and so reports the same damage as `verify`.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.findings import Finding, Severity
from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.log.entry_rows import Rows, WantedEntries
from je_tools.log.file_findings import finding, unreadable_findings
from je_tools.recovery.marks import MARK_TYPES, RecoveryMark, collect_marks
from je_tools.verify.consistency import FileSetChecks
from je_tools.verify.damage import FileDamage
from je_tools.verify.foreign_files import ForeignFiles
from je_tools.verify.odd_flags import ROLLBACK_TYPES, OddFlags, Period, collect_periods
from je_tools.verify.opening_check import OpeningCheck
from je_tools.verify.row_damage import (
    LISTED,
    OldDeltas,
    RowDamage,
    Unlisted,
    old_deltas,
    row_damage,
    suspect_types,
)
from je_tools.verify.upgrade import OldForm, UpgradeCheck, collect_old_form
from je_tools.verify.vlsn_sequence import STREAM_TYPES, Runs, VlsnSequence, runs_of
from je_tools.verify.watched_entries import watched_entries
from je_tools.writing.redo_folder import FILE_NAME, FOLDER, is_unfinished

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.fingerprints import Fingerprints, Printing, Prints
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FileState, ScanPart
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner
    from je_tools.verify.totals import Totals

LOCK_NAME = "je.lck"

_TAILS = ("torn-tail", "zero-tail")
"""Codes of tails that may follow the end of an intact log; then they are notes."""

UNKNOWN_PROCESS = 0
"""Holder of a lock that cannot be named: in another pid namespace, or several processes."""


class InspectedRows(Struct, frozen=True):
    """Summary of some rows in plain numbers, so that the rows can be freed.

    Attributes:
        entries: number of good entries.
        damage: damage of entries; None without any.
        old_deltas: old BIN-deltas at which modern engines truncate the file.
        runs: VLSNs of the replication stream; None without any.
        old_form: entries that JE 5.0 and later cannot replay.
        marks: marks of recovery, if the log ends in this file.
        is_marked: True if there are such marks, in whatever file.
        periods: rollbacks.
        prints: fingerprints of records; None if not requested.
    """

    entries: int
    damage: RowDamage | None
    old_deltas: OldDeltas | None
    runs: Runs | None
    old_form: OldForm | None
    marks: Sequence[RecoveryMark] = ()
    is_marked: bool = False
    periods: Sequence[Period] = ()
    prints: Prints | None = None


def verify(
    environment: Environment,
    scanner: Scanner,
    totals: Totals,
    *,
    everything: bool = False,
    prints: Fingerprints | None = None,
    trees_follow: bool = False,
    root_follows: bool = False,
) -> Iterator[Finding]:
    """Read a whole log and yield its findings in log order, those of the directory last.

    For each file, the findings of its header come first, then the others by offset, and at the end
    one that counts all old BIN-deltas.

    Args:
        environment: the log.
        scanner: options of the scan, which must check checksums.
        totals: filled during the scan.
        everything: also yield `clean-end` for ends without damage.
        prints: filled during the scan.
        trees_follow: True if the caller reports the files that cannot be opened.
        root_follows: True if the caller reports why the engine would refuse the log.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    judge = Judge(environment, totals)
    judge.everything, judge.trees_follow, judge.root_follows = (
        everything,
        trees_follow,
        root_follows,
    )
    inspector = replace(judge.inspector, printing=prints.printing if prints is not None else None)
    scanner = replace(scanner, asked=inspector.asked, watched=watched_entries)
    size = 0
    for part in scanner.scan(environment, inspector):
        yield from judge.merge(part, part.results)
        for seen in part.results:
            if prints is not None and seen.prints is not None:
                prints.add(part.file.file_no, seen.prints)
        size = part.end.size if part.end else size
    yield from judge.finish()
    for found in of_directory(environment, size):
        totals.count(found)
        yield found


class RowInspector(Struct, frozen=True):
    """Work for a scan: summarize rows for a `Judge`. The result holds no view of the rows.

    Attributes:
        is_upgrade_asked: True to collect entries of the old form.
        last_no: number of the file in which the log ends.
        printing: makes fingerprints of records; None for none.
    """

    is_upgrade_asked: bool
    last_no: int
    printing: Printing | None = None

    @classmethod
    def of(cls, environment: Environment) -> RowInspector:
        """Return the inspector for an environment."""
        return cls(UpgradeCheck(environment).is_applicable, OpeningCheck(environment).last_no)

    def asked(self, file: LogFile) -> WantedEntries | None:
        """Return the entries of a file to read as rows, or None for all.

        The scan only counts the other entries.
        """
        if self.is_upgrade_asked or self.printing is not None:
            return None
        types = suspect_types(file.version) | STREAM_TYPES | ROLLBACK_TYPES
        if file.file_no == self.last_no:
            types = types | MARK_TYPES
        return WantedEntries(types, HeaderFlag.REPLICATED)

    def __call__(self, rows: Rows) -> InspectedRows:
        """Return a summary of the rows."""
        return InspectedRows(
            entries=rows.survey.good,
            damage=row_damage(rows),
            old_deltas=old_deltas(rows),
            runs=runs_of(rows),
            old_form=collect_old_form(rows) if self.is_upgrade_asked else None,
            marks=self._marks(rows),
            is_marked=bool(rows.survey.counts[MARK_TYPES].any()),
            periods=collect_periods(rows),
            prints=self.printing.of_rows(rows) if self.printing is not None else None,
        )

    def _marks(self, rows: Rows) -> tuple[RecoveryMark, ...]:
        if rows.file_no != self.last_no:
            return ()
        # Audits keep the result in files.
        return tuple(mark.numbers() for mark in collect_marks(rows).marks)


class Judge:
    """Converter of the summaries of a scan into findings.

    The scan must note `watched_entries`.

    Attributes:
        totals: counts so far.
        everything: also report `clean-end` for ends without damage.
        trees_follow, root_follows: as for `verify`.
        upgrade: check for JE 5.0 and later, complete when all parts are merged.
        inspector: work for the scan, with results for `merge`.
    """

    def __init__(self, environment: Environment, totals: Totals) -> None:
        self.environment = environment
        self.totals = totals
        self.everything = False
        self.trees_follow = self.root_follows = False
        self._files = FileSetChecks(environment)
        self._vlsn_sequence = VlsnSequence(environment)
        self._opening = OpeningCheck(environment)
        self._foreign = ForeignFiles(environment)
        self._odd_flags = OddFlags(environment)
        self._lost_nos: list[int] = []
        self.upgrade = UpgradeCheck(environment)
        self.inspector = RowInspector.of(environment)
        self._index = 0
        self._is_begun = False
        self._old_deltas: OldDeltas | None = None
        self._listed = 0
        self._unlisted = Unlisted()
        totals.files, totals.size = len(environment.files), environment.size

    def merge(self, part: ScanPart[Any], seen: Sequence[InspectedRows]) -> list[Finding]:
        """Merge a part and return its findings; call for all parts of the log, in log order.

        Args:
            part: part of the scan.
            seen: results of `inspector` for the rows of the part, in their order.

        Raises:
            StoppedError: the file vanished or shrank since it was scanned.
            InputError: it cannot be read any more.
        """
        found: list[Finding] = []
        if not self._is_begun:
            found += self._files.of_file(self._index)
            # The VLSNs in missing files are missing too.
            self._vlsn_sequence.is_broken |= self._follows_missing_file(part.file)
            self._is_begun = True
        found += self._of_part(part, seen)
        if part.end is not None:
            found += self._of_end(part.end)
            self._begin_next()
        return self._counted(found)

    def pass_over(self) -> None:
        """Continue after a file of which nothing, or not all, could be read."""
        self._vlsn_sequence.is_broken = True
        self._opening.pass_over()
        self._foreign.pass_over()
        self._lost_nos.append(self.environment.files[self._index].file_no)
        self._begin_next()

    def _begin_next(self) -> None:
        self._index, self._is_begun, self._old_deltas = self._index + 1, False, None
        self._listed, self._unlisted = 0, Unlisted()

    def finish(self) -> list[Finding]:
        """Return the findings about the log as a whole, after all parts are merged."""
        files, opening = self._files, self._opening
        return self._counted(
            [
                *files.of_missing(opening),
                *files.of_marker(),
                *(() if self.trees_follow else unreadable_findings(self.environment)),
                *(() if self.root_follows else opening.findings()),
                *self.upgrade.findings(),
                *self._foreign.findings(),
                *self._odd_flags.findings(opening.db_tree_flags, self._lost()),
            ]
        )

    def _lost(self) -> list[int]:
        """Return the numbers of the last missing file, and of files that could not be read."""
        return [*self._lost_nos, *(last for _, last in self.environment.missing)]

    def _counted(self, found: Iterable[Finding]) -> list[Finding]:
        reported = [each for each in found if self.everything or each.code != "clean-end"]
        for each in reported:
            self.totals.count(each)
        return reported

    def _follows_missing_file(self, file: LogFile) -> bool:
        index = self._index
        return index > 0 and file.file_no != self.environment.files[index - 1].file_no + 1

    def _damage(self, file: LogFile) -> FileDamage:
        return FileDamage(self.environment, file, is_last=self._index in self.environment.ends)

    def _of_part(self, part: ScanPart[Any], seen: Sequence[InspectedRows]) -> list[Finding]:
        room, file_no = LISTED - self._listed, part.file.file_no
        damaged = [each.damage for each in seen if each.damage is not None]
        reported = self._damage(part.file).of_part(part, damaged, room)
        gaps = part.gaps.numbers
        self.totals.damaged_size += int((gaps[:, 1] - gaps[:, 0]).sum())
        self.totals.damaged_size += sum(damage.lost_size for damage in damaged)
        for each in seen:
            self.totals.entries += each.entries
            if each.old_form is not None:
                self.upgrade.merge(each.old_form)
            bad = each.damage is not None
            self._opening.merge(file_no, each.marks, is_marked=each.is_marked, bad=bad)
            if each.old_deltas is not None:
                self._old_deltas = each.old_deltas.after(self._old_deltas)
        self._foreign.add(part.samples)
        periods = [period for each in seen for period in each.periods]
        is_replicated = any(each.runs is not None and each.runs.has_vlsns for each in seen)
        self._odd_flags.add(file_no, part.odd, periods, is_replicated=is_replicated)
        lost = np.concatenate([gaps[:, 0], *(damage.lost for damage in damaged)])
        reported.add(self._of_stream(part.file, seen, lost), room)
        self._listed += len(reported.found)
        self._unlisted.merge(reported.unlisted)
        self.totals.count_unlisted(reported.unlisted.codes)
        return reported.found

    def _of_stream(
        self, file: LogFile, seen: Sequence[InspectedRows], lost: Ints
    ) -> Iterator[Finding]:
        runs = [each.runs for each in seen if each.runs is not None]
        waiting = deque(np.sort(lost).tolist() if runs else lost[:1])
        for each in runs:
            before_no = self._vlsn_sequence.file_no
            for found in self._vlsn_sequence.merge(file.file_no, each, waiting):
                if before_no not in (None, file.file_no) and found.offset == each.offset[0]:
                    self._foreign.add_vlsns(before_no, found)
                yield found
        self._vlsn_sequence.is_broken |= bool(waiting)

    def _of_end(self, state: FileState) -> list[Finding]:
        next_file = self._files.next_file(self._index)
        named_last = next_file.header.last_entry_in_prev_file_offset if next_file else None
        self._opening.merge_end(state)
        link = list(self._files.of_link(self._index, state))
        # The VLSNs in a missing end of a file are missing too.
        self._vlsn_sequence.is_broken |= state.tail < state.size or bool(link)
        self._foreign.end_file(state, link)
        damage = self._damage(state.file)
        old = damage.of_old_deltas(self._old_deltas)
        more = damage.of_unlisted(self._unlisted)
        ended = list(damage.of_end(state, named_last))
        if not any(each.code in _TAILS and each.severity is Severity.NOTE for each in ended):
            self.totals.damaged_size += max(state.size - state.tail, 0)
        return [*more, *old, *ended, *link]


def of_directory(environment: Environment, size_read: int) -> Iterator[Finding]:
    """Yield the findings about the directory: an unfinished erasure, and an engine that writes.

    Args:
        environment: the log.
        size_read: number of bytes of its last file that were read.
    """
    if not environment.is_directory:
        return
    if is_unfinished(environment.home):
        yield finding(environment, "erasure-unfinished", found=f"{FOLDER}/{FILE_NAME}")
    yield from _of_writer(environment, size_read)


def _of_writer(environment: Environment, size_read: int) -> Iterator[Finding]:
    """Yield a finding if an engine is writing to the log.

    Args:
        environment: the log.
        size_read: number of bytes of its last file that were read.
    """
    # Nobody sees the locks of an object store.
    holder = None if environment.is_remote else lock_holder(environment.home / LOCK_NAME)
    last = environment.files[-1]
    try:
        grown = last.path.stat().st_size - size_read
    except OSError:
        # The file has vanished since it was read.
        grown = 0
    if holder is None and grown <= 0:
        return
    words = []
    if holder is not None:
        process = "a process" if holder == UNKNOWN_PROCESS else f"process {holder}"
        words.append(f"{process} holds {LOCK_NAME}")
    if grown > 0:
        words.append(f"{last.path.name} grew by {grown:,} bytes")
    yield finding(
        environment,
        "live-writer",
        file_no=last.file_no,
        offset=size_read,
        found=", ".join(words),
    )


def lock_holder(path: Path) -> int | None:
    """Return the process that has a write lock on a lock file, or None, without taking a lock.

    Return UNKNOWN_PROCESS if the system does not name it. Only a regular file is opened.
    Source: FileManager, JE 7.5.11, which locks byte 0 for the life of a writable environment.
    """
    flock = struct.Struct("hhqqi")
    descriptor = -1
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        # It may have become a pipe since, and opening that would wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        asked = flock.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 1, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, asked)
    except OSError:
        return None
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    kind, _, _, _, holder = flock.unpack(answer[: flock.size])
    return None if kind == fcntl.F_UNLCK else max(int(holder), UNKNOWN_PROCESS)
