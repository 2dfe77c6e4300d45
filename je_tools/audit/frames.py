"""The tables that take all files of an environment, as joins and windows in Spark."""

from __future__ import annotations

from typing import Any

from je_tools.audit import tables as t
from je_tools.formats.je.types import COMMIT_NO
from je_tools.transactions import Outcome

_PLACE = ["env_no", "file_index", "cut", "attempt"]
_KEY = ["env_no", "txn_id", "number"]


def transactions(segments: Any, taken: Any, rollbacks: Any, facts: Any) -> Any:
    """Rows of the table txns: transactions of several segments, joined across files.

    The segments of one id are followed in the order of the log: behind an end, and where an entry
    names none before it, the next of that id begins. It is the rule by which
    `transactions.Transactions` joins them.

    Args:
        segments, taken, rollbacks, facts: DataFrames with the schemas of `staging`.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    counted = segments.join(F.broadcast(taken.select(_PLACE)), _PLACE)
    # Two files can have one number, and so the same LSNs.
    order = Window.partitionBy("env_no", "txn_id").orderBy("file_index", "first_lsn")
    is_behind_end = F.coalesce(F.lag("end_type").over(order) != 0, F.lit(True))
    begins = (F.col("begins") | is_behind_end).cast("int")
    numbered = counted.withColumn("number", F.sum(begins).over(order))
    joined = numbered.groupBy("env_no", "txn_id", "number").agg(
        F.min("first_lsn").alias("first_lsn"),
        F.max("last_lsn").alias("last_lsn"),
        *(F.sum(name).alias(name) for name in ("entry_count", "size", "invisible_count")),
        *(F.max(name).alias(name) for name in ("end_type", "end_ms", "is_prepared")),
        F.array_sort(F.array_distinct(F.flatten(F.collect_list("databases")))).alias("databases"),
    )
    ended = F.when(F.col("end_type") == COMMIT_NO, Outcome.COMMITTED.value)
    ended = ended.otherwise(Outcome.ABORTED.value)
    finished = joined.where("end_type != 0").withColumn("outcome", ended)
    whole = finished.unionByName(_unfinished(joined.where("end_type = 0"), rollbacks, facts))
    named = whole.join(F.broadcast(facts.select("env_no", "env")), "env_no")
    renamed = named.withColumnsRenamed({"first_lsn": "begin_lsn", "last_lsn": "end_lsn"})
    return renamed.select([column.name for column in t.TXNS.columns])


def _unfinished(joined: Any, rollbacks: Any, facts: Any) -> Any:
    """Transactions without an end, each with its outcome."""
    from pyspark.sql import functions as F

    behind = F.broadcast(rollbacks.withColumnRenamed("env_no", "in_env_no"))
    takes_back = (
        (F.col("in_env_no") == F.col("env_no"))
        & (F.col("matchpoint_lsn") < F.col("first_lsn"))
        & (F.col("last_lsn") < F.col("lsn"))
        & F.array_contains("txn_ids", F.col("txn_id"))
    )
    taken_back = joined.join(behind, takes_back, "left_semi").select(*_KEY)
    taken_back = taken_back.withColumn("is_taken_back", F.lit(True))
    known = facts.select("env_no", "first_active_lsn")
    outcome = (
        F.when(
            (F.col("invisible_count") == F.col("entry_count")) | F.col("is_taken_back").isNotNull(),
            Outcome.ROLLED_BACK.value,
        )
        .when(F.col("is_prepared"), Outcome.PREPARED.value)
        .when(F.col("first_lsn") < F.col("first_active_lsn"), Outcome.UNDONE.value)
        .otherwise(Outcome.UNFINISHED.value)
    )
    asked = joined.join(taken_back, _KEY, "left").join(F.broadcast(known), "env_no", "left")
    return asked.withColumn("outcome", outcome).drop("is_taken_back", "first_active_lsn")


def environments(facts: Any, tables: dict[str, Any]) -> Any:
    """The table environments: one row of each, from the rows of the other tables.

    Args:
        facts: with the schema of `staging.FACTS`; every environment has a row.
        tables: DataFrames by the names of the tables.
    """
    from pyspark.sql import functions as F

    def count_where(condition: Any) -> Any:
        return F.count(F.when(condition, 1))

    files = (
        tables[t.FILES.name]
        .groupBy("env")
        .agg(
            F.count("*").alias("file_count"),
            *(F.sum(name).alias(name) for name in ("size", "entry_count")),
            F.min("file_no").alias("first_file_no"),
            F.max("file_no").alias("last_file_no"),
            F.array_sort(F.collect_set("log_version")).alias("versions"),
            F.min_by("created_ms", "file_no").alias("first_created_ms"),
            F.max_by("created_ms", "file_no").alias("last_created_ms"),
            F.min("first_vlsn").alias("first_vlsn"),
            F.max("last_vlsn").alias("last_vlsn"),
        )
    )
    findings = (
        tables[t.FINDINGS.name]
        .groupBy("env")
        .agg(
            *(
                count_where(F.col("severity") == severity).alias(f"{severity}_count")
                for severity in SEVERITIES
            )
        )
    )
    is_unfinished = F.col("outcome").isin(*map(str, _WITHOUT_END))
    txns = (
        tables[t.TXNS.name]
        .groupBy("env")
        .agg(
            count_where(F.col("outcome") == Outcome.COMMITTED.value).alias("committed_count"),
            count_where(F.col("outcome") == Outcome.ABORTED.value).alias("aborted_count"),
            count_where(is_unfinished).alias("unfinished_count"),
        )
    )
    checkpoints = (
        tables[t.CHECKPOINTS.name]
        .where("complete")
        .groupBy("env")
        .agg(
            F.count("*").alias("checkpoint_count"),
            F.max("end_lsn").alias("last_checkpoint_lsn"),
            F.max_by("end_ms", "end_lsn").alias("last_checkpoint_ms"),
        )
    )
    whole = facts
    for part in (files, findings, txns, checkpoints):
        whole = whole.join(part, "env", "left")
    counts = [column.name for column in t.ENVIRONMENTS.columns if column.name.endswith("_count")]
    whole = whole.fillna(0, [*counts, "size", "damaged_size"])
    worst = F.lit("ok")
    for severity in reversed(SEVERITIES):
        worst = F.when(F.col(f"{severity}_count") > 0, severity).otherwise(worst)
    whole = whole.withColumn("severity", worst)
    return whole.select([column.name for column in t.ENVIRONMENTS.columns]).orderBy("env")


SEVERITIES = ("error", "warning", "note")
"""The worst first."""

_WITHOUT_END = (Outcome.UNFINISHED, Outcome.PREPARED, Outcome.UNDONE)
