"""Space of an environment and of its files, in plain values, as `space` counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.doctor.data_use import used_size

if TYPE_CHECKING:
    from je_tools.space.usage import FileSpace, Space


class SpaceUse(Struct, frozen=True):
    """Space of an environment, by the engine's own counts.

    Attributes:
        total_size, obsolete_size, expired_size, used_percent: of files that are not reserved.
        used_size: bytes in use of files that are counted.
        uncounted_size: bytes of files in use that the engine has not counted.
        reserved_size: bytes of reserved files.
    """

    total_size: int
    obsolete_size: int
    expired_size: int
    used_percent: int
    used_size: int
    uncounted_size: int
    reserved_size: int


class FileUse(Struct, frozen=True):
    """Space of a file: a row of the table `space`, without its environment."""

    file_no: int
    state: str
    size: int
    counted_size: int | None
    obsolete_size: int | None
    expired_size: int | None
    used_percent: int | None
    used_least_percent: int | None
    used_most_percent: int | None
    pending_size: int | None
    reasons: str


def space_use(space: Space) -> SpaceUse:
    """Return the space of an environment."""
    total = space.total
    return SpaceUse(
        total.total_size,
        total.obsolete_size,
        total.expired_size,
        total.average,
        sum(used_size(each) or 0 for each in space.files),
        space.uncounted_size,
        space.disk.reserved_size,
    )


def file_uses(space: Space) -> tuple[FileUse, ...]:
    """Return the space of each file, in log order."""
    return tuple(map(_file_use, space.files))


def _file_use(each: FileSpace) -> FileUse:
    used = each.counted
    is_expiry_known = used is not None and each.pending_size is not None
    return FileUse(
        each.file.file_no,
        each.state.value,
        each.file.size,
        counted_size=used.total_size if used is not None else None,
        obsolete_size=used.obsolete_size if used is not None else None,
        expired_size=used.expired_size if used is not None and is_expiry_known else None,
        used_percent=used.average if used is not None else None,
        used_least_percent=used.least if used is not None else None,
        used_most_percent=used.most if used is not None else None,
        pending_size=each.pending_size,
        reasons=" ".join(each.reasons),
    )
