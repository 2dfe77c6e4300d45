"""Operations on small stores, like those of repairs."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path

from je_tools.ignite.repairs.edits import (
    StoreEdit,
    create_file,
    set_aside,
    write_bytes,
    write_zeros,
)
from je_tools.ignite.repairs.node_files import NodeFiles
from je_tools.ignite.repairs.session import StoreSession
from je_tools.ignite.repairs.undo import StoreUndo, clear_store_remains, list_store_undos
from je_tools.ignite.store import Node, open_store
from je_tools.writing.disk import Disk
from tests.builders.ignite import write_checkpointed_store
from tests.builders.power_cuts import Recorder

PAGE = 4096


def small_store(root: Path) -> Path:
    """Write a store with three segments, markers, and files of two caches."""
    write_checkpointed_store(root)
    node = root / "db" / "node1"
    for name, pages in (("cache-a/part-0.bin", 4), ("cache-a/part-1.bin", 2), ("lock", 0)):
        path = node / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(random.Random(name).randbytes(pages * PAGE + 100 * (pages == 2)))
    return root


def node_of(root: Path) -> Node:
    """Return the node of a store."""
    return open_store([root]).nodes[0]


def files_of(root: Path) -> NodeFiles:
    """Return the files of the node of a store."""
    return NodeFiles(node_of(root))


def digests(root: Path) -> dict[str, str]:
    """Return digests of a store's files, journals included."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def _cut(root: Path) -> list[StoreEdit]:
    """Cut the log in an archived segment: remove later segments, and zero the rest of this one."""
    wal = root / "db" / "wal"
    first = wal / "archive" / "node1" / f"{0:016}.wal"
    size = first.stat().st_size
    return [
        set_aside(wal / "node1" / f"{0:016}.wal", "later"),
        set_aside(wal / "archive" / "node1" / f"{1:016}.wal", "later"),
        write_zeros(first, 100, 1, "the end", is_barrier=True),
        write_zeros(first, 101, size - 101, "after the end", is_barrier=True),
    ]


def _pages(root: Path) -> list[StoreEdit]:
    """Write pages, some of them at and after the end of a file, and then a marker."""
    node = root / "db" / "node1"
    pages = [random.Random(n).randbytes(PAGE) for n in range(5)]
    part = node / "cache-a" / "part-0.bin"
    return [
        write_bytes(part, 2 * PAGE, pages[0], "torn"),
        write_bytes(part, 0, pages[1], "torn"),
        write_bytes(part, 4 * PAGE, pages[2], "missing"),
        write_bytes(node / "cache-a" / "part-1.bin", PAGE + 50, pages[3] + pages[4], "torn"),
        create_file(node / "cp" / "7-end.bin", b"x" * 16, "finished"),
    ]


def _replaced(root: Path) -> list[StoreEdit]:
    """Replace a whole file, and create another."""
    node = root / "db" / "node1"
    part = node / "cache-a" / "part-0.bin"
    return [
        set_aside(part, "damaged"),
        create_file(part, random.Random(1).randbytes(6 * PAGE), "rebuilt"),
        create_file(node / "cache-a" / "part-2.bin", random.Random(2).randbytes(PAGE), "rebuilt"),
        create_file(node / "cache-a" / "part-3.bin", b"", "empty"),
    ]


OPERATIONS: dict[str, Callable[[Path], list[StoreEdit]]] = {
    "cut": _cut,
    "pages": _pages,
    "replaced": _replaced,
}


def operate(root: Path, name: str, disk: Disk | None = None) -> int | None:
    """Do one of the operations, and return the number of its journal."""
    with StoreSession(node_of(root), disk or Recorder()) as session:
        return session.apply(OPERATIONS[name](root), name)


def undos_of(root: Path) -> list[StoreUndo]:
    """Return the journals of a store."""
    return list_store_undos(files_of(root))


def put_back(root: Path, disk: Disk | None = None, *, any_time: bool = False) -> None:
    """Put back the newest journal."""
    with disk or Recorder() as used:
        for undo in undos_of(root)[-1:]:
            undo.check(any_time=any_time)
            undo.apply(used)
        clear_store_remains(files_of(root), used)
