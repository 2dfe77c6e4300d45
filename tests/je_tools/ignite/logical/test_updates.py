"""Logical recovery: equal to the rows that the engine gave, and to what it loses."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.markers import Pointer
from je_tools.ignite.logical.counters import Counter, advanced
from je_tools.ignite.logical.entries import METASTORAGE_ID
from je_tools.ignite.logical.log_range import WalEndReason
from je_tools.ignite.logical.updates import LogicalUpdates, logical_updates, updates_from
from je_tools.ignite.records.problems import log_problem
from tests.builders import ignite as build
from tests.builders.ignite import Record
from tests.corpus import IgniteNode
from tests.je_tools.ignite.reading import node_of
from tests.truth.ignite_rows import engine_rows

PREPARED, COMMITTED, ROLLED_BACK = 2, 5, 7


def test_newest_operations_are_the_rows_of_the_engine(ignite_node: IgniteNode) -> None:
    rows = {(cache_id(row.cache), row.key_bytes): row for row in engine_rows(ignite_node)}
    caches = {cache for cache, _ in rows}
    found = logical_updates(node_of(ignite_node.store, ignite_node.node))
    updates, columns = found.updates, found.updates.columns
    values = updates.read_values()
    assert (found.end.reason, found.undecodable) == (WalEndReason.END, 0)
    for i in range(len(updates)):
        key = (int(columns.cache_id[i]), (updates.keys[i] or b"").hex())
        row = rows.get(key)
        if key[0] not in caches:
            continue
        if updates.is_removed[i]:
            assert row is None
            continue
        assert row is not None
        node, order = int(columns.node[i]), int(columns.order[i])
        assert row.version == f"{columns.topology[i]}:{node}:{order}"
        assert row.value_sha256 == sha256(values[i] or b"").hexdigest()
        assert (row.partition, row.expire_ms) == (columns.partition[i], columns.expire_ms[i])


def _entry(key: bytes, value: bytes | None, near: int, *, counter: int = 1, op: int = 2) -> Record:
    return build.Entry(key, value, near, counter, op).record()


def _updates(root: Path, *segments: Sequence[Record], end: bytes = bytes(40)) -> LogicalUpdates:
    made = [build.segment(n, some)[0] for n, some in enumerate(segments[:-1])]
    made.append(build.segment(len(segments) - 1, segments[-1], end=end)[0])
    build.write_store(root, [], made)
    return updates_from(node_of(root), Pointer(0, 0, 0))


def _values(found: LogicalUpdates) -> dict[bytes | None, bytes | None]:
    updates, values = found.updates, found.updates.read_values()
    return {updates.keys[i]: values[i] for i in range(len(updates))}


def test_the_last_write_of_a_key_counts_and_removes_are_kept(tmp_path: Path) -> None:
    found = _updates(
        tmp_path,
        [_entry(b"a", b"1", 0), _entry(b"b", b"1", 0, counter=2)],
        [_entry(b"a", b"2", 0, counter=3), _entry(b"b", None, 0, counter=4, op=3)],
    )
    assert _values(found) == {b"a": b"2", b"b": None}
    assert found.updates.is_removed.tolist() == [False, True]
    assert (found.entry_count, found.left_out) == (4, 0)
    (counters,) = found.counters
    assert (counters.cache_id, counters.partition, counters.start, counters.count) == (9, 3, 0, 4)


@pytest.mark.parametrize(
    ("state", "kept"), [(PREPARED, False), (COMMITTED, True), (ROLLED_BACK, True), (None, True)]
)
def test_only_prepared_transactions_are_left_out(
    state: int | None, kept: bool, tmp_path: Path
) -> None:
    records = [build.tx_record(PREPARED, 7)] if state is not None else []
    records += [_entry(b"a", b"old", 0), _entry(b"a", b"new", 7, counter=2)]
    records += [build.tx_record(state, 7)] if state not in (None, PREPARED) else []
    found = _updates(tmp_path, records)
    assert _values(found) == {b"a": b"new" if kept else b"old"}
    assert found.left_out == (not kept)
    assert found.uncommitted == (() if kept else ((5, 6, 7),))
    assert found.counters[0].count == 1 + kept


def test_reading_an_entry_and_a_resent_one_change_nothing(tmp_path: Path) -> None:
    read, (_, payload) = _entry(b"a", b"1", 0, op=0), _entry(b"a", b"2", 0)
    found = _updates(tmp_path, [read, ("CDC_DATA_RECORD", payload)])
    assert (len(found.updates), found.entry_count) == (0, 0)


def test_the_metastorage_has_keys_of_its_own(tmp_path: Path) -> None:
    put = build.metastore_record
    found = _updates(tmp_path, [put(b"k", b"v"), put(b"k", b""), put(b"l", b"w")])
    assert _values(found) == {b"k": None, b"l": b"w"}
    assert set(found.updates.columns.cache_id.tolist()) == {METASTORAGE_ID}


def test_damage_in_the_work_ring_ends_the_log_and_hides_the_rest(tmp_path: Path) -> None:
    records = [_entry(b"a", bytes([n]), 0, counter=n + 1) for n in range(3)]
    data, offsets = build.segment(0, records, end=bytes(40))
    damaged = bytearray(data)
    damaged[offsets[1] + 30] ^= 1
    build.write_store(tmp_path, [], [bytes(damaged)])
    found = updates_from(node_of(tmp_path), Pointer(0, 0, 0))
    end = found.end
    assert (end.offset, end.reason, end.is_refused) == (offsets[1], WalEndReason.DAMAGE, False)
    assert (end.lost_records, _values(found)) == (1, {b"a": b"\0"})


def test_damage_in_the_archive_and_a_missing_segment_are_told(tmp_path: Path) -> None:
    some = [_entry(b"a", b"1", 0)]
    data, offsets = build.segment(0, some)
    damaged = bytearray(data)
    damaged[offsets[0] + 30] ^= 1
    last = build.segment(1, some, end=bytes(40))[0]
    build.write_store(tmp_path / "damaged", [bytes(damaged)], [last])
    end = updates_from(node_of(tmp_path / "damaged"), Pointer(0, 0, 0)).end
    assert (end.reason, end.is_refused, end.lost_records) == (WalEndReason.DAMAGE, True, 1)
    later = build.segment(2, some, end=bytes(40))[0]
    build.write_store(tmp_path / "hole", [data], [later])
    end = updates_from(node_of(tmp_path / "hole"), Pointer(0, 0, 0)).end
    assert (end.segment, end.reason, end.is_refused) == (1, WalEndReason.MISSING, False)
    end = updates_from(node_of(tmp_path / "hole"), Pointer(0, 30, 5)).end
    assert (end.reason, end.is_refused) == (WalEndReason.NO_START, True)


def test_other_bytes_after_the_records_of_an_archived_segment_are_damage(tmp_path: Path) -> None:
    some = [_entry(b"a", b"1", 0)]
    stale = build.segment(5, [_entry(b"b", b"1", 0)])[0][29:]
    data = build.segment(0, some, end=stale)[0]
    build.write_store(tmp_path / "archive", [data], [])
    end = updates_from(node_of(tmp_path / "archive"), Pointer(0, 0, 0)).end
    assert (end.reason, end.is_refused, end.lost_records) == (WalEndReason.DAMAGE, True, 0)
    build.write_store(tmp_path / "work", [], [data])
    end = updates_from(node_of(tmp_path / "work"), Pointer(0, 0, 0)).end
    assert (end.reason, end.is_refused) == (WalEndReason.END, False)


def test_counters_with_a_gap_are_two_ranges(tmp_path: Path) -> None:
    records = [_entry(b"a", bytes([n]), 0, counter=n) for n in (1, 2, 4)]
    found = _updates(tmp_path, records)
    assert [(each.start, each.count) for each in found.counters] == [(0, 2), (3, 1)]


def test_recovery_begins_at_the_newest_begin(tmp_path: Path) -> None:
    build.write_checkpointed_store(tmp_path)
    found = logical_updates(node_of(tmp_path))
    assert (found.start.segment, found.entry_count) == (2, 1)


def test_counters_close_gaps() -> None:
    counter = advanced(Counter(5, ((8, 2),)), [(6, 1)])
    assert counter == Counter(5, ((6, 1), (8, 2)))
    assert (counter.high, counter.gaps) == (10, ((5, 6), (7, 8)))
    assert advanced(counter, [(5, 1), (7, 1)]) == Counter(10)
    assert advanced(Counter(5), [(2, 2), (3, 9), (20, 0)]) == Counter(12)


def test_a_segment_that_another_follows_is_no_end_of_the_log(tmp_path: Path) -> None:
    data, _ = build.segment(0, [_entry(b"a", b"1", 0)])
    build.write_store(tmp_path, [], [data])
    end = updates_from(node_of(tmp_path), Pointer(0, 0, 0)).end
    assert (end.segment, end.reason, end.is_refused) == (0, WalEndReason.ROLLED, False)
    found = log_problem("node1", end)
    assert found is not None
    assert "segment 1 of the log is missing" in found.detail
