"""Records of databases for the sinks: read ahead, without records whose data cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.escaping import printable
from je_tools.errors import UsageError
from je_tools.log.records import Batch, Records, UnreadRecords
from je_tools.output.encoders.record_lines import OutputDatabase
from je_tools.output.encoders.record_sources import DatabaseSource

if TYPE_CHECKING:
    from je_tools.btree.key_ranges import KeyRange
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot


class Export(Struct, frozen=True):
    """Selection of records of a snapshot.

    Attributes:
        snapshot: the snapshot.
        inside: range of keys; None for all.
        show_expired: include expired records.
    """

    snapshot: Snapshot
    inside: KeyRange | None = None
    show_expired: bool = False

    def sources(self, databases: Iterable[Database]) -> Iterator[DatabaseSource]:
        """Yield sources for the sinks; reading their records adds to `snapshot.faults`.

        Raises:
            UsageError: a range is requested of a database whose key order is not known.
        """
        for database in databases:
            if self.inside is not None and database.comparators:
                raise UsageError(
                    f"{printable(database.name or '')}: a comparator of its own orders its keys, "
                    "so that no range of them is known; leave --key-range out"
                )
            source = named(database, self.snapshot)
            batches = self.snapshot.batches(
                database, show_expired=self.show_expired, inside=self.inside
            )
            known = map(_known, batches)
            yield DatabaseSource(source, known, self.snapshot.faults.extend)


def _known(batch: Batch) -> Batch:
    """Return a batch without the records that lack data: each is a fault already."""
    if isinstance(batch, UnreadRecords):
        return replace(batch, read_by=lambda note: _with_data(batch.read(note)))
    return _with_data(batch)


def _with_data(records: Records) -> Records:
    known = records.data.sizes >= 0
    return records if known.all() else records.select(known)


def named(database: Database, *snapshots: Snapshot) -> OutputDatabase:
    """Return a database as sinks know it.

    Args:
        database: the database.
        snapshots: sources of its records, needed to decode those of the engine's own databases:
            one, or the two that are compared.
    """
    typed = None
    if snapshots and database.is_internal:
        from je_tools.output.encoders.typed_records import typed_of

        images = [snapshot.image for snapshot in snapshots]
        typed = typed_of(database.name, lambda records, row: images[_side(records, row)])
    return OutputDatabase(database.name, database.db_id, database.has_duplicates, typed)


def _side(records: Records, row: int) -> int:
    """Return the index of the snapshot that a record of a comparison comes from."""
    change = getattr(records, "change", None)
    return 0 if change is None else int(change[row]) & 1
