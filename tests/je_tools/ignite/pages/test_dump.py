"""Dumps of pages: field by field those that the engine lists, and rows as the engine finds them."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from je_tools.core.masking import SHOWN, DataMode, Masking
from je_tools.errors import UsageError
from je_tools.formats.ignite.pages import COMPRESSIONS
from je_tools.ignite.pages.dump import PageDump, PageFilters
from je_tools.ignite.pages.dump_columns import PAGE_DUMP_SCHEMA, open_page_sink
from je_tools.ignite.store import open_store
from je_tools.output.encoders.entry_sinks import EntryFormat
from tests.builders import ignite_pages as pages
from tests.corpus import ROOT, IgniteNode


def _bytes(
    store: Path,
    form: EntryFormat = EntryFormat.JSONL,
    masking: Masking = SHOWN,
    threads: int = 2,
    node: str = "node1",
    **options: Any,
) -> bytes:
    sink = open_page_sink(form, masking, 120)
    filters = PageFilters(**{k: v for k, v in options.items() if k not in ("items", "limit")})
    some = {k: v for k, v in (("limit", options.get("limit")),) if v}
    items = options.get("items", False)
    dump = PageDump(filters, sink.encode, threads, items, **some)
    out = io.BytesIO()
    sink.write_all(dump.run(open_store([store], [node])), out)
    return out.getvalue()


def _rows(store: Path, **options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _bytes(store, **options).splitlines()]


def test_pages_are_field_by_field_those_that_the_engine_lists(ignite_node: IgniteNode) -> None:
    path = ignite_node.truth / "pages.tsv.gz"
    if not path.exists():
        return
    found = []
    for row in _rows(ignite_node.store, node=ignite_node.node):
        file = "/".join(Path(row["file"]).parts[-2:])
        way = COMPRESSIONS.index(row["compression"])
        numbers = (row["page"], row["type_no"], row["layout"], row["page_id"], row["rotated"])
        is_right = row["state"] != "checksum"
        found.append((file, *numbers, way, row["compressed_size"], row["checksum"], is_right))
    listed = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith("#"):
                file, *some, sum_, verdict = line.rstrip("\n").split("\t")
                numbers = [some[3] if n == 3 else int(each) for n, each in enumerate(some)]
                listed.append((file, *numbers, sum_, verdict == "ok"))
    assert sorted(found) == sorted(listed)


def test_the_rows_of_pages_are_those_of_the_tree(ignite_node: IgniteNode) -> None:
    if ignite_node.case != "ignite-closed":
        return
    with gzip.open(ignite_node.truth.parent / "records.tsv.gz", "rt", encoding="utf-8") as lines:
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        listed = {(int(row[1]), row[5], row[9]) for row in list(reader)[1:]}
    rows = _rows(ignite_node.store, types=["data"], items=True)
    found = {
        (row["partition"], row["key"], row["version"])
        for row in rows
        if row.get("key") and row["type"] == "data"
    }
    assert found <= listed
    assert len(listed - found) < 20
    fragments = [row for row in rows if "next" in row and row["type"] == "data"]
    assert sum(row["next"] != "0" * 16 for row in fragments) > 10
    leaves = _rows(ignite_node.store, types=["data tree leaf", "group data tree leaf"], items=True)
    links = {(row["group"], row["link"]) for row in leaves if "item" in row}
    heads = {(row["group"], row["link"]) for row in rows if "link" in row}
    assert len(links) == len(listed)
    assert links <= heads


def test_fields_of_meta_pages(ignite_node: IgniteNode) -> None:
    if ignite_node.case not in ("ignite-closed", "ignite-pagecompress"):
        return
    sizes: dict[tuple[str, int], Any] = {}
    with (ignite_node.truth / "partitions.tsv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            sizes[row["group"], int(row["partition"])] = row
    for row in _rows(ignite_node.store, types=["partition meta"]):
        fields = json.loads(row["fields"]) if isinstance(row["fields"], str) else row["fields"]
        listed = sizes.get((row["group"], row["partition"]))
        if listed is not None and ignite_node.case == "ignite-closed":
            assert (fields["size"], fields["state"]) == (int(listed["size"]), 1)
            assert fields["update_counter"] == int(listed["updateCounter"])
        assert fields["tree"].startswith(("0001", "0004"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store of made pages."""
    return pages.write_page_store(tmp_path)


@pytest.mark.parametrize("order", "<>")
def test_rows_and_links_of_made_pages(tmp_path: Path, order: str) -> None:
    made = pages.write_page_store(tmp_path, order)
    rows = _rows(made, partitions=[0], items=True)
    shown = [(row["page"], row.get("item"), row["type"]) for row in rows]
    assert shown[:4] == [
        (0, None, "partition meta"),
        (1, None, "tracking"),
        (2, None, "tree meta"),
        (3, None, "data tree leaf"),
    ]
    (first, second) = [row for row in rows if row["type"] == "data" and "item" in row]
    assert (first["key"], first["version"]) == ("0300000000", "406698471:1:1795218469159")
    assert second["link"] == f"{pages.page_id(0, 5):016x}"
    leaf = [row for row in rows if row["type"] == "data tree leaf" and "item" in row]
    assert [row["link"] for row in leaf] == [first["link"], second["link"]]


def test_filters_and_limit(store: Path) -> None:
    assert {row["group"] for row in _rows(store, groups=["first"])} == {"first"}
    assert [row["page"] for row in _rows(store, pages=[3])] == [3, 3]
    assert {row["type"] for row in _rows(store, types=["tree"])} == {"tree meta"}
    assert len(_rows(store, limit=2)) == 2
    with pytest.raises(UsageError, match="no type of pages"):
        _rows(store, types=["none"])


def test_every_format_has_the_same_pages(store: Path, tmp_path: Path) -> None:
    for path in (store / "db" / "node1" / "cache-first").glob("*.bin"):
        pages.damage(path, 2)
    options: dict[str, Any] = {"items": True}
    objects = _rows(store, **options)
    lines = list(csv.DictReader(io.StringIO(_bytes(store, EntryFormat.CSV, **options).decode())))
    assert [int(row["page"]) for row in lines] == [row["page"] for row in objects]
    assert [row["link"] or None for row in lines] == [row.get("link") for row in objects]
    found = pq.read_table(io.BytesIO(_bytes(store, EntryFormat.PARQUET, **options)))
    assert found.schema.names == PAGE_DUMP_SCHEMA.names
    assert [row["page"] for row in objects] == found["page"].to_pylist()
    table = _bytes(store, EntryFormat.TABLE, **options).decode().splitlines()
    assert len(table) == len(objects) + 1
    assert {row["state"] for row in objects if "state" in row} == {"good", "checksum"}
    assert all("fields" not in row for row in objects if row.get("state") == "checksum")
    for threads in (1, 3):
        assert _rows(store, threads=threads, **options) == objects


def test_masking(store: Path) -> None:
    masked = _bytes(store, masking=Masking(DataMode.LENGTH), items=True)
    assert b"0300000000" not in masked
    assert b"76616c7565" not in masked
    assert b"key_hash" not in masked
    assert b"key_hash" in _bytes(store, items=True)
    assert b"76616c7565" in _bytes(store, items=True)


def test_every_column_is_in_the_page() -> None:
    page = (ROOT / "docs" / "commands" / "ignite.md").read_text(encoding="utf-8")
    part = page[page.index("## pages dump") :]
    for name in PAGE_DUMP_SCHEMA.names:
        assert f"`{name}`" in part
