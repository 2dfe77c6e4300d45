"""Summary: totals of a log by entry type, file, database, checkpoint and transaction.

Threads count the entries of ranges, in columns. The parts are added in log order.

Source: StatsFileReader, VLSNDistributionReader, JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.findings import Finding, Severity
from je_tools.formats.je.entry.steps import of_users, programs
from je_tools.formats.je.header import lsn_of
from je_tools.formats.je.log.tally import BROKEN, COUNT, TOTAL, Tally, tally_rows
from je_tools.formats.je.log.walk import NO_OFFSET
from je_tools.formats.je.types import ENTRY_TYPES, Group, mask_of
from je_tools.log.checkpoint_intervals import MARK_TYPES as CHECKPOINT_TYPES
from je_tools.log.checkpoint_intervals import (
    CheckpointPart,
    Interval,
    collect_checkpoints,
    intervals,
)
from je_tools.log.names import NAMING_TYPES, NamePart, collect_names, resolve
from je_tools.log.references import read_references
from je_tools.log.transactions import MARK_TYPES as TRANSACTION_TYPES
from je_tools.log.transactions import TransactionPart, Transactions, collect_transactions
from je_tools.verify.judge import InspectedRows, Judge
from je_tools.verify.totals import Damage, Totals
from je_tools.verify.watched_entries import watched_entries

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows, WantedEntries
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import ScanPart
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner

ENTRIES, BYTES, LNS, LN_BYTES, INS, IN_BYTES, KEY_BYTES, DATA_BYTES = range(8)
"""Columns of a database's totals. KEY_BYTES and DATA_BYTES count only user records."""

KEPT_FINDINGS = 1000
"""Largest number of findings that are kept; `verify` reports all."""

NO_DATABASE = None
"""Key of entries that belong to no database: commits, checkpoints, traces and others."""


def types_of(group: Group) -> Mask:
    """Return the entry types of a group: bool (256,)."""
    return mask_of(each.no for each in ENTRY_TYPES.values() if group in each.groups)


_LN_TYPES, _IN_TYPES = types_of(Group.LN), types_of(Group.IN)
_OF_DATABASE = _LN_TYPES | _IN_TYPES
_USER_TYPES = mask_of(each.no for each in ENTRY_TYPES.values() if each.user_ln)


class SummaryOptions(Struct, frozen=True):
    """Totals to compute besides those of types and files.

    Attributes:
        databases: totals by database.
        vlsns: VLSNs of each file.
        checkpoints: checkpoint intervals.
        largest: number of largest transactions to list, besides all that have no end; None to list
            no transactions.
    """

    databases: bool = False
    vlsns: bool = False
    checkpoints: bool = False
    largest: int | None = None


class Vlsns(Struct):
    """Replicated entries: their number, and the first and last VLSN in log order.

    Entries that a rollback undid are counted, as in the engine's tool.
    """

    count: int = 0
    first: int | None = None
    last: int | None = None

    def add(self, other: Vlsns) -> None:
        """Add later entries."""
        self.count += other.count
        self.first = other.first if self.first is None else self.first
        self.last = self.last if other.last is None else other.last


class RangePart(Struct, frozen=True):
    """Totals of one range; None for totals that are not wanted."""

    tally: Tally
    judged: InspectedRows
    first_lsn: int | None
    last_lsn: int | None
    databases: dict[int | None, Ints] | None
    names: NamePart | None
    vlsns: Vlsns | None
    checkpoints: CheckpointPart | None
    transactions: TransactionPart | None


class FileTotals(Struct):
    """One file: its tally, the LSNs of its first and last good entry, and its VLSNs."""

    file: LogFile
    tally: Tally = field(default_factory=Tally)
    first_lsn: int | None = None
    last_lsn: int | None = None
    vlsns: Vlsns = field(default_factory=Vlsns)


class Summary(Struct):
    """The totals of a log, without damaged entries.

    Attributes:
        tally: counts and bytes by type, and of keys and values.
        files: totals of files, in log order.
        databases: int64 (8,) by database id, columns from ENTRIES on; together they hold every
            entry. Empty if not wanted.
        names: database names by id.
        intervals: checkpoint intervals, the last up to the end of the log.
        transactions: None if not wanted.
        totals: counts of a verification: damage, and other findings.
        findings: the first `KEPT_FINDINGS` errors and warnings.
    """

    tally: Tally = field(default_factory=Tally)
    files: list[FileTotals] = field(default_factory=list)
    databases: dict[int | None, Ints] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    intervals: list[Interval] = field(default_factory=list)
    transactions: Transactions | None = None
    totals: Totals = field(default_factory=lambda: Totals(""))
    findings: list[Finding] = field(default_factory=list)

    @property
    def damage(self) -> Damage:
        """Errors that `verify` finds."""
        return self.totals.damage

    def add_findings(self, found: Iterable[Finding]) -> None:
        """Keep the first `KEPT_FINDINGS` errors and warnings; `totals` counts all findings."""
        chosen = (each for each in found if each.severity is not Severity.NOTE)
        self.findings += islice(chosen, KEPT_FINDINGS - len(self.findings))

    @property
    def undecoded(self) -> int:
        """Number of user records that end inside a field: their keys and data are not counted."""
        return int(self.tally.sizes[BROKEN, COUNT])

    @property
    def entries(self) -> int:
        """Number of entries."""
        return int(self.tally.types[:, COUNT].sum())

    @property
    def size(self) -> int:
        """Bytes of all entries, including headers."""
        return int(self.tally.types[:, TOTAL].sum())


def summarize(environment: Environment, scanner: Scanner, wanted: SummaryOptions) -> Summary:
    """Read a log once and return the wanted totals.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    summary = Summary(totals=Totals(environment.name))
    judge = Judge(environment, summary.totals)
    if wanted.largest is not None:
        summary.transactions = Transactions(wanted.largest)
    names: list[NamePart] = []
    checkpoints: list[CheckpointPart] = []
    asked = partial(_asked, judge, wanted)
    segmented = wanted.largest is not None
    scanner = replace(scanner, asked=asked, watched=watched_entries, segmented=segmented)
    for part in scanner.scan(environment, lambda rows: _collect(rows, wanted, judge)):
        _add_part(summary, part)
        summary.add_findings(judge.merge(part, [result.judged for result in part.results]))
        names += [result.names for result in part.results if result.names]
        checkpoints += [result.checkpoints for result in part.results if result.checkpoints]
    summary.add_findings(judge.finish())
    for file in summary.files:
        summary.tally.add(file.tally)
    summary.names = resolve(names)
    summary.intervals = intervals(checkpoints, environment)
    return summary


def _asked(judge: Judge, wanted: SummaryOptions, file: LogFile) -> WantedEntries | None:
    """Return the entries to read as rows; None for all."""
    asked = judge.inspector.asked(file)
    if asked is None or wanted.databases:
        return None
    types = asked.types
    if wanted.checkpoints:
        types = types | CHECKPOINT_TYPES
    if wanted.largest is not None:
        types = types | TRANSACTION_TYPES | NAMING_TYPES
    sizes = programs(file.version, of_users)
    return replace(asked, types=types, is_tallied=True, programs=sizes)


def _collect(rows: Rows, wanted: SummaryOptions, judge: Judge) -> RangePart:
    named = wanted.databases or wanted.largest is not None
    first_lsn, last_lsn = _ends(rows)
    return RangePart(
        tally=tally_rows(rows),
        judged=judge.inspector(rows),
        first_lsn=first_lsn,
        last_lsn=last_lsn,
        databases=_by_database(rows) if wanted.databases else None,
        names=collect_names(rows) if named else None,
        vlsns=_vlsns(rows) if wanted.vlsns else None,
        checkpoints=collect_checkpoints(rows) if wanted.checkpoints else None,
        transactions=(
            None if wanted.largest is None else collect_transactions(rows, wanted.largest)
        ),
    )


def _ends(rows: Rows) -> tuple[int | None, int | None]:
    """Return the LSNs of the first and the last good row, or None."""
    first, last = rows.survey.first, rows.survey.last
    if first == NO_OFFSET:
        return None, None
    return lsn_of(rows.file_no, first), lsn_of(rows.file_no, last)


def _vlsns(rows: Rows) -> Vlsns:
    replicated = np.flatnonzero(rows.replicated & rows.good)
    if not len(replicated):
        return Vlsns()
    first, last = rows.vlsn[replicated[[0, -1]]].tolist()
    return Vlsns(len(replicated), first, last)


def _by_database(rows: Rows) -> dict[int | None, Ints]:
    """Return the totals of these rows by database, int64 (8,) each."""
    found = read_references(rows, _OF_DATABASE, ("db_id",), ("key", "data"))
    rows_with_db = found.present["db_id"]
    ids, place = np.unique(found.numbers["db_id"][rows_with_db], return_inverse=True)
    group = np.full(len(rows), len(ids))
    group[rows_with_db] = place
    good = rows.good
    sizes = rows.size
    user = _USER_TYPES[rows.type]
    totals = np.zeros((len(ids) + 1, 8), np.int64)

    def fill(count: int | None, total: int, mask: Mask, size: Ints) -> None:
        chosen = group[mask]
        if count is not None:
            totals[:, count] = np.bincount(chosen, minlength=len(totals))
        # Sums of a range are far below 2 ** 53, so float64 is exact.
        totals[:, total] = np.bincount(chosen, weights=size[mask], minlength=len(totals))

    fill(ENTRIES, BYTES, good, sizes)
    fill(LNS, LN_BYTES, good & _LN_TYPES[rows.type], sizes)
    fill(INS, IN_BYTES, good & _IN_TYPES[rows.type], sizes)
    for name, column in (("key", KEY_BYTES), ("data", DATA_BYTES)):
        fill(None, column, user & (found.sizes[name] > 0), found.sizes[name])
    keys: list[int | None] = [*ids.tolist(), NO_DATABASE]
    return {key: line for key, line in zip(keys, totals, strict=True) if line[ENTRIES]}


def _add_part(summary: Summary, part: ScanPart[RangePart]) -> None:
    if not summary.files or summary.files[-1].file is not part.file:
        summary.files.append(FileTotals(part.file))
    file = summary.files[-1]
    for result in part.results:
        _add_to_file(file, result)
        if result.transactions and summary.transactions:
            summary.transactions.add(result.transactions)
        _add_databases(summary.databases, (result.databases or {}).items())


def _add_to_file(file: FileTotals, result: RangePart) -> None:
    file.tally.add(result.tally)
    if file.first_lsn is None:
        file.first_lsn = result.first_lsn
    if result.last_lsn is not None:
        file.last_lsn = result.last_lsn
    if result.vlsns:
        file.vlsns.add(result.vlsns)


def _add_databases(totals: dict[int | None, Ints], more: Iterable[tuple[int | None, Ints]]) -> None:
    for db_id, line in more:
        known = totals.get(db_id)
        if known is None:
            totals[db_id] = line.copy()
        else:
            known += line
