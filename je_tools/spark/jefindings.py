"""The format `jefindings` for Spark."""

from __future__ import annotations

from je_tools.spark.findings import FINDING_ROWS
from je_tools.spark.source import LogSource


class JefindingsSource(LogSource):
    """Findings of `je-tools verify`."""

    relation = FINDING_ROWS
