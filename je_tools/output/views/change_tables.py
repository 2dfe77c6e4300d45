"""Changes between runs of an audit, and their history, as result tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from je_tools.output.views.sections import Cell, Column, Kind, Section, section_of

if TYPE_CHECKING:
    from je_tools.audit.changes import Changes, FindingChange

_ENVIRONMENTS = (
    Column("change", "change", Kind.TEXT),
    Column("severity_before", "before", Kind.TEXT, rank=1),
    Column("severity", "now", Kind.TEXT),
    Column("env", "environment", Kind.KEY),
    Column("size", "bytes", rank=3),
    Column("entry_count", "entries", rank=5),
    Column("erased_size", "erased", rank=6),
    Column("new_file_count", "new files", rank=4),
    Column("gone_file_count", "gone files", rank=4),
    Column("new_finding_count", "new findings", rank=2),
    Column("gone_finding_count", "gone findings", rank=2),
)
_FILE_NO = Column("file_no", "file", Kind.FILE, rank=1)
_IN_STORE = (
    Column("node", "node", Kind.TEXT, rank=4),
    Column("file", "file in store", Kind.KEY, rank=1),
    Column("segment", "segment", Kind.ID, rank=2),
    Column("page", "page", Kind.ID, rank=2),
)
_FINDINGS = (
    Column("change", "change", Kind.TEXT),
    Column("severity", "severity", Kind.TEXT),
    Column("code", "finding", Kind.TEXT),
    Column("env", "environment", Kind.KEY),
    _FILE_NO,
    *_IN_STORE,
    Column("offset", "offset", Kind.ID, rank=2),
    Column("found", "found", Kind.TEXT, rank=3),
)


def change_sections(changes: Changes, most: int | None = None) -> list[Section]:
    """Return the environments that have changed, and the findings that only one run has.

    Args:
        changes: the changes.
        most: largest number of rows of each table, for people, who get no columns of places that
            no finding has; None for everything.
    """
    findings = list(islice(changes.findings(), most))
    columns = _FINDINGS if most is None else _used(findings)
    return [
        section_of("environments", "Environments", _ENVIRONMENTS, changes.environments(most)),
        section_of("findings", "Findings", columns, findings),
    ]


def _used(findings: Sequence[FindingChange]) -> tuple[Column, ...]:
    """Return the columns without those of logs, or of stores, if no finding is in one."""
    used = {column.name: True for column in _FINDINGS}
    used[_FILE_NO.name] = any(each.node is None for each in findings)
    used |= dict.fromkeys((each.name for each in _IN_STORE), any(each.node for each in findings))
    return tuple(column for column in _FINDINGS if used[column.name])


def _value(name: str) -> Any:
    def cell(row: Mapping[str, Any]) -> Cell:
        found: Cell = row[name]
        return found

    return cell


def _column(name: str, title: str, kind: Kind = Kind.COUNT, rank: int = 0) -> Column:
    return Column(name, title, kind, rank, cell=_value(name))


_RUNS = (
    _column("run", "run", Kind.TEXT),
    _column("duration_ms", "took", Kind.DURATION, 4),
    _column("environment_count", "environments", rank=1),
    _column("error_env_count", "error"),
    _column("warning_env_count", "warning", rank=2),
    _column("note_env_count", "note", rank=3),
    _column("file_count", "files", rank=5),
    _column("read_file_count", "read", rank=6),
    _column("size", "bytes", rank=2),
    _column("entry_count", "entries", rank=7),
    _column("damaged_size", "damaged bytes", rank=3),
)
_HISTORY = (
    _column("run", "run", Kind.TEXT),
    _column("severity", "severity", Kind.TEXT),
    _column("error_count", "errors", rank=1),
    _column("warning_count", "warnings", rank=2),
    _column("file_count", "files", rank=4),
    _column("size", "bytes", rank=2),
    _column("entry_count", "entries", rank=5),
    _column("damaged_size", "damaged bytes", rank=3),
    _column("last_vlsn", "last VLSN", Kind.ID, 6),
)


def trend_section(rows: Iterable[Mapping[str, Any]]) -> Section:
    """Return a table of runs, from rows of the audit's table `runs` with the id of each run."""
    return section_of("", "", _RUNS, rows)


def history_section(rows: Iterable[Mapping[str, Any]]) -> Section:
    """Return a table of an environment in all runs, from rows of `environments` with their runs."""
    return section_of("", "", _HISTORY, rows)
