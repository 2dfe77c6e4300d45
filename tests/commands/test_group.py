"""`group show` and `group reset`: the group as DbDumpGroup prints it, and refusals."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from je_tools.append.operation import AppendLog, AppendOperation
from je_tools.checkpoint.old_versions import old_versions
from je_tools.formats.je.internal.names import REP_GROUP_DB
from je_tools.formats.je.internal.replication import GROUP_KEY
from je_tools.formats.je.tuples import string_key
from je_tools.formats.je.write.transactions import GroupAuthor
from je_tools.group.members import read_group
from je_tools.recovery.snapshot import Snapshot
from je_tools.writing.lock import EnvironmentLock
from tests.corpus import FIXTURES, Environment, environments, marked_beyond_fixtures
from tests.engine.tools import Tools
from tests.je_tools.append.appending import Appending, apply
from tests.je_tools.dumped import Row, je_tools
from tests.je_tools.writing.operations import digests

DUMP_GROUP = "com.sleepycat.je.rep.utilint.DbDumpGroup"
NODE = "v17-rep-uncommitted-before/node2"
READ = ("v15-", "v17-", "starrocks-")


def nodes() -> list[object]:
    return [
        pytest.param(each, id=each.name, marks=marked_beyond_fixtures(each))
        for each in environments()
        if "/node" in each.name and each.name.startswith(READ)
    ]


def shown(home: Path) -> tuple[Row, list[Row]]:
    """Return the rows of the group and of its nodes."""
    done = je_tools("group", "show", home, "--format", "jsonl")
    assert (done.code, done.err) == (0, "")
    group, *rest = map(json.loads, done.out.splitlines())
    assert group["section"] == "group"
    assert {each["section"] for each in rest} == {"nodes"}
    return group, rest


def as_dumped(home: Path) -> list[str]:
    """Return what DbDumpGroup would print of the group, without the time of the barrier."""
    group, rest = shown(home)
    lines = [
        f"Group info [{group['name']}] {group['group_id']}",
        f" Format version: {group['format_version']}",
        f" Change version: {group['change_version']}",
        f" Max persist rep node ID: {group['node_id_sequence']}",
        f" Min JE version: {group['min_je_version']}",
    ]
    for node in rest:
        kind = "" if node["node_type"] == "electable" else f" {node['node_type'].upper()}"
        lines.append(
            f" Node:{node['name']} {node['host']}:{node['port']} ({node['membership']}){kind} "
            f"changeVersion:{node['change_version']} LocalCBVLSN:{node['barrier_vlsn']:,} at:"
            f" jeVersion:{node['je_version']}"
        )
    return lines


def dumped(printed: bytes) -> list[str]:
    """Return the lines of DbDumpGroup, without its heading and the times."""
    lines = printed.decode().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("Group info"))
    found = []
    for line in filter(str.strip, lines[first:]):
        head, at, tail = line.partition(" at:")
        found.append(head + at + tail[tail.find(" jeVersion:") :] if at else line)
    return found


@pytest.mark.parametrize("node", nodes())
def test_the_group_is_that_of_dbdumpgroup(node: Environment, tools: Tools, tmp_path: Path) -> None:
    home = shutil.copytree(node.home, tmp_path / "env")
    assert as_dumped(node.home) == dumped(tools.run(DUMP_GROUP, "-h", home))


def test_all_formats_have_the_same_rows(tmp_path: Path) -> None:
    home = FIXTURES / NODE
    group, rest = shown(home)
    out = tmp_path / "rows.csv"
    assert je_tools("group", "show", home, "--format", "csv", "--output", out).code == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["section"] for row in rows] == ["group", *["nodes"] * len(rest)]
    for row, expected in zip(rows, [group, *rest], strict=True):
        assert {name: row[name] for name in expected if name == "name"} == {
            "name": expected["name"]
        }
    out = tmp_path / "rows.parquet"
    assert je_tools("group", "show", home, "--format", "parquet", "--output", out).code == 0
    table = pq.read_table(out).to_pylist()
    for found, expected in zip(table, [group, *rest], strict=True):
        assert {name: found[name] for name in expected} == expected
    text = je_tools("group", "show", home).out.decode()
    assert all(node["name"] in text and node["host"] in text for node in rest)


@pytest.mark.parametrize(
    "words",
    [("show",), ("reset", "--node-name", "node1"), ("reset", "--node-name", "a", "--apply")],
)
def test_an_environment_without_a_group_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    home = Appending("v17-basic/env", Spoiling).copy(tmp_path / "env")
    before = digests(home)
    done = je_tools("group", words[0], home, *words[1:])
    assert done.code == 4
    assert done.err.startswith(f"je-tools: {home}: the environment is not a node of a replication")
    assert digests(home) == before


class Spoiling(AppendOperation):
    """An operation that replaces a record of the group by other bytes, or deletes it."""

    name = "spoiling"

    def __init__(self, name: str = GROUP_KEY, data: bytes | None = b"\0") -> None:
        self.key = string_key(name)
        self.data = data

    def write(self, log: AppendLog) -> None:
        database = log.database(REP_GROUP_DB)
        transaction = log.group_transaction(GroupAuthor(1, 0))
        old = old_versions(log.snapshot, database)
        transaction.write(database.db_id, self.key, self.data, old.get(self.key))
        transaction.commit()

    def difference(self, before: Snapshot, after: Snapshot) -> str:
        return ""


class _Numbering(AppendOperation):
    """An operation that gives the group the largest last node id."""

    name = "numbering"

    def write(self, log: AppendLog) -> None:
        group = read_group(log.snapshot).group
        assert group is not None
        key, data = replace(group, node_id_sequence=(1 << 31) - 1).encode()
        database = log.database(REP_GROUP_DB)
        transaction = log.group_transaction(GroupAuthor(1, 0))
        transaction.write(database.db_id, key, data, old_versions(log.snapshot, database).get(key))
        transaction.commit()

    def difference(self, before: Snapshot, after: Snapshot) -> str:
        return ""


def test_a_group_without_free_node_ids_is_not_reset(tmp_path: Path) -> None:
    home = spoilt(tmp_path / "env", _Numbering())
    before = digests(home)
    for words in ((), ("--apply",)):
        done = je_tools("group", "reset", home, "--node-name", "node1", *words)
        assert done.code == 6
        assert "the last node id of the group is 2147483647, the largest there is" in done.err
    assert digests(home) == before


def spoilt(folder: Path, operation: AppendOperation) -> Path:
    home = Appending(NODE, lambda: operation).copy(folder)
    apply(home, operation)
    shutil.rmtree(home / ".je-tools-undo")
    assert je_tools("checkpoint", home, "--apply").code == 0
    return home


@pytest.mark.parametrize(
    ("operation", "found"),
    [
        (lambda: Spoiling(), "expected the record of a node or of the group; found "),
        (lambda: Spoiling("node2", b"node2\0\x80"), "expected the record of a node or of the "),
        (lambda: Spoiling(data=None), "expected a record with the key $$GROUP_KEY$$; found none"),
    ],
)
def test_a_damaged_group_is_reported_and_not_reset(
    operation: Callable[[], AppendOperation], found: str, tmp_path: Path
) -> None:
    home = spoilt(tmp_path / "env", operation())
    done = je_tools("group", "show", home)
    assert done.code == 3
    assert "error: group-record" in done.err
    assert found in done.err
    before = digests(home)
    done = je_tools("group", "reset", home, "--node-name", "node1", "--apply")
    assert done.code == 6
    assert "the group database is damaged, so the last node id is not certain" in done.err
    assert digests(home) == before


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--node-name", "node9"), "the group has no such node, so its address is not known"),
        (("--node-name", "a b"), "expected letters, digits, hyphens"),
        (("--node-name", "node1", "--group-name", "a/b"), "expected letters, digits, hyphens"),
        (("--node-name", "node1", "--node-host-port", "mars"), "expected HOST:PORT"),
        (("--node-name", "node1", "--node-host-port", "mars:0"), "expected HOST:PORT"),
        (("--node-name", "node1", "--format", "parquet", "--apply"), "exclude each other"),
        ((), "The group has these nodes: node1, node2, node3; another name needs"),
    ],
)
def test_wrong_words_are_refused(words: tuple[str, ...], text: str, tmp_path: Path) -> None:
    home = Appending(NODE, Spoiling).copy(tmp_path / "env")
    before = digests(home)
    done = je_tools("group", "reset", home, *words)
    assert done.code == 2
    assert text in done.err
    assert digests(home) == before


def test_a_running_node_is_not_reset(tmp_path: Path) -> None:
    home = Appending(NODE, Spoiling).copy(tmp_path / "env")
    with EnvironmentLock(home):
        before = digests(home)
        done = je_tools("group", "reset", home, "--node-name", "node1", "--apply")
        assert done.code == 6
        assert "has the environment open" in done.err
        assert digests(home) == before


def test_a_plan_changes_nothing_and_undo_reverts_a_reset(tmp_path: Path) -> None:
    home = Appending(NODE, Spoiling).copy(tmp_path / "env")
    before, old = digests(home), shown(home)
    words = ("group", "reset", home, "--node-name", "node2", "--node-host-port", "mars:5001")
    plan = je_tools(*words, "--format", "jsonl")
    assert plan.code == 0
    assert digests(home) == before
    line = f"`je-tools group reset {home} --node-name node2 --node-host-port mars:5001 --apply`"
    assert line in plan.err
    assert je_tools(*words, "--apply", "--output", tmp_path / "copy").code == 0
    assert digests(home) == before
    done = je_tools(*words, "--apply", "--format", "jsonl")
    assert done.code == 0
    rows, planned = (list(map(json.loads, each.out.splitlines())) for each in (done, plan))
    assert rows[1:] == planned[1:]
    assert (rows[0]["applied"], planned[0]["applied"]) == (True, False)
    for reset in (home, tmp_path / "copy"):
        group, (node,) = shown(reset)
        assert group["group_id"] != old[0]["group_id"]
        assert group["node_id_sequence"] == old[0]["node_id_sequence"] + 1 == node["node_id"]
        assert (node["name"], node["host"], node["port"]) == ("node2", "mars", 5001)
    assert je_tools("undo", home, "--apply").code == 0
    assert digests(home) == before


def test_keys_are_masked(tmp_path: Path) -> None:
    home = FIXTURES / NODE
    words = ("group", "reset", home, "--node-name", "node1", "--format", "jsonl")
    rows = list(map(json.loads, je_tools(*words, "--data", "length").out.splitlines()))
    keys = [row["key"] for row in rows if row.get("key") is not None]
    assert keys
    assert all(key.startswith("length:") for key in keys)
