"""Execution of a task of `jerecords`: records of environments as the engine would return them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.errors import InputError, UsageError
from je_tools.log.scan import Scanner
from je_tools.output.encoders.record_parquet import record_batches, record_schema
from je_tools.records.export import Export
from je_tools.recovery.choices import choose_databases
from je_tools.recovery.findings import snapshot_findings
from je_tools.recovery.opening import NoTreeError, held_snapshot
from je_tools.spark.columns import chosen, spark_batch, spark_schema
from je_tools.spark.damage import check_damage
from je_tools.spark.option_texts import as_option

if TYPE_CHECKING:
    import pyarrow as pa

    from je_tools.btree.key_ranges import KeyRange
    from je_tools.core.masking import Masking
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.spark.places import Log


class RecordOptions(Struct, frozen=True):
    """Records to read.

    Attributes:
        databases: names and ids; empty for all of applications.
        internal: without names, also internal databases.
        inside: range of keys; None for all.
        show_expired: include expired records.
        now_ms: time at which records are read.
        masking: masking of keys and data, the same in every task.
        skips: leave out what is damaged.
    """

    databases: tuple[str, ...]
    internal: bool
    inside: KeyRange | None
    show_expired: bool
    now_ms: int
    masking: Masking
    skips: bool


class RecordTask(Struct, frozen=True):
    """Input of one task; it pickles.

    Attributes:
        logs: environments to read.
        columns: names of the columns, in order.
        options: records to read.
        must_exist: refuse a database that an environment does not have.
    """

    logs: tuple[Log, ...]
    columns: tuple[str, ...]
    options: RecordOptions
    must_exist: bool

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the records of each environment, by database in key order.

        Raises:
            UsageError: a database does not exist in the only environment.
            InputError: damage costs records, or nothing in a log leads to records.
            StoppedError: a file shrank, vanished or was replaced meanwhile.
        """
        schema = chosen(spark_schema(record_schema()), self.columns)
        for log in self.logs:
            for batch in self._of_log(log):
                yield spark_batch(batch, log.env, schema)

    def _of_log(self, log: Log) -> Iterator[pa.RecordBatch]:
        scanner = Scanner(threads=1, wide=True)
        now_ms = self.options.now_ms
        try:
            with held_snapshot(log.environment, scanner, now_ms=now_ms) as snapshot:
                yield from self._of_snapshot(snapshot)
                if not self.options.skips:
                    check_damage(log.env, snapshot_findings(snapshot, self.options.masking))
        except NoTreeError:
            if not self.options.skips:
                raise

    def _of_snapshot(self, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
        options = self.options
        export = Export(snapshot, options.inside, options.show_expired)
        for source in export.sources(self._databases(snapshot)):
            for batch in source.batches:
                made, notes = record_batches(source.database, options.masking, batch)
                for note in notes:
                    source.note(note)
                yield from made

    def _databases(self, snapshot: Snapshot) -> list[Database]:
        options = self.options
        with as_option("db"):
            if self.must_exist or not options.databases:
                return choose_databases(snapshot, options.databases, internal=options.internal)
            found: dict[int, Database] = {}
            for name in options.databases:
                try:
                    found |= {each.db_id: each for each in choose_databases(snapshot, [name])}
                except UsageError:
                    # Another environment may have it.
                    continue
                except InputError:
                    if not options.skips:
                        raise
            return list(found.values())
