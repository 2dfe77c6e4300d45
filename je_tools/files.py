"""The files of a log, one row each: what is in them, and which engines open them.

Source: je-log-format 2, 5.1 and 13.17; FileHeader and LogEntryType, JE 3.3 to 25.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from je_tools.continuity import Files, finding
from je_tools.damage import FileDamage
from je_tools.environment import Environment, LogFile
from je_tools.findings import Finding, Severity
from je_tools.formats.je.header import lsn_of
from je_tools.formats.je.reader import Rows
from je_tools.formats.je.types import (
    LOG_VERSION_MAX,
    MODERN_READ_MIN,
    MODERN_RELEASE,
    OLD_BIN_DELTA_NO,
    RELEASES,
)
from je_tools.formats.je.walk import Checksum
from je_tools.scan import FileState, Scanner

_NO_VLSN = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class _Seen:
    """What some rows hold, in plain numbers; offsets are -1 and VLSNs 0 where there are none."""

    entries: int
    damaged: int
    first_offset: int
    last_offset: int
    first_vlsn: int
    last_vlsn: int
    old_deltas: int
    old_delta_offset: int


@dataclass
class FileRow:
    """One log file.

    Attributes:
        file: which one.
        entry_count: good entries.
        damage_count: places that are damaged: entries, gaps, and a tail that is an error.
        first_lsn, last_lsn: of its good entries, the header the first; None without any.
        first_vlsn, last_vlsn: smallest and largest in the replication stream; None without any.
        old_delta_count: old BIN-deltas (type 22).
        old_delta_offset: where the first of them is.
        findings: what is to be said of the file.
    """

    file: LogFile
    entry_count: int = 0
    damage_count: int = 0
    first_lsn: int | None = None
    last_lsn: int | None = None
    first_vlsn: int | None = None
    last_vlsn: int | None = None
    old_delta_count: int = 0
    old_delta_offset: int = -1
    findings: list[Finding] = field(default_factory=list)

    @property
    def version(self) -> int | None:
        """The log version that the header names; None where the header is bad."""
        return self.file.version if self.file.header.good else None

    @property
    def written_by(self) -> str | None:
        """The JE releases that write this log version."""
        return None if self.version is None else releases_text(self.version)

    @property
    def opened_from(self) -> str | None:
        """The lowest JE release that opens the file."""
        return None if self.version is None else RELEASES[self.version]

    @property
    def not_opened_by(self) -> str | None:
        """The later releases that must not be given the file, and why; None where all may."""
        if self.version is None:
            return None
        if self.version < MODERN_READ_MIN:
            return f"{MODERN_RELEASE} and later refuse it"
        if self.cuts_off:
            return "25.3 cuts it off at its first old BIN-delta"
        return None

    @property
    def cuts_off(self) -> bool:
        """Whether a modern engine would take an old BIN-delta in it for the end of the log."""
        return (
            self.version is not None
            and self.version >= MODERN_READ_MIN
            and bool(self.old_delta_count)
        )

    def take(self, seen: _Seen) -> None:
        """Add what some rows hold, in the order of the file."""
        self.entry_count += seen.entries
        self.damage_count += seen.damaged
        file_no = self.file.file_no
        if seen.entries:
            if self.first_lsn is None:
                self.first_lsn = lsn_of(file_no, seen.first_offset)
            self.last_lsn = lsn_of(file_no, seen.last_offset)
        if seen.last_vlsn:
            self.first_vlsn = min(seen.first_vlsn, self.first_vlsn or _NO_VLSN)
            self.last_vlsn = max(seen.last_vlsn, self.last_vlsn or 0)
        if seen.old_deltas and not self.old_delta_count:
            self.old_delta_offset = seen.old_delta_offset
        self.old_delta_count += seen.old_deltas


def releases_text(version: int) -> str:
    """The releases that write a log version: `18.2 to 19.3 (exclusive)`, `25.2 and later`."""
    first = RELEASES[version]
    if version == LOG_VERSION_MAX:
        return f"{first} and later"
    return f"{first} up to before {RELEASES[version + 1]}"


def list_files(environment: Environment, scanner: Scanner) -> Iterator[FileRow]:
    """Read a log and give a row for each of its files, in order.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    files = Files(environment)
    before: FileState | None = None
    index, row = 0, FileRow(environment.files[0])
    for part in scanner.scan(environment, _work):
        for seen in part.results:
            row.take(seen)
        row.damage_count += len(part.gaps)
        if part.end is not None:
            row.findings = _findings(environment, files, index, before, part.end, row)
            yield row
            before, index = part.end, index + 1
            if index < len(environment.files):
                row = FileRow(environment.files[index])


def _work(rows: Rows) -> _Seen:
    good = rows.checksum != Checksum.BAD
    index = np.flatnonzero(good)
    vlsns = rows.vlsn[good & rows.replicated & ~rows.invisible & (rows.vlsn > 0)]
    deltas = rows.offset[good & (rows.type == OLD_BIN_DELTA_NO)]
    return _Seen(
        len(index),
        len(rows) - len(index),
        int(rows.offset[index[0]]) if len(index) else -1,
        int(rows.offset[index[-1]]) if len(index) else -1,
        int(vlsns.min()) if len(vlsns) else 0,
        int(vlsns.max()) if len(vlsns) else 0,
        len(deltas),
        int(deltas[0]) if len(deltas) else -1,
    )


def _findings(
    environment: Environment,
    files: Files,
    index: int,
    before: FileState | None,
    state: FileState,
    row: FileRow,
) -> list[Finding]:
    found = list(files.of_file(index, before))
    if row.cuts_off:
        found.append(
            finding(
                environment,
                "old-delta-in-v8",
                file_no=row.file.file_no,
                offset=row.old_delta_offset,
                found=f"{row.old_delta_count:,} old BIN-deltas, this the first",
            )
        )
    end = FileDamage(environment, row.file, is_last=index in files.ends).of_end(state, None)
    tail = [each for each in end if each.severity is Severity.ERROR]
    row.damage_count += len(tail)
    return found + tail
