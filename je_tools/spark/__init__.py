"""Spark data sources for logs: `register(spark)`, then `spark.read.format("jelog").load(path)`.

The rest of je-tools imports nothing from here, and pyspark is imported only where Spark runs.
"""

from __future__ import annotations

from typing import Any


def register(spark: Any) -> None:
    """Register the formats with a session.

    Args:
        spark: a SparkSession of PySpark 4.1 or newer; its workers must be able to import je_tools.
    """
    from je_tools.spark.sources import SOURCES

    # A session over Spark Connect has no context.
    context = getattr(spark, "sparkContext", None)
    cores = 0 if context is None else int(context.defaultParallelism)
    for source in SOURCES:
        spark.dataSource.register(source.on(cores))
