"""Second step of the executors: combine the pieces of each environment, and judge it.

The pieces come in any order, from any executor. The judge is that of `verify`, the rows of files
are those of `files`, and the intervals those of `summary`, so an audit cannot contradict them.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from je_tools.audit import tables as t
from je_tools.audit.reasons import why_unread
from je_tools.audit.staging import (
    AGAIN,
    FACTS,
    TAKEN,
    WHOLE,
    SegmentWriter,
    TableWriter,
    ordered,
)
from je_tools.audit.work import Scanned, Show, Shown, scanner_of, stage
from je_tools.core.escaping import clean_text
from je_tools.errors import InputError
from je_tools.files.listing import FileRow, Listing
from je_tools.findings import CODES, Finding, Severity
from je_tools.formats.je.header import lsn_of
from je_tools.formats.je.tally import COUNT, MAX, MIN, PROVISIONAL, TOTAL
from je_tools.formats.je.types import type_name
from je_tools.log.checkpoint_intervals import CheckpointPart, Interval, intervals
from je_tools.log.scan import Part, join_cuts
from je_tools.verify.consistency import unreadable_findings
from je_tools.verify.judge import Look, of_writer
from je_tools.verify.vlsn_sequence import ROLLBACK

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile
    from je_tools.log.transactions import Rollback

T = TypeVar("T")

SCHEMAS = {
    **{table.name: table.schema for table in t.TABLES},
    "taken": TAKEN,
    "facts": FACTS,
}
"""Schemas of the tables in the staging folder, each in a folder of its name."""


_ALL = (1 << 64) - 1


class Staged:
    """Writers of one task; all its files are below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writers = {name: TableWriter(folder / name, s) for name, s in SCHEMAS.items()}

    def __getitem__(self, name: str) -> TableWriter:
        return self._writers[name]

    def close(self) -> dict[str, str]:
        """Finish all files; return their paths by table name."""
        closed = {name: writer.close() for name, writer in self._writers.items()}
        return {name: str(path) for name, path in closed.items() if path is not None}


def judge_all(
    grouped: Iterable[tuple[int, Iterable[Any]]], names: Sequence[str], folder: Path
) -> Iterator[dict[str, str]]:
    """Judge some environments; yield the files that were written, by table name.

    Args:
        grouped: number of each environment, with its `Environment` and its `Scanned` pieces.
        names: names of the environments in the tables, by number.
        folder: folder where files are staged.
    """
    staged = Staged(folder)
    for env_no, values in grouped:
        pieces: list[Scanned] = []
        environment = None
        for value in values:
            if isinstance(value, Scanned):
                pieces.append(value)
            else:
                environment = value
        assert environment is not None
        _Judging(environment, env_no, names[env_no], staged).judge(pieces)
    yield staged.close()


def finding_row(found: Finding, env: str) -> tuple[Any, ...]:
    """Return a finding as a row of its table."""
    return (
        env,
        found.code,
        found.severity.value,
        found.file_no,
        found.offset,
        found.length,
        _signed(found.lsn),
        _signed(found.resume_lsn),
        *(text if text is None else clean_text(text) for text in (found.expected, found.found)),
        found.hint,
    )


def unread(env: str, reason: str, file_no: int | None = None) -> Finding:
    """Return the finding for something that could not be read."""
    code = CODES["unread"]
    return Finding(code.name, code.severity, env, file_no, found=reason, hint=code.hint)


def fact_row(
    env_no: int,
    values: Mapping[str, Any],
    first_active_lsn: int | None = None,
    rollbacks: Sequence[Rollback] = (),
) -> tuple[Any, ...]:
    """Return the facts of an environment that are known before its transactions are joined.

    Args:
        env_no: number of the environment.
        values: values of the table environments by column; missing ones become zero, or null.
        first_active_lsn, rollbacks: see `transactions.TransactionPart`.
    """
    taken_back = [
        {
            "lsn": _ordered(each.lsn),
            "matchpoint_lsn": _ordered(each.matchpoint_lsn),
            "txn_ids": sorted(each.txn_ids),
        }
        for each in rollbacks
    ]
    active = None if first_active_lsn is None else _ordered(first_active_lsn)
    counts = {f"{severity.value}_count": 0 for severity in Severity} | dict(values)
    worst = (each.value for each in reversed(Severity) if counts[f"{each.value}_count"])
    known = {"severity": next(worst, "ok"), "size": 0, "damaged_size": 0} | counts
    columns = FACTS.names[3:]
    return (env_no, active, taken_back, *(known.get(c, _nothing(c)) for c in columns))


def _nothing(column: str) -> int | None:
    return 0 if column.endswith("_count") else None


def _signed(lsn: int | None) -> int | None:
    """Return the int64 that has the bits of an LSN."""
    return lsn if lsn is None or lsn < 1 << 63 else lsn - (1 << 64)


def _ordered(lsn: int) -> int:
    return int(ordered(_signed(lsn & _ALL)))


class _FileCounts:
    """Counts of one file: entries by type, and runs of VLSNs."""

    def __init__(self) -> None:
        self._stats: dict[int, list[int]] = {}
        self._runs: list[tuple[int, int, int]] = []
        self._is_run_open = False

    def add(self, shown: Shown) -> None:
        """Add the results of some rows, in the order of the file."""
        for type_no, *counts in shown.types.tolist():
            known = self._stats.get(type_no)
            self._stats[type_no] = counts if known is None else _added(known, counts)
        runs = shown.file.judged.runs
        if runs is not None:
            columns = (runs.offset.tolist(), runs.first.tolist(), runs.last.tolist())
            for offset, first, last in zip(*columns, strict=True):
                self._add_run(offset, first, last)

    def _add_run(self, offset: int, first: int, last: int) -> None:
        if first == ROLLBACK:
            self._is_run_open = False
        elif self._is_run_open and first == self._runs[-1][2] + 1:
            self._runs[-1] = (*self._runs[-1][:2], last)
        else:
            self._runs.append((offset, first, last))
            self._is_run_open = True

    def stats_rows(self, env: str, file_no: int) -> Iterator[tuple[Any, ...]]:
        """Yield rows of the table entry_stats."""
        for no, counts in sorted(self._stats.items()):
            total = dict(zip(_COUNTED, counts, strict=True))
            yield (
                *(env, file_no, type_name(no), no, total[COUNT], total[PROVISIONAL]),
                *(total[TOTAL], total[MIN], total[MAX]),
            )

    def run_rows(self, env: str, file_no: int) -> Iterator[tuple[Any, ...]]:
        """Yield rows of the table vlsn_ranges."""
        for offset, first, last in self._runs:
            yield env, file_no, _signed(lsn_of(file_no, offset)), first, last, last - first + 1


_COUNTED = (COUNT, TOTAL, MIN, MAX, PROVISIONAL)


def _added(known: list[int], new: list[int]) -> list[int]:
    how = {MIN: min, MAX: max}
    return [
        how.get(column, operator.add)(a, b)
        for column, a, b in zip(_COUNTED, known, new, strict=True)
    ]


class _Judging:
    """Judgement of one environment, up to its rows in the tables."""

    def __init__(self, environment: Environment, env_no: int, env: str, staged: Staged) -> None:
        self.environment = environment
        self.env_no = env_no
        self.env = env
        self.staged = staged
        self._listing = Listing(environment)
        self._checkpoints: list[CheckpointPart] = []
        self._first_active_lsn: int | None = None
        self._rollbacks: list[Rollback] = []
        self._ended: dict[str, list[int]] = {}
        self._severities: Counter[str] = Counter()
        self._counts = _FileCounts()
        # Size of the last file as it was read: an engine that has the log open writes to it.
        self._last_size = environment.files[-1].size

    def judge(self, pieces: list[Scanned]) -> None:
        """Judge all pieces in log order, and write the rows of the environment."""
        pieces.sort(key=lambda piece: (piece.index, piece.cut))
        for index, of_file in groupby(pieces, key=lambda piece: piece.index):
            file = self.environment.files[index]
            try:
                self._take_file(file, index, list(of_file))
            except Exception as error:
                found = unread(self.env, why_unread(error), file.file_no)
                self._find([found])
                self._listing.pass_over(file)
                self._listing.rows[-1].tell([found], 1)
            staged = self.staged
            staged["entry_stats"].extend(self._counts.stats_rows(self.env, file.file_no))
            staged["vlsn_ranges"].extend(self._counts.run_rows(self.env, file.file_no))
            self._counts = _FileCounts()
        self._find(self._tried(self._listing.finish))
        self._take_closed()
        self._find(self._tried(lambda: of_writer(self.environment, self._last_size)))
        self._write_rest()

    def _take_closed(self) -> None:
        """Add rows and findings of files that the system does not open."""
        rows = self._listing.rows
        closed = self.environment.unreadable
        for file, found in zip(closed, unreadable_findings(self.environment), strict=True):
            rows.append(FileRow(file.as_log_file()))
            rows[-1].tell([found], 1)
            self._find([found])
        rows.sort(key=lambda row: (row.file.file_no, str(row.file.path)))

    def _tried(self, work: Callable[[], Iterable[T]]) -> list[T]:
        """Return the results of `work`; if it fails, nothing, and add a finding."""
        try:
            return list(work())
        except Exception as error:
            self._find([unread(self.env, why_unread(error))])
            return []

    def _take_file(self, file: LogFile, index: int, pieces: list[Scanned]) -> None:
        failure = next((piece.failure for piece in pieces if piece.failure), None)
        if failure is not None:
            raise InputError(failure)
        for part in self._parts(file, index, pieces):
            # The judge compares files by identity, and each piece has a copy.
            part = replace(part, file=file)
            self._find(self._listing.take(part, [shown.file for shown in part.results]))
            for shown in part.results:
                self._show(shown)
            if part.end is not None and index == len(self.environment.files) - 1:
                self._last_size = part.end.size

    def _parts(self, file: LogFile, index: int, pieces: list[Scanned]) -> Iterator[Part[Shown]]:
        """Yield the parts of a file, and list the segments that count."""
        if len(pieces) == 1:
            self._taken(file, pieces[0], WHOLE)
            yield from pieces[0].parts
            return
        look = Look.of(self.environment)
        outcomes = [piece.outcome for piece in pieces if piece.outcome is not None]
        scanner = scanner_of(len(pieces))
        place = (self.env_no, index, AGAIN)
        writer = SegmentWriter(self.staged.folder, 1)
        for cut, part in join_cuts(file, outcomes, scanner, Show(look)):
            if cut is not None:
                self._taken(file, pieces[cut], cut)
                yield part
            else:
                yield replace(part, results=list(stage(part.results, writer, place, self.env)))
        writer.close()
        again = Scanned(index, (0, 1), writer.attempt, writer.count)
        self._taken(file, again, AGAIN)

    def _taken(self, file: LogFile, piece: Scanned, cut: int) -> None:
        place = (self.env_no, piece.index, cut, piece.attempt)
        self.staged["taken"].add((*place, self.env, file.file_no, piece.piece_count))

    def _find(self, findings: Iterable[Finding]) -> None:
        for each in findings:
            self._severities[f"{each.severity.value}_count"] += 1
            self.staged["findings"].add(finding_row(each, self.env))

    def _show(self, shown: Shown) -> None:
        self._checkpoints.append(shown.checkpoints)
        if shown.first_active_lsn is not None:
            self._first_active_lsn = shown.first_active_lsn
        self._rollbacks += shown.rollbacks
        for outcome, *sums, last_ms in shown.ended:
            known = self._ended.setdefault(outcome, [0] * len(sums) + [last_ms])
            added = map(operator.add, known, sums)
            self._ended[outcome] = [*added, max(known[-1], last_ms)]
        self._counts.add(shown)

    def _write_rest(self) -> None:
        """Write the rows that need all files."""
        self.staged["files"].extend(_file_row(row, self.env) for row in self._listing.rows)
        found = self._tried(lambda: intervals(self._checkpoints, self.environment))
        self.staged["checkpoints"].extend(_interval_row(each, self.env) for each in found)
        ended = sorted(self._ended.items())
        self.staged["txn_stats"].extend((self.env, name, *sums) for name, sums in ended)
        values = {
            "env": self.env,
            "damaged_size": self._listing.totals.damaged_size,
            **self._severities,
            **_of_files(self._listing.rows),
            **_of_checkpoints([each for each in found if each.complete]),
        }
        fact = fact_row(self.env_no, values, self._first_active_lsn, self._rollbacks)
        self.staged["facts"].add(fact)


def _of_files(rows: Sequence[FileRow]) -> dict[str, Any]:
    """Sum up the files of an environment."""
    rows = sorted(rows, key=lambda row: row.file.file_no)
    return {
        "file_count": len(rows),
        "size": sum(row.file.size for row in rows),
        "entry_count": sum(row.entry_count for row in rows),
        "first_file_no": rows[0].file.file_no,
        "last_file_no": rows[-1].file.file_no,
        "versions": sorted({row.version for row in rows if row.version is not None}),
        "first_created_ms": _created_ms(rows[0]),
        "last_created_ms": _created_ms(rows[-1]),
        "first_vlsn": min(
            (row.first_vlsn for row in rows if row.first_vlsn is not None), default=None
        ),
        "last_vlsn": max(
            (row.last_vlsn for row in rows if row.last_vlsn is not None), default=None
        ),
    }


def _of_checkpoints(complete: Sequence[Interval]) -> dict[str, Any]:
    if not complete:
        return {}
    return {
        "checkpoint_count": len(complete),
        "last_checkpoint_lsn": _signed(complete[-1].end_lsn & _ALL),
        "last_checkpoint_ms": complete[-1].end_ms,
    }


def _created_ms(row: FileRow) -> int | None:
    return row.file.header.created_ms if row.file.header.good else None


def _file_row(row: FileRow, env: str) -> tuple[Any, ...]:
    return (
        *(env, row.file.file_no, clean_text(row.name), row.file.size, row.version),
        _created_ms(row),
        *(row.entry_count, row.damage_count, _signed(row.first_lsn), _signed(row.last_lsn)),
        *(row.first_vlsn, row.last_vlsn, row.old_delta_count),
        *(row.written_by, row.opened_from, row.not_opened_by),
    )


def _interval_row(interval: Interval, env: str) -> tuple[Any, ...]:
    counts = (interval.ln_txn, interval.ln, interval.map_ln_txn, interval.map_ln)
    return (
        *(env, _signed(interval.end_lsn & _ALL), interval.complete),
        None if interval.start_lsn is None else _signed(interval.start_lsn & _ALL),
        *(interval.start_ms, interval.end_ms),
        None if interval.invoker is None else clean_text(interval.invoker),
        *(sum(counts), interval.max_ln_replay, interval.end_to_end),
    )
