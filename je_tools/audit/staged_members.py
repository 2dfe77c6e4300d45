"""Staged reports on nodes, from the executors that wrote them to the comparison of groups.

The reports of a fleet may be larger than memory. They are written in small row groups, and read in
several passes, each for some of the groups.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from je_tools.audit.fleet import rows_in_parts

if TYPE_CHECKING:
    from je_tools.audit.member_reading import MemberReport
    from je_tools.audit.staging import TableWriter

MEMBERS = pa.schema(
    [("group_id", pa.string()), ("group_name", pa.string()), ("report", pa.binary())]
)
"""One row per replicated node: its group, null if unknown, and its packed report."""

HELD_SIZE = 4 << 20
"""Bytes of reports that are held before they are written."""

PASS_SIZE = 32 << 20
"""Bytes of reports that one pass holds, about: all reports of some groups."""


class MembersWriter:
    """Writer of staged reports; it holds at most HELD_SIZE bytes, and one report."""

    def __init__(self, writer: TableWriter) -> None:
        self._writer = writer
        self._rows: list[tuple[str | None, str | None, bytes]] = []
        self._size = 0

    def add(self, report: MemberReport) -> None:
        """Add a packed report."""
        self._rows.append((report.group_id, report.group_name, report.data))
        self._size += len(report.data)
        if self._size >= HELD_SIZE:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        columns: list[Any] = list(zip(*self._rows, strict=True)) or [(), (), ()]
        self._writer.write(pa.table(dict(zip(MEMBERS.names, columns, strict=True)), MEMBERS))
        self._rows, self._size = [], 0


def reports_by_group(paths: Sequence[Path]) -> Iterator[list[bytes]]:
    """Yield the reports of each group, of which those of a pass are held at a time.

    A node whose group is not known is alone.

    Args:
        paths: staged files.
    """
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
