"""Spark data source for logs: `register(spark)`, then `spark.read.format("jelog").load(path)`.

The rest of je-tools imports nothing from here, and pyspark is imported only where Spark runs.
"""

from __future__ import annotations

from typing import Any


def register(spark: Any) -> None:
    """Register the format `jelog` with a session.

    Args:
        spark: a SparkSession of PySpark 4.1 or newer; its workers must be able to import je_tools.
    """
    from je_tools.spark.source import JelogSource

    spark.dataSource.register(JelogSource)
