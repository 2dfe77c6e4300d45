"""Real groups accept what we append: a reset group, and a stream that was rolled back."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from je_tools.checkpoint.vlsn_records import read_index
from je_tools.formats.je.flags import HeaderFlag
from je_tools.operations.stream_rollback import StreamRollback
from tests.builders.power_cuts import KilledError, Recorder
from tests.corpus import FIXTURES
from tests.engine.acceptance import Judge
from tests.engine.groups import GROUP, Group, free_addresses, is_one_group, running_group
from tests.engine.jars import JE_5, JE_18, STARROCKS, engine_jar
from tests.engine.java import find_java
from tests.engine.recovered import Engine
from tests.je_tools.append.appending import apply as append
from tests.je_tools.append.test_transactions import logged
from tests.je_tools.checkpoint.nodes import COMMIT, entries_of, member, stream_of
from tests.je_tools.dumped import je_tools
from tests.truth.contents import Contents, Refusal
from tests.truth.headers import Header

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
    """Check that the stream has every VLSN once, and now ends later than before."""
    vlsns = sorted(stream_of(home))
    assert vlsns == list(range(vlsns[0], vlsns[-1] + 1))
    assert vlsns[-1] > last_before
    assert_unique(home)


def assert_unique(home: Path) -> None:
    """Check that no two visible entries have the same VLSN."""
    headers = [each.entry.header for each in logged(home)]
    shown = [each.vlsn for each in headers if each.flags & 0x30 == HeaderFlag.REPLICATED]
    assert len(shown) == len(set(shown)) == len(stream_of(home))


@pytest.mark.parametrize(
    "name",
    [
        "v17-rep-uncommitted-before/node1",
        pytest.param("starrocks-rep-uncommitted/node1", marks=[pytest.mark.exhaustive]),
        pytest.param("v17-rep-uncommitted-before/node2", marks=[pytest.mark.exhaustive]),
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
    nodes.open("alone", home, here, here, group="rest")
    assert nodes.states() == {"alone": "MASTER"}
    assert nodes.members("alone") == [["alone", "ELECTABLE", here]]
    assert nodes.records("alone") == expected
    nodes.put(ADDED, 0, 20)
    new = tmp_path / "new"
    new.mkdir()
    nodes.open("new", new, there, here, group="rest")
    assert nodes.states() == {"alone": "MASTER", "new": "REPLICA"}
    nodes.put(ADDED, 20, 20)
    both = nodes.records("alone")
    assert len(both.pop(ADDED)) == 40
    assert both == expected
    assert nodes.records("new") == nodes.records("alone")
    nodes.close("new")
    nodes.close("alone")
    assert_gapless(home, last)


GROUP_OF_THREE = "v17-rep-uncommitted-before"
ROLLED_BACK, LAST_COMMIT = "node1", 1224


def records_of_group(
    nodes: Group, homes: dict[str, Path], where: dict[str, str], master: str
) -> Contents:
    """Let all nodes work as one group, and return the records that each of them has then."""
    nodes.open(master, homes[master], where[master], where[master], leads=True)
    assert nodes.states() == {master: "MASTER"}
    for name in homes.keys() - {master}:
        nodes.open(name, homes[name], where[name], where[master])
    assert is_one_group(nodes.states())
    nodes.put(ADDED, 0, 30)
    first, *others = [nodes.records(name) for name in homes]
    for name in homes:
        nodes.close(name)
    assert all(each == first for each in others)
    return first


@pytest.mark.parametrize(
    "coordinate",
    [JE_18, *(pytest.param(each, marks=[pytest.mark.exhaustive]) for each in (JE_5, STARROCKS))],
)
@pytest.mark.parametrize("leads", [True, pytest.param(False, marks=[pytest.mark.exhaustive])])
def test_a_rollback_into_a_transaction(leads: bool, coordinate: str, tmp_path: Path) -> None:
    """The transaction began before the sync point: a part of it stays until its end comes.

    The node that was rolled back leads the others, or joins one of them. The log of the third was
    cut, and gets the Commits again.
    """
    homes = {name: tmp_path / name for name in ("a", "b", "c")}
    where = dict(zip(homes, free_addresses(3), strict=True))
    classes, again = tmp_path / "classes", tmp_path / "again"
    classes.mkdir()
    again.mkdir()
    jar = engine_jar(coordinate)
    with running_group(find_java(), jar, classes) as first:
        for name, home in homes.items():
            home.mkdir()
            first.open(name, home, where[name], where["a"])
            first.states()
        first.put(ADDED, 0, 30)
        first.leave(ADDED, 20, 20)
        (master,) = (name for name, state in first.states().items() if state == "MASTER")
    # The nodes are killed here.
    other, cut = (name for name in homes if name != master)
    stream = stream_of(homes[master])
    commits = sorted(vlsn for vlsn, shown in stream.items() if shown.type_no == COMMIT)
    assert max(stream) - commits[-1] >= 10
    apply("vlsn", "rollback", homes[master], "--to", commits[-1])
    assert max(stream_of(homes[master])) == commits[-1]
    apply("vlsn", "rollback", homes[cut], "--to", commits[-4], "--force")
    assert max(stream_of(homes[cut])) == commits[-4]
    rollbacks = rollbacks_of(homes[master])
    assert len(rollbacks) == 2
    with running_group(find_java(), jar, again) as second:
        records = records_of_group(second, homes, where, master if leads else other)
    expected = {b"key %d" % i: b"data of record %d" % i for i in range(30)}
    assert dict(records[ADDED]) == {**expected, b"other 20": b"committed"}
    for home in homes.values():
        assert_gapless(home, commits[-1])
    # The engine found nothing more to roll back.
    assert rollbacks_of(homes[master]) == rollbacks


def rollbacks_of(home: Path) -> list[Header]:
    """Return the RollbackStarts and RollbackEnds of a log."""
    return [each for each in entries_of(home) if each.type_no in (28, 29)]


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=[pytest.mark.exhaustive])])
def test_an_interrupted_rollback(step: int, judge: Judge, tmp_path: Path) -> None:
    """After each call to the disk, the node continues: with the rollback, or without it."""
    source = FIXTURES / GROUP_OF_THREE / ROLLED_BACK
    operation = StreamRollback(LAST_COMMIT)
    disk = Recorder()
    append(copied(f"{GROUP_OF_THREE}/{ROLLED_BACK}", tmp_path / "whole"), operation, disk)
    lasts = Counter[int]()
    met = set()
    for at in range(0, len(disk.calls) + 1, step):
        home = copied(f"{GROUP_OF_THREE}/{ROLLED_BACK}", tmp_path / f"{at}")
        with suppress(KilledError):
            append(home, operation, Recorder(at))
        log = (home / "00000000.jdb").read_bytes()
        if log in met:
            continue
        met.add(log)
        # The node reaches no other, and so may have another address than in its log.
        (address,) = free_addresses(1)
        node = f"{GROUP}/{ROLLED_BACK}/{address}"
        told = judge.told(judge.plain, home, "recover", 0, node)
        assert not told.problems
        lasts[read_index(member(home)).range.last] += 1
        assert_unique(home)
    assert set(lasts) == {LAST_COMMIT, max(stream_of(source))}
    assert len(met) > 3


@pytest.mark.exhaustive
@pytest.mark.parametrize("coordinate", [JE_5, STARROCKS])
def test_other_engines_accept_a_reset_node(coordinate: str, tmp_path: Path) -> None:
    classes, home = tmp_path / "classes", tmp_path / "node"
    classes.mkdir()
    home.mkdir()
    here, there = free_addresses(2)
    with running_group(find_java(), engine_jar(coordinate), classes) as group:
        group.open("first", home, here, here)
        group.states()
        group.put(ADDED, 0, 30)
        group.close("first")
        last = max(stream_of(home))
        words = ("--node-name", "alone", "--node-host-port", there)
        apply("group", "reset", home, *words)
        group.open("alone", home, there, there)
        assert group.states() == {"alone": "MASTER"}
        assert group.members("alone") == [["alone", "ELECTABLE", there]]
        group.put(ADDED, 30, 30)
        assert len(group.records("alone")[ADDED]) == 60
        group.close("alone")
    assert_gapless(home, last)
