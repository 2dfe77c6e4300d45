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
from je_tools.spark.options import parse_options
from je_tools.spark.plan import Planner, Task
from je_tools.spark.reading import read_task


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
        return JelogReader(planner)


class JelogReader(ds.DataSourceReader):
    """One read of a log.

    It never takes filters of a query. Spark up to 4.3 keeps the partitions that the last query
    planned with its filters, for everything made from one `load`; the next query would use them
    too, without any call that could refuse it.

    Source: PythonScanBuilder.pushFilters, PythonDataSourceV2.getOrCreateReadInfo, Spark 4.3.0.
    """

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
