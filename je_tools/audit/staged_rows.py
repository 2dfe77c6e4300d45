"""Rows of one environment for all tables, before they are written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct, field

from je_tools.audit.rows import UNKNOWN_TXNS, environment_row, finding_row, unread_finding
from je_tools.audit.staged_members import MEMBERS_NAME, SCHEMAS, member_row
from je_tools.audit.tables import TXNS

if TYPE_CHECKING:
    from je_tools.audit.member_reading import MemberReport


class StagedRows(Struct):
    """Rows of one environment that are not yet written, by the name of the table.

    Attributes:
        rows: rows of all tables but txns.
        txns: transactions, tables with the schema of `tables.TXNS`.
        txn_paths: files that hold more transactions.
    """

    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    txns: list[Any] = field(default_factory=list)
    txn_paths: list[str] = field(default_factory=list)

    def extend(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows of a table."""
        self.rows.setdefault(table, []).extend(rows)

    def add_member(self, report: MemberReport) -> None:
        """Add the report on a node."""
        self.extend(MEMBERS_NAME, [member_row(report)])

    def tables(self) -> dict[str, Any]:
        """Return the rows as pyarrow Tables, without those in files."""
        found = {TXNS.name: pa.concat_tables([TXNS.schema.empty_table(), *self.txns])}
        for name, rows in self.rows.items():
            if rows:
                columns = zip(zip(*rows, strict=True), SCHEMAS[name], strict=True)
                arrays = [pa.array(values, field.type) for values, field in columns]
                found[name] = pa.Table.from_arrays(arrays, schema=SCHEMAS[name])
        return found


def unread_environment(env: str, reason: str) -> StagedRows:
    """Return the rows of an environment, or a directory, of which nothing could be read."""
    found = StagedRows()
    found.extend("findings", [finding_row(unread_finding(env, reason), env)])
    found.extend("environments", [environment_row(env, {**UNKNOWN_TXNS, "error_count": 1})])
    return found
