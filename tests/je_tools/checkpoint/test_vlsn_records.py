"""The VLSN index in logs of nodes, as the engine wrote it and as je-tools writes it.

The reference is the records that the engine logged, and the entries to which they lead.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from je_tools.checkpoint.checks import check_writable
from je_tools.checkpoint.pending_work import is_needed
from je_tools.checkpoint.vlsn_records import is_outdated, read_index
from je_tools.errors import RefusedError
from je_tools.formats.je.internal.cleaner import ReservedFile
from je_tools.formats.je.internal.replication import VlsnBucket
from je_tools.recovery.snapshot import Snapshot
from je_tools.vlsn.index import VlsnIndex
from tests.corpus import Environment
from tests.je_tools.checkpoint.nodes import (
    COMMIT,
    ENDS,
    OFFSET,
    ROLLBACK_START,
    SYNC_POINTS,
    copy_up_to,
    entries_of,
    index_lns,
    index_of_member,
    member,
    node,
    nodes,
    stream_of,
    write,
)

CRASHED = "v17-rep-uncommitted-before/node1"
ROLLED_BACK = "starrocks-rep-uncommitted/node1"
CKPT_START = 19


def check_index(index: VlsnIndex, home: Path) -> None:
    """Check the invariants of an index that reaches the end of its log."""
    stream = stream_of(home)
    last = max(stream)
    assert (index.range.first, index.range.last) == (min(stream), last)
    assert index.range.last_sync == max(v for v, e in stream.items() if e.type_no in SYNC_POINTS)
    assert index.range.last_txn_end == max(v for v, e in stream.items() if e.type_no in ENDS)
    assert index.buckets[0].first == index.range.first
    before = 0
    for bucket in index.buckets:
        assert isinstance(bucket, VlsnBucket)
        assert bucket.first > before
        assert bucket.offsets[0]
        before = bucket.last
        assert stream[bucket.last].lsn == bucket.last_lsn
        for place, offset in enumerate(bucket.offsets):
            if offset:
                vlsn = bucket.first + place * bucket.stride
                assert stream[vlsn].lsn == bucket.file_no << 32 | offset
    assert before == last


def flushes(snapshot: Snapshot) -> Iterator[tuple[int, dict[bytes, bytes | None]]]:
    """Yield each flush of the index: its first LSN, and what it wrote as one transaction."""
    written: dict[bytes, bytes | None] = {}
    begun = -1
    for header, key, data in index_lns(snapshot):
        begun = header.lsn if begun < 0 else begun
        written[key] = data
        if key[0] < 0x80:
            yield begun, written
            written, begun = {}, -1


@pytest.mark.parametrize("some_node", nodes())
def test_what_the_engine_flushed_is_foretold(some_node: Environment, tmp_path: Path) -> None:
    """If only a checkpoint came between the entries and the flush, the records are equal."""
    snapshot = member(some_node.home)
    ckpt_starts = [each.lsn for each in entries_of(some_node.home) if each.type_no == CKPT_START]
    told = 0
    for number, (lsn, written) in enumerate(flushes(snapshot)):
        if not any(start < lsn for start in ckpt_starts) or None in written.values():
            continue
        home = copy_up_to(some_node.home, lsn, tmp_path / str(number))
        foretold = index_of_member(home)
        check_index(foretold, home)
        records = foretold.encode()
        told += written.items() <= records.items()
    assert told


@pytest.mark.parametrize("some_node", nodes())
def test_a_node_that_was_closed_lacks_nothing(some_node: Environment) -> None:
    snapshot = member(some_node.home)
    if snapshot.checkpoint.end_lsn == snapshot.end.last_lsn:
        assert not is_outdated(snapshot)
        assert index_of_member(some_node.home) == read_index(snapshot)
    else:
        assert is_outdated(snapshot)


@pytest.mark.parametrize("some_node", nodes())
def test_a_checkpoint_brings_the_index_up_to_date(some_node: Environment, tmp_path: Path) -> None:
    rng = random.Random(some_node.name)
    entries = entries_of(some_node.home)
    for number in range(3):
        cut = rng.choice(entries[len(entries) // 2 :]).lsn
        home = copy_up_to(some_node.home, cut, tmp_path / str(number))
        foretold = index_of_member(home)
        check_index(foretold, home)
        write(home)
        after = member(home)
        assert read_index(after).encode() == foretold.encode()
        assert index_of_member(home).encode() == foretold.encode()
        assert not is_outdated(after)
        assert not is_needed(after)


@pytest.mark.parametrize("name", [CRASHED, ROLLED_BACK])
def test_a_checkpoint_cut_short_leaves_the_same_index(name: str, tmp_path: Path) -> None:
    """At each of its entries the engine would find all of the records, or none of them."""
    whole = node(name).home
    entries = entries_of(whole)
    starts = [i for i, each in enumerate(entries) if each.type_no == ROLLBACK_START]
    cut = entries[starts[0] + 1].lsn if starts else entries[-1].lsn
    home = copy_up_to(whole, cut, tmp_path / "whole")
    foretold = index_of_member(home).encode()
    begun = write(home).start_lsn
    cuts = [each.lsn for each in entries_of(home) if each.lsn > begun]
    assert len(cuts) > 10
    for lsn in cuts:
        found = index_of_member(copy_up_to(home, lsn, tmp_path / str(lsn)))
        assert found.encode() == foretold


def test_the_records_are_one_transaction(tmp_path: Path) -> None:
    home = copy_up_to(node(CRASHED).home, entries_of(node(CRASHED).home)[-1].lsn, tmp_path / "a")
    before = dict(index_lns_by_key(member(home)))
    txn_ids = set(member(home).interval.lns.txn_id.tolist())
    start = write(home).start_lsn
    after = member(home)
    lns = [each for each in index_lns(after) if each[0].lsn > start]
    fields = [after.entry(header.lsn).fields for header, _, _ in lns]  # type: ignore[union-attr]
    (txn_id,) = {each["txn_id"] for each in fields}
    assert txn_id > max(txn_ids)
    assert after.checkpoint.fields["last_local_txn_id"] == txn_id
    previous = [each["txn_prev_lsn"] for each in fields]
    assert previous == [-1, *(header.lsn for header, _, _ in lns[:-1])]
    for said, (_, key, _) in zip(fields, lns, strict=True):
        assert said.get("abort_lsn", -1) == before.get(key, -1)
    (end,) = (e for e in entries_of(home) if e.lsn > start and e.type_no == COMMIT)
    commit = after.entry(end.lsn)
    assert commit is not None
    assert (commit.fields["txn_id"], commit.fields["last_lsn"]) == (txn_id, lns[-1][0].lsn)
    assert not end.replicated


def index_lns_by_key(snapshot: Snapshot) -> Iterator[tuple[bytes, int]]:
    """Yield key and LSN of the LNs of the index in log order, so that `dict` keeps the newest."""
    for header, key, _ in index_lns(snapshot):
        yield key, header.lsn


def test_parameters_of_the_environment_are_taken(tmp_path: Path) -> None:
    source = node(CRASHED).home
    home = copy_up_to(source, entries_of(source)[-1].lsn, tmp_path / "a")
    said = "je.rep.vlsn.stride=7\nje.rep.vlsn.mappings=20\nje.rep.vlsn.distance=5000\n"
    (home / "je.properties").write_text(said)
    index = index_of_member(home)
    new = index.buckets[-2]
    assert isinstance(new, VlsnBucket)
    assert new.stride == 7
    assert len(new.offsets) <= 20
    assert (new.last_lsn & OFFSET) - new.offsets[-1] <= 5000
    check_index(index, home)


def test_an_index_that_lacks_what_was_logged_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = node(CRASHED).home
    home = copy_up_to(source, entries_of(source)[-1].lsn, tmp_path / "a")
    whole = read_index(member(home))
    short = VlsnIndex(replace(whole.range, last=whole.range.last - 5), whole.buckets)
    monkeypatch.setattr("je_tools.vlsn.recovered_index.read_index", lambda _: short)
    with pytest.raises(RefusedError, match="and the log continues with") as caught:
        check_writable(member(home), cuts=True)
    assert "network restore" in str(caught.value)


def test_reserved_files_that_are_gone_take_their_head_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = node(CRASHED).home
    home = copy_up_to(source, entries_of(source)[-1].lsn, tmp_path / "a")
    write(home)
    after = member(home)
    assert not is_needed(after)
    whole = read_index(after)
    gone = ReservedFile(-1, 0, 1, whole.buckets[0].last, ())  # type: ignore[union-attr]
    monkeypatch.setattr("je_tools.vlsn.recovered_index.reserved_files", lambda _: {-1: gone})
    assert is_outdated(after)
    write(home)
    left = read_index(member(home))
    assert left.buckets == list(whole.buckets[1:])
    assert left.range.first == whole.buckets[1].first
