"""The judge of written environments accepts what the engine wrote, and nothing else.

Writers that each forget one thing write what it must refuse.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from je_tools.formats.je.entry.entries import Entry, decode_entry, encode_entry
from je_tools.formats.je.header import Header
from tests.builders.planting import Planting, put_slot
from tests.corpus import FIXTURES
from tests.engine.acceptance import (
    Expected,
    Judge,
    Problem,
    Told,
    WriteRefusedError,
    compare_told,
    fingerprint,
    node_of,
)
from tests.engine.acceptances import (
    Command,
    read_by,
    run_acceptances,
    run_corpus,
    write_and_judge,
    write_by_engine,
)
from tests.engine.jars import JE_5, JE_18
from tests.engine.workloads import HALT, sessions_of, write_environment
from tests.truth.contents import Contents, Refusal
from tests.truth.log_end import read_log

CRASHED = FIXTURES / "v17-crash-txn" / "env"
OLD_CRASHED = FIXTURES / "v8-crash-txn-ckpt" / "env"
NODE = FIXTURES / "v17-rep-uncommitted-before" / "node1"
CKPT_START, CKPT_END, DB_TREE = 19, 20, 16
KNOWN_DELETED = 1
DELETED = KNOWN_DELETED | 8
FORGETTING = {"load": 1500, "large": 20_000, "transactions": 200, "threads": 1, "checkpoints": 8}
A, B, C = (b"a", b"1"), (b"b", b"2"), (b"c", b"3")


def broken_rules(
    judge: Judge, crashed: Path, folder: Path, write: Any, node: str | None = None
) -> set[str]:
    now_ms = time.time_ns() // 1_000_000
    before = fingerprint(crashed)
    verdict = write_and_judge(judge, write, crashed, folder / "written", now_ms, node=node)
    print(*verdict.notes, *verdict.problems, sep="\n")
    assert fingerprint(crashed) == before
    return {problem.rule for problem in verdict.problems}


def nothing(home: Path) -> None:
    """Leave the environment unchanged."""


def with_record_lost(judge: Judge, home: Path) -> None:
    """Write as the engine does, but delete one record in its BIN."""
    judge.write_as_engine(home)
    planting = Planting(home, home.with_name("planting"))
    # A slot of a delta replaces one in the full node.
    lsns = planting.bins("people", delta=True) or planting.bins("people")
    slots = (slot for lsn in lsns for slot in planting.slots(lsn))
    lsn, slot = next((s.node_lsn, s) for s in slots if not s.fields["state"] & DELETED)
    planting.change(lsn, put_slot(slot.no, state=slot.fields["state"] | KNOWN_DELETED))
    _take(planting, home)


def with_summary_lost(judge: Judge, home: Path) -> None:
    """Write as the engine does, but remove the summary of file 0."""
    judge.write_as_engine(home)
    # After one more checkpoint, recovery replays no summary of that file.
    assert not judge.told(judge.plain, home, "recover", 0, "twice").problems
    planting = Planting(home, home.with_name("planting"))
    deltas = planting.bins("_jeUtilization", delta=True)
    nodes = planting.bins("_jeUtilization") + deltas
    nodes += [planting.entry(lsn).fields["last_full_lsn"] for lsn in deltas]
    lost = 0
    for lsn in nodes:
        prefix = planting.entry(lsn).fields.get("key_prefix") or b""
        for slot in list(planting.slots(lsn)):
            if (prefix + slot.fields["key"])[:4] == bytes(4):
                state = slot.fields["state"] | KNOWN_DELETED
                planting.change(lsn, put_slot(slot.no, state=state))
                lost += 1
    assert lost
    _take(planting, home)


def _take(planting: Planting, home: Path) -> None:
    for path in planting.home.glob("*.jdb"):
        path.replace(home / path.name)


def checkpoint_without_nodes(home: Path) -> None:
    """Write a checkpoint without nodes: CkptStart, the existing root, CkptEnd."""
    log = read_log(home)
    assert log.last is not None
    entries = list(log.entries())
    last = entries[-1][0]
    version = last.version
    made = log.files[log.last][: log.end & 0xFFFFFFFF]
    found = {
        header.type_no: decode_entry(_bytes_of(log.files, header), version)
        for header, _ in entries
        if header.type_no in (CKPT_START, CKPT_END, DB_TREE)
    }
    start_lsn, previous = log.last << 32 | len(made), last.lsn & 0xFFFFFFFF
    fields: dict[int, dict[str, Any]] = {}
    for type_no in (CKPT_START, DB_TREE, CKPT_END):
        fields[type_no] = dict(found[type_no].fields)
        if type_no != DB_TREE:
            fields[type_no]["ckpt_id"] += 9
        if type_no == CKPT_END:
            named = {"ckpt_start_lsn": start_lsn, "first_active_lsn": start_lsn}
            fields[type_no] |= named | {"root_lsn": log.last << 32 | previous}
        header = Header(0, type_no, found[type_no].header.flags, previous, 0, None)
        previous = len(made)
        made += encode_entry(Entry(header, version, fields[type_no]))
    (home / f"{log.last:08x}.jdb").write_bytes(made)


def _bytes_of(files: dict[int, bytes], header: Any) -> bytes:
    start = header.lsn & 0xFFFFFFFF
    return files[header.lsn >> 32][start : start + header.size]


@pytest.mark.engine
def test_what_the_engine_writes_is_accepted(judge: Judge, tmp_path: Path) -> None:
    assert not broken_rules(judge, CRASHED, tmp_path, judge.write_as_engine)


@pytest.mark.engine
def test_what_an_old_engine_writes_is_accepted(old_judge: Judge, tmp_path: Path) -> None:
    assert not broken_rules(old_judge, OLD_CRASHED, tmp_path, old_judge.write_as_engine)


@pytest.mark.engine
@pytest.mark.parametrize("is_old", [False, True])
def test_nothing_written_is_refused(
    is_old: bool, judge: Judge, old_judge: Judge, tmp_path: Path
) -> None:
    chosen, crashed = (old_judge, OLD_CRASHED) if is_old else (judge, CRASHED)
    assert broken_rules(chosen, crashed, tmp_path, nothing) == {"quiet", "replay"}


@pytest.mark.engine
def test_a_lost_record_is_refused(judge: Judge, tmp_path: Path) -> None:
    def write(home: Path) -> None:
        with_record_lost(judge, home)

    assert broken_rules(judge, CRASHED, tmp_path, write) >= {"records", "work"}


@pytest.mark.engine
@pytest.mark.parametrize("is_old", [False, True])
def test_a_checkpoint_without_nodes_is_refused(
    is_old: bool, judge: Judge, old_judge: Judge, tmp_path: Path
) -> None:
    chosen, crashed = (old_judge, OLD_CRASHED) if is_old else (judge, CRASHED)
    rules = broken_rules(chosen, crashed, tmp_path, checkpoint_without_nodes)
    assert rules >= {"records", "work"}
    assert not rules & {"quiet", "verify"}


@pytest.mark.engine
def test_a_lost_summary_is_refused(judge: Judge, tmp_path: Path) -> None:
    home = tmp_path / "home"
    session = sessions_of(1, ttl=False)[0] | FORGETTING
    session |= {"end": HALT, "structure": 0, "daemons": 0, "clean": 0, "cache": 16_000_000}
    write_environment(judge.java, judge.class_path, home, [session])
    assert len(list(home.glob("*.jdb"))) > 2

    def write(written: Path) -> None:
        with_summary_lost(judge, written)

    assert broken_rules(judge, home, tmp_path, write) >= {"quiet", "verify"}


@pytest.mark.engine
def test_a_refusal_is_wrong_where_something_can_be_recovered(judge: Judge, tmp_path: Path) -> None:
    def refuse(home: Path) -> None:
        raise WriteRefusedError("no")

    assert broken_rules(judge, CRASHED, tmp_path, refuse) == {"refusal"}
    rootless = tmp_path / "rootless"
    rootless.mkdir()
    (rootless / "00000000.jdb").write_bytes((CRASHED / "00000000.jdb").read_bytes()[:52])
    assert not broken_rules(judge, rootless, tmp_path / "other", refuse)

    def append(home: Path) -> None:
        with (home / "00000000.jdb").open("ab") as file:
            file.write(b"\0")

    assert broken_rules(judge, rootless, tmp_path / "third", append) == {"refusal"}


@pytest.mark.engine
def test_nodes_of_groups(judge: Judge, tmp_path: Path) -> None:
    """Judge a node that was killed with a transaction open, and that leads without the others."""
    node = node_of(NODE, "node1")
    assert node == "group/node1/localhost:5011"
    engine = tmp_path / "engine"

    def write(home: Path) -> None:
        judge.write_as_engine(home, node)

    assert not broken_rules(judge, NODE, engine, write, node)
    assert broken_rules(judge, NODE, tmp_path / "no", nothing, node) == {"quiet", "replay"}
    rules = broken_rules(judge, NODE, tmp_path / "none", checkpoint_without_nodes, node)
    assert rules >= {"records", "work", "vlsn"}


@pytest.mark.engine
@pytest.mark.parametrize(("is_old", "workloads", "crashes"), [(False, 1, 6), (True, 1, 2)])
def test_crash_points_recovered_by_the_engine(
    is_old: bool, workloads: int, crashes: int, judge: Judge, old_judge: Judge
) -> None:
    chosen = old_judge if is_old else judge
    seeds = range(1, 1 + workloads)
    report = run_acceptances(
        chosen, chosen.write_as_engine, seeds, crashes, small=True, ttl=not is_old, serial=True
    )
    print(report)
    assert report.cases == workloads * crashes
    assert not report.refused, report


@pytest.mark.engine
def test_a_writer_that_fails_is_no_end(judge: Judge, tmp_path: Path) -> None:
    assert broken_rules(judge, CRASHED, tmp_path, Command(["false"])) == {"writer"}


@pytest.mark.exhaustive
@pytest.mark.engine
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("coordinate", [JE_18, JE_5])
def test_many_crash_points_recovered_by_the_engine(coordinate: str, tmp_path: Path) -> None:
    with Judge.of(coordinate, tmp_path / "judge") as judge:
        report = run_acceptances(
            judge, judge.write_as_engine, range(1, 11), 20, ttl=coordinate != JE_5
        )
    print(report)
    assert report.cases == 200
    assert not report.refused, report


@pytest.mark.exhaustive
@pytest.mark.engine
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("coordinate", [JE_18, JE_5])
def test_environments_recovered_by_the_engine(coordinate: str, tmp_path: Path) -> None:
    with Judge.of(coordinate, tmp_path / "judge") as judge:
        report = run_corpus(judge, write_by_engine(judge), read_by(coordinate))
    print(report)
    assert report.cases
    assert not report.refused, report


@pytest.mark.parametrize(
    ("found", "other", "accepted"),
    [
        ([A, B], None, True),
        ([A], None, False),
        ([B, A], None, False),
        ([A, C], [A, C], True),
        ([A], [A, C], True),
        ([A, B, C], [A, C], True),
        ([C, B, A], [A, C], True),
        ([B, C], [A, C], False),
        ([A, A], [A, C], False),
    ],
)
def test_records_between_two_opinions(
    found: list[tuple[bytes, bytes]], other: list[tuple[bytes, bytes]] | None, accepted: bool
) -> None:
    """Records of only one opinion are optional; those of both are required, in their order."""
    contents: Contents | None = None if other is None else {"x": other}
    expected = Expected({"x": [A, B]}, contents)
    assert (not compare_told(expected, Told({"x": found}), "records")) == accepted


def test_a_refusal_to_read_is_a_difference() -> None:
    refused = Told(Refusal("died", "the JVM"))
    assert compare_told(Expected({"x": [A]}), refused, "work") == [
        Problem("work", "engine alone: died the JVM: ")
    ]


@pytest.mark.parametrize(
    ("script", "raised"),
    [
        ("exit 0", None),
        ("exit 3", None),
        ("exit 4", WriteRefusedError),
        ("exit 6", WriteRefusedError),
        ("exit 1", RuntimeError),
    ],
)
def test_commands(script: str, raised: type[Exception] | None, tmp_path: Path) -> None:
    write: Callable[[Path], None] = Command(["sh", "-c", f"{script} # $0"])
    if raised is None:
        write(tmp_path)
        return
    with pytest.raises(raised):
        write(tmp_path)
