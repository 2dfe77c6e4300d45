"""Staged reports on nodes, from the executors that wrote them to the comparison of groups.

The reports of a fleet may be larger than memory. They are read in several passes, each for some of
the groups.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from je_tools.audit.table_reading import rows_in_parts
from je_tools.audit.tables import TABLES

if TYPE_CHECKING:
    from je_tools.audit.member_reading import MemberReport

MEMBERS = pa.schema(
    [("group_id", pa.string()), ("group_name", pa.string()), ("report", pa.binary())]
)
"""One row per replicated node: its group, null if unknown, and its packed report."""

MEMBERS_NAME = "members"
"""Name of the staged table."""

SCHEMAS = {**{table.name: table.schema for table in TABLES}, MEMBERS_NAME: MEMBERS}
"""Schemas of everything that is staged, by name."""

PASS_SIZE = 32 << 20
"""Approximate bytes of reports that one pass holds: all reports of some groups."""


def member_row(report: MemberReport) -> tuple[Any, ...]:
    """Return a packed report as a row."""
    return report.group_id, report.group_name, report.data


def reports_by_group(paths: Sequence[Path]) -> Iterator[list[bytes]]:
    """Yield the reports of each group, of which those of a pass are held at a time.

    A node whose group is not known is alone.

    Args:
        paths: staged files.
    """
    if not paths:
        return
    data = ds.dataset(list(map(str, paths)), schema=MEMBERS, format="parquet")
    pass_count = -(-sum(path.stat().st_size for path in paths) // PASS_SIZE)
    for number in range(pass_count):
        groups: dict[tuple[str, str], list[bytes]] = {}
        for part in rows_in_parts(data, MEMBERS.names):
            for row in part.to_pylist():
                group_id, name = row["group_id"], row["group_name"] or ""
                if group_id is None:
                    if not number:
                        yield [row["report"]]
                elif zlib.crc32(f"{group_id} {name}".encode()) % pass_count == number:
                    groups.setdefault((group_id, name), []).append(row["report"])
        for _, reports in sorted(groups.items()):
            yield reports
