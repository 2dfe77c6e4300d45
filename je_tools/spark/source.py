"""Data sources for Spark: thin classes over relations, queries and tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql import datasource as ds
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from je_tools.errors import UsageError
from je_tools.spark.columns import chosen
from je_tools.spark.option_texts import OptionTexts, is_of_table, option_texts

if TYPE_CHECKING:
    from je_tools.spark.query import Query, Relation, Task

OPTIONS_KEY = "je_tools.options"
"""Key in the metadata of a table's first column, under which its options are kept."""


class LogSource(ds.DataSource):
    """A relation as Spark knows it.

    Spark gives the options of a SQL table to CREATE TABLE, and not to the queries of the table.
    Only the schema comes back, so the options are kept in it.

    Source: PythonDataSourceV2.getTable, PythonTable.newScanBuilder, Spark 4.3.0.

    Attributes:
        relation: the relation; each format has a class.
        cores: number of tasks that the cluster runs at once; 0 if unknown.
    """

    relation: ClassVar[Relation]
    cores: ClassVar[int] = 0

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._texts = option_texts(dict(options))
        self._is_table = is_of_table(dict(options))
        # Parsed when `load` is called, so that salted hashes of one DataFrame can be joined.
        has_path = not {"path", "paths"}.isdisjoint(self._texts)
        self._query = self._parsed(self._texts) if has_path else None

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return cls.relation.name

    @classmethod
    def on(cls, cores: int) -> type[LogSource]:
        """Return the class for a cluster that runs `cores` tasks at once."""
        return type(cls.__name__, (cls,), {"cores": cores, "__doc__": cls.__doc__})

    def schema(self) -> Any:
        """Return the columns, a StructType; they do not depend on the logs.

        Raises:
            UsageError: an option is not valid.
            InputError: there is no such file or directory.
        """
        query = self._query or self._parsed(self._texts)
        query.common.places.roots()
        arrow = chosen(self.relation.schema(), query.common.columns)
        fields = [StructField(field.name, from_arrow_type(field.type)) for field in arrow]
        if self._is_table:
            fields[0].metadata = {OPTIONS_KEY: json.dumps(self._texts)}
        return StructType(fields)

    def reader(self, schema: Any) -> LogReader:
        """Return the reader for a schema, which is that of `schema()`, a table's or the user's."""
        return LogReader(self.query_of(schema), self.arrow_of(schema), self.cores)

    def query_of(self, schema: Any) -> Query:
        """Return what is to be read, with the options of a SQL table.

        Raises:
            UsageError: there are none.
        """
        if self._query is not None:
            return self._query
        kept = schema.fields[0].metadata.get(OPTIONS_KEY)
        if kept is None:
            raise UsageError(
                "there is no path: name one with load(path). Spark gives the options of a table "
                "to CREATE TABLE only, which keeps them in the columns that it finds: if this is a "
                "table, create it without naming its columns"
            )
        return self._parsed(json.loads(kept) | self._texts)

    def arrow_of(self, schema: Any) -> pa.Schema:
        """Return the Arrow schema of the columns of a schema.

        Raises:
            UsageError: there is no such column, or it has another type.
        """
        arrow = chosen(self.relation.schema(), schema.fieldNames())
        for field, given in zip(arrow, schema, strict=True):
            kind = from_arrow_type(field.type)
            if kind != given.dataType:
                raise UsageError(
                    f"column {field.name}: {self.relation.name} has it as {kind.simpleString()}, "
                    f"not as {given.dataType.simpleString()}; leave the schema out, or create the "
                    "table again"
                )
        return arrow

    def _parsed(self, texts: Mapping[str, str]) -> Query:
        return self.relation.parse(OptionTexts(texts, self.relation.options))


class LogReader(ds.DataSourceReader):
    """One read.

    It never takes filters of a query. Spark up to 4.3 keeps the partitions that the last query
    planned with its filters, for everything made from one `load`; the next query would use them
    too, without any call that could refuse it.

    Source: PythonScanBuilder.pushFilters, PythonDataSourceV2.getOrCreateReadInfo, Spark 4.3.0.
    """

    def __init__(self, query: Query, schema: pa.Schema, cores: int) -> None:
        self.query = query
        self.schema = schema
        self.cores = cores

    def __getstate__(self) -> dict[str, Any]:
        # Partitions hold everything that a task needs.
        return {}

    def partitions(self) -> Sequence[Any]:
        """Return a partition for each task; if nothing can match, Spark adds one without a task."""
        return partitions_of(self.query.tasks(tuple(self.schema.names), self.cores))

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Return the rows of a partition."""
        return read_partition(partition)


def partitions_of(tasks: Sequence[Task]) -> list[Any]:
    """Return a partition for each task."""
    return [ds.InputPartition(task) for task in tasks]


def read_partition(partition: Any) -> Iterator[pa.RecordBatch]:
    """Return the rows of a partition, none if it has no task."""
    task: Task | None = partition.value
    return iter(()) if task is None else task.read()
