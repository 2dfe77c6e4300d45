"""Engines of an audit: Spark, or processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.audit.stages import Engine

OnProgress = Callable[[int, int], None]
Step = Callable[[str], AbstractContextManager[OnProgress | None]]
"""Called with the name of each step; gives a callback for the tasks done and in all, or None."""


class EngineChoice(Struct, frozen=True):
    """The engine that is wanted.

    Attributes:
        is_local: True to run in processes of this machine, without Spark.
        master: Spark master of a cluster; None for this machine, or what spark-submit chose.
        settings: Spark settings, by name.
    """

    is_local: bool = False
    master: str | None = None
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def is_here(self) -> bool:
        """True if all tasks run on this machine, and no engine runs already."""
        if self.is_local:
            return True
        is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        return not is_submitted and (self.master or "local").startswith("local")


class EngineInfo(Struct, frozen=True):
    """The engine of a run, for the report: `local`, or `spark` with its version and master."""

    engine: str
    spark_version: str | None = None
    master: str | None = None


@contextmanager
def open_engine(
    choice: EngineChoice, folder: Path, log: Path, step: Step
) -> Iterator[tuple[Engine, EngineInfo]]:
    """Start an engine, and stop it at the end; the block reads the logs.

    Args:
        choice: the engine.
        folder: existing folder for the settings of Spark's log.
        log: file for all output of Spark.
        step: called with each step.

    Raises:
        InputError: Java or PySpark is missing or too old, or Spark does not start.
    """
    if choice.is_local:
        from je_tools.audit.local_engine import LocalEngine

        with step("reading logs") as on_progress:
            yield LocalEngine(on_progress=on_progress), EngineInfo("local")
        return
    from je_tools.audit.session import open_spark
    from je_tools.audit.spark_engine import SparkEngine

    with ExitStack() as stack:
        with step("starting Spark"):
            spark = open_spark(folder, log, choice.master, choice.settings)
            context = stack.enter_context(spark)
        with step("reading logs") as on_progress:
            yield (
                SparkEngine(context, on_progress),
                EngineInfo("spark", context.version, context.master),
            )
