"""Use of a log by its data: bytes by database, and by the age of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.records.databases import list_databases

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.space.usage import FileSpace, Space

HOUR_MS = 3_600_000
_DAY_MS = 24 * HOUR_MS

_AGES = (
    (HOUR_MS, "less than an hour"),
    (_DAY_MS, "less than a day"),
    (7 * _DAY_MS, "less than a week"),
    (30 * _DAY_MS, "less than 30 days"),
    (365 * _DAY_MS, "less than a year"),
    (1 << 62, "a year or more"),
)


class DatabaseUse(Struct, frozen=True):
    """A database: its name, records, and the bytes of its nodes and records in the log."""

    name: str
    record_count: int
    size: int


class AgeUse(Struct, frozen=True):
    """Files of an age.

    Attributes:
        label: the age in words.
        file_count: number of the files.
        size: their bytes.
        used_size: bytes of them in use; those of a file without counts are all in use.
    """

    label: str
    file_count: int
    size: int
    used_size: int


class DataUse(Struct, frozen=True):
    """Use of a log by its data.

    Attributes:
        databases: databases, the largest first.
        ages: ages that occur, the youngest first.
    """

    databases: tuple[DatabaseUse, ...]
    ages: tuple[AgeUse, ...]


def data_use(snapshot: Snapshot, space: Space) -> DataUse:
    """Return the use of a log by its data; reads all nodes of the B-trees."""
    rows = [
        DatabaseUse(
            f"id:{row.db_id}" if row.name is None else row.name,
            row.shape.records,
            row.shape.node_bytes + row.shape.record_bytes,
        )
        for row in list_databases(snapshot, internal=True)
    ]
    rows.sort(key=lambda each: (-each.size, each.name))
    return DataUse(tuple(rows), _ages(space))


def used_size(file: FileSpace) -> int | None:
    """Return the bytes of a file in use by the engine's counts; None without counts."""
    if file.counted is None:
        return None
    return max(file.counted.total_size - file.counted.obsolete_size, 0)


def _ages(space: Space) -> tuple[AgeUse, ...]:
    """Return the files by their age when the newest was created."""
    created = [(each, each.file.header.created_ms) for each in space.files]
    known = [(each, time_ms) for each, time_ms in created if time_ms is not None]
    newest = max((time_ms for _, time_ms in known), default=0)
    found = []
    low = -1 << 62
    for high, label in _AGES:
        some = [each for each, time_ms in known if low <= newest - time_ms < high]
        used = (used_size(each) for each in some)
        sizes = [
            each.file.size if size is None else size for each, size in zip(some, used, strict=True)
        ]
        if some:
            found.append(AgeUse(label, len(some), sum(e.file.size for e in some), sum(sizes)))
        low = high
    return tuple(found)
