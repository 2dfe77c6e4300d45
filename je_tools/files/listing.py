"""The files of a log, one row each: their content, and the engines that open them.

Source: je-log.md "Log versions"; FileHeader and LogEntryType, JE 3.3 to 25.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.files.row_summary import summarize_rows
from je_tools.findings import Finding, Severity
from je_tools.formats.je.header import lsn_of
from je_tools.formats.je.types import (
    LOG_VERSION_MAX,
    MODERN_READ_MIN,
    MODERN_RELEASE,
    RELEASES,
)
from je_tools.verify.judge import Judge
from je_tools.verify.totals import Totals
from je_tools.verify.upgrade import NEW_FORM
from je_tools.verify.watched_entries import watched_entries

if TYPE_CHECKING:
    from je_tools.files.row_summary import RowSummary
    from je_tools.formats.je.log.fingerprints import Printing
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import ScanPart
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner

_NO_VLSN = (1 << 63) - 1

_INSIDE = {
    "damaged-entry",
    "damaged-gap",
    "erased-not-zero",
    "more-damage",
    "prev-offset-mismatch",
    "unknown-type",
    "unreadable",
    "vlsn-backward",
    "vlsn-duplicate",
    "vlsn-gap",
}
"""Codes that a file may have any number of; they are only counted here."""


class FileRow(Struct):
    """One log file.

    Attributes:
        file: the file.
        entry_count: number of good entries.
        damage_count: number of errors that `verify` finds in it.
        first_lsn, last_lsn: of its good entries, header included; None without any.
        first_vlsn, last_vlsn: smallest and largest in the replication stream; None without any.
        old_delta_count: number of old BIN-deltas (type 22) in a file that modern engines open.
        is_old_form: True if JE 5.0 and later would have to replay entries of it, and cannot.
        findings: findings of the file as a whole: errors, warnings, and version steps.
        of_directory: findings of the whole directory, kept with its last file.
    """

    file: LogFile
    entry_count: int = 0
    damage_count: int = 0
    first_lsn: int | None = None
    last_lsn: int | None = None
    first_vlsn: int | None = None
    last_vlsn: int | None = None
    old_delta_count: int = 0
    is_old_form: bool = False
    findings: list[Finding] = field(default_factory=list)
    of_directory: list[Finding] = field(default_factory=list)

    @property
    def name(self) -> str:
        """File name, with its data directory if it has one: two files may have the same number."""
        path = self.file.path
        return path.name if path.parent == self.file.home else str(Path(*path.parts[-2:]))

    @property
    def version(self) -> int | None:
        """Log version in the header; None if the header is bad."""
        return self.file.version if self.file.header.good else None

    @property
    def created_ms(self) -> int | None:
        """Time at which the file was begun; None if the header is bad."""
        return self.file.header.created_ms if self.file.header.good else None

    @property
    def written_by(self) -> str | None:
        """JE releases that write this log version; None if the header is bad."""
        return None if self.version is None else releases_text(self.version)

    @property
    def opened_from(self) -> str | None:
        """Lowest JE release that opens the file; None if the header is bad."""
        return None if self.version is None else RELEASES[self.version]

    @property
    def not_opened_by(self) -> str | None:
        """Later releases that must not open the file, with the reason; None without any."""
        if self.version is None:
            return None
        if self.is_old_form:
            return f"{RELEASES[NEW_FORM]} and later refuse it before DbPreUpgrade_4_1"
        if self.version < MODERN_READ_MIN:
            return f"{MODERN_RELEASE} and later refuse it"
        if self.cuts_off:
            return "25.3 cuts it off at its first old BIN-delta"
        return None

    @property
    def cuts_off(self) -> bool:
        """True if a modern engine would read an old BIN-delta in it as the end of the log."""
        return self.version is not None and bool(self.old_delta_count)

    def merge(self, seen: RowSummary) -> None:
        """Add the summary of some rows, in the order of the file."""
        self.entry_count += seen.judged.entries
        file_no = self.file.file_no
        if seen.judged.entries:
            if self.first_lsn is None:
                self.first_lsn = lsn_of(file_no, seen.first_offset)
            self.last_lsn = lsn_of(file_no, seen.last_offset)
        if seen.last_vlsn:
            self.first_vlsn = min(seen.first_vlsn, self.first_vlsn or _NO_VLSN)
            self.last_vlsn = max(seen.last_vlsn, self.last_vlsn or 0)
        if seen.judged.old_deltas is not None:
            self.old_delta_count += seen.judged.old_deltas.count

    def add_findings(self, found: list[Finding], errors: int) -> None:
        """Count errors of the file, and keep the findings that concern it as a whole."""
        self.damage_count += errors
        self.findings += _of_whole_file(found)


def _of_whole_file(found: list[Finding]) -> Iterator[Finding]:
    for each in found:
        is_note = each.severity is Severity.NOTE and each.code != "version-step"
        if not is_note and each.code not in _INSIDE:
            yield each


def releases_text(version: int) -> str:
    """Return the releases that write a log version: `18.2 up to before 19.3`, `25.2 and later`."""
    first = RELEASES[version]
    if version == LOG_VERSION_MAX:
        return f"{first} and later"
    return f"{first} up to before {RELEASES[version + 1]}"


def list_files(environment: Environment, scanner: Scanner) -> list[FileRow]:
    """Read a log and return a row for each of its files, in order.

    Args:
        environment: the log.
        scanner: options of the scan, which must check checksums.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    listing = Listing(environment)
    scanner = replace(scanner, asked=listing.asked, watched=watched_entries)
    for part in scanner.scan(environment, listing.inspector):
        listing.merge(part, part.results)
    listing.finish()
    return listing.rows


class Listing:
    """Converter of a scan of a log into a row per file and the findings of `verify`.

    Attributes:
        rows: rows of the files merged so far; complete after `finish`.
        totals: counts of the judge.
        inspector: work for the scan, with results for `merge`.
        asked: entries that this work needs as rows, for `ScanOptions.asked`.
    """

    def __init__(self, environment: Environment, printing: Printing | None = None) -> None:
        """Prepare a listing.

        Args:
            environment: the log.
            printing: makes fingerprints of records; None for none.
        """
        self.rows: list[FileRow] = []
        self.totals = Totals(environment.name)
        self._judge = Judge(environment, self.totals)
        inspector = replace(self._judge.inspector, printing=printing)
        self.inspector = partial(summarize_rows, inspector=inspector)
        self.asked = inspector.asked

    def merge(self, part: ScanPart[Any], results: Sequence[RowSummary]) -> list[Finding]:
        """Merge a part and return its findings; call for all parts of the log, in log order."""
        if not self.rows or self.rows[-1].file is not part.file:
            self.rows.append(FileRow(part.file))
        row = self.rows[-1]
        for seen in results:
            row.merge(seen)
        errors = self.totals.errors
        found = self._judge.merge(part, [seen.judged for seen in results])
        row.add_findings(found, self.totals.errors - errors)
        return found

    def pass_over(self, file: LogFile) -> None:
        """Continue after a file of which nothing, or not all, could be read."""
        if not self.rows or self.rows[-1].file is not file:
            self.rows.append(FileRow(file))
        self._judge.pass_over()

    def finish(self) -> list[Finding]:
        """Return the findings of the directory, after all parts are merged."""
        directory = self._judge.finish()
        for found in directory:
            numbered = (row for row in self.rows if row.file.file_no == found.file_no)
            row = next(numbered, None)
            if row is not None:
                row.add_findings([found], int(found.severity is Severity.ERROR))
            elif self.rows:
                self.rows[-1].of_directory += _of_whole_file([found])
        for row in self.rows:
            row.is_old_form = row.file.file_no in self._judge.upgrade.files
        return directory
