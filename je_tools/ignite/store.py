"""Persistent stores of Ignite: the nodes in a work directory, and the files of each.

Opening takes no lock and writes nothing.

Source: NodeFileTree, SharedFileTree, FileWriteAheadLogManager, Ignite 2.18.0.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from je_tools.core.escaping import quoted
from je_tools.errors import InputError, UsageError
from je_tools.ignite.segment_files import SegmentFile, Status, inspect_segment, segment_name

_NOT_NODES = frozenset({"binary_meta", "marshaller", "wal", "archive", "cdc"})
_NEW_NAME = re.compile(r"node\d+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
LOCK_NAME = "lock"
"""File whose first byte a node locks while it runs."""

_NODE_MEMBERS = ("cp", "metastorage", "maintenance_tasks.mntc", LOCK_NAME)

_ABOVE = 4
"""Number of folders above a part of a store in which its work directory is looked for."""

STORE_FOLDERS = frozenset({"db", "wal", *_NODE_MEMBERS[:2]})
"""Names of folders; a directory of which `holds_store` is true has at least one of them."""


class Node(Struct, frozen=True):
    """The files of one node.

    Attributes:
        name: name of its folders; empty if only files or folders of segments were named.
        db: folder of its caches and markers; None if there is none.
        work, archive: segments of the write-ahead log, by name.
    """

    name: str
    db: Path | None
    work: tuple[SegmentFile, ...]
    archive: tuple[SegmentFile, ...]

    @property
    def segments(self) -> tuple[SegmentFile, ...]:
        """All files of segments, those of the archive first."""
        return self.archive + self.work

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(each.size for each in self.segments)

    @property
    def is_big(self) -> bool:
        """True if segments have the highest byte of a number first."""
        return any(each.header.is_big for each in self.segments if each.header is not None)

    @property
    def consistent_id(self) -> str | None:
        """The id in the name of the node's folder; None if the name is made of another id."""
        found = _NEW_NAME.fullmatch(self.name)
        return found[1] if found else None


class Store(Struct, frozen=True):
    """One or more nodes.

    Attributes:
        name: the path as named by the user.
        roots: directories that belong to the store: no output may lie in them.
        nodes: the nodes, by name.
    """

    name: str
    roots: tuple[Path, ...]
    nodes: tuple[Node, ...]

    def below(self, path: Path) -> str:
        """Return a path as `path_below` the first root."""
        return path_below(path, self.roots[0])

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(node.size for node in self.nodes)


def path_below(path: Path, root: Path | str) -> str:
    """Return a path below a directory; one that lies elsewhere as it is, and "." for the directory.

    Paths in results are those below the first root of a store.
    """
    text, top = str(path), str(root)
    return "." if text == top else text.removeprefix(f"{top.rstrip('/')}/")


def holds_store(folder: Path) -> bool:
    """Return True if `open_store` would open a directory as a whole store.

    Other directories have folders of these names too, so there must be files of a node in them.
    Only names are read.
    """
    try:
        return _has_names_of_store(folder)
    except InputError:
        return False


def store_around(folder: Path) -> Path | None:
    """Return the store that a directory is a part of; None if there is none above it."""
    # The work directory is above its `db`, which can be opened too.
    around = reversed(folder.resolve().parents[:_ABOVE])
    return next((above for above in around if holds_store(above)), None)


def _has_names_of_store(folder: Path) -> bool:
    names = set(_names(folder))
    if "db" in names and (folder / "db").is_dir():
        db = folder / "db"
    elif "wal" in names and (folder / "wal").is_dir():
        db = folder
    else:
        return not names.isdisjoint(_NODE_MEMBERS[:3])
    return any(_node_names(db)) or any(
        (db / name).is_dir() or any(map(_has_segments, _wal_folders(db, name)))
        for name in _wal_names(db / "wal")
    )


def _has_segments(folder: Path) -> bool:
    return folder.is_dir() and any(segment_name(name) is not None for name in _names(folder))


def store_size(folder: Path) -> int:
    """Return the bytes of all segments and page files below a directory.

    Files that cannot be examined count as empty.
    """
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith((".wal", ".wal.zip", ".bin")):
                with suppress(OSError):
                    total += (Path(place) / name).stat().st_size
    return total


def open_store(paths: Sequence[Path], names: Iterable[str] = ()) -> Store:
    """Open a work directory, its `db`, a node's folder, or folders and files of segments.

    Args:
        paths: what the user named. Only folders and files of segments may be several.
        names: nodes to keep; empty for all.

    Raises:
        InputError: a path does not exist or is no store.
        UsageError: several paths, and one is not a folder or file of segments; or no node has such
            a name.
    """
    for path in paths:
        try:
            is_there = path.exists()
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        if not is_there:
            raise InputError(f"{path}: no such file or directory")
    found = [_open_tree(path) for path in paths]
    if len(paths) == 1 and found[0] is not None:
        store = found[0]
    elif any(found):
        raise UsageError(
            "one command reads one store: name one work directory, or folders and files of the "
            "write-ahead log of one node"
        )
    else:
        store = _open_segments(paths)
    wanted = frozenset(names)
    missing = wanted - {node.name for node in store.nodes}
    if missing:
        known = ", ".join(node.name for node in store.nodes) or "none"
        raise UsageError(f"{store.name}: no node is named {min(missing)}; its nodes: {known}")
    kept = tuple(node for node in store.nodes if not wanted or node.name in wanted)
    return Store(store.name, store.roots, kept)


def _open_tree(path: Path) -> Store | None:
    """Return the store at a directory; None if it holds at most segments."""
    if not path.is_dir():
        return None
    names = set(_names(path))
    if "db" in names and (path / "db").is_dir():
        return _open_db(path / "db", path)
    if "wal" in names and (path / "wal").is_dir():
        return _open_db(path, path)
    if names.intersection(_NODE_MEMBERS[:3]):
        return Store(str(path), (path,), (_open_node(path.parent, path.name),))
    return None


def _open_db(db: Path, named: Path) -> Store:
    nodes = sorted(set(_node_names(db)) | _wal_names(db / "wal"))
    if not nodes:
        raise InputError(f"{named}: no node has files in it; name the work directory of a node")
    return Store(str(named), (named,), tuple(_open_node(db, name) for name in nodes))


def _node_names(db: Path) -> Iterable[str]:
    for name in _names(db):
        folder = db / name
        if name not in _NOT_NODES and any((folder / each).exists() for each in _NODE_MEMBERS):
            yield name


def _wal_names(wal: Path) -> set[str]:
    folders = [wal, wal / "archive"]
    return {
        name
        for folder in folders
        if folder.is_dir()
        for name in _names(folder)
        if name not in _NOT_NODES and (folder / name).is_dir()
    }


def _open_node(db: Path, name: str) -> Node:
    folder = db / name
    work, archive = map(_segments_in, _wal_folders(db, name))
    return Node(name, folder if folder.is_dir() else None, work, archive)


def _wal_folders(db: Path, name: str) -> tuple[Path, Path]:
    """Return the folders of the work ring and of the archive of a node."""
    return db / "wal" / name, db / "wal" / "archive" / name


def _open_segments(paths: Sequence[Path]) -> Store:
    """Return segments that were named as folders or files as one node without a name."""
    found: list[SegmentFile] = []
    for path in paths:
        some = _segments_in(path) if path.is_dir() else (inspect_segment(path),)
        if not some:
            _refuse_log(path)
            above = store_around(path)
            if above is not None:
                raise InputError(f"{path}: a part of the store {above}: name that")
            raise InputError(
                f"{path}: neither an Ignite work directory nor a folder of a node or of segments "
                "(0000000000000000.wal)"
            )
        found += some
    others = [each for each in found if each.header is None and each.status is not Status.UNUSED]
    if len(others) == len(found) and others:
        if others[0].path.suffix == ".bin":
            raise InputError(
                f"{others[0].path}: a file of pages, a marker or a file of metadata, not a "
                "segment; name the work directory, which has the folder db"
            )
        raise InputError(f"{others[0].path}: {others[0].problem}")
    roots = tuple(dict.fromkeys(path if path.is_dir() else path.parent for path in paths))
    packed = {each.path.parent for each in found if each.is_packed}
    archive = tuple(each for each in found if _is_archive(each.path.parent, packed))
    work = tuple(each for each in found if not _is_archive(each.path.parent, packed))
    return Store(str(paths[0]), roots, (Node("", None, work, archive),))


def _refuse_log(path: Path) -> None:
    """Refuse a directory with log files of JE.

    Raises:
        InputError: it has some.
    """
    if any(name.endswith(".jdb") for name in _names(path)):
        raise InputError(
            f"{path}: a log of Berkeley DB JE, not a store of Ignite; `je-tools doctor "
            f"{quoted(str(path))}` examines it"
        )


def _is_archive(folder: Path, packed: Set[Path]) -> bool:
    """Return True unless the names in a folder can only be positions in a ring."""
    return folder.parent.name == "archive" or folder in packed


def _segments_in(folder: Path) -> tuple[SegmentFile, ...]:
    if not folder.is_dir():
        return ()
    names = sorted(name for name in _names(folder) if segment_name(name) is not None)
    return tuple(inspect_segment(folder / name) for name in names)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(each.name for each in folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from error
