"""The format `jelog` for Spark.

Each format has a module of its own, since each process in which Spark plans a read or creates a
source loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from je_tools.spark.entry_options import ENTRIES
from je_tools.spark.source import LogSource

if TYPE_CHECKING:
    from je_tools.spark.entry_plan import EntryQuery
    from je_tools.spark.stream import JelogStreamReader


class JelogSource(LogSource):
    """Entries of logs, with the columns of `je-tools dump --format parquet`."""

    relation = ENTRIES

    def streamReader(self, schema: Any) -> JelogStreamReader:
        """Return the reader of a stream for a schema."""
        from je_tools.spark.stream import JelogStreamReader
        from je_tools.spark.stream_plan import StreamPlan

        query = cast("EntryQuery", self.query_of(schema))
        columns = tuple(self.arrow_of(schema).names)
        return JelogStreamReader(StreamPlan.of(query, columns, self.cores))
