"""Files of types and configurations: damage that shows, and files that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from je_tools.formats.ignite.metadata_check import metadata_fault
from je_tools.ignite.store import open_store
from je_tools.ignite.values.side_files import damaged_side_files
from tests.corpus import FIXTURES, IgniteNode
from tests.engine.ignite import writable_copy
from tests.je_tools.dumped import je_tools

TYPE = "-1323588485"
METADATA = f"db/binary_meta/node1/{TYPE}.bin"
CLASS = f"db/marshaller/{TYPE}.classname0"
CONFIGURATION = "db/node1/cacheGroup-web/cartscache_data.dat"
SNAPSHOT = "db/node1/cp/cpMapSnapshot.bin"
KILLED = FIXTURES / "ignite-killed" / "store"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store of a node that was killed."""
    return writable_copy(KILLED, tmp_path / "store")


def _damaged(store: Path) -> list[str]:
    (node,) = open_store([store]).nodes
    return [str(each.path.relative_to(store)) for each in damaged_side_files(node)]


def _flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_files_of_the_engine_are_whole(ignite_node: IgniteNode) -> None:
    (node,) = open_store([ignite_node.store], [ignite_node.node]).nodes
    assert list(damaged_side_files(node)) == []


def test_every_changed_bit_of_types_shows() -> None:
    data = (KILLED / METADATA).read_bytes()
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        assert metadata_fault(bytes(changed), int(TYPE)) is not None, bit
    for size in range(len(data)):
        assert metadata_fault(data[:size], int(TYPE)) is not None


@pytest.mark.parametrize(
    ("name", "offset"), [(METADATA, 82), (CLASS, 3), (CONFIGURATION, 0), (SNAPSHOT, 3)]
)
def test_damage_is_found(name: str, offset: int, store: Path) -> None:
    _flip(store / name, offset)
    assert _damaged(store) == [name]


@pytest.mark.parametrize("name", [METADATA, CLASS, CONFIGURATION, SNAPSHOT])
def test_pipes_are_not_opened(name: str, store: Path) -> None:
    (store / name).unlink()
    os.mkfifo(store / name)
    assert _damaged(store) == [name]


def test_commands_report_a_damaged_type(store: Path) -> None:
    _flip(store / METADATA, 82)
    export = je_tools("ignite", "export", store)
    assert (export.code, "types-damaged" in export.err) == (3, True)
    doctor = je_tools("doctor", store, "--format", "json")
    assert (doctor.code, b"metadata-damaged" in doctor.out) == (3, True)
    assert b"cache_data.dat" in doctor.out
