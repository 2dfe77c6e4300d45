"""Cross-file consistency: file headers, links between files, log versions, missing files.

Source: je-log.md "Files", "The file header" and "Where a log ends, and what damage costs";
FileManager, LastFileReader, RestoreMarker and UtilizationProfile, JE 7.5.11, 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from je_tools.errors import InputError
from je_tools.findings import Finding, Severity
from je_tools.formats.je.entry.entries import decode_entry
from je_tools.formats.je.header import FILE_HEADER_SIZE, EntryError, type_no_of
from je_tools.formats.je.log.walk import NO_OFFSET
from je_tools.formats.je.types import (
    FILE_HEADER_NO,
    RESTORE_REQUIRED_NO,
)
from je_tools.log.file_findings import finding, misnamed_finding
from je_tools.log.sources import reason_of, reopened

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FileState
    from je_tools.log.log_files import LogFile
    from je_tools.verify.opening_check import OpeningCheck

_MARKER_SIZE_MAX = 1 << 16
_NEVER = 1 << 32
"""A number above those of all files."""


class FileSetChecks:
    """Checks of the headers and numbers of all files of an environment.

    Files can be checked in any order.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    def of_file(self, index: int) -> Iterator[Finding]:
        """Yield findings of one file's header, number, directory and version.

        Args:
            index: index of the file in `Environment.files`.
        """
        file = self.environment.files[index]
        yield from self._of_header(file)
        yield from self._of_place(index, file)
        yield from self._of_version(index, file)

    def _of_header(self, file: LogFile) -> Iterator[Finding]:
        header = file.header
        place: dict[str, Any] = {
            "file_no": file.file_no,
            "offset": 0,
            "length": min(FILE_HEADER_SIZE, file.size),
        }
        if header.is_unsupported:
            found = f"log version {header.version}"
            yield finding(self.environment, "unsupported-version", **place, found=found)
        elif not header.good and file.is_begun:
            yield self._bad_header(file, Severity.ERROR)
        elif header.good and header.file_no not in (None, file.file_no):
            yield misnamed_finding(self.environment, file.file_no, header.file_no)

    def _bad_header(self, file: LogFile, severity: Severity) -> Finding:
        problem = file.header.problem
        return finding(
            self.environment,
            "bad-file-header",
            severity,
            file_no=file.file_no,
            offset=0,
            length=min(FILE_HEADER_SIZE, file.size),
            expected="a file header",
            found=f"{problem}; {file.version_text}" if file.is_guessed else problem,
        )

    def _of_place(self, index: int, file: LogFile) -> Iterator[Finding]:
        environment = self.environment
        before = environment.files[index - 1] if index else None
        if before and environment.is_directory and before.file_no == file.file_no:
            found = f"{before.path} and {file.path}"
            yield finding(environment, "duplicate-file", file_no=file.file_no, found=found)
        if environment.folders:
            expected = environment.folders[file.file_no % len(environment.folders)]
            if file.path.parent.name != expected:
                found = str(file.path)
                yield finding(
                    environment,
                    "misplaced-file",
                    file_no=file.file_no,
                    expected=expected,
                    found=found,
                )

    def _of_version(self, index: int, file: LogFile) -> Iterator[Finding]:
        files = self.environment.files
        before = (files[i] for i in range(index - 1, -1, -1) if files[i].header.good)
        last = next(before, None) if file.header.good else None
        if last is None or file.version == last.version:
            return
        severity = Severity.WARNING if file.version < last.version else Severity.NOTE
        yield finding(
            self.environment,
            "version-step",
            severity,
            file_no=file.file_no,
            offset=0,
            expected=f"log version {last.version}, as in the files before",
            found=f"log version {file.version}",
        )

    def next_file(self, index: int) -> LogFile | None:
        """Return the file with the next number if its header is good, or None."""
        files = self.environment.files
        if index + 1 == len(files) or files[index + 1].file_no != files[index].file_no + 1:
            return None
        return files[index + 1] if files[index + 1].header.good else None

    def of_link(self, index: int, before: FileState) -> Iterator[Finding]:
        """Yield a finding if the last entry of a file is not the one that the next header names.

        Args:
            index: index of the file in `Environment.files`.
            before: state of that file.
        """
        file = self.next_file(index)
        named = file.header.last_entry_in_prev_file_offset if file else None
        if file is None or named is None or not before.file.header.good:
            return
        # If the named entry lies in a gap, that gap has a finding already.
        if any(gap.start <= named < gap.stop for gap in before.gaps):
            return
        # The finding of a tail already names the missing entry, also if the file is too short.
        if before.tail < before.size and named >= before.tail:
            return
        if before.last in (named, named + before.shift, NO_OFFSET):
            return
        cut = named >= before.size
        yield finding(
            self.environment,
            "truncated-file" if cut else "last-entry-mismatch",
            file_no=before.file.file_no,
            offset=before.size if cut else before.last,
            length=None,
            expected=f"a last entry at {named:#x}, as the header of {file.path.name} says",
            found=f"{before.last:#x}" + (f", and {before.size:#x} bytes" if cut else ""),
        )

    def of_missing(self, opening: OpeningCheck) -> Iterator[Finding]:
        """Yield findings of missing files, and of files without a whole header.

        The engine opens a file without a header only if it needs its content, so such a file is
        judged like a missing one.

        Args:
            opening: the check of what recovery needs, after the whole log has been read.
        """
        absent, empty = self.environment.absent, self._files_without_header()
        is_incomplete = bool(absent) or bool(empty)
        needed_from = opening.needed_from() if is_incomplete else None
        in_use = opening.missing_in_use() if is_incomplete else []
        start, why = needed_from if needed_from is not None else (_NEVER, "")
        for file in empty:
            is_used = in_use is None or file.file_no in in_use or file.file_no >= start
            yield self._bad_header(file, Severity.ERROR if is_used else Severity.WARNING)
        for first, last in absent:
            used = [no for no in in_use or () if first <= no <= last and no < start]
            for file_no in used:
                found = "a utilization record that counts the file as in use"
                yield self._missing(file_no, file_no, Severity.ERROR, found)
            if last >= start:
                yield self._missing(max(first, start), last, Severity.ERROR, why)
            elif in_use is None:
                found = "no tree that shows whether they are in use"
                yield self._missing(first, last, Severity.WARNING, found)
            elif not used and first:
                yield self._missing(first, last, Severity.NOTE, "no record of them in use")

    def _files_without_header(self) -> list[LogFile]:
        """Return the files without a whole header, except where the log may end."""
        return [
            file
            for index, file in enumerate(self.environment.files)
            if index not in self.environment.ends and not file.is_begun
        ]

    def _missing(self, first: int, last: int, severity: Severity, found: str) -> Finding:
        names = f"{first:08x}.jdb" + (f" to {last:08x}.jdb" if last > first else "")
        return finding(
            self.environment, "missing-file", severity, file_no=first, expected=names, found=found
        )

    def of_marker(self) -> Iterator[Finding]:
        """Yield a finding if a marker file keeps the engine from opening the log."""
        marker = self.environment.marker
        if marker is None:
            return
        found = f"{marker.path.name}: {_why_restore(marker)}"
        yield finding(
            self.environment, "restore-marker", file_no=marker.file_no, offset=0, found=found
        )


def _why_restore(marker: LogFile) -> str:
    """Return the reason that a marker file gives, or why it gives none."""
    try:
        with reopened(marker.path) as source:
            data = memoryview(source.read_bytes(0, _MARKER_SIZE_MAX))
    except InputError as error:
        return f"not readable: {reason_of(error)}"
    whole = len(data) > FILE_HEADER_SIZE and type_no_of(data) == FILE_HEADER_NO
    reason = restore_reason(data[FILE_HEADER_SIZE if whole else 0 :], marker.version)
    return reason or "no readable RestoreRequired entry"


def restore_reason(entry: bytes | memoryview, version: int) -> str | None:
    """Return the text of a RestoreRequired entry in one line; None if the entry is not one."""
    try:
        decoded = decode_entry(entry, version)
    except EntryError:
        return None
    # Log versions before 6 do not have this type: its fields are not decoded.
    if decoded.header.type_no != RESTORE_REQUIRED_NO or "time_ms" not in decoded.fields:
        return None
    when = np.datetime64(decoded.fields["time_ms"], "ms")
    lines = str(decoded.fields["properties"] or "").splitlines()
    kept = [line for line in lines if not line.startswith("#")]
    return f"{decoded.fields['failure_type']} at {when}Z" + "".join(f", {line}" for line in kept)
