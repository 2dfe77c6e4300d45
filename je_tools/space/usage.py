"""Disk space of an environment: the content of each file, and the reasons why it still exists.

Utilization is as the engine has counted it, or as counted anew (`recount`). The disk limits are
those of `je.properties`; settings made by a program are not known here.

Source: je-log.md "Utilization"; DbSpace, DbDeleteReservedFiles, Cleaner.recalcLogSizeStats,
FileProtector.getLogSizeStats, JE 25.3.17.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.core.properties import (
    FREE_DISK,
    MAX_DISK,
    MIN_AGE,
    RESERVED_DISK,
    Settings,
    read_settings,
)
from je_tools.formats.files.remote_path import RemotePath
from je_tools.formats.je.internal.names import UTILIZATION_DB, VLSN_MAP_DB
from je_tools.formats.je.internal.replication import VlsnBucket
from je_tools.recovery.utilization import (
    FileSummary,
    Utilization,
    expirations,
    file_summaries,
    internal_records,
    reserved_files,
)

if TYPE_CHECKING:
    from je_tools.formats.je.internal.cleaner import Expirations, ReservedFile
    from je_tools.log.log_files import LogFile
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.space.recount import Recount

ADJUSTED_ABOVE = 10 << 30
"""Size above which `je.maxDisk` is lowered by `je.freeDisk`. Source: Cleaner, JE 25.3.17."""


class FileRole(StrEnum):
    """Role of a file for the engine."""

    ACTIVE = "active"
    LAST = "last"
    """The file that is written to."""
    RESERVED = "reserved"
    """Cleaned; it is deleted when space is needed."""
    AFTER_END = "behind-end"
    """Not part of the log that recovery would leave."""


class FileReason(StrEnum):
    """Reason why a file still exists."""

    LAST = "last-file"
    INTERVAL = "recovery-interval"
    LIVE = "live-entries"
    DELTA_BASE = "delta-bases"
    OPEN_TRANSACTION = "open-transaction"
    TOO_YOUNG = "too-young"
    VLSN_INDEX = "vlsn-index"
    TTL = "ttl-not-passed"
    HARD_LINK = "hard-link"
    RESERVED = "reserved"
    UNCOUNTED = "no-summary"
    """The engine has not counted it yet, or its counts are lost."""
    AFTER_END = "behind-end"
    """The log, as recovery would leave it, ends before this file."""


class FileSpace(Struct, frozen=True):
    """Space of one file.

    Attributes:
        file: the file.
        state: its role for the engine.
        counted: as counted by the engine; None without a summary.
        recounted: as counted anew; None if not requested.
        pending_size: bytes that will expire later; None if the engine has noted no expirations,
            as for the last file. The expired bytes are then not known either.
        reasons: reasons why it still exists; a file that is not reserved and has none will be
            cleaned.
    """

    file: LogFile
    state: FileRole
    counted: Utilization | None
    recounted: Utilization | None
    pending_size: int | None
    reasons: tuple[FileReason, ...]


class DiskUse(Struct, frozen=True):
    """Disk limits, as they apply when an engine next opens the environment.

    Attributes:
        max_disk, free_disk, reserved_disk: the limits, in bytes; 0 for none.
        adjusted_max_disk: limit that the engine derives from `max_disk`.
        free_size: free bytes of the file system; None if unknown.
        active_size, reserved_size: bytes of files of the log.
        behind_size: bytes of files after its end, which recovery removes.
    """

    max_disk: int
    free_disk: int
    reserved_disk: int
    adjusted_max_disk: int
    free_size: int | None
    active_size: int
    reserved_size: int
    behind_size: int = 0

    @property
    def over_max_size(self) -> int:
        """Bytes by which the log exceeds its limit; 0 if it does not."""
        if self.adjusted_max_disk <= 0:
            return 0
        return max(self.active_size + self.reserved_size - self.adjusted_max_disk, 0)

    @property
    def lacking_free_size(self) -> int | None:
        """Bytes that should be free and are not; None if the free space is unknown."""
        return None if self.free_size is None else max(self.free_disk - self.free_size, 0)

    @property
    def available_size(self) -> int | None:
        """Bytes that can be written if reserved files are deleted; the engine refuses at 0 or less.

        None if the free space is unknown.
        """
        if self.free_size is None:
            return None
        free = self.free_size - self.free_disk
        if self.adjusted_max_disk > 0:
            free = min(free, self.adjusted_max_disk - self.active_size - self.reserved_size)
        return free + self.reserved_size

    @property
    def prohibits_writes(self) -> bool:
        """True if the engine would hit a disk limit, and allow reads only."""
        return self.available_size is not None and self.available_size <= 0


class Space(Struct, frozen=True):
    """Disk space of an environment.

    Attributes:
        files: files in log order.
        total: utilization of files that are not reserved, as counted by the engine.
        recounted_total: the same, counted anew; None if not requested.
        disk: disk limits.
        settings: settings in `je.properties`.
        has_counts: True if there is a database of the engine's counts.
    """

    files: tuple[FileSpace, ...]
    total: Utilization
    recounted_total: Utilization | None
    disk: DiskUse
    settings: Settings
    has_counts: bool = True

    @property
    def uncounted_size(self) -> int:
        """Bytes of files in use that the engine has not counted, file headers among them."""
        return max(self.disk.active_size - self.total.total_size, 0)

    @property
    def reserved(self) -> tuple[FileSpace, ...]:
        """Files that may be deleted, oldest first."""
        return tuple(each for each in self.files if each.state is FileRole.RESERVED)


def deletable(space: Space, wanted: int) -> tuple[FileSpace, ...]:
    """Return the oldest reserved files that together free `wanted` bytes, or all of them."""
    chosen: list[FileSpace] = []
    for each in space.reserved:
        if sum(one.file.size for one in chosen) >= wanted:
            break
        chosen.append(each)
    return tuple(chosen)


def measure_space(snapshot: Snapshot, recounted: Recount | None = None) -> Space:
    """Return the disk space of an environment.

    Args:
        snapshot: its log after recovery; `now_ms` decides which records have expired.
        recounted: result of a recount, if one was made.
    """
    home = Path(snapshot.environment.name)
    settings = read_settings(home)
    known = _FileFacts(
        snapshot,
        file_summaries(snapshot),
        reserved_files(snapshot),
        expirations(snapshot),
        recounted,
        settings.number(MIN_AGE),
        _open_files(snapshot),
        _indexed_files(snapshot),
    )
    files = tuple(known.judge(file) for file in snapshot.environment.files)
    counted = [each.counted for each in files if each.counted is not None]
    anew = [each.recounted for each in files if each.recounted is not None]
    disk = _disk(home, settings, files, snapshot.end.next_offset)
    has_counts = any(each.name == UTILIZATION_DB for each in snapshot.databases.values())
    recounted_total = _sum(anew) if recounted else None
    return Space(files, _sum(counted), recounted_total, disk, settings, has_counts)


def _sum(parts: list[Utilization]) -> Utilization:
    return Utilization(
        sum(each.total_size for each in parts),
        sum(each.obsolete_size for each in parts),
        sum(each.expired_size for each in parts),
    )


class _FileFacts(Struct, frozen=True):
    """Data by which files are judged."""

    snapshot: Snapshot
    summaries: Mapping[int, FileSummary]
    reserved: Mapping[int, ReservedFile]
    expirations: Mapping[int, Expirations]
    recounted: Recount | None
    min_age: int
    open_files: frozenset[int]
    indexed_files: frozenset[int]

    def judge(self, file: LogFile) -> FileSpace:
        state = self._state(file)
        no = file.file_no
        expiring = self.expirations.get(no)
        expired = expiring.expired_size(self.snapshot.now_ms) if expiring else 0
        pending = sum(size for _, size in expiring.sizes) - expired if expiring else None
        counted = recounted = None
        if state in (FileRole.ACTIVE, FileRole.LAST):
            summary = self.summaries.get(no)
            if summary is not None:
                counted = _utilization(summary.total_size, summary.obsolete_size, expired)
            if self.recounted is not None:
                again = self.recounted
                recounted = _utilization(again.total[no], again.obsolete_size(no), expired)
        used = recounted or counted
        reasons = self._reasons(file, state, used, pending)
        return FileSpace(file, state, counted, recounted, pending, reasons)

    def _state(self, file: LogFile) -> FileRole:
        last = self.snapshot.end.files[-1].file_no
        if file.file_no >= last:
            return FileRole.LAST if file.file_no == last else FileRole.AFTER_END
        return FileRole.RESERVED if file.file_no in self.reserved else FileRole.ACTIVE

    def _reasons(
        self, file: LogFile, state: FileRole, used: Utilization | None, pending: int | None
    ) -> tuple[FileReason, ...]:
        if state is FileRole.AFTER_END:
            return (FileReason.AFTER_END,)
        no = file.file_no
        is_reserved = state is FileRole.RESERVED
        age = self.snapshot.end.files[-1].file_no - no
        bases = self.recounted.bases[no] if self.recounted else 0
        holds = {
            FileReason.LAST: state is FileRole.LAST,
            FileReason.INTERVAL: no >= self.snapshot.first_lsn >> 32,
            FileReason.LIVE: used is not None and used.obsolete_size < used.total_size,
            FileReason.DELTA_BASE: bases > 0,
            FileReason.OPEN_TRANSACTION: no in self.open_files,
            FileReason.TOO_YOUNG: state is FileRole.ACTIVE and age < self.min_age,
            FileReason.VLSN_INDEX: no in self.indexed_files,
            FileReason.TTL: bool(pending) and not is_reserved,
            FileReason.HARD_LINK: _link_count(file.path) > 1,
            FileReason.RESERVED: is_reserved,
            FileReason.UNCOUNTED: used is None and not is_reserved,
        }
        return tuple(reason for reason, does in holds.items() if does)


def _utilization(total: int, obsolete: int, expired: int) -> Utilization:
    return Utilization(total, obsolete, min(expired, total))


def _open_files(snapshot: Snapshot) -> frozenset[int]:
    """Return the files with records of transactions that have no end."""
    lns, ends = snapshot.interval.lns, snapshot.interval.ends
    opened = snapshot.rules.is_undone(lns) & ~np.isin(lns.txn_id, ends.txn_id)
    return frozenset(np.unique(lns.lsn[opened] >> 32 & 0xFFFFFFFF).tolist())


def _indexed_files(snapshot: Snapshot) -> frozenset[int]:
    """Return the files to which the VLSN index refers."""
    records = internal_records(snapshot, VLSN_MAP_DB)
    return frozenset(each.file_no for each in records if isinstance(each, VlsnBucket))


def _link_count(path: Path) -> int:
    try:
        return path.stat().st_nlink
    except OSError:
        return 1


def _disk(home: Path, settings: Settings, files: tuple[FileSpace, ...], end_offset: int) -> DiskUse:
    """Return the limits for a log that ends at an offset in its last file."""
    sizes: Counter[FileRole] = Counter()
    for each in files:
        inside = min(each.file.size, end_offset) if each.state is FileRole.LAST else each.file.size
        sizes[each.state] += inside
        sizes[FileRole.AFTER_END] += each.file.size - inside
    return disk_use(home, settings, sizes)


def disk_use(home: Path, settings: Settings, sizes: Mapping[FileRole, int]) -> DiskUse:
    """Return the disk limits of an environment, and the free space of its file system.

    Args:
        home: its directory.
        settings: settings in its `je.properties`.
        sizes: bytes of its files by their roles; a role without bytes may be absent.
    """
    max_disk, free_disk = settings.number(MAX_DISK), settings.number(FREE_DISK)
    is_lowered = max_disk > ADJUSTED_ABOVE or settings.is_set(FREE_DISK)
    return DiskUse(
        max_disk,
        free_disk,
        settings.number(RESERVED_DISK),
        max_disk - free_disk if max_disk and is_lowered else max_disk,
        _free_size(home),
        sizes.get(FileRole.ACTIVE, 0) + sizes.get(FileRole.LAST, 0),
        sizes.get(FileRole.RESERVED, 0),
        sizes.get(FileRole.AFTER_END, 0),
    )


def _free_size(home: Path) -> int | None:
    """Return the bytes that an unprivileged program may still write, or None if unknown."""
    if isinstance(home, RemotePath):
        return None
    try:
        found = os.statvfs(home)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
