"""The format `ignitewal` for Spark."""

from __future__ import annotations

from je_tools.spark.ignite_records import WAL_RECORDS
from je_tools.spark.source import LogSource


class IgnitewalSource(LogSource):
    """Records of write-ahead logs of Ignite, with the columns of `ignite wal dump`."""

    relation = WAL_RECORDS
