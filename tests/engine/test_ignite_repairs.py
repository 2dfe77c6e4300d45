"""Repaired stores, judged by a real node of Ignite: it starts, and finds the recorded rows."""

from __future__ import annotations

import hashlib
import random
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from je_tools.errors import RefusedError
from je_tools.ignite.repairs.log_plan import plan_log_repairs
from je_tools.ignite.repairs.log_state import record_bounds
from je_tools.ignite.repairs.session import StoreSession
from je_tools.ignite.segment_files import inspect_segment
from je_tools.ignite.store import Node, open_store
from je_tools.writing.disk import Disk
from tests.builders.power_cuts import PowerCuts, Recorder
from tests.corpus import corpus, damaged_store, undamaged_store
from tests.engine.ignite import IgniteEngine, recorded_rows, writable_copy
from tests.je_tools.ignite.repairs.operations import digests, put_back
from tests.truth.contents import Refusal

SKIPPED = "truth/records-if-bad-records-are-skipped.tsv.gz"
RECORDS = {
    "ignite-bitflip": SKIPPED,
    "ignite-bitflip-length": SKIPPED,
    "ignite-bitflip-many": SKIPPED,
    "ignite-bitflip-work": SKIPPED,
    "ignite-bitflip-archive-only": "",
    "ignite-bitflip-before": "records.tsv.gz",
    "ignite-torn-tail": "records.tsv.gz",
    "ignite-torn-data": "records.tsv.gz",
    "ignite-marker-empty": "",
    "ignite-marker-foreign": "",
}
"""Place of the rows of a repaired store: a file of the case, or nothing for those of its base."""


def corpus_path(name: str) -> Path:
    whole = corpus()
    assert whole is not None
    return whole / name


def node_of(store: Path) -> Node:
    return open_store([store]).nodes[0]


def repair(store: Path, to_pointer: tuple[int, int] | None = None) -> int | None:
    """Make all repairs of the log and markers; return the number of the journal."""
    with StoreSession(node_of(store), Disk()) as session:
        plan = plan_log_repairs(node_of(store), 1, to_pointer)
        assert not plan.unrepaired
        return session.apply(plan.edits, "recover")


def cuts() -> Sequence[tuple[int, int, str, str]]:
    """Return segment, offset, number of rows or `refused`, and the sum of the rows."""
    whole = corpus()
    if whole is None:
        return []
    lines = (whole / "ignite-crash" / "truth" / "cuts.tsv").read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return [(int(a), int(b), rows, total) for a, b, rows, total in rows]


def row_sum(rows: Sequence[str]) -> str:
    """Return the sum of rows as in `cuts.tsv`."""
    cells = [row.split("\t") for row in rows]
    lines = sorted("\t".join((each[0], each[1], each[3], each[6])) for each in cells)
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


@pytest.mark.engine
@pytest.mark.parametrize("name", RECORDS if corpus() else [])
def test_a_node_finds_all_rows_after_repairs(
    ignite: IgniteEngine, name: str, tmp_path: Path
) -> None:
    case = corpus_path(name)
    store = writable_copy(damaged_store(case, tmp_path / "damaged"), tmp_path / "store")
    before = digests(store)
    if repair(store) is not None:
        put_back(store)
        assert digests(store) == before
        repair(store)
    file = RECORDS[name]
    truth = case / file if file else undamaged_store(case).parent / "records.tsv.gz"
    assert ignite.rows(store) == recorded_rows(truth)
    # The node has continued to write: nothing may be put back any more.
    if before != digests(store) and (store / "db" / "node1" / ".je-tools-undo").exists():
        with pytest.raises(RefusedError, match="has written to the store since"):
            put_back(store)


def boundary(store: Path, segment: int, offset: int) -> int:
    """Return the offset of the record of `ignite-crash` that an offset lies in, or begins."""
    place = "archive/node1" if segment < 2 else "node1"
    file = inspect_segment(store / "db" / "wal" / place / f"{segment:016}.wal")
    bounds = record_bounds(file)
    return int(bounds[bounds <= offset][-1])


@pytest.mark.engine
@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(cut, id=f"{cut[0]}-{cut[1]}", marks=[pytest.mark.exhaustive] if at % 4 else [])
        for at, cut in enumerate(cuts())
    ],
)
def test_a_node_finds_the_rows_before_a_cut(
    ignite: IgniteEngine, cut: tuple[int, int, str, str], tmp_path: Path
) -> None:
    """A record in which the recorded cut lies does not count, so the cut is made before it."""
    segment, offset, count, total = cut
    store = writable_copy(corpus_path("ignite-crash") / "store", tmp_path / "store")
    start = boundary(store, segment, offset)
    if start != offset:
        with pytest.raises(RefusedError, match=f"no record begins there.*offset {start} and"):
            repair(store, (segment, offset))
    repair(store, (segment, start))
    rows = ignite.rows(store)
    assert isinstance(rows, list)
    # The engine refuses a log that was cut inside a record of an archived segment.
    if count != "refused":
        assert (str(len(rows)), row_sum(rows)) == (count, total)


@pytest.mark.engine
@pytest.mark.parametrize("segment_is_in_ring", [True, False] if corpus() else [])
def test_a_node_goes_on_after_a_cut_in_an_archived_segment(
    ignite: IgniteEngine, segment_is_in_ring: bool, tmp_path: Path
) -> None:
    """It starts, writes a checkpoint, and starts again with the same rows."""
    store = writable_copy(corpus_path("ignite-crash") / "store", tmp_path / "store")
    if not segment_is_in_ring:
        # As if segments 4 and 5 had taken the places of 1 and 2: segment 2 is archived then.
        ring = store / "db" / "wal" / "node1"
        last = ring / f"{2:016}.wal"
        (store / "db" / "wal" / "archive" / "node1" / last.name).write_bytes(last.read_bytes())
        (ring / f"{1:016}.wal").write_bytes(bytes(last.stat().st_size))
        last.write_bytes(bytes(last.stat().st_size))
    segment, offset, count, total = cuts()[0]
    repair(store, (segment, offset))
    for _ in range(3):
        rows = ignite.rows(store)
        assert isinstance(rows, list)
        assert (str(len(rows)), row_sum(rows)) == (count, total)


@pytest.mark.engine
@pytest.mark.parametrize("cause", ["checksum", "missing", "header"] if corpus() else [])
def test_a_node_reads_a_segment_from_the_ring_again(
    ignite: IgniteEngine, cause: str, tmp_path: Path
) -> None:
    """The archived copy has lost its end, or is gone."""
    case = corpus_path("ignite-crash")
    store = writable_copy(case / "store", tmp_path / "store")
    path = store / "db" / "wal" / "archive" / "node1" / f"{1:016}.wal"
    if cause == "missing":
        # Only a newer file may be left in the archive, or the engine searches the ring by itself.
        last = store / "db" / "wal" / "node1" / f"{2:016}.wal"
        (path.parent / last.name).write_bytes(last.read_bytes())
        path.unlink()
    elif cause == "header":
        path.write_bytes(bytes(29) + path.read_bytes()[29:])
    else:
        data = bytearray(path.read_bytes())
        data[500_000:510_000] = b"\xff" * 10_000
        path.write_bytes(data[:520_000])
    refused = ignite.rows(writable_copy(store, tmp_path / "refused"))
    assert isinstance(refused, Refusal)
    repair(store)
    assert ignite.rows(store) == recorded_rows(case / "records.tsv.gz")


@pytest.mark.engine
@pytest.mark.parametrize("cut", [1] if corpus() else [])
def test_a_node_passes_over_an_unreadable_end_of_a_segment(
    ignite: IgniteEngine, cut: int, tmp_path: Path
) -> None:
    """The last bytes of a segment are damaged in all copies: it then ends before them."""
    case = corpus_path("ignite-crash")
    store = writable_copy(case / "store", tmp_path / "store")
    wal = store / "db" / "wal"
    for folder in (wal / "archive" / "node1", wal / "node1"):
        path = folder / f"{cut:016}.wal"
        data = bytearray(path.read_bytes())
        data[523_000:523_940] = b"\xff" * 940
        path.write_bytes(data)
    assert isinstance(ignite.rows(writable_copy(store, tmp_path / "refused")), Refusal)
    repair(store)
    rows = ignite.rows(store)
    assert isinstance(rows, list)
    whole = recorded_rows(case / "records.tsv.gz")
    assert len(whole) - 20 < len(rows) <= len(whole)
    assert len(set(whole).intersection(rows)) > len(whole) - 20


@pytest.mark.engine
@pytest.mark.parametrize("number", [1, 2] if corpus() else [])
def test_a_node_reads_a_segment_whose_header_is_written_anew(
    ignite: IgniteEngine, number: int, tmp_path: Path
) -> None:
    case = corpus_path("ignite-crash")
    store = writable_copy(case / "store", tmp_path / "store")
    for path in (store / "db" / "wal").rglob(f"{number:016}.wal"):
        path.write_bytes(b"\5garbage" + path.read_bytes()[8:])
    whole = recorded_rows(case / "records.tsv.gz")
    assert ignite.rows(writable_copy(store, tmp_path / "damaged")) != whole
    repair(store)
    assert ignite.rows(store) == whole


@pytest.mark.parametrize("case", ["ignite-bitflip-physical"] if corpus() else [])
def test_changes_of_pages_that_recovery_needs_are_never_passed_over(
    case: str, tmp_path: Path
) -> None:
    plan = plan_log_repairs(node_of(damaged_store(corpus_path(case), tmp_path)), 1)
    (left,) = plan.unrepaired
    assert (plan.edits, left.segment, left.offset) == ([], 2, 330_750)
    assert "recovery needs the changes of pages there" in left.reason


@pytest.mark.parametrize("case", ["ignite-crash-mid-checkpoint"] if corpus() else [])
def test_a_begin_is_kept_if_pages_were_written_under_it(case: str, tmp_path: Path) -> None:
    """The log has lost the record of the unfinished checkpoint, whose pages may be on disk."""
    store = writable_copy(corpus_path(case) / "store", tmp_path / "store")
    begin = max((store / "db" / "node1" / "cp").glob("*-START.bin"))
    segment, offset = struct.unpack("<qi", begin.read_bytes()[:12])
    for path in (store / "db" / "wal").rglob("*.wal"):
        header = inspect_segment(path).header
        if header is not None and header.segment > segment:
            path.unlink()
        elif header is not None and header.segment == segment:
            data = path.read_bytes()
            path.write_bytes(data[:offset].ljust(len(data), b"\0"))
    plan = plan_log_repairs(node_of(store), 1)
    assert not plan.edits
    assert any("it may be real" in each.reason for each in plan.unrepaired)


@pytest.mark.engine
@pytest.mark.parametrize("case", ["ignite-crash"] if corpus() else [])
def test_no_node_starts_while_a_session_is_open(
    ignite: IgniteEngine, case: str, tmp_path: Path
) -> None:
    store = writable_copy(corpus_path(case) / "store", tmp_path / "store")
    with StoreSession(node_of(store), Disk()):
        found = ignite.rows(store)
    assert isinstance(found, Refusal)
    assert "lock" in found.message.lower()
    assert ignite.rows(store) == recorded_rows(corpus_path(case) / "records.tsv.gz")


@pytest.mark.engine
@pytest.mark.exhaustive
@pytest.mark.parametrize("cut", [cuts()[0], cuts()[12]] if corpus() else [])
def test_a_node_starts_on_every_state_that_a_power_cut_leaves_of_a_cut(
    ignite: IgniteEngine, cut: tuple[int, int, str, str], tmp_path: Path
) -> None:
    """Its rows are those before the cut, those of all the log, or of a part between."""
    segment, offset, count, _ = cut
    store = writable_copy(corpus_path("ignite-crash") / "store", tmp_path / "store")
    offset = boundary(store, segment, offset)
    states, disk = PowerCuts(store), Recorder()
    with StoreSession(node_of(store), disk) as session:
        session.apply(plan_log_repairs(node_of(store), 1, (segment, offset)).edits, "recover")
    changes = [i for i, call in enumerate(disk.calls) if "je-tools" not in str(call.path)]
    wanted = [0 if at < changes[0] else 1 for at in range(len(disk.calls) + 1)]
    seen, found = set(), set()
    for at, state in states.states(disk.calls, tmp_path, random.Random(1), wanted):
        log = {path: total for path, total in digests(state).items() if path.endswith(".wal")}
        if tuple(log.items()) not in seen:
            seen.add(tuple(log.items()))
            rows = ignite.rows(state)
            assert isinstance(rows, list), (at, rows)
            found.add(len(rows))
        shutil.rmtree(state)
    assert len(seen) > 2
    assert min(found) == int(count)
    assert max(found) == len(recorded_rows(corpus_path("ignite-crash") / "records.tsv.gz"))


def spoiled_at_random(store: Path, rng: random.Random) -> str:
    """Damage copies of segments after the newest checkpoint; return a description."""
    wal = store / "db" / "wal"
    done = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        number = rng.choice((1, 2))
        folders = (
            ["node1"]
            if number == 2
            else [["archive/node1"], ["archive/node1", "node1"]][rng.randrange(2)]
        )
        start = rng.randrange(71_400, 520_000) if number == 1 else rng.randrange(29, 290_000)
        size = rng.choice((1, 30, 700, 20_000))
        kind = rng.choice(("flip", "zeros", "ones", "random"))
        noise = rng.randbytes(size)
        for folder in folders:
            path = wal / folder / f"{number:016}.wal"
            data = bytearray(path.read_bytes())
            stop = min(start + size, len(data))
            if kind == "flip":
                data[start] ^= 1 << (start % 8)
            else:
                new = {"zeros": bytes(size), "ones": b"\xff" * size, "random": noise}[kind]
                data[start:stop] = new[: stop - start]
            path.write_bytes(data)
        done.append(f"{kind} {size} at {number}:{start} in {folders}")
    return ", ".join(done)


@pytest.mark.engine
@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(40) if corpus() else [])
def test_a_node_starts_after_repairs_of_any_damage_after_the_checkpoint(
    ignite: IgniteEngine, seed: int, tmp_path: Path
) -> None:
    """Each row that it finds was there before, or is an older version of one."""
    store = writable_copy(corpus_path("ignite-crash") / "store", tmp_path / "store")
    what = spoiled_at_random(store, random.Random(seed))
    with StoreSession(node_of(store), Disk()) as session:
        plan = plan_log_repairs(node_of(store), 1)
        session.apply(plan.edits, "recover")
    again = plan_log_repairs(node_of(store), 1)
    assert not again.edits, what
    rows = ignite.rows(store)
    if plan.unrepaired:
        return
    assert isinstance(rows, list), (what, rows)
    whole = recorded_rows(corpus_path("ignite-crash") / "records.tsv.gz")
    is_lost = any(repair.lost for repair in plan.repairs)
    assert is_lost or rows == whole, what
    assert len(set(whole).intersection(rows)) > 300, what
