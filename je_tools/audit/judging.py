"""Judgement of an environment: its parts combined in log order, up to its rows in the tables.

The judge is that of `verify`, the rows of files are those of `files`, and the intervals those of
`summary`, so an audit cannot contradict them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow.parquet as pq
from msgspec.structs import replace

from je_tools.audit.audited_rows import (
    AuditedRows,
    RowAuditor,
    ScannedPart,
    scanner_of,
    split_off_txns,
)
from je_tools.audit.file_counts import FileCounts
from je_tools.audit.joining import OpenTransactions
from je_tools.audit.judged_log import FindStakes, JudgedLog
from je_tools.audit.reasons import why_unread
from je_tools.audit.rows import (
    UNKNOWN_TXNS,
    environment_row,
    file_row,
    finding_row,
    interval_row,
    sum_checkpoints,
    sum_files,
    unread_finding,
)
from je_tools.audit.staged_rows import StagedRows
from je_tools.audit.table_writer import write_txns
from je_tools.audit.txn_sums import TxnSums
from je_tools.errors import InputError
from je_tools.files.listing import FileRow, Listing
from je_tools.log.checkpoint_intervals import CheckpointPart, intervals
from je_tools.log.file_findings import unreadable_findings
from je_tools.log.scan import join_cuts
from je_tools.verify.judge import of_directory

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.audit.part_scan import PartScanner
    from je_tools.audit.tables import ResultSource
    from je_tools.findings import Finding
    from je_tools.log.file_scan import ScanPart
    from je_tools.log.log_files import LogFile
    from je_tools.verify.odd_flags import Period

T = TypeVar("T")


def judge(
    scanner: PartScanner,
    scanned: Iterable[ScannedPart],
    folder: Path,
    stakes_of: FindStakes | None = None,
) -> StagedRows:
    """Judge an environment, and return its rows.

    Args:
        scanner: scanner of its parts.
        scanned: all its parts, in log order; each is used before the next is asked for.
        folder: folder where transactions are staged.
        stakes_of: finds the stakes of an environment (`stake_finder.StakeFinder`); None to leave
            them out.
    """
    return _Judging(scanner, folder, stakes_of).judge(scanned)


class _Judging:
    """Judgement of one environment, up to its rows in the tables."""

    def __init__(self, scanner: PartScanner, folder: Path, stakes_of: FindStakes | None) -> None:
        environment = scanner.environment
        self.scanner = scanner
        self.environment = environment
        self.env = scanner.env
        self.folder = folder
        self.stakes_of = stakes_of
        self.found = StagedRows()
        self._listing = Listing(environment)
        self._checkpoints: list[CheckpointPart] = []
        self._open = OpenTransactions()
        self._sums = TxnSums()
        self._findings: list[Finding] = []
        self._periods: list[Period] = []
        self._severities: Counter[str] = Counter()
        self._values: dict[str, Any] = {}
        self._counts = FileCounts()
        self._sources: dict[Path, ResultSource] = {}
        # Size of the last file as it was read: an engine that has the log open writes to it.
        self._last_size = environment.files[-1].size

    def judge(self, scanned: Iterable[ScannedPart]) -> StagedRows:
        """Judge all parts in log order, and return the rows of the environment."""
        for index, of_file in groupby(scanned, key=lambda each: each.index):
            file = self.environment.files[index]
            try:
                self._judge_file(file, index, list(of_file))
            except Exception as error:
                found = unread_finding(self.env, why_unread(error), file.file_no)
                self._add_findings([found])
                self._listing.pass_over(file)
                self._listing.rows[-1].add_findings([found], 1)
            self.found.extend("entry_stats", self._counts.stats_rows(self.env, file.file_no))
            self.found.extend("vlsn_ranges", self._counts.run_rows(self.env, file.file_no))
            self._counts = FileCounts()
        self._add_findings(self._tried(self._listing.finish))
        self._add_unreadable()
        of_home = self._tried(lambda: of_directory(self.environment, self._last_size))
        for each in of_home:
            self._listing.totals.count(each)
        self._add_findings(of_home)
        self._add_rest()
        if self.stakes_of is not None:
            self._add_stakes(self.stakes_of)
        values = self._values | self._severities
        self.found.extend("environments", [environment_row(self.env, values)])
        return self.found

    def _add_stakes(self, stakes_of: FindStakes) -> None:
        """Add what is at stake, found with what was read of the log."""
        read = JudgedLog(self.environment, self.env, self._listing, self._findings, self._periods)
        stakes = stakes_of(read)
        self._add_findings(stakes.findings)
        self.found.extend("space", stakes.files)
        if stakes.member is not None:
            self.found.add_member(stakes.member)
        self._values |= stakes.values

    def _add_unreadable(self) -> None:
        """Add rows of files that the system does not open; the judge has their findings."""
        rows = self._listing.rows
        closed = self.environment.unreadable
        for file, found in zip(closed, unreadable_findings(self.environment), strict=True):
            rows.append(FileRow(file.as_log_file()))
            rows[-1].add_findings([found], 1)
        rows.sort(key=lambda row: (row.file.file_no, str(row.file.path)))

    def _tried(self, work: Callable[[], Iterable[T]]) -> list[T]:
        """Return the results of `work`; if it fails, nothing, and add a finding."""
        try:
            return list(work())
        except Exception as error:
            self._add_findings([unread_finding(self.env, why_unread(error))])
            return []

    def _judge_file(self, file: LogFile, index: int, parts: list[ScannedPart]) -> None:
        failure = next((part.failure for part in parts if part.failure), None)
        if failure is not None:
            raise InputError(failure)
        self._sources[file.path] = parts[0].source
        for part in self._parts(file, parts):
            # The judge compares files by identity, and parts from other processes have copies.
            part = replace(part, file=file)
            self._add_findings(self._listing.merge(part, [shown.file for shown in part.results]))
            for shown in part.results:
                self._add_rows(shown)
            if part.end is not None and index == len(self.environment.files) - 1:
                self._last_size = part.end.size

    def _parts(
        self, file: LogFile, parts: Sequence[ScannedPart]
    ) -> Iterator[ScanPart[AuditedRows]]:
        """Yield the parts of a file, and keep the transactions of those that count."""
        if parts[0].outcome is None:
            self.found.txns += parts[0].txns
            yield from parts[0].parts
            return
        outcomes = [part.outcome for part in parts if part.outcome is not None]
        show = RowAuditor(self.scanner.inspector)
        again: list[Any] = []
        joined: list[ScanPart[AuditedRows]] = []
        paths: list[str | None] = []
        for cut, part in join_cuts(file, outcomes, scanner_of(len(parts), show), show):
            if cut is not None:
                paths.append(parts[cut].txns_path)
                joined.append(part)
            else:
                # A range that did not begin where the one before it ended was read again.
                results = list(split_off_txns(part.results, self.env, again))
                joined.append(replace(part, results=results))
            yield joined[-1]
        paths.append(write_txns(self.folder, again))
        written = [path for path in paths if path is not None]
        self.found.txn_paths += written
        self.scanner.keep(parts, joined, (pq.read_table(path) for path in written))

    def _add_findings(self, findings: Iterable[Finding]) -> None:
        for each in findings:
            self._findings.append(each)
            self._severities[f"{each.severity.value}_count"] += 1
            self.found.extend("findings", [finding_row(each, self.env)])

    def _add_rows(self, shown: AuditedRows) -> None:
        self._checkpoints.append(shown.checkpoints)
        if shown.first_active_lsn is not None:
            self._open.first_active_lsn = shown.first_active_lsn
        self._open.rollbacks += shown.rollbacks
        self._open.parts.append(shown.segments)
        self._periods += shown.file.judged.periods
        self._sums.add(shown.ended)
        self._counts.add(shown)

    def _add_rest(self) -> None:
        """Add the rows that need all files."""
        rows = self._listing.rows
        sources = [self._sources.get(row.file.path) for row in rows]
        self.found.extend("files", map(file_row, rows, repeat(self.env), sources))
        found = self._tried(lambda: intervals(self._checkpoints, self.environment))
        self.found.extend("checkpoints", (interval_row(each, self.env) for each in found))
        for joined in self._tried(lambda: [self._open.joined(self.env)]):
            self.found.txns.append(joined)
            self._sums.add_rows(joined)
        self.found.extend("txn_stats", self._sums.rows(self.env))
        self._values |= {
            "damaged_size": self._listing.totals.damaged_size,
            **(self._sums.counts if self._sources else UNKNOWN_TXNS),
            **sum_files(self._listing.rows),
            **sum_checkpoints([each for each in found if each.complete]),
        }
