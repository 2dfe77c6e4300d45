"""Data source `jelog` for Spark: thin classes over `plan` and `reading`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import datasource as ds
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from je_tools.core.masking import Masking
from je_tools.errors import UsageError
from je_tools.spark.filters import Condition
from je_tools.spark.options import parse_options
from je_tools.spark.plan import Planner, Task
from je_tools.spark.reading import read_task

_OPERATORS: dict[type, str] = {
    ds.EqualTo: "=",
    ds.EqualNullSafe: "<=>",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
    ds.In: "in",
    ds.IsNull: "is null",
    ds.IsNotNull: "is not null",
    ds.StringStartsWith: "starts with",
    ds.StringEndsWith: "ends with",
    ds.StringContains: "contains",
}


class JelogSource(ds.DataSource):
    """Entries of a Berkeley DB JE log, with the columns of `je-tools dump --format parquet`."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._asked = parse_options(dict(options))
        # Created when `load` is called, so that salted hashes of one DataFrame can be joined.
        self._masking = Masking(self._asked.mode)

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return "jelog"

    def schema(self) -> Any:
        """Return the columns of the log as it is now, a StructType; only file headers are read."""
        schema = Planner(self._asked, self._masking).schema
        return StructType([StructField(f.name, from_arrow_type(f.type)) for f in schema])

    def reader(self, schema: Any) -> JelogReader:
        """Return the reader for a schema, which is that of `schema()` or the user's."""
        asked = replace(self._asked, columns=tuple(schema.fieldNames()))
        planner = Planner(asked, self._masking)
        given = {field.name: field.dataType for field in schema}
        for field in planner.schema:
            if from_arrow_type(field.type) != given[field.name]:
                raise UsageError(
                    f"column {field.name}: this log now has another type for it than "
                    f"{given[field.name].simpleString()}; load it again, without a schema"
                )
        return PushingReader(planner) if asked.pushdown else JelogReader(planner)


class JelogReader(ds.DataSourceReader):
    """One read of a log."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner

    def __getstate__(self) -> dict[str, Any]:
        # Partitions hold everything that a task needs.
        return {}

    def partitions(self) -> Sequence[Any]:
        """Return a partition for each task; if nothing can match, Spark adds one without a task."""
        return [ds.InputPartition(task) for task in self.planner.tasks()]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Return the entries of a partition."""
        task: Task | None = partition.value
        return iter(()) if task is None else read_task(task)


class PushingReader(JelogReader):
    """A read that takes the conditions of a query.

    Spark keeps the conditions that the last query pushed, for everything made from one `load`. The
    next query, or the other side of a join, would lack rows. So this class is used only by choice.

    Source: PythonScanBuilder.pushFilters, PythonDataSourceV2.setReadInfo, Spark 4.3.0.
    """

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """Take the filters that narrow the read; yield those that Spark must check."""
        for pushed in filters:
            condition = as_condition(pushed)
            if condition is None or not self.planner.push([condition])[0]:
                yield pushed


def as_condition(pushed: Any) -> Condition | None:
    """Return a Spark filter as a condition on a column, or None if it cannot be one."""
    negated = isinstance(pushed, ds.Not)
    inner = pushed.child if negated else pushed
    operator = _OPERATORS.get(type(inner))
    if operator is None or len(inner.attribute) != 1:
        return None
    return Condition(inner.attribute[0], operator, getattr(inner, "value", None), negated)
