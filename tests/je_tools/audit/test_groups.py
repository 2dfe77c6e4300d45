"""Nodes of a group are compared as `vlsn compare` does it, from small reports."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from je_tools.audit.group_findings import LAG_MS, group_findings
from je_tools.audit.groups import ComparedGroup, compare_group
from je_tools.audit.member_reports import Member, MemberFacts, pack_report
from je_tools.findings import CODES
from je_tools.vlsn.node_report import NodeFacts, NodeReport, SyncPoint, columns_of
from tests.corpus import FIXTURES, environments
from tests.je_tools.audit.test_stakes import stakes_of
from tests.je_tools.dumped import je_tools, rows_of

GROUPS = sorted({each.name.partition("/")[0] for each in environments() if "/node" in each.name})
UNCOMMITTED = "v17-rep-uncommitted-before"


def homes_of(group: str) -> list[Path]:
    return [each.home for each in environments() if each.name.startswith(f"{group}/")]


def packed(home: Path) -> bytes:
    member = stakes_of(home).member
    assert member is not None
    return member.data


def codes(group: ComparedGroup) -> list[tuple[str, str, str]]:
    return [(each.env, each.code, each.severity) for each in group_findings(group)]


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(name, marks=() if (FIXTURES / name).is_dir() else pytest.mark.exhaustive)
        for name in GROUPS
    ],
)
def test_the_outcomes_are_those_of_vlsn_compare(group: str) -> None:
    homes = homes_of(group)
    compared = compare_group([packed(home) for home in homes])
    assert [each.copy_of for each in compared.nodes] == [None] * len(homes)
    assert compared.missing_count == len(compared.members) - len(homes)
    if len(homes) < 2:
        assert codes(compared) == []
        return
    done = je_tools("vlsn", "compare", *homes, "--format", "json")
    said = msgspec.json.decode(done.out)
    assert compared.group_id == said["group_id"]
    assert compared.leader is not None
    assert said["leader"] == str(homes[[h.name for h in homes].index(compared.leader.facts.env)])
    newest = compared.leader.facts.facts.last_vlsn
    assert newest is not None
    for node, row in zip(compared.nodes, said["nodes"], strict=True):
        assert node.outcome == row["outcome"]
        assert node.facts.facts.last_vlsn == row["last_vlsn"]
        assert node.lag_vlsn == newest - row["last_vlsn"]
        assert node.facts.durable_vlsn == row["durable_vlsn"]
    pairs = {row["node"]: row for row in said["pairs"] if row["other"] == said["leader"]}
    for node, home in zip(compared.nodes, homes, strict=True):
        if node.is_leader:
            continue
        pair, following = pairs[str(home)], node.following
        assert following is not None
        assert following.matchpoint.vlsn == pair["matchpoint_vlsn"]
        lost = following.lost
        assert lost is not None
        numbers = (lost.vlsn_count, lost.record_count, len(lost.txns), lost.commit_count)
        names = ("vlsn_count", "record_count", "txn_count", "commit_count")
        assert numbers == tuple(pair[name] for name in names)
    severities = {severity for _, _, severity in codes(compared)}
    assert severities <= ({"note"} if done.code == 0 else {"note", "warning", "error"})


def test_one_node_of_a_group_alone_is_no_alarm() -> None:
    compared = compare_group([packed(homes_of(UNCOMMITTED)[0])])
    assert codes(compared) == []
    assert compared.choice is None
    assert compared.missing_count == 2
    assert compared.missing == ("node1", "node2", "node3")


def test_a_member_that_was_not_found_among_others_is_reported() -> None:
    compared = compare_group([packed(home) for home in homes_of(UNCOMMITTED)[:2]])
    assert compared.missing_count == 1
    found = [each for each in group_findings(compared) if each.code == "group-member-missing"]
    (finding,) = found
    assert finding.severity.value == "warning"
    assert finding.env == "node1"
    assert finding.found == "no log of 1 of node1, node2, node3"


def test_a_copy_is_no_member(tmp_path: Path) -> None:
    """An older copy of a node is told apart, and the group is complete."""
    homes = homes_of(UNCOMMITTED)
    backup = Path(shutil.copytree(homes[2], tmp_path / "backup"))
    identical = compare_group([*map(packed, homes), packed(backup)])
    # Of equal copies, the first by its name counts.
    assert [each.copy_of for each in identical.nodes] == [None, None, None, "backup"]
    older = tmp_path / "older"
    done = je_tools("recover", backup, "--to-vlsn", "900", "--force", "--apply", "-o", older)
    assert done.code in (0, 3), done.err
    compared = compare_group([*map(packed, homes), packed(older)])
    copy = compared.nodes[-1]
    assert copy.facts.env == "older"
    assert copy.copy_of == "node3"
    assert copy.lag_vlsn is not None
    assert copy.lag_vlsn > 300
    assert copy.outcome is None
    assert compared.missing_count == 0
    assert ("older", "group-copy", "note") in codes(compared)
    assert len(compared.found) == 3


def test_a_node_that_lost_its_end_does_not_pass_as_intact(tmp_path: Path) -> None:
    """The log by itself is whole, and nothing is wrong with it."""
    homes = homes_of(UNCOMMITTED)
    folder = tmp_path / "node2"
    done = je_tools("recover", homes[1], "--to-vlsn", "900", "--force", "--apply", "-o", folder)
    assert done.code in (0, 3), done.err
    assert stakes_of(folder).outcome == "opens"
    reports = [packed(homes[0]), packed(folder), packed(homes[2])]
    assert ("node2", "group-lag", "note") in codes(compare_group(reports))
    # A file beside the log names the node: it was master, and wrote later Commits.
    assert {row["master_name"] for row in nodes_said(homes)} == {"node1"}
    (folder / "je.properties").write_text("je.rep.nodeName=node1\n")
    compared = compare_group([packed(homes[0]), packed(folder), packed(homes[2])])
    lost = next(each for each in compared.nodes if each.facts.facts.node_name == "node1")
    assert lost.lost_end is not None
    assert "it wrote the Commit at VLSN" in lost.lost_end.reason
    assert (lost.facts.env, "group-end-missing", "error") in codes(compared)


def nodes_said(homes: Iterable[Path]) -> list[dict[str, Any]]:
    done = je_tools("vlsn", "compare", *homes, "--format", "jsonl")
    return [row for row in rows_of(done.out) if row["section"] == "nodes"]


MEMBERS = tuple(Member(f"node{n}", n, "electable", False, True, -1) for n in (1, 2, 3))


def commit(vlsn: int, txn_id: int, *, term: int = 1, time_ms: int | None = None) -> SyncPoint:
    return SyncPoint(
        vlsn=vlsn,
        type="Commit",
        txn_id=txn_id,
        master_node_id=term,
        master_term=term,
        time_ms=vlsn * 1000 if time_ms is None else time_ms,
        dtvlsn=None,
        written={txn_id: 1},
    )


def member(
    env: str, points: Sequence[SyncPoint], *, lsn: int = 0, durable: int | None = None, **more: Any
) -> bytes:
    """Return a packed report on a made-up node; `lsn` tells its log from those of others."""
    sync, writes = columns_of(points, {})
    sync = replace(sync, lsn=sync.vlsn * 100 + lsn)
    facts = NodeFacts(
        report="",
        report_version=1,
        env=env,
        state_id=env,
        group_name="group",
        group_id="uuid",
        node_names={each.node_id: each.name for each in MEMBERS},
        log_version=17,
        first_vlsn=1,
        last_vlsn=points[-1].vlsn if points else None,
        sync_first_vlsn=points[0].vlsn if points else None,
        sync_is_whole=True,
        checkpoint_vlsn=1,
        journal_id=None,
        problems=[],
    )
    own = {name: more.pop(name) for name in list(more) if name in NodeFacts.__struct_fields__}
    facts = replace(facts, **own)
    values = {
        "change_version": 1,
        "members": MEMBERS,
        "file_no": (0,),
        "created_ms": (lsn,),
        "last_commit": points[-1] if points else None,
        "durable_vlsn": durable,
    }
    whole = MemberFacts(env=env, facts=facts, **(values | more))
    return pack_report(whole, NodeReport(facts, sync, writes))


def stream(last: int, **more: Any) -> list[SyncPoint]:
    return [commit(vlsn, -vlsn, **more) for vlsn in range(1, last + 1)]


def test_a_diverged_node_says_what_it_takes_back() -> None:
    other = [*stream(5), commit(6, -60, term=2), commit(7, -70, term=2)]
    compared = compare_group([member("a", stream(9), lsn=1), member("b", other, lsn=2)])
    (finding,) = (each for each in group_findings(compared) if each.code == "group-diverged")
    assert (finding.env, finding.severity.value) == ("b", "error")
    assert (
        finding.found == "2 transactions after VLSN 5 with 2 Commits that it would roll back: "
        "cuts-log"
    )
    assert compared.nodes[1].outcome == "cuts-log"
    # An abort costs no Commit, but the engine stops to cut the log.
    abort = msgspec.structs.replace(commit(6, -60, term=2), type="Abort")
    compared = compare_group([member("a", stream(9)), member("b", [*stream(5), abort], lsn=2)])
    assert ("b", "group-diverged", "warning") in codes(compared)


@pytest.mark.parametrize(
    ("late_ms", "severity"), [(0, "note"), (LAG_MS - 4000, "note"), (LAG_MS - 3999, "warning")]
)
def test_a_lag_is_a_warning_only_after_minutes(late_ms: int, severity: str) -> None:
    ahead = [*stream(8), commit(9, -9, time_ms=9000 + late_ms)]
    compared = compare_group([member("a", ahead, lsn=1), member("b", stream(5), lsn=2)])
    assert ("b", "group-lag", severity) in codes(compared)
    assert (compared.nodes[1].lag_vlsn, compared.nodes[1].lag_ms) == (4, 4000 + late_ms)


def test_a_node_that_the_leader_cannot_feed_is_a_warning() -> None:
    compared = compare_group(
        [member("a", stream(9), lsn=1, first_vlsn=7), member("b", stream(5), lsn=2)]
    )
    (finding,) = (each for each in group_findings(compared) if each.code == "group-lag")
    assert finding.severity.value == "warning"
    assert "begins at VLSN 7" in (finding.found or "")


def test_a_report_that_does_not_reach_back_is_said() -> None:
    late = member("a", stream(90)[80:], lsn=1, sync_is_whole=False)
    compared = compare_group([late, member("b", stream(5), lsn=2)])
    assert compared.nodes[1].outcome == "unknown"
    assert ("b", "group-uncompared", "note") in codes(compared)
    assert ("b", "group-lag", "note") in codes(compared)


def test_too_few_members_for_a_durable_vlsn_have_lost_their_ends() -> None:
    whole = member("a", stream(9), lsn=1, durable=8)
    short = [member(name, stream(5), lsn=lsn, durable=4) for lsn, name in ((2, "b"), (3, "c"))]
    found = codes(compare_group([whole, *short]))
    assert ("b", "group-end-missing", "error") in found
    assert ("c", "group-end-missing", "error") in found
    # One of three may be behind; and a member whose log is not here may have it.
    for some in ([whole, short[0], member("c", stream(8), lsn=3)], [whole, short[0]]):
        assert "group-end-missing" not in {code for _, code, _ in codes(compare_group(some))}
    # A node beyond the electable members is a secondary one, which no majority needs.
    more = [whole, member("c", stream(8), lsn=3), short[0], member("d", stream(5), lsn=4)]
    assert "group-end-missing" not in {code for _, code, _ in codes(compare_group(more))}


def test_the_group_database_knows_how_far_a_node_was() -> None:
    known = (replace(MEMBERS[0], barrier_vlsn=7), *MEMBERS[1:])
    short = member("a", stream(5), lsn=1, node_name="node1")
    other = member("b", stream(9, term=2), lsn=2, members=known, change_version=2)
    assert ("a", "group-end-missing", "error") in codes(compare_group([short, other]))
    fits = member("b", stream(9, term=2), lsn=2, change_version=2)
    assert "group-end-missing" not in {code for _, code, _ in codes(compare_group([short, fits]))}


def test_names_tell_members_and_copies_apart() -> None:
    """Two logs of one origin are two members if files beside them name two nodes."""
    one = member("a", stream(9), lsn=1, node_name="node1")
    other = member("b", stream(5), lsn=1, node_name="node2")
    assert [each.copy_of for each in compare_group([one, other]).nodes] == [None, None]
    same = member("b", stream(5), lsn=2, node_name="node1")
    compared = compare_group([one, same])
    assert [each.copy_of for each in compared.nodes] == [None, "a"]
    assert compared.missing == ("node2", "node3")
    assert compared.missing_count == 2
    assert codes(compared) == [("b", "group-copy", "note")]


def test_a_copy_with_commits_of_its_own_is_a_warning() -> None:
    rolled_back = [*stream(5), commit(6, -60, term=2)]
    compared = compare_group([member("a", stream(9), lsn=1), member("b", rolled_back, lsn=1)])
    assert compared.nodes[1].copy_of == "a"
    (finding,) = group_findings(compared)
    assert (finding.code, finding.severity.value) == ("group-copy", "warning")
    assert "1 Commit that the newer copy does not have" in (finding.found or "")


def test_files_of_two_nodes_that_were_created_at_the_same_time() -> None:
    """Nodes that run create files in the same millisecond, and their logs may even be alike."""
    slower = [replace(each, time_ms=each.time_ms + 1) for each in stream(9)]
    compared = compare_group([member("a", stream(9), lsn=1), member("b", slower, lsn=1)])
    assert [each.copy_of for each in compared.nodes] == [None, None]


def test_a_removed_member_and_one_without_a_log_are_not_missing() -> None:
    known = (
        *MEMBERS,
        Member("gone", 4, "electable", True, True, -1),
        Member("arbiter", 5, "arbiter", False, True, -1),
    )
    reports = [
        member(name, stream(5), lsn=lsn, members=known, node_name=f"node{lsn}")
        for lsn, name in ((1, "a"), (2, "b"))
    ]
    compared = compare_group(reports)
    assert (compared.missing, compared.missing_count) == (("node3",), 1)
    (finding,) = group_findings(compared)
    assert finding.found == "no log of node3"


def test_members_that_were_left_out_of_a_report_are_not_missing() -> None:
    reports = [member(n, stream(5), lsn=i, is_cut=True) for i, n in enumerate("ab")]
    assert compare_group(reports).missing_count == 0


def test_without_a_node_that_can_lead_nothing_is_compared() -> None:
    reports = [member(n, stream(5), lsn=i, problems=["x"]) for i, n in enumerate("ab")]
    compared = compare_group(reports)
    assert compared.leader is None
    assert {each.outcome for each in compared.nodes} == {None}


def test_each_finding_has_its_description() -> None:
    assert {
        "group-copy",
        "group-diverged",
        "group-end-missing",
        "group-lag",
        "group-member-missing",
        "group-uncompared",
    } <= CODES.keys()


def test_the_order_of_the_reports_does_not_matter() -> None:
    reports = [packed(home) for home in homes_of(UNCOMMITTED)]
    found = defaultdict(list)
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        compared = compare_group([reports[i] for i in order])
        for each in compared.nodes:
            found[each.facts.env].append((each.outcome, each.lag_vlsn, each.is_leader))
    assert all(len(set(each)) == 1 for each in found.values())
    assert np.sum([each[0][2] for each in found.values()]) == 1
