"""Real groups accept what we append: a reset group, and a stream that was rolled back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.corpus import FIXTURES
from tests.engine.groups import Group, free_addresses, running_group
from tests.engine.jars import engine_jar
from tests.engine.java import find_java
from tests.engine.recovered import Engine
from tests.je_tools.append.test_transactions import logged
from tests.je_tools.checkpoint.nodes import stream_of
from tests.je_tools.dumped import je_tools
from tests.truth.contents import Contents, Refusal

ADDED = "added"
"""Database to which the master writes."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    with running_group(find_java(), engine_jar(), tmp_path_factory.mktemp("classes")) as group:
        yield group


def copied(name: str, target: Path) -> Path:
    """Return a writable copy of a node."""
    home = Path(shutil.copytree(FIXTURES / name, target))
    home.chmod(0o755)
    for path in home.iterdir():
        path.chmod(0o644)
    return home


def records_of(engine: Engine, home: Path, folder: Path) -> Contents:
    """Return the records that the engine finds in a copy of an environment."""
    folder.mkdir()
    found = engine.ask(copied_to(home, folder / "asked"), read_only=True)
    assert not isinstance(found, Refusal)
    return found


def copied_to(home: Path, target: Path) -> Path:
    return Path(shutil.copytree(home, target, ignore=shutil.ignore_patterns("je.lck", ".je*")))


def apply(*words: object) -> str:
    done = je_tools(*map(str, words), "--apply")
    assert done.code == 0, done.err
    return done.err


def assert_gapless(home: Path, last_before: int) -> None:
    """Check that the stream has every VLSN once, and goes on after that of before."""
    vlsns = sorted(stream_of(home))
    assert vlsns == list(range(vlsns[0], vlsns[-1] + 1))
    assert vlsns[-1] > last_before
    shown = [
        each.entry.header.vlsn for each in logged(home) if each.entry.header.flags & 0x30 == 0x20
    ]
    assert len(shown) == len(set(shown)) == len(vlsns)


@pytest.mark.parametrize(
    "name",
    [
        "v17-rep-uncommitted-before/node2",
        "v17-rep-uncommitted-before/node1",
        "starrocks-rep-uncommitted/node1",
    ],
)
def test_a_reset_node_leads_a_group_of_its_own(
    name: str, nodes: Group, engines: dict[str, Engine], tmp_path: Path
) -> None:
    """It begins where its stream ended, and a new node gets its whole log."""
    home = copied(name, tmp_path / "reset")
    if "before/node1" in name:
        # Its last transactions have no end, and are not in the VLSN index yet.
        assert je_tools("group", "reset", home, "--node-name", "node1", "--apply").code == 6
        apply("checkpoint", home)
    (engine,) = (each for key, each in engines.items() if "18.3" in key)
    expected = records_of(engine, home, tmp_path / "expected")
    last = max(stream_of(home))
    here, there = free_addresses(2)
    words = ("--node-name", "alone", "--node-host-port", here, "--group-name", "rest")
    apply("group", "reset", home, *words)
    nodes.open("alone", home, here, here, "rest")
    assert nodes.states() == {"alone": "MASTER"}
    assert nodes.members("alone") == [["alone", "ELECTABLE", here]]
    assert nodes.records("alone") == expected
    nodes.put(ADDED, 0, 20)
    new = tmp_path / "new"
    new.mkdir()
    nodes.open("new", new, there, here, "rest")
    assert nodes.states() == {"alone": "MASTER", "new": "REPLICA"}
    nodes.put(ADDED, 20, 20)
    both = nodes.records("alone")
    assert len(both.pop(ADDED)) == 40
    assert both == expected
    assert nodes.records("new") == nodes.records("alone")
    nodes.close("new")
    nodes.close("alone")
    assert_gapless(home, last)
