"""Spark data sources for logs: `register(spark)`, then `spark.read.format("jelog").load(path)`.

The rest of je-tools imports nothing from here, and pyspark is imported only where Spark runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from je_tools.spark.source import LogSource


def register(spark: Any) -> None:
    """Register the formats with a session.

    Args:
        spark: a SparkSession of PySpark 4.1 or newer; its workers must be able to import je_tools.
    """
    # A session over Spark Connect has no context.
    context = getattr(spark, "sparkContext", None)
    cores = 0 if context is None else int(context.defaultParallelism)
    for source in sources():
        spark.dataSource.register(source.on(cores))


def sources() -> tuple[type[LogSource], ...]:
    """Return the formats that `register` makes known, each a class."""
    from je_tools.spark.ignitepages import IgnitepagesSource
    from je_tools.spark.ignitewal import IgnitewalSource
    from je_tools.spark.jefindings import JefindingsSource
    from je_tools.spark.jelog import JelogSource
    from je_tools.spark.jerecords import JerecordsSource
    from je_tools.spark.jevlsn import JevlsnSource

    return (
        JelogSource,
        JerecordsSource,
        JefindingsSource,
        JevlsnSource,
        IgnitewalSource,
        IgnitepagesSource,
    )
