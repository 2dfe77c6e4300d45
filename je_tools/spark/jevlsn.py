"""The format `jevlsn` for Spark."""

from __future__ import annotations

from je_tools.spark.source import LogSource
from je_tools.spark.vlsns import VLSNS


class JevlsnSource(LogSource):
    """Entries of the replication stream, with the columns of `je-tools vlsn show --stream`."""

    relation = VLSNS
