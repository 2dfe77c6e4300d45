"""Logs in Spark: `register(spark)`, then `spark.read.format("jelog").load(path)`.

Nothing here is imported by the rest of je-tools, and pyspark only where Spark is.
"""

from __future__ import annotations

from typing import Any

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""What Spark must be told before it gives filters to a source that is written in Python."""


def register(spark: Any) -> None:
    """Make the format `jelog` known to a session, and have Spark push filters down to it.

    Args:
        spark: a SparkSession of PySpark 4.1 or newer; its workers must be able to import je_tools.
    """
    from je_tools.spark.source import JelogSource

    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(JelogSource)
