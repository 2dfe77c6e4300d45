"""Second step of the executors: combine the pieces of each environment, and judge it.

The pieces come in any order, from any executor. The judge is that of `verify`, the rows of files
are those of `files`, and the intervals those of `summary`, so an audit cannot contradict them.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from je_tools.audit.file_counts import FileCounts
from je_tools.audit.read_logs import ReadLog
from je_tools.audit.reasons import why_unread
from je_tools.audit.rows import (
    fact_row,
    file_row,
    finding_row,
    interval_row,
    sum_checkpoints,
    sum_files,
    unread,
)
from je_tools.audit.staged_members import MembersWriter
from je_tools.audit.staged_tables import StagedTables
from je_tools.audit.staging import AGAIN, WHOLE, SegmentWriter
from je_tools.audit.work import Scanned, Show, Shown, scanner_of, stage
from je_tools.errors import InputError
from je_tools.files.listing import FileRow, Listing
from je_tools.log.checkpoint_intervals import CheckpointPart, intervals
from je_tools.log.file_findings import unreadable_findings
from je_tools.log.scan import join_cuts
from je_tools.verify.judge import RowInspector, of_directory

if TYPE_CHECKING:
    from je_tools.audit.read_logs import Weighed
    from je_tools.findings import Finding
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import ScanPart
    from je_tools.log.log_files import LogFile
    from je_tools.log.transactions import Rollback
    from je_tools.vlsn.quick_check import Period


T = TypeVar("T")
Weigh = Callable[[ReadLog], "Weighed"]


def judge_all(
    grouped: Iterable[tuple[int, Iterable[Any]]],
    names: Sequence[str],
    folder: Path,
    *,
    weigh: Weigh | None = None,
) -> Iterator[dict[str, str]]:
    """Judge some environments; yield the files that were written, by table name.

    Args:
        grouped: number of each environment, with its `Environment` and its `Scanned` pieces.
        names: names of the environments in the tables, by number.
        folder: folder where files are staged.
        weigh: finds the stakes of an environment (`weighing.Weigher`); None to leave them out.
    """
    staged = StagedTables(folder)
    members = MembersWriter(staged["members"])
    for env_no, values in grouped:
        pieces: list[Scanned] = []
        environment = None
        for value in values:
            if isinstance(value, Scanned):
                pieces.append(value)
            else:
                environment = value
        assert environment is not None
        judging = _Judging(environment, env_no, names[env_no], staged)
        judging.judge(pieces)
        if weigh is not None:
            judging.add_stakes(weigh, members)
        judging.write_facts()
    members.flush()
    yield staged.close()


class _Judging:
    """Judgement of one environment, up to its rows in the tables."""

    def __init__(
        self, environment: Environment, env_no: int, env: str, staged: StagedTables
    ) -> None:
        self.environment = environment
        self.env_no = env_no
        self.env = env
        self.staged = staged
        self._listing = Listing(environment)
        self._checkpoints: list[CheckpointPart] = []
        self._first_active_lsn: int | None = None
        self._rollbacks: list[Rollback] = []
        self._ended: dict[str, list[int]] = {}
        self._findings: list[Finding] = []
        self._periods: list[Period] = []
        self._severities: Counter[str] = Counter()
        self._values: dict[str, Any] = {}
        self._counts = FileCounts()
        # Size of the last file as it was read: an engine that has the log open writes to it.
        self._last_size = environment.files[-1].size

    def judge(self, pieces: list[Scanned]) -> None:
        """Judge all pieces in log order, and write the rows of the environment."""
        pieces.sort(key=lambda piece: (piece.index, piece.cut))
        for index, of_file in groupby(pieces, key=lambda piece: piece.index):
            file = self.environment.files[index]
            try:
                self._judge_file(file, index, list(of_file))
            except Exception as error:
                found = unread(self.env, why_unread(error), file.file_no)
                self._find([found])
                self._listing.pass_over(file)
                self._listing.rows[-1].add_findings([found], 1)
            staged = self.staged
            staged["entry_stats"].extend(self._counts.stats_rows(self.env, file.file_no))
            staged["vlsn_ranges"].extend(self._counts.run_rows(self.env, file.file_no))
            self._counts = FileCounts()
        self._find(self._tried(self._listing.finish))
        self._add_unreadable()
        of_home = self._tried(lambda: of_directory(self.environment, self._last_size))
        for each in of_home:
            self._listing.totals.count(each)
        self._find(of_home)
        self._write_rest()

    def add_stakes(self, weigh: Weigh, members: MembersWriter) -> None:
        """Add what is at stake, found with what was read of the log."""
        read = ReadLog(self.environment, self.env, self._listing, self._findings, self._periods)
        weighed = weigh(read)
        self._find(weighed.findings)
        self.staged["space"].extend(weighed.files)
        if weighed.member is not None:
            members.add(weighed.member)
        self._values |= weighed.values

    def write_facts(self) -> None:
        """Write the row of the environment, after all its findings."""
        values = {"env": self.env, **self._values, **self._severities}
        fact = fact_row(self.env_no, values, self._first_active_lsn, self._rollbacks)
        self.staged["facts"].add(fact)

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
            self._find([unread(self.env, why_unread(error))])
            return []

    def _judge_file(self, file: LogFile, index: int, pieces: list[Scanned]) -> None:
        failure = next((piece.failure for piece in pieces if piece.failure), None)
        if failure is not None:
            raise InputError(failure)
        for part in self._parts(file, index, pieces):
            # The judge compares files by identity, and each piece has a copy.
            part = replace(part, file=file)
            self._find(self._listing.merge(part, [shown.file for shown in part.results]))
            for shown in part.results:
                self._show(shown)
            if part.end is not None and index == len(self.environment.files) - 1:
                self._last_size = part.end.size

    def _parts(self, file: LogFile, index: int, pieces: list[Scanned]) -> Iterator[ScanPart[Shown]]:
        """Yield the parts of a file, and list the segments that count."""
        if len(pieces) == 1:
            self._count_piece(file, pieces[0], WHOLE)
            yield from pieces[0].parts
            return
        inspector = RowInspector.of(self.environment)
        outcomes = [piece.outcome for piece in pieces if piece.outcome is not None]
        scanner = scanner_of(len(pieces))
        place = (self.env_no, index, AGAIN)
        writer = SegmentWriter(self.staged.folder, 1)
        for cut, part in join_cuts(file, outcomes, scanner, Show(inspector)):
            if cut is not None:
                self._count_piece(file, pieces[cut], cut)
                yield part
            else:
                yield replace(part, results=list(stage(part.results, writer, place, self.env)))
        writer.close()
        again = Scanned(index, (0, 1), writer.attempt, writer.count)
        self._count_piece(file, again, AGAIN)

    def _count_piece(self, file: LogFile, piece: Scanned, cut: int) -> None:
        place = (self.env_no, piece.index, cut, piece.attempt)
        self.staged["taken"].add((*place, self.env, file.file_no, piece.piece_count))

    def _find(self, findings: Iterable[Finding]) -> None:
        for each in findings:
            self._findings.append(each)
            self._severities[f"{each.severity.value}_count"] += 1
            self.staged["findings"].add(finding_row(each, self.env))

    def _show(self, shown: Shown) -> None:
        self._checkpoints.append(shown.checkpoints)
        if shown.first_active_lsn is not None:
            self._first_active_lsn = shown.first_active_lsn
        self._rollbacks += shown.rollbacks
        self._periods += shown.file.judged.periods
        for outcome, *sums, last_ms in shown.ended:
            known = self._ended.setdefault(outcome, [0] * len(sums) + [last_ms])
            added = map(operator.add, known, sums)
            self._ended[outcome] = [*added, max(known[-1], last_ms)]
        self._counts.add(shown)

    def _write_rest(self) -> None:
        """Write the rows that need all files."""
        self.staged["files"].extend(file_row(row, self.env) for row in self._listing.rows)
        found = self._tried(lambda: intervals(self._checkpoints, self.environment))
        self.staged["checkpoints"].extend(interval_row(each, self.env) for each in found)
        ended = sorted(self._ended.items())
        self.staged["txn_stats"].extend((self.env, name, *sums) for name, sums in ended)
        self._values |= {
            "damaged_size": self._listing.totals.damaged_size,
            **sum_files(self._listing.rows),
            **sum_checkpoints([each for each in found if each.complete]),
        }
