"""Versions of log files whose headers are bad, from their entries and from other files."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from je_tools.log.log_files import DEFAULT_VERSION, LogFile, VersionBy


def with_versions(files: list[LogFile]) -> list[LogFile]:
    """Give files with a bad header a version.

    A file gets a version in which its entries make sense. Of several, it gets the one that its
    header names, else that of the nearest file, else the newest. A file without entries gets the
    version of the nearest file, preferably one before it, else one that a damaged header names.
    """
    near = _filled([file.version for file in files])
    files = [_by_entries(file, one) for file, one in zip(files, near, strict=True)]
    claimed = [file.header.claim for file in files if file.header.claim]
    rest = [*claimed, DEFAULT_VERSION][0]
    by = VersionBy.CLAIM if claimed else VersionBy.NOTHING
    near = _filled([file.version for file in files])
    return [
        file
        if file.version
        else replace(file, version=one or rest, by=VersionBy.FILES if one else by)
        for file, one in zip(files, near, strict=True)
    ]


def _filled(versions: Sequence[int]) -> list[int]:
    """Replace each 0 by the last number before it that is not 0, or by the first after it."""
    last = next(filter(None, versions), 0)
    filled = []
    for version in versions:
        last = version or last
        filled.append(last)
    return filled


def _by_entries(file: LogFile, near: int) -> LogFile:
    if file.version or not file.fits:
        return file
    wanted = [version for version in (file.header.claim, near) if version in file.fits]
    version = wanted[0] if wanted else max(file.fits)
    return replace(file, version=version, by=VersionBy.ENTRIES)
