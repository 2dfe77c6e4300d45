"""`ignite info`: what lies in the folders of a store, and its lock."""

from __future__ import annotations

import fcntl
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from je_tools.ignite.info import lock_state
from tests.builders import ignite as build
from tests.corpus import IgniteNode
from tests.je_tools.dumped import je_tools

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""
GENERATED = "node00-11111111-2222-3333-4444-555555555555"


def _info(store: Path) -> dict[str, list[dict[str, Any]]]:
    done = je_tools("ignite", "info", store, "--format", "json")
    assert done.code == 0
    found: dict[str, list[dict[str, Any]]] = json.loads(done.out)
    return found


def test_segments_and_caches_are_those_in_the_folders(ignite_node: IgniteNode) -> None:
    found = _info(ignite_node.store)
    (node,) = (each for each in found["nodes"] if each["node"] == ignite_node.node)
    wal = ignite_node.store / "db" / "wal"
    archive = wal / "archive" / ignite_node.node
    assert node["work"] == len(list((wal / ignite_node.node).glob("*.wal")))
    assert node["archive"] == len(list(archive.glob("*.wal")))
    assert node["compacted"] == len(list(archive.glob("*.zip")))
    assert (node["byte_order"], node["serializers"]) == ("little-endian", ["2"])
    assert (node["lock"], node["naming"]) == ("free", "other")
    sizes = {"ignite-16k": 16384, "ignite-pagecompress": 8192}
    caches = [each for each in found["caches"] if each["node"] == ignite_node.node]
    for cache in caches:
        if cache["partitions"]:
            assert cache["page_size"] == sizes.get(ignite_node.case, 4096)
            assert cache["page_version"] == 2
    folder = ignite_node.store / "db" / ignite_node.node
    assert len(caches) == len(list(folder.glob("cache-*")) + list(folder.glob("cacheGroup-*")))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with a group of two caches, and leftovers."""
    root = build.write_dumped_store(tmp_path / "store")
    node = root / "db" / "node1"
    group = node / "cacheGroup-both"
    group.mkdir()
    for name in ("onecache_data.dat", "twocache_data.dat", "part-3.bin.tmp", "index-dfrg.bin"):
        (group / name).write_bytes(b"x")
    header = struct.pack(">QiBi", 0xF19A_C4FE_60C5_30B8, 1, 1, 2048)
    (group / "part-3.bin").write_bytes(header)
    (group / "part-4.bin").write_bytes(bytes(40))
    return root


def test_groups_and_leftovers(store: Path) -> None:
    found = _info(store)
    (accounts, both) = found["caches"]
    assert (accounts["group"], accounts["page_size"]) == ("accounts", None)
    assert (both["caches"], both["partitions"], both["is_shared"]) == (["one", "two"], 2, True)
    assert (both["page_version"], both["page_size"], both["has_index"]) == (1, 2048, False)
    names = [Path(each["path"]).name for each in found["leftovers"]]
    assert names == ["index-dfrg.bin", "part-3.bin.tmp"]
    assert found["nodes"][0]["lock"] == "no file"


def test_a_generated_name_has_the_consistent_id(store: Path) -> None:
    (store / "db" / "node1").rename(store / "db" / GENERATED)
    nodes = {each["node"]: each for each in _info(store)["nodes"]}
    assert nodes[GENERATED]["consistent_id"] == GENERATED.removeprefix("node00-")
    assert nodes[GENERATED]["naming"] == "generated"


def test_a_lock_is_seen_and_not_taken(store: Path) -> None:
    folder = store / "db" / "node1"
    lock = folder / "lock"
    lock.write_bytes(b"\0[id][]")
    assert lock_state(folder).state == "free"
    words = [sys.executable, "-c", HOLD, str(lock)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, **pipes) as holder:  # type: ignore[call-overload]
        holder.stdout.readline()
        found = lock_state(folder)
        assert (found.state, str(holder.pid) in (found.detail or "")) == ("held", True)
        holder.stdin.close()
    assert lock_state(folder).state == "free"
    with lock.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)


def test_segments_alone_have_no_lock_and_no_caches(store: Path) -> None:
    found = _info(store / "db" / "wal" / "node1")
    assert (found["nodes"][0]["lock"], found["caches"]) == (None, [])


def test_files_that_vanish_are_left_out(tmp_path: Path) -> None:
    build.write_exported_store(tmp_path)
    node = tmp_path / "db" / "node1"
    (node / "left.tmp").write_bytes(bytes(9))
    # A file is there when the folder is listed, and gone when it is examined.
    for name in ("gone.tmp", "cache-accounts/part-1.bin"):
        (node / name).symlink_to("nowhere")
    found = _info(tmp_path)
    assert [each["path"] for each in found["leftovers"]] == ["db/node1/left.tmp"]
    assert [each["size"] for each in found["caches"]] == [0]
    (node / "loop.tmp").symlink_to("loop.tmp")
    assert je_tools("ignite", "info", tmp_path).code == 4
