"""Structure of files of pages: exactly the planted faults, and none in stores of engines."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from je_tools.findings import Severity
from je_tools.formats.ignite.check import POWERS, Structure
from je_tools.formats.ignite.segments import checksum
from je_tools.ignite.page_check.judge import PageFileState
from je_tools.ignite.page_check.structure_judge import affinity_of
from je_tools.ignite.page_check.verify import PageReport, verify_pages
from je_tools.ignite.pages.files import FileKind, PageFile
from je_tools.ignite.store import open_store
from tests.builders import ignite_pages as build
from tests.corpus import IgniteNode, corpus
from tests.engine.ignite import writable_copy
from tests.je_tools.dumped import je_tools

SIZE = build.SIZE

Pages = dict[int, bytes]
"""Pages of a partition by index."""


def _verify(store: Path) -> PageReport:
    return verify_pages(open_store([store]), 2)


def _page(index: int, type_no: int, body: bytes) -> bytes:
    return build.page(0, index, type_no, body=body)


def _link(index: int, item: int, key_hash: int) -> bytes:
    return build.leaf_item(0, index, item, key_hash)


def _tree() -> Pages:
    """Return a partition: two leaves below an inner page, three rows on two data pages.

    Pages: 0 meta, 1 tracking, 2 roots, 3 and 4 leaves, 5 inner page, 6 and 7 rows, 8 and 9 the
    free list, whose only node names page 7.
    """
    one, two = build.row(1, "one"), build.row(2, "two")
    child = struct.pack("<Q", build.page_id(0, 3)), struct.pack("<Q", build.page_id(0, 4))
    meta = struct.pack("<8xQQ40xQ", build.page_id(0, 2), build.page_id(0, 8), 3)
    free = bytearray(build.data_body([build.row(9, "nine")]))
    struct.pack_into("<Q", free, 0, build.page_id(0, 9))
    return {
        0: _page(0, 14, meta),
        1: _page(1, 15, b""),
        2: _page(2, 2, build.roots_body(0, [3, 5])),
        3: _page(3, 6, build.leaf_body([_link(6, 0, 1), _link(6, 1, 2)], build.page_id(0, 4))),
        4: _page(4, 6, build.leaf_body([_link(7, 0, 9)])),
        5: _page(5, 5, _inner(child[0], _link(6, 1, 2), child[1])),
        6: _page(6, 1, build.data_body([one, two])),
        7: _page(7, 1, bytes(free)),
        8: _page(8, 12, struct.pack("<HQHQ", 1, 0, 30, build.page_id(0, 9))),
        9: _page(9, 13, struct.pack("<QQHQ", 0, 0, 1, build.page_id(0, 7))),
    }


def _inner(left: bytes, item: bytes, right: bytes) -> bytes:
    return struct.pack("<HQQ", 1, 0, 0) + left + item + right


def _write(root: Path, pages: Pages) -> Path:
    store = build.write_page_store(root)
    data = b"".join(page for _, page in sorted(pages.items()))
    path = store / "db" / "node1" / "cache-first" / "part-0.bin"
    path.write_bytes(build.file_header() + data)
    return store


def _codes(report: PageReport) -> list[tuple[str, int | None]]:
    return [(each.code, each.page) for each in report.findings]


def test_the_trees_of_engines_have_no_fault(ignite_node: IgniteNode) -> None:
    report = _verify(ignite_node.store)
    counts = Counter(each.code for each in report.findings)
    allowed = {"page-mixed", "page-torn", "page-encrypted", "page-compressed", "page-unwalked"}
    assert set(counts) <= allowed
    assert (counts["page-unwalked"] > 0) == (ignite_node.case == "ignite-tde")
    assert sum(each.rows or 0 for each in report.files) > 30


def test_a_made_tree_has_no_fault(tmp_path: Path) -> None:
    report = _verify(_write(tmp_path, _tree()))
    assert _codes(report) == []
    assert [each.rows for each in report.files] == [0, 3, 1, None]


def _changed(index: int, at: int, value: bytes) -> Callable[[Pages], None]:
    """Return a change of bytes in a page whose checksum is made right again."""

    def change(pages: Pages) -> None:
        page = pages[index]
        page = page[:at] + value + page[at + len(value) :]
        type_no, version = struct.unpack_from("<HH", page)
        pages[index] = build.page(0, index, type_no, version=version, body=page[40:])

    return change


def _id(index: int, item: int = 0, partition: int = 0) -> bytes:
    return struct.pack("<Q", build.page_id(partition, index, item))


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        (_changed(0, 48, _id(7)), [("page-link", 7), ("row-count", 0)]),
        (_changed(0, 48, _id(99)), [("page-lost", 99), ("rows-cut-off", None)]),
        (_changed(0, 104, struct.pack("<q", 4)), [("row-count", 0)]),
        (_changed(2, 41, _id(4)), [("tree-chain", 4)]),
        (_changed(3, 40, struct.pack("<H", 90)), [("page-link", 3)]),
        (_changed(3, 42, bytes(8)), [("tree-chain", 5)]),
        (_changed(3, 42, _id(3)), [("page-link", 3)]),
        (_changed(3, 42, _id(4, partition=1)), [("tree-chain", 3)]),
        (_changed(3, 58 + 8, struct.pack("<i", 3)), [("tree-order", 3)]),
        (_changed(3, 58 + 20, struct.pack("<i", 7)), [("tree-order", 3)]),
        (_changed(4, 58 + 8, struct.pack("<i", 0)), [("tree-order", 4), ("tree-order", 4)]),
        (_changed(4, 58, _id(7, 5)), [("row-lost", 4)]),
        (_changed(4, 58, _id(6, 1)), [("row-lost", 4)]),
        (_changed(4, 58, _id(9)), [("row-lost", 4)]),
        (_changed(6, 48, struct.pack("<H", 9)), [("data-items", 6)]),
        (_changed(6, 54, struct.pack("<H", 56)), [("row-lost", 3), ("data-items", 6)]),
        (_changed(7, 40, bytes(8)), [("list-pages", 9)]),
        (_changed(9, 58, _id(6)), [("list-pages", 9)]),
        (_changed(9, 48, _id(6)), [("list-pages", 9)]),
        (_changed(8, 52, _id(6)), [("page-link", 6)]),
    ],
)  # fmt: skip
def test_each_defect(
    change: Callable[[Pages], None], codes: list[tuple[str, int | None]], tmp_path: Path
) -> None:
    pages = _tree()
    change(pages)
    report = _verify(_write(tmp_path, pages))
    main = [each for each in _codes(report) if each[0] not in _CONSEQUENCES]
    assert main == [each for each in codes if each[0] not in _CONSEQUENCES]
    assert [each for each in codes if each not in _codes(report)] == []
    wrong = [each for each in report.findings if each.severity is not Severity.NOTE]
    assert bool(wrong)
    assert {each.state for each in report.files} & {PageFileState.DAMAGED, PageFileState.UNCLEAR}


_CONSEQUENCES = ("row-count", "row-unnamed", "page-unnamed", "rows-cut-off")
"""Findings that may follow from another defect."""


def test_a_row_and_a_page_that_nothing_leads_to(tmp_path: Path) -> None:
    pages = _tree()
    pages[10] = _page(10, 1, build.data_body([build.row(4, "four")]))
    pages[11] = _page(11, 6, build.leaf_body([]))
    found = _codes(_verify(_write(tmp_path, pages)))
    assert found == [("row-unnamed", 10), ("page-unnamed", 11)]


def test_a_file_that_was_cut_at_a_page(tmp_path: Path) -> None:
    pages = _tree()
    for index in (7, 8, 9):
        del pages[index]
    found = _codes(_verify(_write(tmp_path, pages)))
    lost = [("page-lost", 7), ("rows-cut-off", None)]
    assert found == lost
    for index in (7, 8, 9):
        pages[index] = bytes(SIZE)
    found = _codes(_verify(_write(tmp_path / "zeros", pages)))
    assert sorted(found, key=str) == sorted([("page-unwritten", 7), *lost], key=str)


def test_rows_of_another_partition(tmp_path: Path) -> None:
    pages = _tree()
    rows = [build.row(4 * n, f"value {n}") for n in range(16)]
    for n in range(2):
        pages[6 + n] = _page(6 + n, 1, build.data_body(rows[8 * n :][:8]))
    hashes = [4 * n for n in range(16)]
    hashes[15] += 1
    links = [_link(6 + n // 8, n % 8, each) for n, each in enumerate(hashes)]
    pages[3] = _page(3, 6, build.leaf_body(links[:8], build.page_id(0, 4)))
    pages[4] = _page(4, 6, build.leaf_body(links[8:]))
    child = _id(3), _id(4)
    pages[5] = _page(5, 5, _inner(child[0], links[7], child[1]))
    for change in (_changed(0, 104, struct.pack("<q", 16)), _changed(0, 56, bytes(8))):
        change(pages)
    del pages[8], pages[9]
    store = _write(tmp_path, pages)
    assert _codes(_verify(store)) == []
    partition = store / "db" / "node1" / "cache-first"
    for number in range(1, 4):
        rows_of = [build.leaf_item(number, 4, n, 4 * n + number) for n in range(8)]
        made = [
            build.page(number, 0, 14, body=build.meta_body(number, 2, 8)),
            build.page(number, 1, 15, body=b""),
            build.page(number, 2, 2, body=build.roots_body(number, [3])),
            build.page(number, 3, 6, body=build.leaf_body(rows_of)),
            build.page(number, 4, 1, body=build.data_body(rows[:8])),
        ]
        data = build.file_header() + b"".join(made)
        (partition / f"part-{number}.bin").write_bytes(data)
    (found,) = _verify(store).findings
    assert (found.code, found.partition) == ("row-misplaced", 0)
    assert (found.expected, found.found) == ("4 partitions", "1 of 16 rows")


def test_partitions_with_rows_bound_their_number() -> None:
    def file(partition: int) -> PageFile:
        return PageFile(Path("part.bin"), "g", FileKind.PARTITION, partition, 0, None)

    # All rows of partition 0 are in their place if there is one partition, half of them if two.
    many = Structure([], {}, 1, 100, 100, {-1: [100, 100, *[50] * (POWERS - 1)]}, [])
    one = Structure([], {}, 1, 1, 1, {-1: [1, 0, 1, *[0] * (POWERS - 2)]}, [])
    assert affinity_of([(file(0), many)]).powers == {("g", -1): 0}
    assert affinity_of([(file(0), many), (file(1), one)]).powers == {}


def test_without_trees_a_note_says_so(tmp_path: Path) -> None:
    store = _write(tmp_path, _tree())
    (found,) = verify_pages(open_store([store]), 2, trees=False).findings
    assert (found.code, found.found) == ("page-unwalked", "4 files: only pages were asked for")


@pytest.mark.parametrize(("type_no", "version"), [(25, 1), (23, 1), (26007, 1)])
def test_trees_of_other_layouts_are_told_and_not_walked(
    type_no: int, version: int, tmp_path: Path
) -> None:
    pages = _tree()
    for index in (3, 4, 5):
        pages[index] = build.page(0, index, type_no, version=version, body=b"")
    report = _verify(_write(tmp_path, pages))
    assert _codes(report) == [("page-unwalked", None)]
    assert "are not read" in str(report.findings[0].found)


@pytest.mark.parametrize(
    ("page", "size", "items", "codes"),
    [
        # An index on an int, and one on a bigint in descending order.
        (6, 13, (3, 9), [("tree-order", 6)]),
        (11, 31, (5, 6), [("tree-order", 11)]),
        # Names of indexes; texts are not compared.
        (4, 777, (0, 1), [("tree-order", 4)]),
        (8, 23, (3, 9), []),
    ]
    if corpus()
    else [],
)
def test_items_of_an_index_of_the_engine_that_change_places(
    page: int, size: int, items: tuple[int, int], codes: list[object], tmp_path: Path
) -> None:
    whole = corpus()
    assert whole is not None
    store = writable_copy(whole / "ignite-sql-2.17" / "store", tmp_path / "store")
    # The pages of the unfinished checkpoint are in the log until then.
    assert je_tools("ignite", "recover", store, "--apply").code == 0
    assert _codes(_verify(store)) == []
    path = store / "db" / "node1" / "cache-city" / "index.bin"
    data = bytearray(path.read_bytes())
    start = 4096 * (page + 1)
    one, other = (slice(start + 58 + each * size, start + 58 + (each + 1) * size) for each in items)
    data[one], data[other] = data[other], data[one]
    data[start + 4 : start + 8] = bytes(4)
    total = checksum(bytes(data[start : start + 4096]))
    data[start + 4 : start + 8] = struct.pack("<I", total)
    path.write_bytes(data)
    assert _codes(_verify(store)) == codes
