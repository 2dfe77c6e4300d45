"""`vlsn check` is silent about what engines wrote, and reports all damage to an index."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from je_tools.errors import EXIT_DAMAGE, EXIT_INPUT, EXIT_OK
from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.header import FLAGS_AT, NULL_LSN, lsn_text
from je_tools.formats.je.internal.replication import VlsnBucket, VlsnRange
from je_tools.formats.je.tuples import long_key
from je_tools.formats.je.types import BY_NAME
from je_tools.vlsn.index import MisfitError, VlsnIndex, without_head
from je_tools.vlsn.index_state import read_index_state
from je_tools.vlsn.logged_stream import EntryState
from je_tools.vlsn.recovered_index import read_index, stream_since_checkpoint
from je_tools.vlsn.stream_check import check_stream
from je_tools.vlsn.whole_stream import read_whole_stream
from tests.corpus import FIXTURES, Environment
from tests.je_tools.checkpoint.nodes import (
    COMMIT,
    copy_up_to,
    entries_of,
    nodes,
    stream_of,
    write,
)
from tests.je_tools.dumped import je_tools
from tests.je_tools.vlsn.indexes import (
    NOW_MS,
    append_entry,
    copy_of,
    cut_index,
    snapshot_of_node,
    write_records,
)

NODE = FIXTURES / "v26-rep-committed" / "node2"
ROLLED_BACK = FIXTURES / "starrocks-rep-uncommitted" / "node1"
CRASHED = FIXTURES / "v17-rep-uncommitted-before" / "node1"
PLAIN = FIXTURES / "v17-basic" / "env"

Records = dict[bytes, bytes | None]
CKPT_START = BY_NAME["CkptStart"].no


@pytest.mark.parametrize("node", nodes())
def test_engines_write_nothing_that_is_reported(node: Environment) -> None:
    done = je_tools("vlsn", "check", node.home, "--format", "jsonl")
    assert (done.code, done.out) == (EXIT_OK, b"")
    assert "mappings of the VLSN index" in done.err


def ranged(index: VlsnIndex, **changes: int) -> Records:
    return dict([replace(index.range, **changes).encode()])


def bucket_of(index: VlsnIndex, place: int) -> VlsnBucket:
    bucket = index.buckets[place]
    assert isinstance(bucket, VlsnBucket)
    return bucket


def changed(index: VlsnIndex, place: int, **changes: object) -> Records:
    return dict([replace(bucket_of(index, place), **changes).encode()])


def without(index: VlsnIndex, *places: int) -> Records:
    return {long_key(index.buckets[place].first): None for place in places}


def short(index: VlsnIndex) -> Records:
    """Cut the last bucket to its first mapping, and the range with it."""
    last = bucket_of(index, -1)
    lsn = last.file_no << 32 | last.offsets[0]
    cut = replace(last, last=last.first, last_lsn=lsn, offsets=last.offsets[:1])
    ends = dict.fromkeys(("last", "last_sync", "last_txn_end"), last.first)
    return dict([cut.encode(), replace(index.range, **ends).encode()])


def shifted(index: VlsnIndex, by: int) -> Records:
    """Let each mapping of the first bucket lead to the place of a later or an earlier one."""
    bucket = bucket_of(index, 0)
    offsets = bucket.offsets[by:] if by > 0 else (1,) * -by + bucket.offsets[:by]
    return changed(index, 0, offsets=offsets)


CASES: dict[str, tuple[Callable[[VlsnIndex], Records], set[str]]] = {
    "no records": (
        lambda index: without(index, *range(len(index.buckets))) | {long_key(-1): None},
        {"vlsn-index-lost", "vlsn-index-short"},
    ),
    "no range": (lambda _: {long_key(-1): None}, {"vlsn-index-lost", "vlsn-index-short"}),
    "unreadable range": (
        lambda _: {long_key(-1): b"?"},
        {"vlsn-index-lost", "vlsn-index-short"},
    ),
    "no buckets": (
        lambda index: without(index, *range(len(index.buckets))),
        {"vlsn-index-lost"},
    ),
    "head missing": (lambda index: without(index, 0), {"vlsn-index-range"}),
    "middle missing": (lambda index: without(index, 1), {"vlsn-index-gap"}),
    "tail missing": (lambda index: without(index, -1), {"vlsn-index-range"}),
    "unreadable bucket": (lambda _: {long_key(1): b"\x01\x00\x00"}, {"vlsn-index-lost"}),
    "wrong key": (
        lambda index: {long_key(3): bucket_of(index, 0).encode()[1]},
        {"vlsn-index-lost"},
    ),
    "later places": (lambda index: shifted(index, 1), {"vlsn-index-mapping"}),
    "earlier places": (lambda index: shifted(index, -1), {"vlsn-index-mapping"}),
    "inside of entries": (
        lambda index: changed(
            index, 0, offsets=tuple(offset + 5 for offset in bucket_of(index, 0).offsets)
        ),
        {"vlsn-index-mapping"},
    ),
    "offsets that go back": (
        lambda index: changed(index, 0, offsets=bucket_of(index, 0).offsets[::-1]),
        {"vlsn-index-bucket", "vlsn-index-mapping"},
    ),
    "no first offset": (
        lambda index: changed(index, 0, offsets=(0, *bucket_of(index, 0).offsets[1:])),
        {"vlsn-index-bucket"},
    ),
    "file that does not exist": (
        lambda index: changed(index, 0, file_no=9, last_lsn=9 << 32 | bucket_of(index, 0).last_lsn),
        {"vlsn-index-bucket", "vlsn-index-mapping"},
    ),
    "two files": (
        lambda index: changed(index, 0, last_lsn=1 << 32 | bucket_of(index, 0).last_lsn),
        {"vlsn-index-bucket", "vlsn-index-mapping"},
    ),
    "wild numbers": (
        lambda index: changed(index, 0, file_no=(1 << 62) + 1, stride=-(1 << 62)),
        {"vlsn-index-bucket"},
    ),
    "overlap": (
        lambda index: changed(index, 0, last=bucket_of(index, 0).last + 10),
        {"vlsn-index-bucket", "vlsn-index-mapping"},
    ),
    "short": (short, {"vlsn-index-short"}),
    "long": (
        lambda index: ranged(index, last=index.range.last + 10),
        {"vlsn-index-range"},
    ),
    "no sync points": (
        lambda index: ranged(index, last_sync=-1, last_txn_end=-1),
        {"vlsn-index-range"},
    ),
    "a sync point that is none": (
        lambda index: ranged(index, last_txn_end=index.range.last - 1),
        {"vlsn-index-range"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_damage_of_an_index_is_reported(name: str, tmp_path: Path) -> None:
    make, codes = CASES[name]
    home = copy_of(NODE, tmp_path / "node")
    write_records(home, make(read_index(snapshot_of_node(home))))
    done = je_tools("vlsn", "check", home, "--format", "jsonl")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert {row["code"] for row in rows} == codes
    assert done.code == (EXIT_OK if codes == {"vlsn-index-gap"} else EXIT_DAMAGE)
    assert "je-tools: as it is: " in done.err
    assert all(row["expected"] and row["found"] and row["hint"] for row in rows)


def test_vlsns_that_do_not_follow_the_index_are_foretold(tmp_path: Path) -> None:
    """The index ends at VLSN N, and the first VLSN after the checkpoint began is not N + 1."""
    home = copy_of(CRASHED, tmp_path / "node")
    index = read_index(snapshot_of_node(home))
    assert index.range.last == 627
    write_records(home, short(index))
    done = je_tools("vlsn", "check", home, "--format", "jsonl")
    refused = [
        row for row in map(json.loads, done.out.splitlines()) if row["code"] == "vlsn-index-refused"
    ]
    (row,) = refused
    assert "ends at VLSN 1, and the log continues with 628" in row["found"]


@pytest.mark.parametrize(
    ("changes", "reason"), [({"stride": 0}, "impossible"), ({"offsets": ()}, "no offsets")]
)
def test_a_bucket_that_cannot_be_cut_is_foretold(
    changes: dict[str, object], reason: str, tmp_path: Path
) -> None:
    """The VLSNs after the last checkpoint overlap the last bucket, which has to be cut."""
    home = copy_of(CRASHED, tmp_path / "node")
    snapshot = snapshot_of_node(home)
    first = stream_since_checkpoint(snapshot).vlsn[0]
    index = read_index(snapshot)
    place = next(
        i for i, each in enumerate(index.buckets) if each.first < first <= index.range.last + 1
    )
    records = changed(index, place, **changes, last=int(first) + 20)
    ends = dict.fromkeys(("last", "last_sync", "last_txn_end"), int(first) + 20)
    write_records(home, without(index, *range(place + 1, len(index.buckets))) | records)
    write_records(home, ranged(index, **ends))
    done = je_tools("vlsn", "check", home, "--format", "jsonl")
    assert done.code == EXIT_DAMAGE
    rows = [json.loads(line) for line in done.out.splitlines()]
    (row,) = (each for each in rows if each["code"] == "vlsn-index-refused")
    assert reason in row["found"]


@pytest.mark.parametrize("offsets", [(), (0,)])
def test_a_head_before_a_damaged_bucket(offsets: tuple[int, ...]) -> None:
    """The bucket after files that are gone does not say where its first VLSN is."""
    bucket = VlsnBucket(1, 2, 10, 8, 18, 2 << 32 | 90, offsets)
    index = VlsnIndex(VlsnRange(1, 1, 18, 18, 18), [VlsnBucket(1, 0, 10, 1, 3, 60, (38,)), bucket])
    if offsets:
        assert len(without_head(index, 5, 1).buckets) == 2
        return
    with pytest.raises(MisfitError, match="no offsets"):
        without_head(index, 5, 1)


def test_an_index_that_a_checkpoint_cut_short_is_reported(tmp_path: Path) -> None:
    """Nothing is tracked after the checkpoint, so the engine would use the VLSNs again."""
    cut = entries_of(CRASHED)[-1].lsn
    home = copy_up_to(CRASHED, cut, tmp_path / "node")
    write(home)
    assert je_tools("vlsn", "check", home).code == EXIT_OK
    index = read_index(snapshot_of_node(home))
    commits = [(v, e.lsn) for v, e in stream_of(home).items() if e.type_no == COMMIT]
    last, lsn = commits[-2]
    write_records(home, cut_index(index, last, lsn))
    (finding,) = check_stream(snapshot_of_node(home)).findings
    assert finding.code == "vlsn-index-short"
    assert f"last={last} after recovery" in (finding.found or "")
    assert f"would get VLSN {last + 1}" in (finding.found or "")


def test_an_index_without_records_before_the_first_checkpoint_is_new(tmp_path: Path) -> None:
    """The only checkpoint is that of the first start, so recovery fills the index from VLSN 1."""
    home = copy_before_its_first_checkpoint(tmp_path / "node")
    snapshot = snapshot_of_node(home)
    state = read_index_state(snapshot)
    assert (state.stored.records, state.tracked_vlsn) == ((), 1)
    assert snapshot.checkpoint.end_lsn != NULL_LSN
    assert check_stream(snapshot_of_node(home)).findings == []
    done = je_tools("vlsn", "check", home)
    assert (done.code, done.out) == (EXIT_OK, b"")


def copy_before_its_first_checkpoint(home: Path) -> Path:
    """Copy a node up to the second checkpoint; the first one is that of the first start."""
    starts = [each.lsn for each in entries_of(CRASHED) if each.type_no == CKPT_START]
    return copy_up_to(CRASHED, starts[1], home)


def test_a_jump_of_vlsns_needs_no_memory(tmp_path: Path) -> None:
    """The VLSNs of two entries after the checkpoint are far apart, but on the stride."""
    home = copy_of(NODE, tmp_path / "node")
    last = read_index(snapshot_of_node(home)).range.last
    for vlsn in (last + 1, last + 1 + 10**13):
        append_entry(home, "Matchpoint", {"time_ms": NOW_MS, "master_node_id": 1}, vlsn=vlsn)
    for verb in ("check", "show"):
        done = je_tools("vlsn", verb, home, "--format", "jsonl")
        assert done.code == EXIT_OK, done.err
        assert verb == "show" or b"vlsn-gap" in done.out


def test_a_rollback_without_its_marks_is_reported(tmp_path: Path) -> None:
    lsn = entries_of(ROLLED_BACK)[-1].lsn
    home = copy_up_to(ROLLED_BACK, lsn, tmp_path / "node", unmarked=True)
    found = check_stream(snapshot_of_node(home)).findings
    (finding,) = (each for each in found if each.code == "vlsn-unmarked")
    assert "25 that are visible, VLSN 1225 to 1249" in (finding.found or "")
    assert not any(each.severity == "error" for each in found)


def rollback_to(home: Path, vlsn: int, matchpoint_vlsn: int | None = None) -> None:
    """Append a rollback to the entry of a VLSN; the RollbackStart may name another VLSN."""
    fields = {
        "matchpoint_vlsn": vlsn if matchpoint_vlsn is None else matchpoint_vlsn,
        "matchpoint_lsn": stream_of(home)[vlsn].lsn,
        "time_ms": NOW_MS,
        "active_txn_count": 0,
        "active_txns": [],
    }
    append_entry(home, "RollbackStart", fields)


def map_to_a_rolled_back_entry(home: Path) -> int:
    """Let the first mapping of a bucket lead to an invisible entry of its VLSN; return the VLSN."""
    stream = read_whole_stream(snapshot_of_node(home)).logged
    vlsn = int(stream.vlsn[stream.state == EntryState.INVISIBLE][0])
    hidden = int(stream.lsn[(stream.vlsn == vlsn) & (stream.state == EntryState.INVISIBLE)][0])
    index = read_index(snapshot_of_node(home))
    place = next(i for i, each in enumerate(index.buckets) if each.first == vlsn)
    offsets = (hidden & 0xFFFFFFFF, *bucket_of(index, place).offsets[1:])
    write_records(home, changed(index, place, offsets=offsets))
    return vlsn


def test_a_mapping_to_an_entry_that_was_rolled_back_is_reported(tmp_path: Path) -> None:
    home = copy_of(ROLLED_BACK, tmp_path / "node")
    vlsn = map_to_a_rolled_back_entry(home)
    checked = check_stream(snapshot_of_node(home))
    (finding,) = checked.findings
    assert finding.code == "vlsn-index-mapping"
    assert finding.found == f"UPD_LN_TX of VLSN {vlsn}, invisible"
    (forecast,) = checked.forecasts
    assert forecast.damage == "1 mapping to another entry, or to none"


def test_a_mapping_to_an_entry_that_is_marked_without_a_rollback(tmp_path: Path) -> None:
    """No checksum covers the mark, and a feeder passes over such an entry."""
    home = copy_of(NODE, tmp_path / "node")
    bucket = bucket_of(read_index(snapshot_of_node(home)), 0)
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[bucket.offsets[3] + FLAGS_AT] |= HeaderFlag.INVISIBLE
    path.write_bytes(data)
    found = check_stream(snapshot_of_node(home)).findings
    texts = [each.found for each in found if each.code == "vlsn-index-mapping"]
    assert len(texts) == 1
    assert f"of VLSN {bucket.first + 30}, invisible" in (texts[0] or "")


def test_a_rollback_over_commits_is_reported(tmp_path: Path) -> None:
    home = copy_of(NODE, tmp_path / "node")
    ends = [vlsn for vlsn, shown in stream_of(home).items() if shown.type_no == COMMIT]
    rollback_to(home, ends[-4])
    found = list(check_stream(snapshot_of_node(home)).findings)
    texts = [each.found for each in found if each.code == "vlsn-rollback"]
    assert texts == [f"3, first that of VLSN {ends[-3]}"]
    assert "vlsn-index-refused" in {each.code for each in found}


def test_a_rollback_to_another_entry_is_reported(tmp_path: Path) -> None:
    home = copy_of(NODE, tmp_path / "node")
    last = max(stream_of(home))
    rollback_to(home, last, matchpoint_vlsn=last - 1)
    found = check_stream(snapshot_of_node(home)).findings
    (finding,) = (each for each in found if each.code == "vlsn-rollback")
    assert finding.found == f"VLSN {last}"


def test_a_rollback_into_another_one_is_reported(tmp_path: Path) -> None:
    home = copy_of(ROLLED_BACK, tmp_path / "node")
    (period,) = check_stream(snapshot_of_node(home)).stream.rollbacks
    hidden = next(each for each in entries_of(home) if each.lsn > period.matchpoint_lsn)
    fields = {
        "matchpoint_vlsn": hidden.vlsn,
        "matchpoint_lsn": hidden.lsn,
        "time_ms": NOW_MS,
        "active_txn_count": 0,
        "active_txns": [],
    }
    append_entry(home, "RollbackStart", fields)
    found = check_stream(snapshot_of_node(home)).findings
    texts = {each.found for each in found if each.code == "vlsn-rollback"}
    assert f"one inside, at {lsn_text(hidden.lsn)}" in texts


def test_a_rollback_in_between_does_not_hide_another_one(tmp_path: Path) -> None:
    """The third rollback reaches into the first one; the second one is in order."""
    home = copy_of(ROLLED_BACK, tmp_path / "node")
    (period,) = check_stream(snapshot_of_node(home)).stream.rollbacks
    hidden = next(each for each in entries_of(home) if each.lsn > period.matchpoint_lsn)
    last = max(shown.lsn for shown in stream_of(home).values())
    assert last > period.start_lsn
    for lsn in (last, hidden.lsn):
        vlsn = next(each.vlsn for each in entries_of(home) if each.lsn == lsn)
        fields = {
            "matchpoint_vlsn": vlsn,
            "matchpoint_lsn": lsn,
            "time_ms": NOW_MS,
            "active_txn_count": 0,
            "active_txns": [],
        }
        append_entry(home, "RollbackStart", fields)
    found = check_stream(snapshot_of_node(home)).findings
    texts = {each.found for each in found if each.code == "vlsn-rollback"}
    assert f"one inside, at {lsn_text(hidden.lsn)}" in texts


def test_a_log_without_replication_is_refused() -> None:
    done = je_tools("vlsn", "check", PLAIN)
    assert done.code == EXIT_INPUT
    assert "not replicated" in done.err


@pytest.mark.parametrize(("step", "code"), [(0, "vlsn-duplicate"), (2, "vlsn-gap")])
def test_the_order_of_vlsns_is_judged_as_verify_does(step: int, code: str, tmp_path: Path) -> None:
    home = copy_of(NODE, tmp_path / "node")
    last = max(stream_of(home))
    append_entry(home, "Matchpoint", {"time_ms": NOW_MS, "master_node_id": 1}, vlsn=last + step)
    words = (("verify", home), ("vlsn", "check", home))
    outs = [je_tools(*each, "--format", "jsonl").out for each in words]
    ordered = [
        [row for row in map(json.loads, out.splitlines()) if row["code"] == code] for out in outs
    ]
    assert len(ordered[0]) == 1
    assert ordered[0] == ordered[1]


@pytest.mark.parametrize("lsn", [-1, 0, (1 << 63) - 1, -(1 << 63), 9 << 32, 0xFFFFFFFF])
def test_a_rollback_from_nowhere_is_a_finding(lsn: int, tmp_path: Path) -> None:
    """Its matchpoint is no entry; the log is read all the same."""
    home = copy_of(NODE, tmp_path / "node")
    last = max(stream_of(home))
    fields = {
        "matchpoint_vlsn": last,
        "matchpoint_lsn": lsn,
        "time_ms": NOW_MS,
        "active_txn_count": 0,
        "active_txns": [],
    }
    append_entry(home, "RollbackStart", fields)
    done = je_tools("vlsn", "check", home, "--format", "jsonl")
    assert done.code in (EXIT_OK, EXIT_DAMAGE), done.err
    codes = {json.loads(line)["code"] for line in done.out.splitlines()}
    assert codes & {"vlsn-rollback", "vlsn-index-refused", "vlsn-index-mapping"}
