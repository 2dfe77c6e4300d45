"""Space in page stores: pages by kind, and free bytes as the items of data pages leave them."""

from __future__ import annotations

import csv
import struct
from collections import Counter
from pathlib import Path

import pytest

from je_tools.formats.ignite.pages import DATA_TYPES, PLACES, VERSIONS, page_type_name
from je_tools.ignite.pages.files import FileKind, PageFile, page_folder
from je_tools.ignite.pages.scan import Block, read_blocks
from je_tools.ignite.pages.space import PageFileSpace, SpaceReport, TypeSpace, measure_pages
from je_tools.ignite.store import open_store
from tests.builders import ignite_pages as pages
from tests.corpus import ROOT, IgniteNode
from tests.je_tools.ignite.reading import node_of


def _measured(store: Path, node: str = "node1", threads: int = 2) -> SpaceReport:
    return measure_pages(open_store([store], [node]), threads)


def _free_by_entries(page: bytes) -> int:
    """Return the bytes of a data page that no item and no entry has."""
    direct, indirect = page[50], page[51]
    used = 54 + 2 * (direct + indirect)
    for item in range(direct):
        (at,) = struct.unpack_from("<H", page, 54 + 2 * item)
        (length,) = struct.unpack_from("<H", page, at)
        used += 2 + (length & 0x7FFF) + (8 if length >> 15 else 0)
    return len(page) - used


def test_free_bytes_are_what_the_entries_leave(ignite_node: IgniteNode) -> None:
    checked = 0
    for block in read_blocks(page_folder(node_of(ignite_node.store, ignite_node.node)).files, 1):
        assert isinstance(block, Block)
        header = block.file.header
        assert header is not None
        data = block.file.path.read_bytes()[header.size :]
        columns = block.columns
        for row in range(len(columns)):
            free = int(columns.free[row])
            if free < 0 or columns.compression[row]:
                continue
            at = (block.first + row) * header.page_size
            assert free == _free_by_entries(data[at : at + header.page_size])
            checked += 1
    assert checked or ignite_node.case == "ignite-pagecompress"


def test_pages_of_a_file_add_up(ignite_node: IgniteNode) -> None:
    report = _measured(ignite_node.store, ignite_node.node)
    assert report == _measured(ignite_node.store, ignite_node.node, threads=1)
    for each in report.files:
        kinds = (each.data_pages, each.tree_pages, each.list_pages, each.other_pages)
        assert sum(kinds) + each.zero_pages + each.tail_pages + each.uncounted == each.pages
        assert each.fill_percent is None or 0 <= each.fill_percent <= 100
    counted = sum(each.pages for each in report.files) - report.uncounted
    assert sum(each.pages for each in report.types) == counted
    name = ignite_node.case
    assert (report.uncounted > 0) == (name in ("ignite-tde", "ignite-crash-mid-checkpoint"))


def test_items_of_the_row_tree_are_the_rows(ignite_node: IgniteNode) -> None:
    """Assert it for a node that was stopped: others have newer rows in the log."""
    if ignite_node.case != "ignite-closed":
        return
    with (ignite_node.truth / "partitions.tsv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    sizes = {(row["group"], int(row["partition"])): int(row["size"]) for row in rows}
    found = {
        (each.group, each.partition): each.rows
        for each in _measured(ignite_node.store).files
        if each.kind is FileKind.PARTITION
    }
    assert {key: size for key, size in sizes.items() if size} == {
        key: size for key, size in found.items() if size
    }


def test_zeros_between_and_after_pages(tmp_path: Path) -> None:
    store = pages.write_page_store(tmp_path)
    path = store / "db" / "node1" / "cache-first" / "part-1.bin"
    size = pages.SIZE
    data = path.read_bytes()
    path.write_bytes(data[: 2 * size] + bytes(size) + data[3 * size :] + bytes(3 * size))
    (found,) = [each for each in _measured(store).files if each.file.endswith("first/part-1.bin")]
    assert (found.pages, found.zero_pages, found.tail_pages) == (8, 1, 3)
    assert (found.data_pages, found.tree_pages, found.list_pages, found.other_pages) == (1, 1, 0, 2)


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    store = pages.write_page_store(tmp_path)
    for path in (store / "db" / "node1").glob("*/*.bin"):
        path.write_bytes(b"nothing")
    report = _measured(store)
    assert (report.problems, sum(each.pages for each in report.files)) == (4, 0)


def test_places_of_counts() -> None:
    named = Counter(
        (page_type_name(no).split(" ")[-1], int(PLACES.items_at[no]))
        for no in range(len(VERSIONS))
        if VERSIONS[no] > 0 and no < 10000
    )
    assert {place for name, place in named if name in ("leaf", "inner")} == {40}
    assert {int(PLACES.free_at[no]) for no in DATA_TYPES} == {48}
    assert PLACES.items_at[10022] == 40
    assert PLACES.items_at[14] == 0


@pytest.mark.parametrize("kind", [PageFileSpace, TypeSpace])
def test_every_column_is_in_the_page(kind: type) -> None:
    page = (ROOT / "docs" / "commands" / "ignite.md").read_text(encoding="utf-8")
    for column in kind.__struct_fields__:  # type: ignore[attr-defined]
        assert f"`{column}`" in page


def test_an_empty_file_is_no_problem(tmp_path: Path) -> None:
    store = pages.write_page_store(tmp_path)
    path = store / "db" / "node1" / "cache-first" / "part-2.bin"
    path.write_bytes(b"")
    report = _measured(store)
    assert report.problems == 0
    files = page_folder(node_of(store)).files
    (empty,) = [each for each in files if each.is_empty]
    assert isinstance(empty, PageFile)
    assert empty.path == path
