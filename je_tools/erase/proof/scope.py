"""Scope of a proof: places that were not searched, and facts that may concern erased bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.core.escaping import counted
from je_tools.erase.proof.extents import extents_of
from je_tools.erase.proof.file_systems import known_mounts, mount_facts, mount_of
from je_tools.erase.proof.open_files import deleted_files

if TYPE_CHECKING:
    from je_tools.erase.proof.file_tree import FoundFile

NOT_LOOKED_AT = (
    "backups, exports and other copies outside of this directory",
    "other nodes of a replication group",
    "free space, journal and snapshots of the file system",
    "blocks that an SSD or a RAID controller has remapped",
    "extended attributes and access control lists of files",
    "memory and swap of this and other machines, and core dumps",
    "what compressed or encrypted files and values hold, beyond their bytes as they are",
)
"""Places that the command never searches."""

_SWAPS = Path("/proc/swaps")


class Scope(Struct, frozen=True):
    """Scope of a proof.

    Attributes:
        not_looked_at: places that were not searched.
        facts: properties of files, file systems and processes that may keep erased bytes.
    """

    not_looked_at: tuple[str, ...]
    facts: tuple[str, ...]


def find_scope(home: Path, files: Sequence[FoundFile]) -> Scope:
    """Return the scope of a search of some files below a directory."""
    facts: list[str] = []
    mounts = known_mounts()
    devices = {each.device: each.path for each in reversed(files)}
    known = [mount_of(device, path, mounts) for device, path in devices.items()]
    facts += mount_facts({each.device: each for each in known if each is not None}.values())
    if None in known or not files:
        facts.append("The type of the file system is not known.")
    facts += _link_facts(files)
    facts += _extent_facts(files)
    facts += _deleted_facts(home)
    facts += _swap_facts()
    return Scope(NOT_LOOKED_AT, tuple(facts))


def _link_facts(files: Sequence[FoundFile]) -> list[str]:
    linked = [each for each in files if each.link_count > 1]
    if not linked:
        return []
    return [
        f"{counted(len(linked), 'file')} with more than one hard link: another directory has the "
        "same bytes, and backups made of links change with them."
    ]


def _extent_facts(files: Sequence[FoundFile]) -> list[str]:
    shared = unwritten = unknown = sparse = 0
    for file in files:
        sparse += file.block_size < file.size
        extents = extents_of(file.path)
        if extents is None:
            unknown += 1
            continue
        shared += extents.shared > 0
        unwritten += extents.unwritten > 0
    facts = []
    if shared:
        facts.append(
            f"{counted(shared, 'file')} with bytes that another file or a snapshot shares "
            "(reflinks): what is overwritten here stays there."
        )
    if unwritten:
        facts.append(
            f"{counted(unwritten, 'file')} with blocks that are allocated and were never written: "
            "they read as zeros, and may hold old content."
        )
    if sparse:
        facts.append(
            f"{counted(sparse, 'file')} with fewer blocks than bytes (holes, compression)."
        )
    if unknown:
        facts.append(f"Unknown: whether other files share bytes of {counted(unknown, 'file')}.")
    return facts


def _deleted_facts(home: Path) -> list[str]:
    found = deleted_files(home)
    facts = [
        f"Process {number} still has a deleted file of this directory open, {size:,} bytes: it was "
        "not searched, and exists until the process closes it."
        for number, size in found.open_files
    ]
    if found.unseen_count:
        facts.append(
            f"Other users' processes ({found.unseen_count:,}) may have deleted files of this "
            "directory open: that was not checked."
        )
    return facts


def _swap_facts() -> list[str]:
    try:
        lines = _SWAPS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    return ["This machine has swap, which was not searched."] if len(lines) > 1 else []
