"""Reading of the tables of a run, of which only some rows are held at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

if TYPE_CHECKING:
    from je_tools.audit.output_folder import RunFolder
    from je_tools.audit.tables import AuditTable

ONE = pc.scalar(1)
"""Expression that is summed to count rows."""

FILES_AT_ONCE = 8_000
"""Approximate number of rows of `files` held at a time, unless one environment has more."""

_ROWS = 250
"""Rows that are made into Python objects at a time."""

_SUMS_MIN = 1 << 16
"""Number of new sums that may always be held beside the known ones."""


class TableRow(Mapping[str, Any]):
    """A row of a table. The rows of a table share the names, so each takes a third of a dict.

    Args:
        places: place of each column, by its name.
        values: the values, in this order.
    """

    __slots__ = ("_places", "_values")

    def __init__(self, places: Mapping[str, int], values: Sequence[Any]) -> None:
        self._places = places
        self._values = tuple(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[self._places[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def table_rows(table: pa.Table) -> Iterator[TableRow]:
    """Yield the rows of a table, of which only some are made at a time."""
    places = {name: place for place, name in enumerate(table.column_names)}
    for batch in table.to_batches(max_chunksize=_ROWS):
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield TableRow(places, values)


def open_table(tables: RunFolder, table: AuditTable) -> Any:
    """Open a table of a run as a pyarrow Dataset; it has no rows if it has no files."""
    paths = list(map(str, tables.parts(table.name)))
    return ds.dataset(paths, schema=table.schema, format="parquet")


def rows_in_parts(
    data: Any, columns: list[str] | dict[str, Any], only: Any = None
) -> Iterator[pa.Table]:
    """Yield the rows of a Dataset by row groups of its files; nothing is read ahead.

    A scan of the whole Dataset would read ahead in threads of its own while the caller works. On a
    busy machine it could then hold a table of any size.

    Args:
        data: a Dataset of Parquet files.
        columns: names, or expressions by name.
        only: expression that rows must satisfy.
    """
    for file in data.get_fragments():
        # The statistics of a group may tell that it has none; a Dataset keeps those it has read.
        for group in file.split_by_row_group(only, data.schema):
            yield group.to_table(data.schema, columns, only, use_threads=False)


def summed(
    data: Any,
    keys: Mapping[str, Any],
    sums: Mapping[str, tuple[Any, str]],
    only: Any = None,
) -> pa.Table:
    """Sum the rows of a Dataset in one pass that holds only some of them at a time.

    Args:
        data: a Dataset of Parquet files.
        keys: expressions by name; each combination that occurs gives one row.
        sums: by name, an expression and its aggregation (`sum`, `max`, `min`).
        only: expression that rows must satisfy.
    """
    columns = {**keys, **{name: expression for name, (expression, _) in sums.items()}}
    aggregates = [(name, how) for name, (_, how) in sums.items()]

    def added(tables: Sequence[pa.Table]) -> pa.Table:
        grouped = pa.concat_tables(tables).group_by(list(keys), use_threads=False)
        return grouped.aggregate(aggregates).rename_columns(list(columns))

    empty = ds.dataset(data.schema.empty_table()).to_table(columns)
    known, new, new_count = added([empty]), [], 0
    for part in rows_in_parts(data, columns, only):
        new.append(added([part]))
        new_count += len(new[-1])
        # Merged once they are as many as the known ones, so that each is added only a few times.
        if new_count > max(len(known), _SUMS_MIN):
            known, new, new_count = added([known, *new]), [], 0
    return added([known, *new])


def env_runs(envs: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Return the first row and the number of rows of each environment in a sorted column."""
    coded = envs.combine_chunks().dictionary_encode()
    numbers = coded.indices.to_numpy(zero_copy_only=False)
    # In a sorted column, the numbers ascend; np.unique would load numpy's masked arrays.
    first = np.searchsorted(numbers, np.arange(len(coded.dictionary) + 1))
    names = coded.dictionary.to_pylist()
    starts = dict(zip(names, first[:-1].tolist(), strict=True))
    return starts, dict(zip(names, np.diff(first).tolist(), strict=True))
