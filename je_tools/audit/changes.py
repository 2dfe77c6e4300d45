"""Changes between two runs of an audit, computed from their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from je_tools.audit.fleet import severity_rank
from je_tools.audit.output_folder import RunFolder, complete_runs
from je_tools.audit.rows import STORE_COLUMNS
from je_tools.audit.table_reading import (
    FILES_AT_ONCE,
    env_runs,
    open_table,
    rows_in_parts,
    summed,
)
from je_tools.audit.tables import ENTRY_STATS, ENVIRONMENTS, FILES, FINDINGS
from je_tools.core.escaping import counted
from je_tools.core.shares import shares_of
from je_tools.errors import InputError, UsageError
from je_tools.formats.je.types import ERASED_NO

if TYPE_CHECKING:
    from je_tools.findings import Severity

_PLACE = ("env", "code", "file_no", "offset", *STORE_COLUMNS)
"""Columns that distinguish a finding from all others of its run."""

_NONE = -1


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
        severity_before, severity: its worst findings; None in a run that does not have it.
        size, entry_count, erased_size: growth from one run to the other; of erased entries, bytes.
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
        environments: those with changes, the worst first.
        new_findings, gone_findings: pyarrow Tables with the schema of `tables.FINDINGS`.
    """

    before: str
    after: str
    environments: Sequence[EnvironmentChange]
    new_findings: Any
    gone_findings: Any

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
        InputError: the folder has not so many runs.
        UsageError: it has no such run.
    """
    return compare_runs(*_chosen(folder, names))


def compare_runs(before: RunFolder, after: RunFolder) -> Changes:
    """Compare two runs, the later of which need not be complete."""
    new, gone = _only_one_has(before, after, FINDINGS, _PLACE)
    rows = [{row["env"]: row for row in _environments(run)} for run in (before, after)]
    counts = [*_file_changes(before, after, rows), _by_env(new), _by_env(gone)]
    erased = [_erased(run) for run in (before, after)]
    found = []
    for env in sorted(rows[0].keys() | rows[1].keys()):
        was, now = (each.get(env) for each in rows)
        new_files, gone_files, new_findings, gone_findings = (each.get(env, 0) for each in counts)
        change = EnvironmentChange(
            env=env,
            change=_change(was, now),
            severity_before=None if was is None else was["severity"],
            severity=None if now is None else now["severity"],
            size=_of(now, "size") - _of(was, "size"),
            entry_count=_of(now, "entry_count") - _of(was, "entry_count"),
            erased_size=erased[1].get(env, 0) - erased[0].get(env, 0),
            new_file_count=new_files,
            gone_file_count=gone_files,
            new_finding_count=new_findings,
            gone_finding_count=gone_findings,
        )
        if change.is_changed:
            found.append(change)
    found.sort(key=_rank)
    return Changes(before.run, after.run, found, _sorted(new), _sorted(gone))


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


def _environments(run: RunFolder) -> list[dict[str, Any]]:
    columns = ["env", "severity", "file_count", "size", "entry_count"]
    found: list[dict[str, Any]] = open_table(run, ENVIRONMENTS).to_table(columns).to_pylist()
    return found


def _of(row: dict[str, Any] | None, name: str) -> int:
    return 0 if row is None else int(row[name] or 0)


def _change(was: dict[str, Any] | None, now: dict[str, Any] | None) -> Change:
    if was is None:
        return Change.NEW
    if now is None:
        return Change.GONE
    before, after = severity_rank(was["severity"]), severity_rank(now["severity"])
    if before == after:
        return Change.SAME
    return Change.WORSE if after < before else Change.BETTER


def _rank(change: EnvironmentChange) -> tuple[int, int, int, str]:
    order = (Change.WORSE, Change.NEW, Change.GONE, Change.BETTER, Change.SAME)
    worst = severity_rank(change.severity or "")
    return order.index(change.change), worst, -change.new_finding_count, change.env


def _file_changes(
    before: RunFolder, after: RunFolder, rows: Sequence[Mapping[str, dict[str, Any]]]
) -> tuple[dict[str, int], dict[str, int]]:
    """Count the files of each environment that only the later, and only the earlier run has.

    Args:
        before, after: the runs.
        rows: rows of the environments of each run, by their names.
    """
    counts: tuple[dict[str, int], dict[str, int]] = {}, {}
    sizes = {
        env: sum(_of(each.get(env), "file_count") for each in rows)
        for env in {**rows[0], **rows[1]}
    }
    for group in shares_of(sizes, sizes.__getitem__, FILES_AT_ONCE):
        envs = list(group)
        was, now = (_file_names(run, envs) for run in (before, after))
        for count, names, others in ((counts[0], now, was), (counts[1], was, now)):
            for env, own in names.items():
                is_known = pc.is_in(own, value_set=others.get(env, own[:0]))
                count[env] = len(own) - pc.sum(is_known).as_py()
    return counts


def _file_names(run: RunFolder, envs: Sequence[str]) -> dict[str, Any]:
    """Return the names of the files of some environments, a pyarrow Array for each that has any."""
    only = pc.field("env").isin(pa.array(envs, pa.string()))
    columns = ["env", "name"]
    parts = list(rows_in_parts(open_table(run, FILES), columns, only))
    if not parts:
        return {}
    table = pa.concat_tables(parts).sort_by("env")
    names = table["name"].combine_chunks()
    first, size = env_runs(table["env"])
    return {env: names.slice(start, size[env]) for env, start in first.items()}


def _only_one_has(
    before: RunFolder, after: RunFolder, table: Any, keys: tuple[str, ...]
) -> tuple[Any, Any]:
    """Return the rows that only the later, and only the earlier run has."""
    was, now = (open_table(run, table).to_table() for run in (before, after))
    return _without(now, was, keys), _without(was, now, keys)


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


def _erased(run: RunFolder) -> dict[str, int]:
    sums = {"size": (pc.field("total_size"), "sum")}
    only = pc.field("type_no") == ERASED_NO
    rows = summed(open_table(run, ENTRY_STATS), {"env": pc.field("env")}, sums, only)
    return {row["env"]: row["size"] for row in rows.to_pylist()}


def _sorted(findings: Any) -> Any:
    ranks = [severity_rank(each) for each in findings["severity"].to_pylist()]
    names = ("rank", "env", "file_no", *STORE_COLUMNS, "offset", "code")
    keys = [(name, "ascending") for name in names]
    ranked = findings.append_column("rank", pa.array(ranks, pa.int64()))
    return ranked.sort_by(keys).drop_columns(["rank"])
