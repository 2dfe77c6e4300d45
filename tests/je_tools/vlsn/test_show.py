"""`vlsn show` equals what the engine's own tools print about a node."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from je_tools.errors import EXIT_DAMAGE, EXIT_INPUT, EXIT_OK, EXIT_USAGE
from je_tools.formats.je.header import lsn_text
from je_tools.formats.je.tuples import long_key
from je_tools.vlsn.index_state import read_index_state
from je_tools.vlsn.lookup import find_lsn, find_vlsn
from je_tools.vlsn.masters import SAMPLES, master_terms, places_to_sample, sampled_terms
from je_tools.vlsn.recovered_index import read_index
from je_tools.vlsn.stream_tail import TailReader
from je_tools.vlsn.sync_points import SyncPoints
from tests.corpus import FIXTURES, Environment
from tests.je_tools.checkpoint.nodes import nodes, stream_of
from tests.je_tools.dumped import je_tools
from tests.je_tools.vlsn.indexes import (
    NOW_MS,
    append_entry,
    copy_of,
    snapshot_of_node,
    write_records,
)

NODE = FIXTURES / "starrocks-rep-uncommitted" / "node1"
PLAIN = FIXTURES / "v17-basic" / "env"

_BUCKET = re.compile(
    r"LSN=(?P<lsn>\S+) key=(?P<key>\d+) <VLSNBucket fileNum=(?P<file_no>\d+)\(\S+\) "
    r"numOffsets=(?P<mapping_count>\d+) stride=(?P<stride>\d+) firstVLSN=(?P<first_vlsn>[\d,]+) "
    r"lastVLSN=(?P<last_vlsn>[\d,]+) lastLsn=(?P<last_lsn>\S+)/>"
)
_RANGE = re.compile(
    r"LSN=(?P<lsn>\S+) range: first=(?P<first>[-\d,]+) last=(?P<last>[-\d,]+) "
    r"sync=(?P<last_sync>[-\d,]+) txnEnd=(?P<last_txn_end>[-\d,]+)"
)
_COUNT = re.compile(r"file \S+ numRepRecords = (\d+) firstVLSN = ([\d,]+) lastVLSN = ([\d,]+)")


def number(text: str) -> int:
    return int(text.replace(",", ""))


def truth_of(node: Environment) -> tuple[dict[int, dict[str, str]], dict[str, str] | None]:
    """Return the newest bucket of each key that the engine's dump lists, and the newest range."""
    assert node.truth is not None
    buckets: dict[int, dict[str, str]] = {}
    covered = None
    for line in (node.truth / "vlsnindex.txt").read_text().splitlines():
        found = _BUCKET.search(line)
        if found is not None:
            buckets[int(found["key"])] = found.groupdict()
            continue
        found = _RANGE.search(line)
        if found is not None:
            covered = found.groupdict()
    return buckets, covered


def truths() -> list[Any]:
    """Return the nodes about which the engine's dump of the index is known."""
    return [
        case
        for case in nodes()
        if case.values[0].truth and (case.values[0].truth / "vlsnindex.txt").is_file()
    ]


@pytest.mark.parametrize("node", truths())
def test_the_index_is_what_the_engine_dumps(node: Environment) -> None:
    done = je_tools("vlsn", "show", node.home, "--format", "json")
    assert done.code == EXIT_OK
    report = json.loads(done.out)
    buckets, covered = truth_of(node)
    shown = {row["first_vlsn"]: row for row in report["buckets"]}
    last_keys = [key for key in buckets if key in shown]
    assert last_keys == list(shown), "the dump also lists buckets that were removed later"
    for key, row in shown.items():
        expected = buckets[key]
        assert row["kind"] == "bucket"
        for name in ("file_no", "mapping_count", "stride", "first_vlsn", "last_vlsn"):
            assert row[name] == number(expected[name]), name
        assert (row["lsn"], row["last_lsn"]) == (expected["lsn"], expected["last_lsn"])
    assert covered is not None
    expected_range = {name: number(covered[name]) for name in report["range"]}
    assert report["range"] == expected_range
    assert report["findings"] == []


@pytest.mark.parametrize("node", truths())
def test_removed_buckets_are_those_that_the_engine_removed(node: Environment) -> None:
    """DbStreamVerify prints the buckets that are left."""
    assert node.truth is not None
    text = (node.truth / "streamverify.txt").read_text()
    left = [int(key) for key in re.findall(r"key=> (\d+) bucket", text)]
    stored = read_index_state(snapshot_of_node(node.home)).stored
    assert [bucket.first for bucket in stored.buckets] == left


def counted_nodes() -> list[Any]:
    """Return the nodes whose engine can count the entries of the stream."""
    return [case for case in truths() if (case.values[0].truth / "vlsndistribution.txt").is_file()]


@pytest.mark.parametrize("node", counted_nodes())
def test_the_stream_has_the_entries_that_the_engine_counts(node: Environment) -> None:
    """`DbPrintLog -vd` counts invisible entries too."""
    assert node.truth is not None
    path = node.truth / "vlsndistribution.txt"
    counted = _COUNT.findall(path.read_text())
    done = je_tools("vlsn", "show", node.home, "--stream", "--rolled-back", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.out.decode())))
    assert len(rows) == sum(int(count) for count, _, _ in counted)
    vlsns = [int(row["vlsn"]) for row in rows]
    assert vlsns == sorted(vlsns)
    assert (vlsns[0], vlsns[-1]) == (number(counted[0][1]), number(counted[-1][2]))


@pytest.mark.parametrize("node", nodes())
def test_one_row_for_each_vlsn(node: Environment) -> None:
    done = je_tools("vlsn", "show", node.home, "--stream", "--format", "jsonl")
    rows = [json.loads(line) for line in done.out.splitlines()]
    stream = stream_of(node.home)
    assert [row["vlsn"] for row in rows] == sorted(stream)
    for row in rows:
        file_no, offset = (int(part, 16) for part in row["lsn"].split("/"))
        assert stream[row["vlsn"]].lsn == file_no << 32 | offset
        assert row["state"] == "visible"


@pytest.mark.parametrize("node", nodes())
def test_a_vlsn_and_its_lsn_lead_to_each_other(node: Environment) -> None:
    stream = stream_of(node.home)
    snapshot = snapshot_of_node(node.home)
    mappings = read_index_state(snapshot).mappings
    some = random.Random(node.name).sample(sorted(stream), 8)
    for vlsn in (min(stream), max(stream), *some):
        found = find_vlsn(snapshot, mappings, vlsn)
        assert found.lsn == stream[vlsn].lsn
        assert found.floor is not None
        assert found.ceiling is not None
        assert found.floor.vlsn <= vlsn <= found.ceiling.vlsn
        assert stream[found.floor.vlsn].lsn == found.floor.lsn
        entry = find_lsn(snapshot, mappings, stream[vlsn].lsn)
        assert entry is not None
        assert (entry.vlsn, entry.before_vlsn) == (vlsn, vlsn)
    assert find_vlsn(snapshot, mappings, max(stream) + 1).lsn is None


def test_an_entry_that_was_rolled_back_is_named_so() -> None:
    hidden = "0x0/0x1f7c1"
    done = je_tools("vlsn", "show", NODE, "--lsn", hidden, "--format", "jsonl")
    assert json.loads(done.out) == {
        "lsn": hidden,
        "type": "UPD_LN_TX",
        "vlsn": 1225,
        "state": "invisible",
        "before_vlsn": 1224,
    }


@pytest.mark.parametrize("node", nodes())
def test_samples_show_the_masters_that_all_sync_points_show(node: Environment) -> None:
    """Few samples are enough, since the log is read between two masters."""
    snapshot = snapshot_of_node(node.home)
    reader = TailReader(snapshot)
    whole = reader.back_to(1).sync
    places = places_to_sample(read_index_state(snapshot).usable.buckets)
    tail = whole.select(slice(len(whole) - 3, None))
    assert 0 < len(places) <= 2 * SAMPLES
    sampled = sampled_terms(snapshot, places[::8], tail)
    exact = master_terms(whole)
    assert [term.master_node_id for term in sampled] == [term.master_node_id for term in exact]
    inner = [(each.first_vlsn, each.last_vlsn) for each in exact]
    found = [(each.first_vlsn, each.last_vlsn) for each in sampled]
    assert [first for first, _ in found[1:]] == [first for first, _ in inner[1:]]
    assert [last for _, last in found] == [last for _, last in inner]
    assert len(SyncPoints.joined([whole])) == len(whole)


def test_the_end_of_the_stream_is_without_what_was_rolled_back(tmp_path: Path) -> None:
    """A RollbackStart alone undoes what follows its matchpoint, also Commits, marked or not."""
    home = copy_of(NODE, tmp_path / "node")
    before = stream_of(home)
    vlsn = 1400
    fields = {
        "matchpoint_vlsn": vlsn,
        "matchpoint_lsn": before[vlsn].lsn,
        "time_ms": NOW_MS,
        "active_txn_count": 0,
        "active_txns": [],
    }
    append_entry(home, "RollbackStart", fields)
    tail = TailReader(snapshot_of_node(home)).at_least(1)
    left = {each: shown.type_no for each, shown in before.items() if each <= vlsn}
    syncs = [each for each, type_no in left.items() if type_no in (17, 18, 30)]
    assert tail.sync.vlsn.tolist() == sorted(syncs)
    assert (tail.last_vlsn, tail.writes.count.sum()) == (vlsn, len(left) - len(syncs))
    report = json.loads(je_tools("vlsn", "show", home, "--format", "json", "--exit-zero").out)
    assert report["last_vlsn"] == vlsn


def test_formats_of_buckets_agree(tmp_path: Path) -> None:
    rows = list(
        csv.DictReader(io.StringIO(je_tools("vlsn", "show", NODE, "--format", "csv").out.decode()))
    )
    output = tmp_path / "buckets.parquet"
    done = je_tools("vlsn", "show", NODE, "--format", "parquet", "--output", output)
    assert done.code == EXIT_OK
    table = pq.read_table(output).to_pylist()
    assert [int(row["first_vlsn"]) for row in rows] == [row["first_vlsn"] for row in table]
    lines = je_tools("vlsn", "show", NODE, "--format", "jsonl").out.splitlines()
    sections = [json.loads(line)["section"] for line in lines]
    assert sections.count("buckets") == len(rows)


def test_formats_of_the_stream_agree(tmp_path: Path) -> None:
    words = ("vlsn", "show", NODE, "--stream", "--rolled-back")
    rows = list(csv.DictReader(io.StringIO(je_tools(*words, "--format", "csv").out.decode())))
    output = tmp_path / "stream.parquet"
    assert je_tools(*words, "--format", "parquet", "--output", output).code == EXIT_OK
    table = pq.read_table(output).to_pylist()
    assert [int(row["vlsn"]) for row in rows] == [row["vlsn"] for row in table]
    assert [row["state"] for row in rows] == [row["state"] for row in table]
    assert [row["type"] for row in rows] == [row["type"] for row in table]
    text = je_tools(*words).out.splitlines()
    assert len(text) == len(rows) + 1
    assert [int(line.split()[0]) for line in text[1:]] == [row["vlsn"] for row in table]


def test_a_damaged_index_is_shown_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    home = copy_of(NODE, tmp_path / "node")
    write_records(home, {long_key(628): b"\x01\x00no bucket"})
    done = je_tools("vlsn", "show", home, "--format", "json")
    assert done.code == EXIT_DAMAGE
    report = json.loads(done.out)
    assert [row["kind"] for row in report["buckets"]] == ["bucket", "unreadable", "bucket"]
    assert "vlsn-index-lost" in {row["code"] for row in report["findings"]}
    assert b"bucket" in je_tools("vlsn", "show", home).out
    lines = je_tools("vlsn", "show", home, "--format", "jsonl").out.splitlines()
    sections = [json.loads(line)["section"] for line in lines]
    assert sections[0] == "node"
    assert sections[-1] == "findings"
    assert sections == sorted(sections, key=sections.index)
    side = tmp_path / "findings.jsonl"
    assert je_tools("vlsn", "show", home, "--findings", side).code == EXIT_DAMAGE
    assert {json.loads(line)["code"] for line in side.read_text().splitlines()} == {
        row["code"] for row in report["findings"]
    }


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((PLAIN,), EXIT_INPUT, "not replicated"),
        ((NODE, "--map", 5000), EXIT_INPUT, "outside of the index"),
        ((NODE, "--lsn", "0x0/0x585"), EXIT_INPUT, "no whole entry"),
        ((NODE, "--map", 1, "--stream"), EXIT_USAGE, "give one of them"),
        ((NODE, "--rolled-back"), EXIT_USAGE, "needs --stream"),
        ((NODE, "--stream", "--format", "parquet"), EXIT_USAGE, "--output"),
    ],
)
def test_wrong_use(words: tuple[object, ...], code: int, text: str) -> None:
    done = je_tools("vlsn", "show", *map(str, words))
    assert (done.code, text in done.err) == (code, True), done.err


def test_an_lsn_at_damage_has_no_vlsn(tmp_path: Path) -> None:
    """Entries after the damage still have theirs, and the VLSN before them is the last good one."""
    home = copy_of(FIXTURES / "starrocks-rep-uncommitted" / "node1", tmp_path / "node")
    (home / "je.properties").write_text("je.env.recoveryForceNewFile=true\n")
    index = read_index(snapshot_of_node(home))
    write_records(home, dict([index.range.encode()]))
    assert je_tools("checkpoint", home, "--apply").code == EXIT_OK
    stream = stream_of(home)
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[stream[777].lsn + 30] ^= 1
    path.write_bytes(data)
    done = je_tools("vlsn", "show", home, "--lsn", lsn_text(stream[777].lsn))
    assert done.code == EXIT_INPUT
    assert "no whole entry begins at" in done.err
    done = je_tools("vlsn", "show", home, "--lsn", lsn_text(stream[778].lsn), "--format", "jsonl")
    row = json.loads(done.out.splitlines()[0])
    assert (row["vlsn"], row["state"], row["before_vlsn"]) == (778, "visible", 778)
    done = je_tools("vlsn", "show", home, "--map", "777", "--format", "jsonl")
    assert json.loads(done.out.splitlines()[0])["lsn"] is None
    assert done.code in (EXIT_INPUT, EXIT_DAMAGE)


def test_a_report_has_the_last_sync_points_and_says_how_far_it_reaches() -> None:
    whole = json.loads(je_tools("vlsn", "show", NODE, "--format", "json").out)
    short = json.loads(je_tools("vlsn", "show", NODE, "--format", "json", "--sync-points", "5").out)
    assert short["sync_points"] == whole["sync_points"][-5:]
    assert (whole["sync_first_vlsn"], whole["sync_is_whole"]) == (1, True)
    assert short["sync_first_vlsn"] == short["sync_points"][0]["vlsn"]
    assert not short["sync_is_whole"]
