"""Changes between two runs of an audit, computed from their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import asdict

from je_tools.audit.environment_list import severity_rank
from je_tools.audit.output_folder import RunFolder, complete_runs
from je_tools.audit.rows import STORE_COLUMNS
from je_tools.audit.table_reading import (
    FILES_AT_ONCE,
    TableRow,
    env_runs,
    open_table,
    rows_in_parts,
    summed,
    table_rows,
)
from je_tools.audit.tables import ENTRY_STATS, ENVIRONMENTS, FILES, FINDINGS
from je_tools.core.escaping import counted
from je_tools.errors import InputError, UsageError
from je_tools.formats.je.types import ERASED_NO
from je_tools.pages.log_fields import SEVERITIES

if TYPE_CHECKING:
    from je_tools.findings import Severity

_PLACE = ("env", "code", "file_no", "offset", *STORE_COLUMNS)
"""Columns that distinguish a finding from all others of its run."""

_NONE = -1


_Tables = Mapping[str, Any]
"""Tables of a run by name, as pyarrow Datasets."""

ENVIRONMENTS_AT_ONCE = 1_000
"""Environments whose rows are held at a time."""

_CHANGES = pa.schema(
    [
        *((name, pa.string()) for name in ("env", "change", "severity_before", "severity")),
        *(
            (name, pa.int64())
            for name in (
                "size",
                "entry_count",
                "erased_size",
                "new_file_count",
                "gone_file_count",
                "new_finding_count",
                "gone_finding_count",
            )
        ),
    ]
)
"""Columns of `EnvironmentChange`."""


class Change(StrEnum):
    """Change of an environment between two runs."""

    NEW = "new"
    GONE = "gone"
    WORSE = "worse"
    BETTER = "better"
    SAME = "same"


class EnvironmentChange(Struct, frozen=True):
    """An environment in two runs.

    Attributes:
        env: its name.
        change: how its worst finding has changed, or that only one run has it.
        severity_before, severity: severities of its worst findings; None in a run that does not
            have it.
        size, entry_count, erased_size: growth from one run to the other: bytes of its files, good
            entries, and bytes of erased entries.
        new_file_count, gone_file_count: log files that only one run has.
        new_finding_count, gone_finding_count: findings that only one run has.
    """

    env: str
    change: Change
    severity_before: str | None
    severity: str | None
    size: int
    entry_count: int
    erased_size: int
    new_file_count: int
    gone_file_count: int
    new_finding_count: int
    gone_finding_count: int

    @property
    def is_changed(self) -> bool:
        """True if anything has changed."""
        return self.change is not Change.SAME or any(
            (
                self.size,
                self.entry_count,
                self.erased_size,
                self.new_file_count,
                self.gone_file_count,
                self.new_finding_count,
                self.gone_finding_count,
            )
        )


class FindingChange(Struct, frozen=True):
    """A finding that only one of two runs has; `node` to `page` are the place in a store."""

    change: Change
    env: str
    severity: str
    code: str
    file_no: int | None
    node: str | None
    file: str | None
    segment: int | None
    page: int | None
    offset: int | None
    found: str | None


class Changes(Struct, frozen=True):
    """Changes from one run to another.

    Attributes:
        before, after: ids of the runs.
        table: environments with changes, the worst first; a pyarrow Table with the attributes of
            `EnvironmentChange`.
        new_findings, gone_findings: pyarrow Tables with the schema of `tables.FINDINGS`.
    """

    before: str
    after: str
    table: Any
    new_findings: Any
    gone_findings: Any

    def environments(self, most: int | None = None) -> Iterator[EnvironmentChange]:
        """Yield the environments with changes, the worst first; at most `most` of them."""
        for batch in self.table.slice(0, most).to_batches(max_chunksize=ENVIRONMENTS_AT_ONCE):
            for row in batch.to_pylist():
                yield EnvironmentChange(**row | {"change": Change(row["change"])})

    @property
    def counts(self) -> dict[str, int]:
        """Number of environments by `Change`, without zeros."""
        found = pc.value_counts(self.table["change"].combine_chunks()).to_pylist()
        counts = {row["values"]: row["counts"] for row in found}
        return {change.value: counts[change.value] for change in Change if change in counts}

    def findings(self) -> Iterator[FindingChange]:
        """Yield the findings that only one run has, the worst first, new ones before gone ones."""
        for change, table in ((Change.NEW, self.new_findings), (Change.GONE, self.gone_findings)):
            for batch in table.to_batches():
                for row in batch.to_pylist():
                    named = {name: row[name] for name in FindingChange.__struct_fields__[1:]}
                    yield FindingChange(change, **named)

    def reaches(self, severity: Severity) -> bool:
        """Return True if a new finding is of this severity or worse, as for `--fail-on`."""
        new = pc.unique(self.new_findings["severity"]).to_pylist()
        return any(severity_rank(each) <= severity_rank(severity.value) for each in new)


def find_changes(folder: Path, names: Sequence[str]) -> Changes:
    """Compare two runs.

    Args:
        folder: folder of audits.
        names: ids of two runs, or of one to compare with the last; none for the last two.

    Raises:
        InputError: the folder has too few runs.
        UsageError: it has no such run.
    """
    return compare_runs(*_chosen(folder, names))


def compare_runs(before: RunFolder, after: RunFolder) -> Changes:
    """Compare two runs, the later of which need not be complete.

    Memory holds the rows of some environments at a time, and one row of each that has changed.
    """
    tables: list[Any] = [_CHANGES.empty_table()]
    new: list[Any] = [FINDINGS.schema.empty_table()]
    gone: list[Any] = [FINDINGS.schema.empty_table()]
    runs = [
        {
            table.name: open_table(run, table)
            for table in (ENVIRONMENTS, FILES, FINDINGS, ENTRY_STATS)
        }
        for run in (before, after)
    ]
    for envs in _parts_of(runs):
        part = _Part(runs, envs)
        changed = [asdict(each) for each in map(part.change, envs) if each.is_changed]
        tables.append(pa.Table.from_pylist(changed, _CHANGES))
        new.append(part.new)
        gone.append(part.gone)
    return Changes(
        before.run, after.run, _ranked(pa.concat_tables(tables)), *map(_sorted, (new, gone))
    )


def _parts_of(runs: Sequence[_Tables]) -> Iterator[list[str]]:
    """Yield the names of the environments of both runs, sorted, in parts of not too many files."""
    columns = ["env", "file_count"]
    both = [ENVIRONMENTS.schema.empty_table().select(columns)]
    for run in runs:
        both += rows_in_parts(run[ENVIRONMENTS.name], columns)
    counts = pa.concat_tables(both).group_by("env", use_threads=False)
    held: list[str] = []
    file_count = 0
    for row in table_rows(counts.aggregate([("file_count", "sum")]).sort_by("env")):
        count = row["file_count_sum"] or 0
        file_count += count
        if held and (len(held) >= ENVIRONMENTS_AT_ONCE or file_count > FILES_AT_ONCE):
            yield held
            held, file_count = [], count
        held.append(row["env"])
    if held:
        yield held


class _Part:
    """Some environments of two runs: all whose names lie in one range of names.

    Attributes:
        new, gone: findings that only the later run has, and that only the earlier one has.
    """

    def __init__(self, runs: Sequence[_Tables], envs: Sequence[str]) -> None:
        # Files have the rows of neighbours together, so a range leaves out most row groups.
        only = (pc.field("env") >= envs[0]) & (pc.field("env") <= envs[-1])
        self.new, self.gone = _only_one_has(runs, only)
        self._rows = [_environments(run, only) for run in runs]
        self._counts = [*_file_changes(runs, only), _by_env(self.new), _by_env(self.gone)]
        self._erased = [_erased(run, only) for run in runs]

    def change(self, env: str) -> EnvironmentChange:
        """Return the change of an environment of one of the runs."""
        was, now = (each.get(env) for each in self._rows)
        new_files, gone_files, new, gone = (each.get(env, 0) for each in self._counts)
        return EnvironmentChange(
            env=env,
            change=_change(was, now),
            severity_before=None if was is None else was["severity"],
            severity=None if now is None else now["severity"],
            size=_number_in(now, "size") - _number_in(was, "size"),
            entry_count=_number_in(now, "entry_count") - _number_in(was, "entry_count"),
            erased_size=self._erased[1].get(env, 0) - self._erased[0].get(env, 0),
            new_file_count=new_files,
            gone_file_count=gone_files,
            new_finding_count=new,
            gone_finding_count=gone,
        )


def _chosen(folder: Path, names: Sequence[str]) -> tuple[RunFolder, RunFolder]:
    runs = complete_runs(folder)
    known = {each.run: each for each in runs}
    for name in names:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise UsageError(f"{name}: {folder} has no such run; there are: {listed}")
    if len(runs) < 2:
        found = counted(len(runs), "run")
        raise InputError(f"{folder}: {found} of an audit; two are needed to compare")
    if not names:
        return runs[-2], runs[-1]
    return known[names[0]], known[names[1]] if len(names) > 1 else runs[-1]


def _rows_in(run: _Tables, table: Any, columns: list[str], only: Any) -> Any:
    parts = rows_in_parts(run[table.name], columns, only)
    return pa.concat_tables([table.schema.empty_table().select(columns), *parts])


def _environments(run: _Tables, only: Any) -> dict[str, TableRow]:
    columns = ["env", "severity", "size", "entry_count"]
    return {row["env"]: row for row in table_rows(_rows_in(run, ENVIRONMENTS, columns, only))}


def _number_in(row: TableRow | None, name: str) -> int:
    return 0 if row is None else int(row[name] or 0)


def _change(was: TableRow | None, now: TableRow | None) -> Change:
    if was is None:
        return Change.NEW
    if now is None:
        return Change.GONE
    before, after = severity_rank(was["severity"]), severity_rank(now["severity"])
    if before == after:
        return Change.SAME
    return Change.WORSE if after < before else Change.BETTER


def _ranked(changes: Any) -> Any:
    """Return changes of environments, the worst first."""
    order = pa.array([Change.WORSE, Change.NEW, Change.GONE, Change.BETTER, Change.SAME])
    severities = pc.index_in(changes["severity"], value_set=pa.array(SEVERITIES))
    ranked = changes.append_column("kind", pc.index_in(changes["change"], value_set=order))
    ranked = ranked.append_column("rank", pc.fill_null(severities, len(SEVERITIES)))
    keys = [("kind", "ascending"), ("rank", "ascending"), ("new_finding_count", "descending")]
    return ranked.sort_by([*keys, ("env", "ascending")]).select(changes.column_names)


def _file_changes(runs: Sequence[_Tables], only: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Count the files of each environment that only one run has: the later, then the earlier.

    Args:
        runs: the earlier, and the later one.
        only: selects the environments.
    """
    counts: tuple[dict[str, int], dict[str, int]] = {}, {}
    was, now = (_file_names(run, only) for run in runs)
    for count, names, others in ((counts[0], now, was), (counts[1], was, now)):
        for env, own in names.items():
            is_known = pc.is_in(own, value_set=others.get(env, own[:0]))
            count[env] = len(own) - pc.sum(is_known).as_py()
    return counts


def _file_names(run: _Tables, only: Any) -> dict[str, Any]:
    """Return the names of the files of some environments, a pyarrow Array for each that has any."""
    table = _rows_in(run, FILES, ["env", "name"], only).sort_by("env")
    names = table["name"].combine_chunks()
    first, size = env_runs(table["env"])
    return {env: names.slice(start, size[env]) for env, start in first.items()}


def _only_one_has(runs: Sequence[_Tables], only: Any) -> tuple[Any, Any]:
    """Return the findings that only one run has: the later, then the earlier."""
    was, now = (_rows_in(run, FINDINGS, FINDINGS.schema.names, only) for run in runs)
    return _without(now, was, _PLACE), _without(was, now, _PLACE)


def _without(table: Any, other: Any, keys: tuple[str, ...]) -> Any:
    """Return the rows of a table whose keys no row of the other has; nulls are equal."""
    left, right = (_filled(each, keys) for each in (table, other))
    numbered = left.append_column("row", pa.array(range(len(left)), pa.int64()))
    only = numbered.join(right, list(keys), join_type="left anti")
    return table.take(only["row"].sort())


def _filled(table: Any, keys: tuple[str, ...]) -> Any:
    columns = [table[name] for name in keys]
    return pa.table(
        [pc.fill_null(each, "" if pa.types.is_string(each.type) else _NONE) for each in columns],
        list(keys),
    )


def _by_env(table: Any) -> dict[str, int]:
    counts = pc.value_counts(table["env"].combine_chunks()).to_pylist()
    return {row["values"]: row["counts"] for row in counts}


def _erased(run: _Tables, only: Any) -> dict[str, int]:
    sums = {"size": (pc.field("total_size"), "sum")}
    erased = only & (pc.field("type_no") == ERASED_NO)
    rows = summed(run[ENTRY_STATS.name], {"env": pc.field("env")}, sums, erased)
    return {row["env"]: row["size"] for row in rows.to_pylist()}


def _sorted(parts: Sequence[Any]) -> Any:
    """Return findings, the worst first."""
    findings = pa.concat_tables(parts)
    ranks = pc.index_in(findings["severity"], value_set=pa.array(SEVERITIES))
    names = ("rank", "env", "file_no", *STORE_COLUMNS, "offset", "code")
    keys = [(name, "ascending") for name in names]
    ranked = findings.append_column("rank", pc.fill_null(ranks, len(SEVERITIES)))
    return ranked.sort_by(keys).drop_columns(["rank"])
