"""The format `jerecords`: its options, columns and tasks."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.btree.key_ranges import parse_key_range
from je_tools.core.masking import Masking
from je_tools.errors import UsageError
from je_tools.output.encoders.record_parquet import record_schema
from je_tools.recovery.choices import chosen_now
from je_tools.spark.columns import spark_schema
from je_tools.spark.query import (
    COLUMNS,
    MASKS,
    PLACES,
    TASKS,
    UNREADABLE,
    CommonOptions,
    Relation,
    Task,
    parse_common,
)
from je_tools.spark.record_plan import RecordPlanner
from je_tools.spark.record_reading import RecordOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from je_tools.spark.option_texts import OptionTexts

OPTIONS: Mapping[str, str] = {
    **PLACES,
    **COLUMNS,
    "db": "Databases by name or id (`id:7`), as a list. The default is all databases of "
    "applications.",
    "internal": "`true`: without `db`, also the engine's own databases.",
    "key_range": "Keys `FROM..TO`, both inclusive, written as for `export --key-range`.",
    "now": "Time at which records are read, for those that expire. The default is that of `load`.",
    "show_expired": "`true`: also expired records.",
    **MASKS,
    **TASKS,
    **UNREADABLE,
}
"""Every option, and its description."""


class RecordQuery(Struct, frozen=True):
    """Parsed options of a read of records."""

    common: CommonOptions
    records: RecordOptions

    def tasks(self, columns: tuple[str, ...], cores: int) -> list[Task]:
        """Return tasks for environments, and for ranges of keys of large databases.

        Raises:
            UsageError: single files are named, or the only environment lacks a database.
            InputError: an environment cannot be opened, or damage may hide a database.
            StoppedError: a file shrank, vanished or was replaced meanwhile.
        """
        logs = self.common.places.readable()
        for log in logs:
            if not log.environment.is_directory:
                raise UsageError(f"{log.env}: single files; name the directory they lie in")
        share = self.common.share(sum(log.size for log in logs), cores)
        planner = RecordPlanner(
            self.records, share, len(logs) == 1, is_exact=self.common.task_count is not None
        )
        return list(planner.tasks(logs, columns))


def parse_record_query(texts: OptionTexts) -> RecordQuery:
    """Parse the options of `jerecords`.

    Raises:
        UsageError: a value is not valid.
    """
    common = parse_common(texts)
    now_ms = texts.parsed("now", chosen_now)
    return RecordQuery(
        common,
        RecordOptions(
            databases=texts.listed("db", str),
            internal=texts.flag("internal"),
            inside=texts.parsed("key_range", lambda text: parse_key_range("key_range", text)),
            show_expired=texts.flag("show_expired"),
            now_ms=chosen_now(None) if now_ms is None else now_ms,
            masking=Masking(texts.mode()),
            skips=common.places.skips,
        ),
    )


@functools.cache
def _schema() -> pa.Schema:
    return spark_schema(record_schema())


RECORDS = Relation("jerecords", OPTIONS, _schema, parse_record_query)
"""The format `jerecords`."""
