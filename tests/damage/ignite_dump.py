"""Dumps of a damaged Ignite store in all formats."""

from __future__ import annotations

import json
from collections.abc import Sequence

from je_tools.core.masking import Masking
from je_tools.ignite.pages.dump import PageDump, PageFilters
from je_tools.ignite.pages.dump_columns import open_page_sink
from je_tools.ignite.store import Store
from je_tools.ignite.wal.dump import RecordDump
from je_tools.ignite.wal.dump_sinks import open_record_sink
from je_tools.ignite.wal.record_filters import RecordFilters
from je_tools.output.encoders.entry_sinks import EntryFormat


def check_dump(store: Store) -> None:
    """Assert that all formats have the same number of rows, and that lines are JSON."""
    counts = set()
    for form in EntryFormat:
        sink = open_record_sink(form, Masking(), 120)
        dump = RecordDump(RecordFilters().selection(), sink.encode, 1)
        pieces = list(dump.run(store))
        if form is EntryFormat.PARQUET:
            counts.add(sum(map(len, pieces)))
            continue
        lines = b"".join(bytes(piece) for piece in pieces).splitlines()
        counts.add(len(lines))
        if form is EntryFormat.JSONL:
            rows = list(map(json.loads, lines))
            assert all(row["type"] for row in rows)
            assert all(("key_json" in row) == ("key_type" in row) for row in rows)
    assert len(counts) == 1


OF_LINES = (EntryFormat.TABLE, EntryFormat.CSV, EntryFormat.JSONL)


def dumped_pages(
    store: Store, threads: int, forms: Sequence[EntryFormat] = OF_LINES
) -> dict[EntryFormat, bytes]:
    """Return the pages and items of a store in formats of lines; all have equally many rows."""
    found = {}
    for form in forms:
        sink = open_page_sink(form, Masking(), 120)
        dump = PageDump(PageFilters(), sink.encode, threads, with_items=True)
        found[form] = b"".join(bytes(piece) for piece in dump.run(store))
    assert len({text.count(b"\n") for text in found.values()}) == 1
    return found
