"""Rows of stores that were closed in order are those that the engine finds."""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path

from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.rows import RowBatch, RowReader
from je_tools.ignite.caches import METASTORAGE, cache_names
from je_tools.ignite.pages.files import FileKind, page_folder
from je_tools.ignite.pages.images import mapped_image
from tests.corpus import IgniteNode
from tests.je_tools.ignite.reading import node_of

_CLOSED = ("ignite-closed", "ignite-compacted")
_CHECKPOINTED = ("ignite-16k", "ignite-crash", "ignite-pagecompress", "ignite-two-nodes")
"""Nodes that were killed between two checkpoints: their logs have later updates."""

Row = tuple[str, int, str, str, str, str, str, str]
"""Cache, partition, key type and bytes, value type, size and digest, version and expiry."""


def _listed(path: Path) -> list[Row]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(reader)
        return sorted(
            (cache, int(part), kind, key, f"{value_type}:{size}", digest, version, expire)
            for cache, part, _, _, kind, key, value_type, size, digest, version, expire in reader
        )


def _records(node: IgniteNode) -> Path:
    """Return the list of a node's records."""
    beside = node.truth.parent.parent / node.node / "records.tsv.gz"
    return beside if beside.exists() else node.truth.parent / "records.tsv.gz"


def _order(row: Row) -> int:
    return int(row[6].split(":")[2])


def _texts(batch: RowBatch, caches: dict[int, str], partition: int) -> Iterator[Row]:
    for n in range(len(batch)):
        key = batch.data[batch.key_start[n] :][: batch.key_size[n]].tobytes()
        value = batch.data[batch.value_start[n] :][: batch.value_size[n]].tobytes()
        node = int(batch.node[n]) & 0xFFFFFFFF
        center = f"|{node >> 27}" if node >> 27 else ""
        yield (
            caches[int(batch.cache_id[n])],
            partition,
            str(batch.key_type[n]),
            key.hex(),
            f"{batch.value_type[n]}:{len(value)}",
            hashlib.sha256(value).hexdigest(),
            f"{batch.topology[n]}:{node & 0x7FFFFFF}{center}:{batch.order[n]}",
            str(batch.expire_ms[n]),
        )


def _rows(node: IgniteNode) -> list[Row]:
    opened = node_of(node.store, node.node)
    caches = cache_names(opened).caches
    found: list[Row] = []
    for file in page_folder(opened).files:
        if file.kind is not FileKind.PARTITION:
            continue
        with mapped_image(file) as image:
            reader = RowReader(image, cache_id(file.group))
            for batch in reader.batches(most_rows=50):
                assert not batch.fault.any()
                found += _texts(batch, caches, file.partition)
            assert reader.faults() == []
    return sorted(found)


def test_rows_are_those_that_the_engine_finds(ignite_node: IgniteNode) -> None:
    if ignite_node.case in _CLOSED:
        assert _rows(ignite_node) == _listed(_records(ignite_node))


def test_rows_differ_only_where_the_log_has_a_later_version(ignite_node: IgniteNode) -> None:
    if ignite_node.case not in _CHECKPOINTED:
        return
    listed = {row[:4]: row for row in _listed(_records(ignite_node))}
    same = 0
    for row in _rows(ignite_node):
        other = listed.get(row[:4])
        if other is not None and other[6] == row[6]:
            assert row == other
            same += 1
        elif other is not None:
            assert _order(row) < _order(other)
    assert same > 100


def test_rows_of_the_metastorage(ignite_node: IgniteNode) -> None:
    if ignite_node.case not in _CLOSED:
        return
    files = page_folder(node_of(ignite_node.store, ignite_node.node)).files
    keys: list[str] = []
    for file in files:
        if file.kind is not FileKind.METASTORAGE or not file.pages:
            continue
        with mapped_image(file) as image:
            reader = RowReader(image, cache_id(METASTORAGE))
            for batch in reader.batches():
                assert not batch.fault.any()
                for start, size in zip(batch.key_start, batch.key_size, strict=True):
                    keys.append(batch.data[start:][:size].tobytes().decode())
            assert reader.faults() == []
    assert keys == sorted(keys)
    assert {"\0ver", "metastoreBltKey", "stats.version"} <= set(keys)
