"""Inventory of a store: its nodes, caches and folders, by names, sizes and headers of files.

Nothing is read but the first bytes of segments and partitions, and no lock is taken.

Source: NodeFileTree, PdsFolderResolver, FilePageStore, FileVersionCheckingFactory, FileLockHolder,
Ignite 2.18.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.errors import InputError
from je_tools.formats.files.source import Source, SourceChangedError, SourceError
from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.pages import FILE_HEADER_SIZE, PageFileHeader, read_file_header
from je_tools.ignite.caches import CacheFolder, cache_folders
from je_tools.ignite.segment_files import SegmentFile, Status
from je_tools.ignite.store import LOCK_NAME
from je_tools.writing.lock import find_holders

if TYPE_CHECKING:
    from je_tools.ignite.store import Node, Store

_PAGE_FILE = ("part-*.bin", "index.bin")
_LEFTOVERS = ("*.tmp", "part-dfrg-*", "index-dfrg*", "part-map-*.bin", "dfrg-completion-marker")
_RESTORED = "_tmp_snp_restore_"


class LockState(Struct, frozen=True):
    """Lock of a node's folder.

    Attributes:
        state: `no file`, `free`, `held`, or `unknown` if it cannot be asked.
        detail: the holder, or why it cannot be asked.
    """

    state: str
    detail: str | None = None


class CacheInfo(Struct, frozen=True):
    """A folder of a cache, or of the caches of a group.

    Attributes:
        node: name of the node.
        group: name of the group.
        group_id: its id.
        caches: names of its caches.
        is_shared: True for a group that was named.
        partitions: number of files of partitions.
        has_index: True if there is an index.bin.
        size: bytes of the files of partitions and index.
        page_size: size of a page, of the first of these files with a header; None without one.
        page_version: version of that file.
    """

    node: str
    group: str
    group_id: int
    caches: tuple[str, ...]
    is_shared: bool
    partitions: int
    has_index: bool
    size: int
    page_size: int | None
    page_version: int | None


class FolderInfo(Struct, frozen=True):
    """A folder of a node: its path below the store, and the files directly in it."""

    node: str
    content: str
    path: str
    files: int
    size: int


class Leftover(Struct, frozen=True):
    """A file or folder that an unfinished action left."""

    node: str
    path: str
    size: int


class NodeInfo(Struct, frozen=True):
    """One node.

    Attributes:
        node: name of its folders.
        naming: `generated` if the name has a generated consistent id, else `other`: a configured
            id, or addresses and ports.
        consistent_id: that id; None if the name is made of another one.
        lock: state of its lock; None without a folder.
        byte_order: that of the segments; None without any.
        serializers: versions of the framing of segments.
        first, last: lowest and highest segment.
        work, archive, compacted, unused, damaged: number of files of segments.
        log_size: bytes of segments.
        is_prefilled: True if all files of the work ring have the same size, as those that are
            filled in advance (mode FSYNC, or mapped files); the mode itself is in no file.
        caches, folders, leftovers: what lies in its folders.
    """

    node: str
    naming: str
    consistent_id: str | None
    lock: LockState | None
    byte_order: str | None
    serializers: tuple[int, ...]
    first: int | None
    last: int | None
    work: int
    archive: int
    compacted: int
    unused: int
    damaged: int
    log_size: int
    is_prefilled: bool | None
    caches: tuple[CacheInfo, ...]
    folders: tuple[FolderInfo, ...]
    leftovers: tuple[Leftover, ...]


def node_info(store: Store, node: Node) -> NodeInfo:
    """Return the inventory of a node.

    Raises:
        InputError: a folder or file cannot be read.
    """
    headers = [each.header for each in node.segments if each.header is not None]
    indexes = sorted(header.segment for header in headers)
    orders = {"big-endian" if header.is_big else "little-endian" for header in headers}
    folders = tuple(_folders(store, node))
    sizes = {each.size for each in node.work if not each.is_packed}
    return NodeInfo(
        node=node.name,
        naming="generated" if node.consistent_id else "other",
        consistent_id=node.consistent_id,
        lock=None if node.db is None else lock_state(node.db),
        byte_order=" and ".join(sorted(orders)) or None,
        serializers=tuple(sorted({header.serializer for header in headers})),
        first=indexes[0] if indexes else None,
        last=indexes[-1] if indexes else None,
        work=len(node.work),
        archive=sum(not each.is_packed for each in node.archive),
        compacted=sum(each.is_packed for each in node.segments),
        unused=_count(node.segments, Status.UNUSED),
        damaged=_count(node.segments, Status.BAD_HEADER, Status.UNREADABLE, Status.UNSUPPORTED),
        log_size=node.size,
        is_prefilled=len(sizes) == 1 if sizes else None,
        caches=tuple(_caches(node)),
        folders=folders,
        leftovers=tuple(_leftovers(store, node)),
    )


def lock_state(folder: Path) -> LockState:
    """Return the state of the lock of a node's folder, without taking it."""
    try:
        if not (folder / LOCK_NAME).exists():
            return LockState("no file")
        holders = find_holders(folder, LOCK_NAME)
    except (InputError, OSError) as error:
        return LockState("unknown", str(error))
    if holders:
        return LockState("held", "; ".join(holder.text for holder in holders))
    return LockState("free")


def _count(segments: Iterable[SegmentFile], *states: Status) -> int:
    return sum(each.status in states for each in segments)


def _caches(node: Node) -> Iterator[CacheInfo]:
    for folder in cache_folders(node.db) if node.db is not None else ():
        yield _cache(node, folder)


def _cache(node: Node, folder: CacheFolder) -> CacheInfo:
    files = [path for pattern in _PAGE_FILE for path in sorted(folder.path.glob(pattern))]
    header = next((found for found in map(_header_of, files) if found is not None), None)
    return CacheInfo(
        node=node.name,
        group=folder.group,
        group_id=cache_id(folder.group),
        caches=folder.caches,
        is_shared=folder.is_shared,
        partitions=sum(path.name != "index.bin" for path in files),
        has_index=any(path.name == "index.bin" for path in files),
        size=sum(_sizes(files).values()),
        page_size=None if header is None else header.page_size,
        page_version=None if header is None else header.version,
    )


def _header_of(path: Path) -> PageFileHeader | None:
    """Return the header of a file of pages; None if it is damaged or not there.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with Source(path) as source:
            header = read_file_header(source.read_bytes(0, FILE_HEADER_SIZE))
    except SourceChangedError:
        return None
    except SourceError as error:
        raise InputError(str(error)) from error
    return header if isinstance(header, PageFileHeader) else None


def _folders(store: Store, node: Node) -> Iterator[FolderInfo]:
    for content, path in _places(node):
        if path.is_dir():
            try:
                files = [each for each in path.iterdir() if each.is_file()]
            except OSError as error:
                raise InputError(f"{error.filename}: {error.strerror}") from error
            sizes = _sizes(files).values()
            yield FolderInfo(node.name, content, store.below(path), len(sizes), sum(sizes))


def _places(node: Node) -> Iterator[tuple[str, Path]]:
    if node.db is not None:
        db = node.db.parent
        yield "node", node.db
        yield "checkpoint markers", node.db / "cp"
        yield "metastorage", node.db / "metastorage"
        yield "unfinished snapshots", node.db / "snp"
        yield "types of binary objects", db / "binary_meta" / node.name
        yield "names of classes", db / "marshaller"
        yield "changes for consumers (CDC)", db / "wal" / "cdc" / node.name
    for content, some in (("work ring", node.work), ("archive", node.archive)):
        for path in dict.fromkeys(each.path.parent for each in some):
            yield content, path


def _leftovers(store: Store, node: Node) -> Iterator[Leftover]:
    if node.db is None:
        return
    roots = [node.db, *dict.fromkeys(each.path.parent for each in node.segments)]
    found = {path for root in roots for pattern in _LEFTOVERS for path in root.rglob(pattern)}
    found |= set(node.db.glob(f"{_RESTORED}*"))
    for path, size in _sizes(sorted(found)).items():
        yield Leftover(node.name, store.below(path), size)


def _sizes(paths: Iterable[Path]) -> dict[Path, int]:
    """Return the sizes of files. A running node renames and removes files: those are left out.

    Raises:
        InputError: the size of a file cannot be read.
    """
    sizes = {}
    try:
        for path in paths:
            with suppress(FileNotFoundError):
                sizes[path] = path.stat().st_size
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}") from error
    return sizes
