"""Cross-file consistency: file headers, links between files, log versions, missing files.

Source: je-log.md "Files", "The file header" and "Where a log ends, and what damage costs";
FileManager, LastFileReader, RestoreMarker and UtilizationProfile, JE 7.5.11, 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.errors import InputError
from je_tools.findings import Finding, Severity
from je_tools.formats.je.entry.entries import decode_entry
from je_tools.formats.je.header import FILE_HEADER_SIZE, EntryError, lsn_text, type_no_of
from je_tools.formats.je.log.walk import NO_OFFSET
from je_tools.formats.je.types import (
    CKPT_END_NO,
    FILE_HEADER_NO,
    FILE_SUMMARY_NO,
    PAYLOAD_VERSION_MIN,
    RESTORE_REQUIRED_NO,
    Family,
    mask_of,
)
from je_tools.log.file_findings import finding, misnamed_finding
from je_tools.log.sources import reason_of, reopened

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FileState
    from je_tools.log.log_files import LogFile

Ranges = Sequence[tuple[int, int]]

_KEY_SIZE = 8
_KEY_BEFORE_DATA = 19
_MARKER_SIZE_MAX = 1 << 16
_SUMMARIES_MAX = 1 << 20


class Files:
    """Checks of the headers and numbers of all files of an environment.

    Files can be checked in any order.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self._live: dict[tuple[int, int], bool] = {}
        self._recovery: tuple[int, str] | None = None

    def of_file(self, index: int) -> Iterator[Finding]:
        """Yield findings of one file's header, number, directory and version.

        Args:
            index: index of the file in `Environment.files`.
        """
        file = self.environment.files[index]
        yield from self._of_header(file, unfinished=index in self.environment.ends)
        yield from self._of_place(index, file)
        yield from self._of_version(index, file)

    def _of_header(self, file: LogFile, *, unfinished: bool) -> Iterator[Finding]:
        header = file.header
        place: dict[str, Any] = {
            "file_no": file.file_no,
            "offset": 0,
            "length": min(FILE_HEADER_SIZE, file.size),
        }
        if header.is_unsupported:
            found = f"log version {header.version}"
            yield finding(self.environment, "unsupported-version", **place, found=found)
        elif not header.good and not (unfinished and file.size <= FILE_HEADER_SIZE):
            expected = "a file header"
            why = f"{header.problem}; {file.version_text}" if file.is_guessed else header.problem
            yield finding(
                self.environment, "bad-file-header", **place, expected=expected, found=why
            )
        elif header.good and header.file_no not in (None, file.file_no):
            yield misnamed_finding(self.environment, file.file_no, header.file_no)

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

    def follower(self, index: int) -> LogFile | None:
        """Return the file with the next number if its header is good, or None."""
        files = self.environment.files
        if index + 1 == len(files) or files[index + 1].file_no != files[index].file_no + 1:
            return None
        return files[index + 1] if files[index + 1].header.good else None

    def of_link(self, index: int, before: FileState) -> Iterator[Finding]:
        """Yield a finding if a file does not end with the entry that the next file's header names.

        Args:
            index: index of the file in `Environment.files`.
            before: state of that file.
        """
        file = self.follower(index)
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

    def take(self, evidence: Evidence) -> None:
        """Merge the evidence of one part of the log; call in log order."""
        for file_no, sequence, live in evidence.summaries:
            if len(self._live) < _SUMMARIES_MAX:
                self._live[file_no, sequence] = live
        first = evidence.ckpt_end.get("first_active_lsn")
        if first is not None and evidence.ckpt_lsn is not None:
            lsn = min(first & (1 << 64) - 1, evidence.ckpt_lsn)
            self._recovery = lsn >> 32, lsn_text(evidence.ckpt_lsn)

    def of_missing(self) -> Iterator[Finding]:
        """Yield findings of missing files, after the evidence of the whole log is merged."""
        in_use = sorted({file_no for (file_no, _), live in self._live.items() if live})
        for first, last in self.environment.absent:
            used = in_use[bisect_left(in_use, first) : bisect_right(in_use, last)]
            for file_no in used:
                found = "a utilization record that counts the file as in use"
                yield self._missing(file_no, file_no, Severity.ERROR, found)
            if self._recovery is not None and last >= self._recovery[0]:
                found = f"a checkpoint at {self._recovery[1]} whose recovery begins before"
                yield self._missing(max(first, self._recovery[0]), last, Severity.ERROR, found)
            elif not used and first:
                yield self._missing(first, last, Severity.NOTE, "no record of them in use")

    def _missing(self, first: int, last: int, severity: Severity, found: str) -> Finding:
        names = f"{first:08x}.jdb" + (f" to {last:08x}.jdb" if last > first else "")
        return finding(
            self.environment, "missing-file", severity, file_no=first, expected=names, found=found
        )

    def of_marker(self) -> Iterator[Finding]:
        """Yield the finding of the marker file that keeps the engine from opening the log."""
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
        return f"cannot be read: {reason_of(error)}"
    whole = len(data) > FILE_HEADER_SIZE and type_no_of(data) == FILE_HEADER_NO
    reason = restore_reason(data[FILE_HEADER_SIZE if whole else 0 :], marker.version)
    return reason or "no readable RestoreRequired entry"


class Evidence(Struct, frozen=True):
    """Evidence in a part of the log that missing files are still needed.

    Attributes:
        summaries: (file number, sequence, live) of FileSummaryLN records of missing files.
        ckpt_end: fields of the last CkptEnd.
        ckpt_lsn: LSN of that CkptEnd; None without one.
    """

    summaries: list[tuple[int, int, bool]]
    ckpt_end: Mapping[str, Any]
    ckpt_lsn: int | None


EVIDENCE_TYPES = mask_of((FILE_SUMMARY_NO, CKPT_END_NO))
"""Types of the entries that `evidence` reads in files that `is_evidence` accepts."""


def is_evidence(file_no: int, missing: Ranges) -> bool:
    """Return whether a file comes after all missing ones, so that it can say which are needed."""
    return bool(missing) and file_no > missing[-1][1]


def evidence(rows: Rows, missing: Ranges) -> Evidence | None:
    """Return the evidence in `rows` that missing files are needed, or None if there is none.

    Only files after the last missing one are read: a record that says a file is in use may have
    been revoked in a missing file after it.

    Args:
        rows: entries of one file.
        missing: `Environment.missing`.
    """
    if not is_evidence(rows.file_no, missing):
        return None
    good = rows.good
    summaries = np.flatnonzero((rows.type == FILE_SUMMARY_NO) & good)
    ends = np.flatnonzero((rows.type == CKPT_END_NO) & good)
    if rows.version < PAYLOAD_VERSION_MIN or not len(summaries) + len(ends):
        return None
    ckpt_end = rows.fields(int(ends[-1])) if len(ends) else {}
    lsn = int(rows.lsn[ends[-1]]) if len(ends) else None
    return Evidence(_of_missing_files(rows.select(summaries), missing), ckpt_end, lsn)


def _of_missing_files(rows: Rows, missing: Ranges) -> list[tuple[int, int, bool]]:
    if not len(rows):
        return []
    found = _summaries(rows)
    firsts, lasts = np.array(missing).T
    i = np.searchsorted(firsts, found.file_no, side="right") - 1
    keep = (i >= 0) & (found.file_no <= lasts[i])
    columns = (found.file_no, found.sequence, found.live)
    return list(zip(*(column[keep].tolist() for column in columns), strict=True))


def restore_reason(entry: bytes | memoryview, version: int) -> str | None:
    """Return the text of a RestoreRequired entry in one line; None if it is not one."""
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


class _Summaries(Struct, frozen=True):
    """FileSummaryLN records: file numbers, sequences, and True for each live record."""

    file_no: npt.NDArray[np.int64]
    sequence: npt.NDArray[np.int64]
    live: npt.NDArray[np.bool_]


def _summaries(rows: Rows) -> _Summaries:
    """Return the keys of FileSummaryLN entries, without entries that do not decode.

    Before v19 the key is the last field; since v19 its length is stored before it. Source:
    je-log.md "Records"; FileSummaryLN.makeFullKey, JE 7.5.11.
    """
    from je_tools.formats.je.entry.columns import decode

    wanted = frozenset({"key", "data"} if rows.version >= _KEY_BEFORE_DATA else {"data"})
    decoded = decode(rows, Family.FILE_SUMMARY_LN, wanted=wanted)
    if rows.version >= _KEY_BEFORE_DATA:
        starts, sizes = decoded.fields.span("key")
    else:
        sizes = np.minimum(rows.item_size, _KEY_SIZE).astype(np.int64)
        starts = rows.offset.astype(np.int64) - rows.base + rows.size - sizes
    keep = np.flatnonzero((sizes == _KEY_SIZE) & ~decoded.bad)
    keys = rows.data[starts[keep][:, None] + np.arange(_KEY_SIZE)].astype(np.int64)
    places = 1 << np.array([24, 16, 8, 0])
    live = decoded.fields.span("data")[1][keep] >= 0
    return _Summaries(keys[:, :4] @ places, keys[:, 4:] @ places, live)
