"""What is lost with files of a log, as tables and as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator

from je_tools.formats.je.header import NULL_LSN
from je_tools.masking import Masking
from je_tools.missing import Loss, Report
from je_tools.sinks.key_tables import spelled
from je_tools.sinks.sections import Cell, Column, Kind, Section

LISTED = 20
"""Ranges, and keys, that a table lists of a database; JSON lines have all."""

_FILES = (
    Column("file_no", "file", Kind.FILE),
    Column("state", "state", Kind.TEXT),
    Column("place_count", "places that name it"),
)
_DATABASES = (
    Column("database", "database", Kind.TEXT),
    Column("lost", "lost", Kind.TEXT),
    Column("range_count", "ranges"),
    Column("key_count", "keys"),
    Column("kept_count", "kept"),
)
_RANGES = (
    Column("database", "database", Kind.TEXT),
    Column("lost_from", "from key", Kind.TEXT),
    Column("lost_to", "before key", Kind.TEXT),
    Column("level", "level", rank=3),
    Column("lsn", "lost node", Kind.LSN, rank=2),
    Column("kept_count", "kept"),
)
_KEYS = (
    Column("database", "database", Kind.TEXT),
    Column("key", "key", Kind.TEXT),
    Column("lsn", "lost record", Kind.LSN, rank=2),
    Column("kept", "other version", Kind.TEXT),
)


def missing_sections(report: Report, masking: Masking, *, listed: int | None) -> Iterator[Section]:
    """Tables of what is lost; those without rows are left out.

    Args:
        report: what is lost.
        masking: what is shown of keys.
        listed: how many ranges, and keys, of each database; None for all.
    """
    files: list[list[Cell]] = [
        [file_no, "taken as missing" if file_no in report.named else "missing", count]
        for file_no, count in report.files.items()
    ]
    databases = [_database(loss) for loss in report.losses]
    ranges = [row for loss in report.losses for row in _ranges(loss, masking, listed)]
    keys = [row for loss in report.losses for row in _keys(loss, masking, listed)]
    cut = "" if listed is None else f" (of each database at most {listed}; JSON lines have all)"
    for section in (
        Section("file", "Files", _FILES, files),
        Section("database", "Databases that lose something", _DATABASES, databases),
        Section("range", f"Ranges of keys whose node is lost{cut}", _RANGES, ranges),
        Section("key", f"Records that are lost alone{cut}", _KEYS, keys),
    ):
        if section.rows:
            yield section


def _database(loss: Loss) -> list[Cell]:
    is_whole = loss.descriptor_lsn is not None
    kept = loss.kept_count + int(loss.kept.sum()) + sum(one.kept_count for one in loss.ranges)
    return [
        loss.name,
        "all of it, with its descriptor" if is_whole else "in part",
        len(loss.ranges),
        len(loss.keys),
        kept,
    ]


def _ranges(loss: Loss, masking: Masking, listed: int | None) -> Iterator[list[Cell]]:
    for one in loss.ranges[:listed]:
        lsn = None if one.lsn == NULL_LSN else one.lsn
        ends = (spelled(masking, one.low), spelled(masking, one.high))
        yield [loss.name, *ends, one.level, lsn, one.kept_count]


def _keys(loss: Loss, masking: Masking, listed: int | None) -> Iterator[list[Cell]]:
    for row in range(len(loss.keys) if listed is None else min(listed, len(loss.keys))):
        kept = "kept" if loss.kept[row] else "none"
        yield [loss.name, spelled(masking, loss.keys[row]), int(loss.key_lsns[row]), kept]
