"""Transactions that span files, joined as a DataFrame in Spark."""

from __future__ import annotations

from typing import Any

from je_tools.audit import tables as t
from je_tools.audit.staging import SIGN
from je_tools.formats.je.types import COMMIT_NO
from je_tools.log.transactions import TransactionOutcome

_TXN = ("env_no", "txn_id")


def spark_schema(schema: Any) -> Any:
    """Convert a pyarrow schema to one of Spark."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, from_arrow_type(field.type)) for field in schema])


def transactions(segments: Any, facts: Any, partitions: int) -> Any:
    """Join transactions of several segments across files; return rows of the table txns.

    The segments of one id are followed in log order. A new transaction of that id begins after an
    end, and at an entry that refers to none before it. `transactions.Transactions` joins by the
    same rule.

    Args:
        segments, facts: DataFrames with the schemas of `staging`.
        partitions: number of partitions; each is a task.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    # All steps below group by the same columns, and so need one shuffle.
    dealt = segments.repartition(partitions, *_TXN)
    # Two files can have the same number, and so the same LSNs.
    order = Window.partitionBy(*_TXN).orderBy("file_index", "first_lsn")
    is_behind_end = F.coalesce(F.lag("end_type").over(order) != 0, F.lit(True))
    begins = (F.col("begins") | is_behind_end).cast("int")
    numbered = dealt.withColumn("number", F.sum(begins).over(order))
    joined = numbered.groupBy(*_TXN, "number").agg(
        F.min("first_lsn").alias("first_lsn"),
        F.max("last_lsn").alias("last_lsn"),
        *(F.sum(name).alias(name) for name in ("entry_count", "size", "invisible_count")),
        *(F.max(name).alias(name) for name in ("end_type", "end_ms", "is_prepared")),
        F.array_sort(F.array_distinct(F.flatten(F.collect_list("databases")))).alias("databases"),
    )
    known = facts.select("env_no", "env", "first_active_lsn", "rollbacks")
    rows = joined.join(F.broadcast(known), "env_no").withColumns(
        {
            "outcome": _outcome(),
            "begin_lsn": F.col("first_lsn").bitwiseXOR(F.lit(SIGN)),
            "end_lsn": F.col("last_lsn").bitwiseXOR(F.lit(SIGN)),
        }
    )
    # Executors write columns that may be null. Spark would mark some of its columns as never null,
    # and strict readers refuse to concatenate part files that differ. Every row has entries, which
    # Spark cannot know.
    has_entries = F.col("entry_count") > 0
    names = [column.name for column in t.TXNS.columns]
    return rows.select([F.when(has_entries, F.col(name)).alias(name) for name in names])


def _outcome() -> Any:
    """Return the outcome of a transaction; the tests are in the order of `Transactions`."""
    from pyspark.sql import functions as F

    def takes_back(rollback: Any) -> Any:
        return (
            (rollback["matchpoint_lsn"] < F.col("first_lsn"))
            & (F.col("last_lsn") < rollback["lsn"])
            & F.array_contains(rollback["txn_ids"], F.col("txn_id"))
        )

    is_invisible = F.col("invisible_count") == F.col("entry_count")
    return (
        F.when(F.col("end_type") == COMMIT_NO, TransactionOutcome.COMMITTED.value)
        .when(F.col("end_type") != 0, TransactionOutcome.ABORTED.value)
        .when(
            is_invisible | F.exists("rollbacks", takes_back), TransactionOutcome.ROLLED_BACK.value
        )
        .when(F.col("is_prepared"), TransactionOutcome.PREPARED.value)
        .when(F.col("first_lsn") < F.col("first_active_lsn"), TransactionOutcome.UNDONE.value)
        .otherwise(TransactionOutcome.UNFINISHED.value)
    )
