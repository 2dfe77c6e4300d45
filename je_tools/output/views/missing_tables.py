"""Losses from missing files of a log, as tables and as JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from je_tools.formats.je.header import NULL_LSN
from je_tools.output.views.key_tables import masked_hex, shown_key
from je_tools.output.views.sections import Cell, Column, Kind, Section, section_of, unless

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.missing.losses import DatabaseLoss, LossReport

KeyText = Callable[[bytes | None], str | None]
"""Formatter of keys."""

LISTED = 20
"""Number of ranges, and of keys, that a table lists for a database; JSON lines have all."""

_FILES = (
    Column("file_no", "file", Kind.FILE),
    Column("state", "state", Kind.TEXT, cell=lambda each: each.state.value),
    Column("place_count", "references to it"),
    Column("reason", "reason", Kind.TEXT),
)
_DATABASES = (
    Column("db", "database", Kind.TEXT, cell=lambda each: each.name),
    Column("db_id", "id", Kind.ID, rank=2),
    Column("lost", "lost", Kind.TEXT, cell=lambda each: lost_text(each)),
    Column("range_count", "ranges", cell=lambda each: len(each.ranges)),
    Column("key_count", "keys"),
    Column("kept_count", "kept"),
)
_RANGES = (
    Column("db", "database", Kind.TEXT),
    Column("lost_from", "from key", Kind.KEY),
    Column("lost_to", "before key", Kind.KEY),
    Column("level", "level", rank=3),
    Column("lsn", "lost node", Kind.LSN, rank=2),
    Column("key_count", "keys"),
    Column("kept_count", "kept"),
)
_KEYS = (
    Column("db", "database", Kind.TEXT),
    Column("key", "key", Kind.KEY),
    Column("lsn", "lost record", Kind.LSN, rank=2),
    Column("kept", "other version", Kind.TEXT),
)


def missing_sections(
    report: LossReport, masking: Masking, *, listed: int | None
) -> Iterator[Section]:
    """Yield tables of the losses; for people without empty ones.

    Args:
        report: the losses.
        masking: masking of keys.
        listed: number of ranges, and of keys, to list for each database, in a table for people;
            None for all.
    """
    has_reasons = listed is None or any(file.reason for file in report.files)
    files = _FILES if has_reasons else _FILES[:-1]
    key_text = partial(masked_hex if listed is None else shown_key, masking)
    ranges = [row for loss in report.losses for row in _ranges(loss, listed, key_text)]
    keys = [row for loss in report.losses for row in _keys(loss, listed, key_text)]
    cut = "" if listed is None else f" (at most {listed} per database; JSON lines have all)"
    for section in (
        section_of("file", "Files", files, report.files),
        section_of("database", "Databases with losses", _DATABASES, report.losses),
        Section("range", f"Key ranges with a lost node{cut}", _RANGES, ranges),
        Section("key", f"Keys of which only the record is lost{cut}", _KEYS, keys),
    ):
        if section.rows or listed is None:
            yield section


def lost_text(loss: DatabaseLoss) -> str:
    """Return the extent of a database's loss in words."""
    part = "in part" if loss.ranges or len(loss.keys) else ""
    parts = ("all of it" if loss.is_whole else part, "its name" if loss.name_lost else "")
    return ", ".join(filter(None, parts))


def _ranges(loss: DatabaseLoss, listed: int | None, key_text: KeyText) -> Iterator[list[Cell]]:
    for one in loss.ranges[:listed]:
        bounds = (key_text(one.low), key_text(one.high))
        lsn = unless(one.lsn, NULL_LSN)
        yield [loss.name, *bounds, one.level, lsn, one.key_count, one.kept_count]


def _keys(loss: DatabaseLoss, listed: int | None, key_text: KeyText) -> Iterator[list[Cell]]:
    for row in range(len(loss.keys) if listed is None else min(listed, len(loss.keys))):
        kept = "kept" if loss.kept[row] else "none"
        yield [loss.name, key_text(loss.keys[row]), int(loss.key_lsns[row]), kept]
