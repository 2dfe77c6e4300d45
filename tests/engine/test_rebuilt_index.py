"""Real groups accept a VLSN index that was rebuilt from the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from je_tools.vlsn.recovered_index import read_index
from je_tools.vlsn.whole_stream import indexable, read_whole_stream
from tests.corpus import FIXTURES
from tests.engine.groups import Group, is_one_group, running_group
from tests.engine.jars import engine_jar
from tests.engine.java import find_java
from tests.je_tools.checkpoint.nodes import stream_of
from tests.je_tools.dumped import je_tools
from tests.je_tools.vlsn.damages import DAMAGES, Damage
from tests.je_tools.vlsn.indexes import copy_of, snapshot_of_node

NODES = FIXTURES / "starrocks-rep-uncommitted"
LAGS_AT = 700
"""VLSN after which the third node lacks the stream, about."""
ADDED = "added"
QUICK = ("no database",)


@pytest.fixture
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    with running_group(find_java(), engine_jar(), tmp_path_factory.mktemp("classes")) as group:
        yield group


def cases() -> list[Any]:
    return [
        pytest.param(each, id=name, marks=[] if name in QUICK else [pytest.mark.exhaustive])
        for name, each in DAMAGES.items()
    ]


@pytest.mark.parametrize("damage", cases())
def test_a_group_starts_on_rebuilt_indexes(damage: Damage, nodes: Group, tmp_path: Path) -> None:
    """Two of three nodes get new indexes; one of them leads, and feeds the third, which lags."""
    homes = {name: copy_of(NODES / name, tmp_path / name) for name in ("node1", "node2", "node3")}
    last = max(stream_of(homes["node1"]))
    for name in ("node1", "node2"):
        damage(homes[name])
        # The engine's cleaner would read a damaged entry of another file than the last.
        (homes[name] / "je.properties").write_text("je.env.runCleaner=false\n")
        done = je_tools("vlsn", "rebuild", homes[name], "--apply")
        assert done.code == 0, done.err
    point = next(
        vlsn
        for vlsn, shown in stream_of(homes["node3"]).items()
        if vlsn >= LAGS_AT and shown.type_no == COMMIT
    )
    done = je_tools("vlsn", "rollback", homes["node3"], "--to", str(point), "--force", "--apply")
    assert done.code == 0, done.err
    where = addresses(homes["node1"])
    for name, home in homes.items():
        nodes.open(name, home, where[name], ",".join(where.values()))
    assert is_one_group(nodes.states())
    nodes.put(ADDED, 0, 30)
    first, *others = [nodes.records(name) for name in homes]
    for name in homes:
        nodes.close(name)
    assert all(each == first for each in others)
    assert len(first[ADDED]) == 30
    for home in homes.values():
        snapshot = snapshot_of_node(home)
        vlsns = indexable(snapshot, read_whole_stream(snapshot)).vlsn.tolist()
        assert vlsns == list(range(1, vlsns[-1] + 1))
        assert vlsns[-1] > last
        out = je_tools("vlsn", "check", home, "--format", "jsonl").out
        assert b"vlsn-" not in out
        assert read_index(snapshot).range.last == vlsns[-1]


COMMIT = 17


def addresses(home: Path) -> dict[str, str]:
    """Return the address of each node, as the log of one has it."""
    out = je_tools("group", "show", home, "--format", "jsonl").out
    rows = [json.loads(line) for line in out.splitlines()]
    return {
        row["name"]: f"{row['host']}:{row['port']}" for row in rows if row["section"] == "nodes"
    }
