"""`vlsn compare` predicts what the engine did when the nodes met.

The environments named -before are those of a lone master and of nodes that had not heard it. The
others are the same nodes after they met.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from je_tools.commands.vlsn_compare import _back_to
from je_tools.errors import EXIT_DAMAGE, EXIT_INPUT, EXIT_OK, EXIT_USAGE
from je_tools.findings import Finding, Severity
from je_tools.formats.je.header import lsn_text
from je_tools.formats.je.internal.names import REP_GROUP_DB
from je_tools.formats.je.internal.replication import GROUP_KEY
from je_tools.formats.je.tuples import string_key
from je_tools.output.views.vlsn_comparison import verdict
from je_tools.vlsn import stream_tail
from je_tools.vlsn.compare import ComparedNode, LeaderReason, Outcome, compare_nodes
from je_tools.vlsn.lost_records import LostRecordReader
from je_tools.vlsn.matchpoint import PRE_TERM, are_same, find_matchpoint
from je_tools.vlsn.node_report import NodeFacts, NodeReport, SyncPoint, columns_of, report_of
from je_tools.vlsn.node_state import read_node
from je_tools.vlsn.stream_tail import StreamTail, TailReader
from tests.corpus import FIXTURES, environments
from tests.je_tools.checkpoint.nodes import copy_up_to, entries_of, stream_of
from tests.je_tools.dumped import je_tools
from tests.je_tools.vlsn.indexes import copy_of, snapshot_of_node, write_records

GROUP = FIXTURES / "v17-rep-uncommitted-before"
AFTER = FIXTURES / "v15-rep-uncommitted"
PLAIN = FIXTURES / "v17-basic" / "env"


def homes() -> dict[str, Path]:
    return {each.name: each.home for each in environments()}


def pairs() -> list[Any]:
    """Return lone masters before the others met them, with their later state and another node."""
    known = homes()
    found = []
    for name, home in known.items():
        group, _, node = name.partition("-before/")
        if node != "node1" or "-rep-" not in group:
            continue
        for other in ("node2", "node3"):
            if f"{group}/{other}" in known:
                places = (home, known[f"{group}/node1"], known[f"{group}/{other}"])
                found.append(pytest.param(*places, id=f"{group}-{other}"))
    return found


def report(home: Path, count: int = 1000) -> NodeReport:
    state, _ = read_node(snapshot_of_node(home), count)
    return report_of(state)


@pytest.mark.parametrize(("before", "after", "other"), pairs())
def test_the_matchpoint_is_the_one_that_the_engine_found(
    before: Path, after: Path, other: Path
) -> None:
    nodes = [ComparedNode("lone", report(before)), ComparedNode("other", report(other))]
    pair = compare_nodes(nodes).pairs[0]
    assert pair.lost is not None
    rollbacks = TailReader(snapshot_of_node(after)).back_to(1).rollbacks
    if rollbacks:
        (done,) = rollbacks
        assert (pair.matchpoint.vlsn, pair.outcome) == (done.matchpoint_vlsn, Outcome.ROLLS_BACK)
        snapshot = snapshot_of_node(after)
        entry = snapshot.entry(done.start_lsn)
        assert entry is not None
        assert set(pair.lost.txns.txn_id.tolist()) == set(entry.fields["active_txns"])
        return
    # The engine cut the log at or after the matchpoint; the bytes that follow are another node's.
    assert pair.outcome is Outcome.CUTS_LOG
    assert pair.lost.commit_count == 1
    mine, others = before.joinpath("00000000.jdb"), after.joinpath("00000000.jdb")
    one, two = mine.read_bytes(), others.read_bytes()
    same = next(i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)
    stream = stream_of(before)
    matchpoint = stream[pair.matchpoint.vlsn or 0].lsn
    assert matchpoint <= same
    assert all(shown.lsn >= same for vlsn, shown in stream.items() if vlsn > pair.matchpoint.vlsn)


def groups() -> list[str]:
    """Return the groups except `-hole`, from which an entry was removed by hand."""
    found = {name.partition("/")[0] for name in homes() if "/node2" in name}
    return sorted(name for name in found if not name.endswith("-hole"))


@pytest.mark.parametrize("group", groups())
def test_a_node_loses_what_follows_the_matchpoint(group: str) -> None:
    names = [name for name in homes() if name.startswith(f"{group}/node")]
    known = homes()
    nodes = [ComparedNode(name, report(known[name])) for name in names]
    comparison = compare_nodes(nodes)
    for pair in comparison.pairs:
        stream = stream_of(known[names[pair.node]])
        assert pair.lost is not None
        assert pair.matchpoint.vlsn is not None
        after = [vlsn for vlsn in stream if vlsn > pair.matchpoint.vlsn]
        commits = [vlsn for vlsn in after if stream[vlsn].type_no == 17]
        assert (pair.lost.vlsn_count, pair.lost.commit_count) == (len(after), len(commits))
        lns = [vlsn for vlsn in after if stream[vlsn].type_no not in (17, 18, 30)]
        assert pair.lost.record_count == len(lns)
        if not after:
            assert pair.outcome in (Outcome.AGREES, Outcome.FOLLOWS)


@pytest.mark.parametrize("group", groups())
def test_the_records_after_a_matchpoint_have_their_keys(group: str) -> None:
    homes_of = [home for name, home in homes().items() if name.startswith(f"{group}/node")]
    nodes, snapshots = [], []
    for home in homes_of:
        snapshot = snapshot_of_node(home)
        state, reader = read_node(snapshot, 1000)
        records = LostRecordReader(snapshot, reader)
        nodes.append(ComparedNode(str(home), report_of(state), None, records))
        snapshots.append(snapshot)
    for pair in compare_nodes(nodes).pairs:
        assert pair.lost is not None
        found = list(nodes[pair.node].lost_records(pair.matchpoint.vlsn or 0))
        expected = [
            shown.lsn
            for vlsn, shown in sorted(stream_of(homes_of[pair.node]).items())
            if vlsn > (pair.matchpoint.vlsn or 0) and shown.type_no not in (17, 18, 30)
        ]
        assert [lsn for each in found for lsn in each.lsn.tolist()] == expected
        counts: Counter[int] = Counter()
        for each in found:
            for row, lsn in enumerate(each.lsn.tolist()):
                entry = snapshots[pair.node].entry(lsn)
                assert entry is not None
                fields = entry.fields
                own = (each.txn_id[row], each.db_id[row], each.key[row])
                assert own == (fields["txn_id"], fields["db_id"], fields["key"])
                counts[fields["txn_id"]] += 1
        txns = pair.lost.txns
        assert dict(zip(txns.txn_id.tolist(), txns.record_count.tolist(), strict=True)) == {
            **dict.fromkeys(txns.txn_id.tolist(), 0),
            **counts,
        }


def test_records_that_were_rolled_back_already_are_not_lost_again(tmp_path: Path) -> None:
    """The rollback has ended, and did not mark its entries."""
    source = FIXTURES / "starrocks-rep-uncommitted" / "node1"
    home = copy_up_to(source, entries_of(source)[-1].lsn, tmp_path / "node", unmarked=True)
    stream = stream_of(home)
    commits = [vlsn for vlsn, shown in stream.items() if shown.type_no == 17]
    point = max(vlsn for vlsn in commits if vlsn < 1224)
    snapshot = snapshot_of_node(home)
    reader = TailReader(snapshot)
    reader.back_to(1)
    found = LostRecordReader(snapshot, reader).read(stream[point].lsn)
    lsns = [lsn for each in found for lsn in each.lsn.tolist()]
    kinds = (17, 18, 30)
    assert lsns == sorted(
        shown.lsn for vlsn, shown in stream.items() if vlsn > point and shown.type_no not in kinds
    )


def test_keys_have_the_same_rows_in_every_format(tmp_path: Path) -> None:
    nodes = [GROUP / name for name in ("node1", "node2", "node3")]
    words = ("vlsn", "compare", *nodes, "--leader", nodes[1])
    lines = je_tools(*words, "--format", "jsonl").out.splitlines()
    rows = [row for row in map(json.loads, lines) if row.pop("section") == "keys"]
    assert len(rows) == 25
    assert {row["node"] for row in rows} == {str(nodes[0])}
    assert bytes.fromhex(rows[0]["key"]) == b"user00000000"
    text = je_tools(*words, "--format", "csv").out.decode()
    read = list(csv.DictReader(io.StringIO(text)))
    assert read == [{name: str(value) for name, value in row.items()} for row in rows]
    made = tmp_path / "keys.parquet"
    assert je_tools(*words, "--format", "parquet", "-o", made).code == EXIT_DAMAGE
    table = pq.read_table(made).to_pylist()
    for row in table:
        row["lsn"] = lsn_text(row["lsn"])
    assert table == rows
    masked = je_tools(*words, "--format", "csv", "--data", "length").out.decode()
    assert [row["key"] for row in csv.DictReader(io.StringIO(masked))] == ["length:12"] * 25
    hidden = je_tools(*words, "--data", "hide").out.decode()
    assert "first 20 of 25" in hidden
    assert "hex:" not in hidden
    whole = json.loads(je_tools(*words, "--format", "json").out)
    (counts,) = whole["databases"]
    assert (counts["db"], counts["record_count"]) == ("people", 25)
    assert [row["record_count"] for row in whole["transactions"]] == [0, 25, 0]


def test_keys_of_a_report_are_asked_for_on_its_host(tmp_path: Path) -> None:
    file = tmp_path / "node1.json"
    made = je_tools("vlsn", "show", GROUP / "node1", "--format", "json", "-o", file)
    assert made.code == EXIT_OK
    words = ("--from-json", file, "--leader", GROUP / "node2")
    done = je_tools("vlsn", "compare", GROUP / "node2", *words)
    assert "`je-tools dump ENV_DIR --from-vlsn 1224` shows those" in " ".join(done.err.split())
    assert b"Keys rolled back" not in done.out


def point(vlsn: int, **changes: Any) -> SyncPoint:
    made = SyncPoint(vlsn, "Commit", -vlsn, 1, 7, 1000 + vlsn, vlsn)
    return replace(made, **changes)


def node_report(*points: SyncPoint, **changes: Any) -> NodeReport:
    last = points[-1].vlsn if points else None
    first = points[0].vlsn if points else None
    facts = NodeFacts(
        "je-tools vlsn show", 1, "env", "state", "group", "id", {}, 17, 1, last, first, True, None,
        None, [],
    )  # fmt: skip
    return NodeReport(replace(facts, **changes), *columns_of(points, {}))


def changed(report: NodeReport, **changes: Any) -> NodeReport:
    return replace(report, facts=replace(report.facts, **changes))


def is_same(one: SyncPoint, other: SyncPoint) -> bool:
    (same,) = are_same(columns_of([one], {})[0], columns_of([other], {})[0])
    return bool(same)


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"time_ms": 1}, True),
        ({"dtvlsn": 1}, True),
        ({"master_term": None}, True),
        ({"master_term": PRE_TERM}, True),
        ({"master_term": 8}, False),
        ({"txn_id": -99}, False),
        ({"master_node_id": 2}, False),
        ({"type": "Abort"}, False),
    ],
)
def test_commits_are_compared_as_the_engine_does(changes: dict[str, Any], same: bool) -> None:
    assert is_same(point(5), point(5, **changes)) is same
    assert is_same(point(5, **changes), point(5)) is same


def test_matchpoints_are_compared_by_time_and_master() -> None:
    one = point(5, type="Matchpoint", txn_id=None, master_term=None)
    assert is_same(one, one)
    assert not is_same(one, replace(one, time_ms=1))
    assert not is_same(one, replace(one, master_node_id=2))


def test_the_newest_equal_sync_point_counts() -> None:
    one = node_report(point(1), point(2), point(3), point(4))
    other = node_report(point(1), point(2), point(3, txn_id=-9), point(5))
    assert find_matchpoint(one, other).vlsn == 2
    assert find_matchpoint(other, one).vlsn == 2


def test_a_report_that_does_not_reach_back_is_not_a_network_restore() -> None:
    late = node_report(point(1), point(2), state_id="late")
    short = node_report(point(8), point(9), state_id="short", sync_is_whole=False)
    comparison = compare_nodes([ComparedNode("late", late), ComparedNode("short", short)])
    assert [pair.outcome for pair in comparison.pairs] == [Outcome.UNKNOWN] * 2
    whole = node_report(point(8), point(9), state_id="short", first_vlsn=8)
    comparison = compare_nodes([ComparedNode("late", late), ComparedNode("whole", whole)])
    assert comparison.pairs[0].outcome is Outcome.RESTORES


def test_a_node_is_read_back_as_far_as_needed() -> None:
    whole = node_report(*(point(vlsn) for vlsn in range(1, 10)), state_id="whole")
    asked: list[int] = []

    def back_to(vlsn: int) -> NodeReport:
        asked.append(vlsn)
        return whole

    short = node_report(point(8), point(9), state_id="whole", sync_is_whole=False)
    late = node_report(point(1), point(2), state_id="late")
    comparison = compare_nodes([ComparedNode("late", late), ComparedNode("short", short, back_to)])
    assert asked == [1]
    assert comparison.pairs[0].outcome is Outcome.FOLLOWS
    assert comparison.pairs[0].matchpoint.vlsn == 2


def test_damage_of_files_that_are_read_later_is_reported() -> None:
    """The node is whole as far as it was read at first."""
    state, reader = read_node(snapshot_of_node(GROUP / "node1"), 1)
    assert not report_of(state).facts.problems
    damaged = Finding("bad-checksum", Severity.ERROR, "env")

    class Reader(TailReader):
        def back_to(self, vlsn: int) -> StreamTail:
            self.findings.insert(0, damaged)
            return super().back_to(vlsn)

    assert _back_to(state, Reader(reader.snapshot), 1).facts.problems == ["bad-checksum"]


def test_many_commits_are_prohibited_and_missing_vlsns_need_a_restore() -> None:
    long = node_report(*(point(vlsn) for vlsn in range(1, 30)), state_id="long")
    late = node_report(point(1), point(2), state_id="late")
    cleaned = changed(long, first_vlsn=20, state_id="cleaned")
    nodes = [ComparedNode(each.facts.state_id, each) for each in (long, late, cleaned)]
    outcomes = {(p.node, p.other): p.outcome for p in compare_nodes(nodes).pairs}
    assert outcomes[0, 1] is Outcome.PROHIBITED
    assert outcomes[1, 0] is Outcome.FOLLOWS
    assert outcomes[1, 2] is Outcome.RESTORES
    assert outcomes[0, 2] is Outcome.AGREES


def test_an_abort_after_the_matchpoint_makes_the_engine_cut_the_log() -> None:
    """No end of a transaction is rolled back, not even an Abort."""
    leader = node_report(*(point(vlsn) for vlsn in range(1, 6)), state_id="leader")
    points = (point(1), point(2), point(3, type="Abort", master_term=6))
    lone = node_report(*points, state_id="lone")
    comparison = compare_nodes([ComparedNode(each.facts.state_id, each) for each in (leader, lone)])
    (pair,) = comparison.to_leader()
    assert (pair.matchpoint.vlsn, pair.outcome) == (2, Outcome.CUTS_LOG)
    assert pair.lost is not None
    assert (pair.lost.commit_count, pair.lost.abort_count) == (0, 1)
    assert verdict(comparison).endswith("lone cuts its log, which loses no Commit, only 1 Abort")


def test_the_node_with_the_newest_durable_vlsn_leads_unless_it_is_damaged() -> None:
    alone = node_report(*(point(vlsn, dtvlsn=2) for vlsn in range(1, 9)), state_id="alone")
    agreed = node_report(*(point(vlsn) for vlsn in range(1, 6)), state_id="agreed")
    nodes = [ComparedNode(each.facts.state_id, each) for each in (alone, agreed)]
    assert compare_nodes(nodes).leader == 1
    hurt = ComparedNode("hurt", changed(agreed, problems=["damaged-entry"]))
    assert compare_nodes([nodes[0], hurt]).leader == 0
    assert not compare_nodes([nodes[0], hurt]).is_in_order


def test_the_reason_why_a_node_leads() -> None:
    first = node_report(point(1, dtvlsn=1), point(2, dtvlsn=1), state_id="a", last_vlsn=7)
    cases = [
        (node_report(point(1, dtvlsn=1), state_id="b"), LeaderReason.COMMIT),
        (changed(first, state_id="c", last_vlsn=6), LeaderReason.LAST),
        (node_report(point(1, dtvlsn=0), state_id="d"), LeaderReason.DURABLE),
        (changed(first, state_id="e"), LeaderReason.NONE),
    ]
    for other, reason in cases:
        nodes = [ComparedNode(each.facts.state_id, each) for each in (first, other)]
        choice = compare_nodes(nodes).choice
        assert choice is not None
        assert (choice.node, choice.reason, choice.uncommitted_count) == (0, reason, 5)
    text = verdict(compare_nodes([ComparedNode("a", first), ComparedNode("b", cases[0][0])]))
    assert "(last Commit 2, 5 uncommitted after it, durable VLSN 1, ahead by its last C" in text


@pytest.mark.parametrize("node_type", ["secondary", "monitor", "arbiter", "external"])
def test_a_node_that_cannot_be_elected_does_not_lead(node_type: str) -> None:
    observer = node_report(*map(point, range(1, 9)), state_id="observer", node_type=node_type)
    follower = node_report(*map(point, range(1, 5)), state_id="follower")
    nodes = [ComparedNode(each.facts.state_id, each) for each in (observer, follower)]
    comparison = compare_nodes(nodes)
    assert comparison.leader == 1
    assert f"left out of the choice: observer ({node_type})" in verdict(comparison)
    assert compare_nodes(nodes, "observer").leader == 0
    hurt = [nodes[0], ComparedNode("hurt", changed(follower, problems=["damaged-entry"]))]
    assert compare_nodes(hurt).leader is None
    assert "those that could be elected have errors" in verdict(compare_nodes(hurt))


def test_a_node_is_named_by_files_beside_its_log(tmp_path: Path) -> None:
    """A log does not say to which member it belongs; ROLE and je.properties do."""
    home = copy_of(GROUP / "node2", tmp_path / "meta" / "bdb")
    (tmp_path / "meta" / "image").mkdir()
    (tmp_path / "meta" / "image" / "ROLE").write_text("role=OBSERVER\nname=node9\n")
    facts = report(home).facts
    assert (facts.node_name, facts.node_type) == ("node9", "secondary")
    done = je_tools("vlsn", "compare", tmp_path / "meta", GROUP / "node3")
    assert f"{home} (secondary)" in " ".join(done.err.split())
    (home / "je.properties").write_text("je.rep.nodeName=node2\n")
    (tmp_path / "meta" / "image" / "ROLE").unlink()
    facts = report(home).facts
    assert (facts.node_name, facts.node_type) == ("node2", "electable")
    (home / "je.properties").write_text("je.rep.nodeType=ARBITER\n")
    assert report(home).facts.node_type == "arbiter"


def test_reading_back_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a node loses too many Commits, the outcome is known before the matchpoint is found."""
    with monkeypatch.context() as patch:
        patch.setattr(stream_tail, "SYNC_POINTS_MAX", 0)
        assert not TailReader(snapshot_of_node(GROUP / "node1")).back_to(1).is_whole
    assert TailReader(snapshot_of_node(GROUP / "node1")).back_to(1).is_whole
    lone = node_report(*map(point, range(100, 120)), state_id="lone", sync_is_whole=False)
    late = node_report(point(1), point(2), point(110, txn_id=-9), state_id="late")
    comparison = compare_nodes([ComparedNode("lone", lone), ComparedNode("late", late)])
    assert comparison.pairs[0].outcome is Outcome.PROHIBITED
    assert comparison.pairs[1].outcome is Outcome.UNKNOWN
    assert "loses more than 10 Commits" in verdict(
        compare_nodes([ComparedNode("lone", lone), ComparedNode("late", late)], "late")
    )


def test_the_journal_ids_of_front_ends_are_compared(tmp_path: Path) -> None:
    home, other = FIXTURES / "starrocks-fe-hole" / "node1", tmp_path / "other.json"
    assert je_tools("vlsn", "show", home, "--format", "json", "-o", other).code == EXIT_OK
    told = json.loads(other.read_text())
    assert told["journal_id"] == 892
    other.write_text(json.dumps(told | {"state_id": "other", "journal_id": 880}))
    done = je_tools("vlsn", "compare", home, "--from-json", other, "--format", "json")
    assert [row["journal_id"] for row in json.loads(done.out)["nodes"]] == [892, 880]
    assert b" 880" in je_tools("vlsn", "compare", home, "--from-json", other).out


@pytest.mark.parametrize(
    "changes", [{"type": "Comit"}, {"vlsn": 1 << 70}, {"written": {"1": 1 << 70}}, {"vlsn": "1"}]
)
def test_a_report_with_impossible_sync_points_is_refused(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "node.json"
    assert je_tools("vlsn", "show", GROUP / "node1", "--format", "json", "-o", file).code == EXIT_OK
    told = json.loads(file.read_text())
    told["sync_points"][-1] |= changes
    file.write_text(json.dumps(told))
    done = je_tools("vlsn", "compare", GROUP / "node2", "--from-json", file)
    assert done.code == EXIT_INPUT
    assert "report" in done.err


def test_reports_give_the_same_answer_as_the_nodes(tmp_path: Path) -> None:
    files = []
    for name in ("node1", "node2", "node3"):
        files.append(tmp_path / f"{name}.json")
        words = ("vlsn", "show", GROUP / name, "--format", "json", "--output", files[-1])
        assert je_tools(*words).code == EXIT_OK
    nodes = [GROUP / name for name in ("node1", "node2", "node3")]
    options = [word for file in files for word in ("--from-json", file)]
    one = je_tools("vlsn", "compare", *nodes, "--format", "json")
    other = je_tools("vlsn", "compare", *options, "--format", "json")
    mixed = je_tools("vlsn", "compare", nodes[0], *options[2:], "--format", "json")
    assert (one.code, other.code, mixed.code) == (EXIT_OK, EXIT_OK, EXIT_OK)
    texts = [each.out.decode() for each in (one, other, mixed)]
    for node, file in zip(nodes, files, strict=True):
        texts = [text.replace(json.dumps(str(file))[1:-1], str(node)) for text in texts]
    assert texts[0] == texts[1] == texts[2]
    assert "only if the group has lost its majority" in one.err


def test_a_node_that_only_follows_is_exit_0() -> None:
    done = je_tools("vlsn", "compare", GROUP / "node1", GROUP / "node2", "--format", "jsonl")
    assert done.code == EXIT_OK


def test_a_node_that_rolls_back_is_exit_3(tmp_path: Path) -> None:
    """A node without the last entries of the lone master leads if its durable VLSN is newer."""
    before = tmp_path / "before.json"
    made = je_tools("vlsn", "show", GROUP / "node1", "--format", "json", "--output", before)
    assert made.code == EXIT_OK
    told = json.loads(before.read_text())
    for each in told["sync_points"]:
        each["dtvlsn"] = 1
    before.write_text(json.dumps(told))
    done = je_tools("vlsn", "compare", GROUP / "node3", "--from-json", before)
    assert done.code == EXIT_DAMAGE
    assert "rolls back 1 transaction without a Commit" in done.err


def test_a_node_that_the_engine_does_not_open_does_not_lead(tmp_path: Path) -> None:
    """The lone master has the newest VLSNs, but a network restore of it did not finish."""
    home = copy_of(GROUP / "node1", tmp_path / "node")
    (home / "7fffffff.jdb").write_bytes((home / "00000000.jdb").read_bytes()[:100])
    done = je_tools("vlsn", "compare", home, GROUP / "node3", "--format", "json")
    told = json.loads(done.out)
    assert done.code == EXIT_DAMAGE
    assert told["leader"] == str(GROUP / "node3")
    assert told["nodes"][0]["problems"] == ["recovery-refused"]
    assert "`je-tools vlsn check` checks a whole node" in done.err


def test_nodes_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    node = GROUP / "node1"
    copy = copy_of(node, tmp_path / "copy")
    report = tmp_path / "report.json"
    assert je_tools("vlsn", "show", node, "--format", "json", "-o", report).code == EXIT_OK
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    cases = [
        ((node,), EXIT_USAGE, "--format json --output FILE` writes on their hosts"),
        ((node, GROUP / "node2", "--leader", "node2"), EXIT_USAGE, "it is none of the nodes"),
        ((), EXIT_USAGE, "two nodes or more"),
        ((node, node), EXIT_USAGE, "the same node"),
        ((node, copy), EXIT_USAGE, "the same node, or a copy"),
        ((node, "--from-json", report), EXIT_USAGE, "the same node, or a copy"),
        ((node, AFTER / "node1"), EXIT_INPUT, "two groups"),
        ((node, PLAIN), EXIT_INPUT, "not replicated"),
        ((node, "--from-json", wrong), EXIT_INPUT, "not a report"),
        ((node, "--from-json", tmp_path / "none"), EXIT_INPUT, "No such file"),
    ]
    for words, code, text in cases:
        done = je_tools("vlsn", "compare", *words)
        assert (done.code, text in done.err) == (code, True), (words, done.err)


def test_a_damaged_group_database_is_refused(tmp_path: Path) -> None:
    """The record of the group is garbage: nothing shows that the nodes belong together."""
    home = copy_of(GROUP / "node1", tmp_path / "node")
    write_records(home, {string_key(GROUP_KEY): b"?"}, REP_GROUP_DB)
    done = je_tools("vlsn", "compare", home, GROUP / "node2")
    assert done.code == EXIT_INPUT
    assert "group database is missing or cannot be read" in done.err
    shown = je_tools("vlsn", "show", home, "--format", "json")
    assert shown.code == EXIT_OK
    assert "group-unreadable" in {row["code"] for row in json.loads(shown.out)["findings"]}
