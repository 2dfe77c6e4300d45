"""Findings on the structure of a file of pages: trees, rows, lists and counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.core.escaping import counted
from je_tools.formats.ignite.check import POWERS, Defect, DefectKind
from je_tools.formats.ignite.pages import page_type_name
from je_tools.formats.ignite.rows import RowFault, fault_text
from je_tools.ignite.pages.walk import lost_pages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from je_tools.formats.ignite.check import Structure
    from je_tools.ignite.page_check.page_findings import PageFinding
    from je_tools.ignite.pages.files import PageFile
    from je_tools.ignite.pages.scan import PageFileScan

_CODES = {
    DefectKind.TYPE: "page-link",
    DefectKind.COUNT: "page-link",
    DefectKind.TWICE: "page-link",
    DefectKind.ELSEWHERE: "page-link",
    DefectKind.CHAIN: "tree-chain",
    DefectKind.LOST: "tree-chain",
    DefectKind.ORDER: "tree-order",
    DefectKind.BOUNDS: "tree-order",
    DefectKind.ROW: "row-lost",
    DefectKind.ITEMS: "data-items",
    DefectKind.FREE: "data-items",
    DefectKind.LIST: "list-pages",
    DefectKind.UNNAMED: "row-unnamed",
    DefectKind.EXPIRY: "expiry-unnamed",
    DefectKind.ROWS: "row-count",
    DefectKind.CACHE_ROWS: "row-count",
    DefectKind.ORPHAN: "page-unnamed",
    DefectKind.CACHES: "row-count",
}

_DERIVED = frozenset(
    {
        DefectKind.CHAIN,
        DefectKind.LOST,
        DefectKind.UNNAMED,
        DefectKind.EXPIRY,
        DefectKind.ROWS,
        DefectKind.CACHE_ROWS,
        DefectKind.ORPHAN,
    }
)
"""Defects that follow from a page that cannot be read."""

DEFECTS_SHOWN = 100
"""Runs of lost pages of a file that are findings of their own."""

_ROWS_MIN = 32
_SHARE_MIN = 0.9
"""Least number of rows of a cache, and least share of them in their place, to derive a number of
partitions."""

FindingMaker = Callable[..., "PageFinding"]
"""Maker of a finding in a file: of a code, a page or None, and other facts."""


class Affinity(Struct, frozen=True):
    """Number of partitions of caches, derived from the hashes of their keys.

    Attributes:
        powers: by group and cache, the binary logarithm of the number.
    """

    powers: Mapping[tuple[str, int], int]


def affinity_of(found: Iterable[tuple[PageFile, Structure]]) -> Affinity:
    """Return the numbers of partitions of caches, by the structures of all files of a node.

    A cache with few rows, or whose keys are not placed by their hashes, has none. The number of
    partitions is above the number of each partition that has rows.
    """
    totals: dict[tuple[str, int], list[int]] = {}
    last: dict[tuple[str, int], int] = {}
    for file, structure in found:
        group = file.group
        for cache, counts in structure.places.items():
            last[group, cache] = max(last.get((group, cache), 0), file.partition)
            total = totals.setdefault((group, cache), [0] * (POWERS + 1))
            totals[group, cache] = [one + other for one, other in zip(total, counts, strict=True)]
    powers = {}
    for key, (rows, *fitting) in totals.items():
        least = last[key].bit_length()
        # Smaller numbers than the right one fit the rows as well: the largest that fits is right.
        best = max(range(least, POWERS), key=lambda power: (fitting[power], power))
        if rows >= _ROWS_MIN and fitting[best] >= rows * _SHARE_MIN:
            powers[key] = best
    return Affinity(powers)


def structure_findings(
    scan: PageFileScan, structure: Structure, affinity: Affinity, at: FindingMaker
) -> Iterator[PageFinding]:
    """Yield findings on the structure of a file.

    Pages that cannot be read have findings of their own. The rows that they hide are one note.
    """
    is_cut = any(_is_unread(each) for each in structure.defects)
    lost = list(lost_pages(scan, structure))
    for each in lost[:DEFECTS_SHOWN]:
        found = "after the end of the file" if each.is_absent else "zeros"
        yield at("page-lost", each.page, pages=each.pages, found=found)
    if more := lost[DEFECTS_SHOWN:]:
        pages = sum(each.pages for each in more)
        yield at("page-lost", None, pages=pages, found=f"{len(more):,} more runs of pages")
    for defect in structure.defects:
        if _is_unread(defect):
            continue
        if not is_cut or defect.kind not in _DERIVED:
            facts = _words(defect, structure)
            is_of_file = defect.kind in (DefectKind.CACHE_ROWS, DefectKind.CACHES)
            yield at(_CODES[defect.kind], None if is_of_file else defect.page, **facts)
    if is_cut and structure.rows < structure.expected_rows:
        expected = counted(structure.expected_rows, "row")
        yield at("rows-cut-off", None, expected=expected, found=counted(structure.rows, "row"))
    for kind, count in structure.counts.items():
        shown = sum(each.kind is kind for each in structure.defects)
        if count > shown and kind in _CODES and not (is_cut and kind in _DERIVED):
            yield at(_CODES[kind], None, found=f"{count - shown:,} more")
    yield from _misplaced(scan, structure, affinity, at)


def _misplaced(
    scan: PageFileScan, structure: Structure, affinity: Affinity, at: FindingMaker
) -> Iterator[PageFinding]:
    for cache, (rows, *fitting) in structure.places.items():
        power = affinity.powers.get((scan.file.group, cache))
        if power is not None and fitting[power] < rows:
            found = f"{rows - fitting[power]:,} of {counted(rows, 'row')}"
            yield at("row-misplaced", None, expected=counted(1 << power, "partition"), found=found)


def _is_unread(defect: Defect) -> bool:
    """Return True for a page that cannot be read, or a row on such a page."""
    is_row = defect.kind is DefectKind.ROW and defect.value < min(RowFault)
    return is_row or defect.kind is DefectKind.PAGE


def _words(defect: Defect, structure: Structure) -> dict[str, str]:
    """Return expected and actual content."""
    kind, value = defect.kind, defect.value
    if kind is DefectKind.ROWS:
        return {"expected": counted(structure.rows, "row"), "found": f"{value:,}"}
    if kind is DefectKind.CACHE_ROWS:
        cache = defect.page - (1 << 32) if defect.page >> 31 else defect.page
        rows = structure.places.get(cache, [0])[0]
        return {"expected": f"{counted(rows, 'row')} of cache {cache}", "found": f"{value:,}"}
    return {"found": _found(kind, value)}


def _found(kind: DefectKind, value: int) -> str:
    """Return what was found in place of what belongs there."""
    page_id = f"{value & (1 << 64) - 1:016x}"
    texts = {
        DefectKind.TYPE: f"{page_type_name(value & 0xFFFF)} in its place",
        DefectKind.COUNT: "too many items",
        DefectKind.TWICE: "named twice",
        DefectKind.ELSEWHERE: f"link {page_id}",
        DefectKind.CHAIN: f"page {value} is named there" if value else "named nowhere",
        DefectKind.LOST: "pages after it are not known",
        DefectKind.ORDER: f"item {value} is not in order",
        DefectKind.BOUNDS: f"items are not those that page {value} names",
        DefectKind.ROW: fault_text(value) if kind is DefectKind.ROW else "",
        DefectKind.ITEMS: "rows overlap or lie outside",
        DefectKind.FREE: f"{counted(value, 'byte')} free",
        DefectKind.UNNAMED: f"item {value}",
        DefectKind.EXPIRY: f"link {page_id}",
        DefectKind.LIST: f"page {page_id}",
        DefectKind.ORPHAN: "nothing leads to it",
        DefectKind.CACHES: f"more than {value:,} caches, whose rows are not compared",
    }
    return texts[kind]
