"""Scan of one part of an environment, in any process; earlier runs may know what is in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from je_tools.audit.audited_rows import (
    AuditedRows,
    RowAuditor,
    ScannedPart,
    scanner_of,
    split_off_txns,
)
from je_tools.audit.known_files import KnownEnvironment, KnownFile, txn_table
from je_tools.audit.reasons import why_unread
from je_tools.audit.tables import ResultSource
from je_tools.errors import StoppedError
from je_tools.formats.je.log.reader import ReadState
from je_tools.log.environment import Environment
from je_tools.log.file_scan import FilePiece
from je_tools.log.scan import read_cut
from je_tools.verify.judge import RowInspector

if TYPE_CHECKING:
    from je_tools.audit.plan import FilePart
    from je_tools.log.file_scan import ScanPart
    from je_tools.log.log_files import LogFile


class PartScanner(Struct, frozen=True):
    """Scanner of the parts of one environment.

    Attributes:
        environment: the log.
        env: its name in the tables.
        inspector: inspector of its rows.
        known: results of earlier runs.
    """

    environment: Environment
    env: str
    inspector: RowInspector
    known: KnownEnvironment

    @classmethod
    def of(cls, environment: Environment, env: str, known: KnownEnvironment) -> PartScanner:
        """Return the scanner of an environment."""
        return cls(environment, env, RowInspector.of(environment), known)

    def scan(self, part: FilePart) -> ScannedPart:
        """Scan a file, or a range of one; what makes it unreadable is a `failure`.

        Raises:
            OSError, MemoryError: the machine that reads is to blame.
        """
        file = self.environment.files[part.index]
        try:
            if part.cut[1] > 1:
                return self._of_range(file, part)
            return self._of_known(file, part) or self._of_file(file, part)
        except Exception as error:
            return ScannedPart(part.index, part.cut, failure=why_unread(error))

    def is_known(self, file: LogFile) -> bool:
        """Return True if an earlier run has read the file, or its beginning."""
        return self.known.find(file, self.inspector) is not None

    def keep(
        self,
        ranges: Sequence[ScannedPart],
        parts: Sequence[ScanPart[AuditedRows]],
        txns: Iterable[Any],
    ) -> None:
        """Keep the results of a file that was read in ranges, for the next run.

        Args:
            ranges: all ranges of the file.
            parts: their results, joined.
            txns: tables of its whole transactions.
        """
        file = self.environment.files[ranges[0].index]
        times = {each.begun_ns for each in ranges}
        begun_ns = times.pop() if len(times) == 1 else None
        self.known.keep(file, self.inspector, parts, list(txns), begun_ns)

    def _of_range(self, file: LogFile, part: FilePart) -> ScannedPart:
        cut, cuts = part.cut
        begun_ns = _changed_ns(file.path)
        show = RowAuditor(self.inspector)
        outcome = read_cut(file, cut, scanner_of(cuts, show), show)
        txns: list[Any] = []
        results = list(split_off_txns(outcome.results, self.env, txns))
        outcome = replace(outcome, results=results)
        return ScannedPart(part.index, part.cut, outcome=outcome, txns=txns, begun_ns=begun_ns)

    def _of_file(self, file: LogFile, part: FilePart) -> ScannedPart:
        begun_ns = _changed_ns(file.path)
        alone = Environment("", (file,), None, is_directory=False)
        txns: list[Any] = []
        show = RowAuditor(self.inspector)
        scan = scanner_of(1, show).scan(alone, show)
        parts = tuple(self._without_txns(scan, txns))
        end = parts[-1].end
        if end is not None and end.size < file.size:
            sizes = f"from {file.size} to {end.size} bytes"
            raise StoppedError(f"{file.path}: the file shrank {sizes} before it was read")
        self.known.keep(file, self.inspector, parts, txns, begun_ns)
        return ScannedPart(part.index, part.cut, parts, txns=txns)

    def _of_known(self, file: LogFile, part: FilePart) -> ScannedPart | None:
        """Return the results of an earlier run, with those of what was written since."""
        begun_ns = _changed_ns(file.path)
        taken = self.known.find(file, self.inspector)
        if taken is None:
            return None
        known, source = taken
        txns = [txn_table(known.txns, self.env)]
        if source is ResultSource.KNOWN:
            return ScannedPart(part.index, part.cut, known.parts, txns=txns, source=source)
        rest = self._rest(file, known, txns)
        if any(shown.rollbacks for part in rest for shown in part.results):
            # A rollback has changed flags of entries that an earlier run has read.
            return None
        # The last part of the earlier run is the end that the file had.
        parts = (*known.parts[:-1], *rest)
        self.known.keep(file, self.inspector, parts, txns, begun_ns)
        return ScannedPart(part.index, part.cut, parts, txns=txns, source=source)

    def _rest(
        self, file: LogFile, known: KnownFile, txns: list[Any]
    ) -> list[ScanPart[AuditedRows]]:
        end = known.parts[-1].end
        assert end is not None
        piece = FilePiece(file, ReadState(end.tail, end.last))
        show = RowAuditor(self.inspector)
        scan = scanner_of(1, show).scan_piece(piece, show)
        return list(self._without_txns(scan, txns))

    def _without_txns(
        self, scan: Iterable[ScanPart[AuditedRows]], txns: list[Any]
    ) -> Iterator[ScanPart[AuditedRows]]:
        for each in scan:
            yield replace(each, results=list(split_off_txns(each.results, self.env, txns)))


def _changed_ns(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
