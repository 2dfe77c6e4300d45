"""Records as recovery leaves them: equal to what the engine finds, in every store and at cuts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from je_tools.errors import InputError
from je_tools.ignite.caches import cache_names
from je_tools.ignite.logical.log_range import WalEndReason
from je_tools.ignite.records.merge import CacheRecords
from je_tools.ignite.records.node_records import CacheFilter, NodeRecords
from je_tools.ignite.records.problems import RecordProblem, merged
from je_tools.ignite.records.recovered import recover_node
from je_tools.ignite.store import Node
from tests.corpus import IgniteNode, corpus
from tests.je_tools.ignite.reading import node_of
from tests.truth.ignite_rows import EngineRow, engine_rows, read_rows

Row = tuple[str, int, int, str, int, int, str, str, int]

CRASH = "ignite-crash"

LOG = {RecordProblem.LOG_DAMAGED}
PROBLEMS = {
    "ignite-bitflip": LOG,
    "ignite-bitflip-archive-only": LOG,
    "ignite-bitflip-length": LOG,
    "ignite-bitflip-many": LOG,
    "ignite-bitflip-work": LOG,
    "ignite-bitflip-physical": {RecordProblem.PAGES_MIXED},
    "ignite-marker-foreign": {RecordProblem.LOG_DAMAGED, RecordProblem.PAGES_MIXED},
    "ignite-page-corrupt-data": {RecordProblem.ROWS},
    "ignite-page-corrupt-leaf": {RecordProblem.TREE},
    "ignite-page-corrupt-meta": {RecordProblem.TREE},
    "ignite-page-zero": {RecordProblem.TREE},
    "ignite-partition-lost": {RecordProblem.FILE},
}
"""Problems reported of each damaged store; none of the others."""


def _reader(node: Node, wanted: CacheFilter | None = None) -> NodeRecords:
    return NodeRecords(node, recover_node(node, 1), wanted or CacheFilter())


def _facts(records: CacheRecords, names: dict[int, str]) -> Iterator[Row]:
    for i in range(len(records)):
        value = records.values[i] or b""
        node = int(records.node[i]) & 0xFFFF_FFFF
        center = f"|{node >> 27}" if node >> 27 else ""
        version = f"{records.topology[i]}:{node & 0x7FF_FFFF}{center}:{records.order[i]}"
        yield (
            names[int(records.cache_id[i])],
            records.partition,
            int(records.key_type[i]),
            (records.keys[i] or b"").hex(),
            int(records.value_type[i]),
            len(value),
            sha256(value).hexdigest(),
            version,
            int(records.expire_ms[i]),
        )


def _rows(node: Node) -> tuple[list[Row], NodeRecords]:
    reader, names = _reader(node), cache_names(node).caches
    return sorted(row for some in reader.batches() for row in _facts(some, names)), reader


def _expected(rows: list[EngineRow]) -> list[Row]:
    return sorted((row.cache, row.partition, *row[4:]) for row in rows)  # type: ignore[misc]


def test_records_are_those_that_the_engine_finds(ignite_node: IgniteNode) -> None:
    found, reader = _rows(node_of(ignite_node.store, ignite_node.node))
    if ignite_node.case == "ignite-tde":
        assert found == []
        assert {each.problem for each in reader.problems} == {RecordProblem.ENCRYPTED}
        groups = [each.group for each in merged(reader.problems)]
        assert len(groups) == len(set(groups))
        return
    assert reader.problems == []
    assert found == _expected(engine_rows(ignite_node))


def _cuts() -> list[tuple[int, int, str, str]]:
    whole = corpus()
    path = whole / CRASH / "truth" / "cuts.tsv" if whole else None
    if path is None:
        return []
    lines = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    return [(int(segment), int(at), rows, digest) for segment, at, rows, digest in lines]


def _cut(store: Path, segment: int, offset: int) -> None:
    """Zero the log from an offset on, and remove later segments."""
    node = node_of(store)
    for file in node.segments:
        assert file.header is not None
        if file.header.segment > segment:
            file.path.unlink()
        elif file.header.segment == segment:
            data = file.path.read_bytes()
            file.path.write_bytes(data[:offset] + bytes(len(data) - min(offset, len(data))))


CUTS = [cuts] if (cuts := _cuts()) else []


@pytest.mark.parametrize("cuts", CUTS, ids=[CRASH] * len(CUTS))
def test_records_at_cuts_of_the_log_are_those_that_the_engine_finds(
    cuts: list[tuple[int, int, str, str]], tmp_path: Path
) -> None:
    whole = corpus()
    assert whole is not None
    store = tmp_path / "store"
    shutil.copytree(whole / CRASH / "store", store)
    for segment, offset, count, digest in sorted(cuts, reverse=True):
        _cut(store, segment, offset)
        if count == "refused":
            end = recover_node(node_of(store), 1).logical.end
            assert (end.is_refused, end.reason) == (True, WalEndReason.DAMAGE)
            continue
        found, _ = _rows(node_of(store))
        lines = sorted(f"{row[0]}\t{row[1]}\t{row[3]}\t{row[6]}" for row in found)
        assert len(found) == int(count)
        text = "".join(f"{line}\n" for line in lines)
        assert sha256(text.encode()).hexdigest() == digest


def test_records_of_damaged_stores_are_those_that_the_engine_finds(
    ignite_damage: Path, tmp_path: Path
) -> None:
    facts = dict(
        line.split(": ", 1) for line in (ignite_damage / "damage.txt").read_text().splitlines()
    )
    store = tmp_path / "store"
    base, _, removed = facts["base"].partition(";")
    shutil.copytree(ignite_damage.parent / base, store)
    if (ignite_damage / "overlay").is_dir():
        shutil.copytree(ignite_damage / "overlay", store, dirs_exist_ok=True)
    if "then remove: " in removed:
        (store / removed.split("then remove: ")[1]).unlink()
    if ignite_damage.name == "ignite-marker-empty":
        with pytest.raises(InputError, match="0 bytes"):
            recover_node(node_of(store), 1)
        return
    found, reader = _rows(node_of(store))
    path = ignite_damage / "records.tsv.gz"
    problems = {each.problem for each in reader.problems}
    assert problems == PROBLEMS.get(ignite_damage.name, set())
    if ignite_damage.name == "ignite-page-corrupt-meta":
        # The engine repairs the page from the log, which is not tried here.
        assert set(found) < set(_expected(read_rows(path)))
    elif path.exists():
        assert found == _expected(read_rows(path))
    else:
        # The engine does not start, and what is shown is said to be incomplete.
        assert problems
