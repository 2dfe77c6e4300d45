"""Export of a damaged Ignite store in all formats."""

from __future__ import annotations

import json

from je_tools.core.masking import Masking
from je_tools.errors import InputError
from je_tools.ignite.diff.compare import PartitionVerdict, compare_nodes
from je_tools.ignite.diff.keys import keys_of_nodes
from je_tools.ignite.diff.partitions import node_partitions
from je_tools.ignite.records.export import CacheExport
from je_tools.ignite.records.node_records import CacheFilter
from je_tools.ignite.records.sinks import CACHE_FORMATS, open_cache_sink
from je_tools.ignite.store import Store
from je_tools.output.encoders.entry_sinks import EntryFormat


def check_diff(store: Store) -> None:
    """Assert that a node that is compared with itself differs in nothing that can be read."""
    for node in store.nodes:
        try:
            one, other = (node_partitions(node, CacheFilter(), 1) for _ in range(2))
        except InputError:
            continue
        for each in compare_nodes(one, other):
            assert each.verdict in (
                PartitionVerdict.SAME,
                PartitionVerdict.GAPS,
                PartitionVerdict.UNREADABLE,
            )
            assert each.needs is None
        found = list(keys_of_nodes(compare_nodes(one, other), one, other))
        assert not found


def check_export(store: Store) -> None:
    """Assert that all formats have the same number of records, and that lines are JSON."""
    counts = set()
    for form in map(EntryFormat, CACHE_FORMATS):
        export = CacheExport(CacheFilter(), open_cache_sink(form, Masking()).encode, 1)
        try:
            pieces = list(export.run(store))
        except InputError:
            counts.add(-1)
            continue
        assert all(each.text() for each in export.problems)
        counts.add(export.count)
        if form is EntryFormat.PARQUET:
            assert sum(map(len, pieces)) == export.count
            continue
        lines = b"".join(bytes(piece) for piece in pieces).splitlines()
        assert len(lines) == export.count
        if form is EntryFormat.JSONL:
            assert all("key_json" in json.loads(line) for line in lines)
    assert len(counts) == 1
