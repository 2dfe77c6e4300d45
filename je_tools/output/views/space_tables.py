"""Space of an environment, by file, as tables and as rows of JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from je_tools.core.escaping import printable
from je_tools.output.views.sections import Cell, Column, Kind, Section, fact_section, section_of

if TYPE_CHECKING:
    from je_tools.recovery.utilization import Utilization
    from je_tools.space.usage import FileSpace, Space


def _utilization_cell(kind: str, name: str) -> Any:
    """Return a function for the cell of a field of a file's counted or recounted utilization."""

    def cell(each: FileSpace) -> Cell:
        used: Utilization | None = getattr(each, kind)
        found: Cell = None if used is None else getattr(used, name)
        return found

    return cell


def _expired(each: FileSpace) -> Cell:
    """Return the expired bytes; None if the engine has not recorded expirations."""
    if each.counted is None or each.pending_size is None:
        return None
    return each.counted.expired_size


_FILE = (
    Column("file_no", "file", Kind.FILE, cell=lambda each: each.file.file_no),
    Column("state", "state", Kind.TEXT, cell=lambda each: each.state.value),
    Column("size", "bytes", cell=lambda each: each.file.size),
)
_COUNTED = (
    Column("counted_size", "counted", rank=3, cell=_utilization_cell("counted", "total_size")),
    Column("obsolete_size", "obsolete", rank=2, cell=_utilization_cell("counted", "obsolete_size")),
    Column("expired_size", "expired", rank=4, cell=lambda each: _expired(each)),
    Column("used_percent", "% used", cell=_utilization_cell("counted", "average")),
    Column("used_least_percent", "least", rank=5, cell=_utilization_cell("counted", "least")),
    Column("used_most_percent", "most", rank=5, cell=_utilization_cell("counted", "most")),
)
_RECOUNTED = (
    Column(
        "recounted_obsolete_size",
        "recounted obsolete",
        rank=2,
        cell=_utilization_cell("recounted", "obsolete_size"),
    ),
    Column("recounted_percent", "% recounted", cell=_utilization_cell("recounted", "average")),
    Column(
        "recounted_least_percent", "least", rank=5, cell=_utilization_cell("recounted", "least")
    ),
    Column("recounted_most_percent", "most", rank=5, cell=_utilization_cell("recounted", "most")),
)
_REASONS = (
    Column("pending_size", "will expire", rank=4),
    Column("reasons", "kept because", Kind.TEXTS, cell=lambda each: [*each.reasons], wraps=True),
)
UNCOUNTED_MAX = 1 << 16
"""Largest number of uncounted bytes not to report: some follow every log's last checkpoint."""

_CHOSEN = (
    Column("file_no", "file", Kind.FILE, cell=lambda each: each.file.file_no),
    Column("size", "bytes", cell=lambda each: each.file.size),
    Column("path", "path", Kind.TEXT, cell=lambda each: str(each.file.path), wraps=True),
)


def file_section(space: Space) -> Section:
    """Return a table with a row for each file."""
    anew = _RECOUNTED if space.recounted_total is not None else ()
    return section_of("files", "", (*_FILE, *_COUNTED, *anew, *_REASONS), space.files)


def deletable_section(chosen: Iterable[FileSpace]) -> Section:
    """Return a table of reserved files that may be deleted."""
    return section_of("deletable", "Reserved files that may be deleted", _CHOSEN, chosen)


def space_sections(space: Space, chosen: Iterable[FileSpace]) -> list[Section]:
    """Return tables for people, without empty ones."""
    facts = fact_section("space", _facts(space))
    tables = [file_section(space), deletable_section(chosen), facts]
    return [table for table in tables if table.rows]


def _facts(space: Space) -> Iterator[tuple[str, str]]:
    yield "counted", _used(space.total)
    if space.uncounted_size > UNCOUNTED_MAX:
        yield "not counted yet", f"{space.uncounted_size:,} bytes of files in use"
    if space.recounted_total is not None:
        yield "recounted", _used(space.recounted_total)
    disk = space.disk
    yield "files in use", f"{disk.active_size:,} bytes"
    yield "reserved files", f"{disk.reserved_size:,} bytes"
    if disk.behind_size:
        yield "after the end", f"{disk.behind_size:,} bytes"
    yield "je.maxDisk", _limit(disk.max_disk)
    if disk.adjusted_max_disk != disk.max_disk:
        yield "je.maxDisk minus je.freeDisk", f"{disk.adjusted_max_disk:,} bytes"
    yield "je.freeDisk", _limit(disk.free_disk)
    yield "je.reservedDisk", _limit(disk.reserved_disk)
    if disk.free_size is None or disk.available_size is None:
        yield "free on disk", "unknown"
        return
    yield "free on disk", f"{disk.free_size:,} bytes"
    if disk.prohibits_writes:
        yield "the engine", "would prohibit writes: its limits leave no space left"
    else:
        yield "the engine", f"may write {disk.available_size:,} bytes, without reserved files"


def _used(used: Utilization) -> str:
    if not used.total_size:
        return "nothing"
    expired = f", {used.expired_size:,} expired" if used.expired_size else ""
    obsolete = f"{used.obsolete_size:,} obsolete"
    return f"{used.average} % of {used.total_size:,} bytes used, {obsolete}{expired}"


def _limit(size: int) -> str:
    return f"{size:,} bytes" if size else "no limit"


def space_row(space: Space) -> dict[str, Any]:
    """Return the totals of an environment, for JSON lines."""
    disk = space.disk
    return {
        "section": "space",
        **_totals("", space.total),
        **(_totals("recounted_", space.recounted_total) if space.recounted_total else {}),
        "uncounted_size": space.uncounted_size,
        "active_size": disk.active_size,
        "reserved_size": disk.reserved_size,
        "behind_size": disk.behind_size,
        "max_disk": disk.max_disk,
        "adjusted_max_disk": disk.adjusted_max_disk,
        "free_disk": disk.free_disk,
        "reserved_disk": disk.reserved_disk,
        "free_size": disk.free_size,
        "over_max_size": disk.over_max_size,
        "lacking_free_size": disk.lacking_free_size,
        "available_size": disk.available_size,
        "prohibits_writes": disk.prohibits_writes,
        "settings_refused": [printable(text) for text in space.settings.refused],
        "settings_unreadable": space.settings.unreadable,
    }


def _totals(prefix: str, used: Utilization) -> dict[str, int]:
    return {
        f"{prefix}total_size": used.total_size,
        f"{prefix}obsolete_size": used.obsolete_size,
        f"{prefix}expired_size": used.expired_size,
        f"{prefix}used_percent": used.average,
        f"{prefix}used_least_percent": used.least,
        f"{prefix}used_most_percent": used.most,
    }
