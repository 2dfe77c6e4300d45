"""The format `jerecords` for Spark."""

from __future__ import annotations

from je_tools.spark.records import RECORDS
from je_tools.spark.source import LogSource


class JerecordsSource(LogSource):
    """Records of databases, with the columns of `je-tools export --format parquet`."""

    relation = RECORDS
