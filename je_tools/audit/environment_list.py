"""Environments of a summary: rows in a file without a name, which are decoded when they are used.

A fleet may have a hundred thousand environments, and a decoded row takes some kilobytes. So memory
holds the place of each row, and rows only while they are used.
"""

from __future__ import annotations

import os
import weakref
from array import array
from collections.abc import Iterator, Mapping, Sequence
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, overload

import msgspec
from msgspec import Struct

from je_tools.audit.discover import EnvironmentKind
from je_tools.audit.table_reading import TableRow
from je_tools.findings import CODES, Severity
from je_tools.pages.log_fields import SEVERITIES

if TYPE_CHECKING:
    from pathlib import Path

NOT_OPENED = ("no-log", "unsafe", "refuses", "fails", "does not start")
"""Outcomes of environments that their engine does not open, or cannot use."""

LOSING = ("loses", "starts with losses")
"""Outcomes of environments that their engine opens without some of what they hold."""

_UNKNOWN = (None, "unclear")

_LOST = ("lost_key_count", "missing_key_count", "lost_record_count")


_WRITTEN_SIZE = 1 << 18
"""Bytes of rows that are written at once."""


class CodeCount(Struct, frozen=True):
    """Number of findings of one code, in `env_count` environments."""

    code: str
    severity: str
    count: int
    env_count: int = 1


def severity_rank(severity: str) -> int:
    """Return the rank of a severity: 0 for the worst; unknown ones come last."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def code_rank(found: CodeCount) -> tuple[int, int, int, str]:
    """Return a key that sorts findings by severity, then the most frequent first."""
    # Equally frequent codes are in the order of the documentation.
    order = list(CODES)
    at = order.index(found.code) if found.code in CODES else len(order)
    return severity_rank(found.severity), -found.count, at, found.code


class EnvironmentRow(Struct, frozen=True):
    """A row of the table `environments`, with sums of other tables.

    Attributes:
        values: the row, by column name; counts and sizes that are summed are never None, except
            those of transactions, which are not known of stores of Ignite, and those of what could
            not be read.
        findings: its findings by code, the worst first.
        last_txn_ms: time of its last Commit or Abort.
        node: its row of the table `nodes`; None if it has none.
    """

    values: Mapping[str, Any]
    findings: tuple[CodeCount, ...] = ()
    last_txn_ms: int | None = None
    node: Mapping[str, Any] | None = None

    @property
    def env(self) -> str:
        """Name of the environment."""
        return str(self.values["env"])

    @property
    def severity(self) -> str:
        """One of SEVERITIES."""
        return str(self.values["severity"])

    @property
    def kind(self) -> EnvironmentKind:
        """Kind of the environment; JE in runs of versions that knew only logs."""
        return EnvironmentKind(self.values.get("kind") or EnvironmentKind.JE)

    @property
    def versions(self) -> list[int]:
        """Log versions of its files, ascending."""
        return list(self.values["versions"] or ())

    @property
    def outcome(self) -> str | None:
        """Outcome of its engine's next start, as in `doctor`; None if unknown."""
        found = self.values.get("outcome")
        return None if found is None else str(found)

    @property
    def stakes(self) -> tuple[int, int, int]:
        """A sort key of what is at stake, the worst first: opening, lost Commits, other losses.

        Those that do not open come first, then damaged ones of which this is not known, then those
        that lose something.
        """
        lost = [self.values.get(name) or 0 for name in ("lost_commit_count", *_LOST)]
        if self.outcome in NOT_OPENED:
            rank = 0
        elif self.outcome in _UNKNOWN and self.severity == Severity.ERROR.value:
            rank = 1
        else:
            rank = 2 if self.outcome in LOSING or any(lost) else 3
        return rank, -lost[0], -sum(lost[1:])

    def number(self, column: str) -> int:
        """Return a count or a size."""
        return int(self.values[column])


class _Stored(Struct, frozen=True, array_like=True):
    """A row as it is in the file; values without the names of their columns."""

    values: tuple[Any, ...]
    findings: tuple[CodeCount, ...]
    last_txn_ms: int | None
    node: tuple[Any, ...] | None


class EnvironmentList(Sequence[EnvironmentRow]):
    """Rows of environments in an order of their own; each use of a row decodes it."""

    def __init__(self, folder: Path, columns: Sequence[str], node_columns: Sequence[str]) -> None:
        """Create an empty list.

        Args:
            folder: folder of the file.
            columns, node_columns: names of the values of each row, and of its node.
        """
        with TemporaryFile(dir=folder, buffering=0) as made:
            self._number = os.dup(made.fileno())
        weakref.finalize(self, os.close, self._number)
        self._unwritten = bytearray()
        self._ends = array("q", [0])
        self._order: Sequence[int] = range(0)
        self._places = {name: place for place, name in enumerate(columns)}
        self._node_places = {name: place for place, name in enumerate(node_columns)}
        self._decoder = msgspec.msgpack.Decoder(_Stored)

    def append(self, row: EnvironmentRow) -> None:
        """Add a row, whose values are those of the columns; it comes last until `sort` is called.

        Raises:
            OSError: it cannot be written.
        """
        node = None if row.node is None else tuple(row.node.values())
        stored = _Stored(tuple(row.values.values()), row.findings, row.last_txn_ms, node)
        data = msgspec.msgpack.encode(stored)
        self._unwritten += data
        self._ends.append(self._ends[-1] + len(data))
        self._order = range(len(self._ends) - 1)
        if len(self._unwritten) >= _WRITTEN_SIZE:
            self._flush()

    def sort(self, keys: Sequence[bytes]) -> None:
        """Sort the rows by keys, which are in the order in which the rows were added."""
        self._order = array("q", sorted(range(len(keys)), key=keys.__getitem__))

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, at: int) -> EnvironmentRow: ...
    @overload
    def __getitem__(self, at: slice) -> list[EnvironmentRow]: ...
    def __getitem__(self, at: int | slice) -> EnvironmentRow | list[EnvironmentRow]:
        if isinstance(at, slice):
            return [self._row(number) for number in self._order[at]]
        return self._row(self._order[at])

    def __iter__(self) -> Iterator[EnvironmentRow]:
        return map(self._row, self._order)

    def _row(self, number: int) -> EnvironmentRow:
        if self._unwritten:
            self._flush()
        start, stop = self._ends[number : number + 2]
        found = self._decoder.decode(os.pread(self._number, stop - start, start))
        node = None if found.node is None else TableRow(self._node_places, found.node)
        values = TableRow(self._places, found.values)
        return EnvironmentRow(values, found.findings, found.last_txn_ms, node)

    def _flush(self) -> None:
        start = self._ends[-1] - len(self._unwritten)
        while self._unwritten:
            count = os.pwrite(self._number, self._unwritten, start)
            start += count
            del self._unwritten[:count]
