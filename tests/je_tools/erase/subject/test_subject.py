"""`erase subject`: each trace has its state, and what it calls erasable is what a run erases."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from je_tools.core.masking import DataMode, Masking
from je_tools.erase.options import ErasureOptions
from je_tools.erase.proof.hit_places import Where
from je_tools.erase.proof.needles import Needle, NeedleKind, NeedleSearch
from je_tools.erase.proof.run import ProofOptions
from je_tools.erase.subject.run import find_subject
from je_tools.erase.subject.traces import TraceState
from je_tools.formats.je.btree.keys import join_two_part
from je_tools.formats.je.flags import SlotState
from tests.builders.trees import DUPLICATES, TreeLog, simple, slot
from tests.commands.test_no_leaks import pattern_of
from tests.corpus import FIXTURES
from tests.damage.running import je_tools, states
from tests.je_tools.erase.proof.planted_tree import IN_LOG, PREFIX, planted_tree, secret
from tests.je_tools.snapshots import snapshot_of

VALUE = b"Qz7-value-of-carol"


def found(home: Path, *words: str, code: int = 3) -> dict[str, Any]:
    """Return the report."""
    done = je_tools("erase", "subject", home, *words, "--format", "json")
    assert done.code == code, done.err
    report: dict[str, Any] = json.loads(done.out)
    return report


def by_state(report: dict[str, Any]) -> dict[str, int]:
    """Return the number of traces by state."""
    traces = [each["state"] for each in report["traces"]]
    return {state: traces.count(state) for state in sorted(set(traces))}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted_tree(tmp_path_factory.mktemp("planted") / "env")


STATES = {
    Where.KEY: TraceState.LIVE_RECORD,
    Where.TWO_PART_KEY: TraceState.OLD_RECORD,
    Where.DATA: TraceState.OLD_RECORD,
    Where.BEFORE_IMAGE: TraceState.BEFORE_IMAGE,
    Where.ABORT_KEY: TraceState.ABORT_VERSION,
    Where.ABORT_DATA: TraceState.ABORT_VERSION,
    Where.SLOT_KEY: TraceState.SLOT,
    Where.PREFIXED_KEY: TraceState.OLD_NODE,
    Where.KEY_PREFIX: TraceState.OLD_NODE,
    Where.IDENTIFIER_KEY: TraceState.NODE_KEY,
    Where.EMBEDDED: TraceState.SLOT,
    Where.DATABASE_NAME: TraceState.DATABASE_NAME,
    Where.TRACE: TraceState.TRACE_TEXT,
    Where.ERASED: TraceState.UNFINISHED,
    Where.FIELD: TraceState.OTHER_ENTRY,
}


@pytest.mark.parametrize("where", IN_LOG)
def test_every_place_has_its_state(where: Where, planted: Path) -> None:
    needle = PREFIX + b"fixed-4Wk" if where is Where.PREFIXED_KEY else secret(where)
    report = found(planted, "--match", f"hex:{needle.hex()}")
    states = {each["state"] for each in report["traces"] if each["where"] == where.value}
    assert states == {STATES[where].value}
    assert all(each["reason"] for each in report["traces"])


@pytest.mark.parametrize(
    ("of", "state"),
    [
        ("bad", TraceState.PUT_ASIDE),
        ("del", TraceState.PUT_ASIDE),
        ("info", TraceState.OTHER_FILE),
        ("journal", TraceState.JOURNAL),
        ("name", TraceState.FILE_NAME),
    ],
)
def test_other_files_have_their_state(of: str, state: TraceState, planted: Path) -> None:
    traces = found(planted, "--match", secret(of).decode())["traces"]
    assert state.value in {each["state"] for each in traces}
    assert not any(each["can_erase"] for each in traces)


def test_a_log_in_a_subdirectory_is_not_put_aside(tmp_path: Path) -> None:
    home = carol(tmp_path / "env")
    carol(home / "copy")
    report = found(home, "--key", "carol")
    states = {each["state"] for each in report["traces"] if each["file"].startswith("copy/")}
    assert states == {"log elsewhere"}


def carol(folder: Path) -> Path:
    """Write a log with records of carol in two databases, and an old version of one."""
    log = TreeLog()
    log.ln(b"carol", VALUE + b"-old")
    log.ln(b"dan", b"old")
    log.next_file()
    live = log.ln(b"carol", VALUE + b"-live")
    other = log.ln(b"dan", VALUE + b"-live")
    embedded = slot(join_two_part(b"ed", b"carol's value"), 300, SlotState.EMBEDDED)
    log.database(b"users", log.tree([slot(b"carol", live), slot(b"dan", other), embedded]))
    short = log.ln(b"carol", b"short", db=7)
    gone = slot(b"carol2", 300, SlotState.KNOWN_DELETED)
    log.database(b"other", log.tree([slot(b"carol", short), gone], db=7), db=7)
    log.checkpoint()
    return log.write(folder)


def test_values_of_records_with_a_key_are_searched_for(tmp_path: Path) -> None:
    home = carol(tmp_path / "env")
    report = found(home, "--key", "carol")
    assert (report["searched_value_count"], report["short_value_count"]) == (2, 1)
    values = {each["number"] for each in report["needles"] if each["origin"] == "value"}
    traces = [each for each in report["traces"] if each["needle"] in values]
    assert [(each["db"], each["can_erase"]) for each in traces] == [
        ("users", True),
        ("users", False),
        ("users", False),
    ]
    assert by_state(report)["live record"] == 6, "two values with the key in them, and two keys"
    assert found(home, "--match", "carol")["searched_value_count"] == 0


def test_a_key_counts_in_the_databases_that_are_asked_for(tmp_path: Path) -> None:
    home = carol(tmp_path / "env")
    report = found(home, "--key", "carol", "--db", "other")
    assert {each["db"] for each in report["traces"]} == {"other"}
    assert report["other_db_count"] > 0
    assert report["searched_value_count"] == 0
    states = by_state(report)
    assert states["deleted slot in use"] == 1
    assert je_tools("erase", "subject", home, "--key", "a", "--db", "none").code == 2


def test_records_with_another_key_are_named_as_such(tmp_path: Path) -> None:
    log = TreeLog()
    live = log.ln(b"carol", VALUE)
    other = log.ln(b"dan", b"knows carol")
    longer = log.ln(b"carola", b"1")
    slots = [slot(b"carol", live), slot(b"carola", longer), slot(b"dan", other)]
    embedded = slot(join_two_part(b"ed", b"of carol"), 300, SlotState.EMBEDDED)
    log.database(b"users", log.tree([*slots, embedded]))
    pair = join_two_part(b"city", b"carol")
    pairs = log.tree([slot(pair, log.ln(pair, b"", db=7))], db=7)
    log.database(b"index", pairs, db=7, db_flags=DUPLICATES)
    log.checkpoint()
    home = log.write(tmp_path / "env")
    data = (home / "00000000.jdb").read_bytes()
    texts = {
        data[each["offset"] - 5 : each["offset"] + 6]: each["reason"]
        for each in found(home, "--key", "carol")["traces"]
        if each["state"] in ("live record", "slot in use") and each["needle"] == 1
    }
    own = {around for around, text in texts.items() if "--match" not in text}
    assert len(texts) == 8
    assert {around[5:10] for around in texts} == {b"carol"}
    assert all(b"carola" not in around and b"of " not in around for around in own)
    assert len(own) == 3, "a key, a slot, and the value of that key"
    by_match = found(home, "--match", "carol")["traces"]
    assert not [each for each in by_match if "--match" in each["reason"]]


def test_all_trees_are_written_anew_if_not_all_traces_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("je_tools.erase.subject.run.LISTED_MAX", 1)
    home = carol(tmp_path / "env")
    snapshot = snapshot_of(home)
    search = NeedleSearch([Needle(NeedleKind.LITERAL, "--key", b"carol", 5, is_key=True)])
    options = ProofOptions(Masking(DataMode.HASH), threads=1)
    report = find_subject(snapshot, search, None, options, ErasureOptions())
    assert len(report.traces) == 1
    assert report.db_ids == snapshot.databases.keys()


def test_embedded_values_are_searched_for(tmp_path: Path) -> None:
    report = found(carol(tmp_path / "env"), "--key", "ed")
    assert report["searched_value_count"] == 1
    assert "embedded data" in {each["where"] for each in report["traces"]}


@pytest.mark.parametrize("name", ["v17-erase-after", "v17-dups"])
def test_what_is_called_erasable_is_what_a_run_erases(name: str, tmp_path: Path) -> None:
    home = Path(shutil.copytree(FIXTURES / name / "env", tmp_path / "env"))
    needle = ("--match", "user0000012")
    before = found(home, *needle)
    left = {(each["file"], each["offset"]) for each in before["traces"] if not each["can_erase"]}
    gone = {(each["file"], each["offset"]) for each in before["traces"] if each["can_erase"]}
    assert gone
    assert left
    assert je_tools("erase", "run", home, "--apply").code == 0
    proof = json.loads(je_tools("erase", "prove", home, *needle, "--format", "json").out)
    assert {(each["file"], each["offset"]) for each in proof["hits"]} == left
    after = found(home, *needle)
    assert after["erasable_count"] == 0


def test_live_records_in_files_that_stay_are_live() -> None:
    """In a log before version 17 the last file stays, here the only one."""
    home = FIXTURES / "v8-dbops" / "env"
    report = found(home, "--match", "user0000")
    first = found(home, "--match", "user0000", "--checkpoint-first")
    assert by_state(report) == by_state(first)
    assert by_state(report)["live record"] > 1000
    live = [
        {each["lsn"] for each in some["traces"] if each["state"] == "live record"}
        for some in (report, first)
    ]
    assert live[0] == live[1]
    old = {each["reason"] for each in report["traces"] if each["state"] == "old record"}
    assert all("--checkpoint-first" in reason for reason in old)
    assert report["erasable_count"] == 0


def test_what_other_nodes_may_need_is_said() -> None:
    report = found(FIXTURES / "v26-rep-committed" / "node1", "--match", "user0000")
    reasons = {each["reason"] for each in report["traces"]}
    assert "the node may have to send it to others" in reasons


def test_nothing_is_found_in_a_log_without_the_person(tmp_path: Path) -> None:
    home = simple({b"a": b"1"}).write(tmp_path / "env")
    before = states(home)
    report = found(home, "--key", "carol", "--match", "re:c[a-z]{2,9}l@example", code=0)
    assert (report["trace_count"], report["gaps"]) == (0, [])
    assert "No trace" in je_tools("erase", "subject", home, "--key", "carol").out.decode()
    assert states(home) == before


def test_no_output_has_a_needle_or_a_value(tmp_path: Path, planted: Path) -> None:
    pattern = pattern_of(VALUE, b"carol", b"Qz7-", PREFIX)
    keys = tmp_path / "keys"
    keys.write_bytes(b"\n".join([b"carol", b"ed", b"re", *map(secret, IN_LOG)]))
    for home in (carol(tmp_path / "env"), planted):
        for form in ("table", "json", "jsonl"):
            done = je_tools(
                *("erase", "subject", home, "--key-file", keys, "--match", "Qz7-"),
                *("--format", form, "--data", "salted-hash"),
            )
            assert done.code == 3
            assert not pattern.search(done.out)
            assert not pattern.search(done.err.encode())


def test_damaged_logs_are_searched(tmp_path: Path) -> None:
    home = carol(tmp_path / "env")
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[data.index(VALUE + b"-old") + 3] ^= 1
    path.write_bytes(data)
    report = found(home, "--match", "carol")
    assert "damaged entry" in by_state(report)
    assert [each["kind"] for each in report["obstacles"]] == ["damage"]
    assert report["erasable_count"] == 0
