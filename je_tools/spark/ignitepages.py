"""The format `ignitepages` for Spark."""

from __future__ import annotations

from je_tools.spark.ignite_pages import PAGES
from je_tools.spark.source import LogSource


class IgnitepagesSource(LogSource):
    """Pages of stores of Ignite: their places, headers and states."""

    relation = PAGES
