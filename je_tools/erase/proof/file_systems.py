"""Facts about the file systems of an environment that may keep overwritten or deleted bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

_MOUNTS = Path("/proc/self/mountinfo")
_DEVICES = Path("/sys/dev/block")
_OCTAL = re.compile(r"\\([0-7]{3})")

_COPY_ON_WRITE = frozenset({"bcachefs", "btrfs", "zfs"})
_REFLINKS = frozenset({"ocfs2", "xfs"})
_REMOTE = frozenset({"9p", "afs", "ceph", "cifs", "glusterfs", "lustre", "nfs", "nfs4", "smb3"})
_IN_MEMORY = frozenset({"ramfs", "tmpfs"})
_LAYERED = frozenset({"aufs", "overlay", "unionfs"})


class Mount(Struct, frozen=True):
    """A mounted file system.

    Attributes:
        device: its number.
        fs_type: its type, such as `ext4`.
        options: options of the mount and of the file system.
        source: its device, as the system names it.
    """

    device: int
    fs_type: str
    options: frozenset[str]
    source: str


def read_mounts(text: str) -> dict[int, Mount]:
    """Parse `/proc/self/mountinfo`; return mounts by device number, and skip other lines."""
    mounts = {}
    for line in text.splitlines():
        head, _, tail = line.partition(" - ")
        fields, rest = head.split(" "), tail.split(" ")
        major, _, minor = fields[2].partition(":") if len(fields) > 5 else ("", "", "")
        if len(rest) < 3 or not (major.isdecimal() and minor.isdecimal()):
            continue
        options = frozenset(f"{fields[5]},{rest[2]}".split(","))
        number = os.makedev(int(major), int(minor))
        mounts[number] = Mount(number, rest[0], options, _unescaped(rest[1]))
    return mounts


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def known_mounts() -> dict[int, Mount]:
    """Return the mounts of this process by device number; none if the system does not say."""
    try:
        return read_mounts(_MOUNTS.read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return {}


def mount_of(device: int, path: Path, mounts: Mapping[int, Mount]) -> Mount | None:
    """Return the mount of a file; None if it is unknown.

    On btrfs, the device number of a file is not that of its mount, so the path decides.
    """
    if device in mounts:
        return mounts[device]
    for folder in (path, *path.parents):
        try:
            if os.path.ismount(folder):
                return mounts.get(folder.stat().st_dev) or _by_path(folder)
        except OSError:
            return None
    return None


def _by_path(folder: Path) -> Mount | None:
    """Return the mount of a mount point by its name."""
    try:
        text = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    lines = [line for line in text.splitlines() if _point_of(line) == str(folder.resolve())]
    return next(iter(read_mounts("\n".join(lines[-1:])).values()), None)


def _point_of(line: str) -> str:
    fields = line.split(" ")
    return _unescaped(fields[4]) if len(fields) > 4 else ""


def mount_facts(mounts: Iterable[Mount]) -> Iterator[str]:
    """Yield facts about file systems and devices that concern bytes that were overwritten."""
    for mount in sorted(mounts, key=lambda each: each.device):
        kind = mount.fs_type
        yield f"The file system is {kind}."
        if kind in _COPY_ON_WRITE:
            yield (
                f"{kind} writes changed bytes to a new place: the old ones stay in free space and "
                "in snapshots, which were not searched."
            )
        elif kind in _REFLINKS:
            yield (
                f"{kind} can share bytes between files (reflinks): a copy made so keeps the old "
                "bytes when this file is overwritten."
            )
        elif kind in _LAYERED:
            yield f"{kind} lays directories over others: a lower layer may have an older version."
        elif kind in _REMOTE or kind.startswith("fuse"):
            yield f"{kind} stores the files elsewhere, where copies and snapshots may exist."
        elif kind in _IN_MEMORY:
            yield f"{kind} is in memory, and may be written to swap."
        if "data=journal" in mount.options:
            yield "Its journal holds contents of files (data=journal)."
        yield from _device_facts(mount.device)


def _device_facts(device: int) -> Iterator[str]:
    """Yield the known facts about the block device below a file system."""
    folder = _DEVICES / f"{os.major(device)}:{os.minor(device)}"
    if (folder / "loop").is_dir():
        yield "It lies in a file of another file system (loop device), which was not searched."
    if (folder / "dm").is_dir():
        yield (
            "It lies on a device-mapper volume (LVM or encryption); snapshots of the volume were "
            "not searched."
        )
