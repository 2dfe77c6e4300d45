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
        databases: names and ids; empty for all databases of applications.
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


class RecordPart(Struct, frozen=True):
    """Records of one environment that a task reads.

    Attributes:
        log: the environment.
        ranges: ids of databases, each with a range of its keys (None for all keys); None for all
            databases.
    """

    log: Log
    ranges: tuple[tuple[int, KeyRange | None], ...] | None = None


class RecordTask(Struct, frozen=True):
    """Input of one task; it pickles.

    Attributes:
        parts: what to read, by environment.
        columns: names of the columns, in order.
        options: records to read.
        must_exist: refuse a database that an environment does not have.
    """

    parts: tuple[RecordPart, ...]
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
        for part in self.parts:
            for batch in self._of_part(part):
                yield spark_batch(batch, part.log.env, schema)

    def _of_part(self, part: RecordPart) -> Iterator[pa.RecordBatch]:
        log, options = part.log, self.options
        # All tasks of an environment must see the same log.
        scanner = Scanner(threads=1, wide=True, pinned=True)
        try:
            with held_snapshot(log.environment, scanner, now_ms=options.now_ms) as snapshot:
                if part.ranges is None:
                    for database in wanted_databases(snapshot, options, self.must_exist):
                        yield from self._of_database(snapshot, database, options.inside)
                else:
                    for db_id, inside in part.ranges:
                        yield from self._of_database(snapshot, snapshot.databases[db_id], inside)
                if not options.skips:
                    check_damage(log.env, snapshot_findings(snapshot, options.masking))
        except NoTreeError:
            if not options.skips:
                raise

    def _of_database(
        self, snapshot: Snapshot, database: Database, inside: KeyRange | None
    ) -> Iterator[pa.RecordBatch]:
        export = Export(snapshot, inside, self.options.show_expired)
        for source in export.sources([database]):
            for batch in source.batches:
                made, notes = record_batches(source.database, self.options.masking, batch)
                for note in notes:
                    source.note(note)
                yield from made


def wanted_databases(
    snapshot: Snapshot, options: RecordOptions, must_exist: bool
) -> list[Database]:
    """Return the databases to read of an environment.

    Args:
        snapshot: the environment.
        options: records to read.
        must_exist: refuse a database that it does not have.

    Raises:
        UsageError: it does not have one.
        DamageError: damage may hide one, and nothing may be left out.
    """
    with as_option("db"):
        if must_exist or not options.databases:
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
