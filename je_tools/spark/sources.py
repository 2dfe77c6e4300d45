"""Formats that `register` makes known, each a class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from je_tools.spark.entry_options import ENTRIES
from je_tools.spark.findings import FINDING_ROWS
from je_tools.spark.records import RECORDS
from je_tools.spark.source import LogSource
from je_tools.spark.stream import JelogStreamReader
from je_tools.spark.stream_plan import StreamPlan
from je_tools.spark.vlsns import VLSNS

if TYPE_CHECKING:
    from je_tools.spark.entry_plan import EntryQuery


class JelogSource(LogSource):
    """Entries of logs, with the columns of `je-tools dump --format parquet`."""

    relation = ENTRIES

    def streamReader(self, schema: Any) -> JelogStreamReader:
        """Return the reader of a stream for a schema."""
        query = cast("EntryQuery", self.query_of(schema))
        columns = tuple(self.arrow_of(schema).names)
        return JelogStreamReader(StreamPlan.of(query, columns, self.cores))


class JerecordsSource(LogSource):
    """Records of databases, with the columns of `je-tools export --format parquet`."""

    relation = RECORDS


class JefindingsSource(LogSource):
    """Findings of `je-tools verify`."""

    relation = FINDING_ROWS


class JevlsnSource(LogSource):
    """Entries of the replication stream, with the columns of `je-tools vlsn show --stream`."""

    relation = VLSNS


SOURCES: tuple[type[LogSource], ...] = (
    JelogSource,
    JerecordsSource,
    JefindingsSource,
    JevlsnSource,
)
