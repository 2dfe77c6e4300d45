"""Streams of `jelog` for Spark: a thin class over `stream_plan`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import datasource as ds

from je_tools.spark.source import partitions_of, read_partition

if TYPE_CHECKING:
    from je_tools.spark.stream_plan import StreamPlan


class JelogStreamReader(ds.DataSourceStreamReader):
    """Entries as engines append them, in micro-batches of parallel tasks.

    Offsets are LSNs, so a query that is started again from its checkpoint reads each entry once.
    """

    def __init__(self, plan: StreamPlan) -> None:
        self.plan = plan

    def __getstate__(self) -> dict[str, Any]:
        # Partitions hold everything that a task needs.
        return {}

    def initialOffset(self) -> dict[str, str]:
        """Return the beginning of every log."""
        return {}

    def latestOffset(self, *_: Any) -> dict[str, str]:
        """Return the LSNs after the last complete entries, by environment.

        Spark 4.1 gives no arguments. Later versions give the previous offset and a limit, which is
        always the one that limits nothing.
        """
        return self.plan.latest()

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[Any]:
        """Return a partition for each task of a micro-batch."""
        return partitions_of(self.plan.tasks(start, end))

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Return the entries of a partition."""
        return read_partition(partition)
