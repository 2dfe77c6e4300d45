"""Ignite stores of the fuzz run: small good ones, mutated, and the invariants of each."""

from __future__ import annotations

import random
import struct
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from je_tools.errors import InputError
from je_tools.formats.ignite.record_table import record_tables
from je_tools.formats.ignite.records import decode_entries, decode_type
from je_tools.formats.ignite.segments import SEGMENT_HEADER_SIZE
from je_tools.formats.ignite.types import DATA_NOS
from je_tools.ignite.checkpoints.judge import CheckpointJudge
from je_tools.ignite.checkpoints.node_checkpoints import node_checkpoints
from je_tools.ignite.checkpoints.reach import group_reach
from je_tools.ignite.node_findings import CODES, NodeFinding
from je_tools.ignite.page_check.page_findings import CODES as PAGE_CODES
from je_tools.ignite.page_check.verify import PageReport, verify_pages
from je_tools.ignite.pages.space import measure_pages
from je_tools.ignite.recovery.plan import plan_recovery
from je_tools.ignite.recovery.repair import plan_repairs
from je_tools.ignite.repairs.session import check_edits
from je_tools.ignite.segment_files import SegmentFile
from je_tools.ignite.store import Store, open_store
from je_tools.ignite.wal.segment_reading import copies_of, read_segment
from je_tools.ignite.wal.summary import summarize_wal
from je_tools.ignite.wal.verify import WalTotals, verify_wal
from je_tools.output.encoders.entry_sinks import EntryFormat
from tests.builders import ignite as build
from tests.builders import ignite_pages as build_pages
from tests.builders.ignite_recovery import write_unfinished_store
from tests.damage.ignite_dump import check_dump, dumped_pages
from tests.damage.ignite_export import check_diff, check_export
from tests.damage.ignite_lies import lie
from tests.damage.ignite_repairs import check_repairs

KIND = "ignite store"
SHARE = 0.1
"""Share of the inputs."""

THREADS = (1, 3)
"""Numbers of threads, on which results must not depend."""

NUMBERS = (0, 1, 20, 21, 29, 255, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)


@cache
def good_store(order: str, *, is_unfinished: bool = False) -> dict[str, bytes]:
    """Return the files of a store by their paths."""
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        if is_unfinished:
            write_unfinished_store(root, order)
        else:
            build.write_checkpointed_store(root, order)
            build_pages.write_page_store(root, order)
        paths = [path for path in root.rglob("*") if path.is_file()]
        return {str(path.relative_to(root)): path.read_bytes() for path in sorted(paths)}


def make_store(rng: random.Random) -> dict[str, bytes]:
    """Return a store with some of its files damaged or removed."""
    files = dict(good_store(rng.choice("<>"), is_unfinished=rng.random() < 0.5))
    for _ in range(rng.choice([1, 1, 2, 5])):
        name = rng.choice(sorted(files))
        if rng.random() < 0.4:
            files[name] = lie(rng, name, files[name])
            continue
        files[name] = _damaged(rng, files[name])
        if name.endswith(".bin") and rng.random() < 0.7:
            files[name] = build_pages.summed(files[name])
    if rng.random() < 0.2:
        del files[rng.choice(sorted(files))]
    return files


def _damaged(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    size = rng.choice([1, 2, 4, 8, 30])
    kind = rng.randrange(6)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes(size) + data[at + size :]
    if kind == 2:
        return data[:at] + rng.randbytes(size) + data[at + size :]
    if kind == 3:
        return data[:at] + struct.pack(rng.choice("<>") + "I", rng.choice(NUMBERS)) + data[at + 4 :]
    if kind == 4:
        return data[:at] + data[at + size :]
    return data + data[at:]


def judge_store(home: Path) -> None:
    """Read a store in every way; any exception but that of unusable input is a bug."""
    try:
        store = open_store([home])
    except InputError:
        return
    assert _findings(store, THREADS[0]) == _findings(store, THREADS[1])
    for node in store.nodes:
        for copies in copies_of(node):
            for segment in copies.files:
                _judge_segment(segment)
    _judge_pages(store)
    try:
        check_dump(store)
        check_export(store)
        check_diff(store)
        check_repairs(home)
        summarize_wal(store, THREADS[0], caches=True)
        nodes = [node_checkpoints(node, THREADS[1]) for node in store.nodes]
        _judge_recovery(store)
    except InputError:
        return
    for found in nodes:
        assert all(each.code in CODES for each in CheckpointJudge(found, str(home)).findings())
        group_reach(found)


def _judge_recovery(store: Store) -> None:
    """Assert that every finding is known, and that the edits can be made."""
    for plan in plan_recovery(store, THREADS[1]):
        assert all(each.code in CODES for each in plan.findings)
        check_edits(plan_repairs(plan, THREADS[0]).edits)


def _judge_pages(store: Store) -> None:
    """Assert that findings are within their files and do not depend on threads."""
    try:
        reports = [verify_pages(store, threads) for threads in THREADS]
    except InputError:
        return
    lines = dumped_pages(store, THREADS[0])[EntryFormat.JSONL]
    assert dumped_pages(store, THREADS[1], (EntryFormat.JSONL,)) == {EntryFormat.JSONL: lines}
    spaces = [measure_pages(store, threads) for threads in THREADS]
    assert spaces[0].files == spaces[1].files
    one, other = map(_facts, reports)
    assert one == other
    for found in reports[0].findings:
        assert found.code in PAGE_CODES
        if found.page is not None and found.offset is not None and found.length is not None:
            size = (store.roots[0] / (found.file or "")).stat().st_size
            is_lost = found.code == "page-lost" and found.offset >= size
            assert found.offset >= 0 < found.length
            assert found.offset + found.length <= size or is_lost


def _facts(report: PageReport) -> tuple[object, ...]:
    return report.files, report.findings, report.types


def _findings(store: Store, threads: int) -> list[NodeFinding]:
    return list(verify_wal(store, WalTotals(), threads, everything=True))


def _judge_segment(segment: SegmentFile) -> None:
    """Assert that records and gaps cover a segment up to its tail, and decode all records."""
    at, covered = SEGMENT_HEADER_SIZE, 0
    with read_segment(segment) as (rows, end):
        for some in rows:
            columns = some.columns
            for start, length in zip(columns.at.tolist(), columns.length.tolist(), strict=True):
                assert start >= at
                at = start + length
                covered += length
            shown = np.concatenate([table.index for table in record_tables(some)])
            assert np.unique(shown).tolist() == list(range(len(some)))
            for no in sorted(set(columns.type_no.tolist())):
                chosen = some.select(columns.type_no == no)
                decode_type(chosen, no)
                if no in DATA_NOS:
                    list(decode_entries(chosen))
    assert end.tail is not None
    assert SEGMENT_HEADER_SIZE + covered + end.gap_bytes == end.tail.stop.at
