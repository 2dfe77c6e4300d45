"""Segments of transactions by a loop over single entries, for comparison with the extension's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.log.segments import Segments
from je_tools.formats.je.types import ABORT_NO, BY_NAME, COMMIT_NO, ENTRY_TYPES, mask_of
from je_tools.log.environment import Environment
from je_tools.log.references import read_references
from je_tools.log.scan import Scanner

NAMES = ("txn_id", "txn_prev_lsn", "last_lsn", "db_id", "time_ms")
_OF_TXN = mask_of(each.no for each in ENTRY_TYPES.values() if each.transactional)
_MAP_LN = BY_NAME["MapLN_TX"].no
_ENDS = (COMMIT_NO, ABORT_NO)

Line = dict[str, Any]


def entries_of(rows: Rows) -> list[Line] | None:
    """Return the entries of transactions; None if a MapLN is not decoded whole.

    The extension reads the front of such an entry, and `read_references` needs all of it.
    """
    for row in np.flatnonzero((rows.type == _MAP_LN) & rows.good).tolist():
        if not rows.fields(row):
            return None
    found = read_references(rows, _OF_TXN, NAMES)
    lines = []
    for row in np.flatnonzero(found.present["txn_id"]).tolist():
        line = {name: int(found.numbers[name][row]) for name in NAMES if found.present[name][row]}
        line |= {"lsn": int(rows.lsn[row]), "size": int(rows.size[row])}
        line |= {"type": int(rows.type[row]), "invisible": bool(rows.invisible[row])}
        lines.append(line)
    return lines


def segments_of(entries: Sequence[Line]) -> list[Line]:
    """Return the segments of entries in log order."""
    found: list[Line] = []
    known: dict[int, Line] = {}
    for each in entries:
        is_end = each["type"] in _ENDS
        begins = each.get("txn_prev_lsn") == NULL_LSN
        begins |= is_end and each.get("last_lsn") == NULL_LSN
        segment = known.get(each["txn_id"])
        if segment is None or begins:
            segment = {"txn_id": each["txn_id"], "first": each["lsn"], "begins": begins}
            segment |= {"entries": 0, "size": 0, "invisible": 0, "prepared": False, "dbs": set()}
            segment |= {"end_type": 0, "end_ms": 0}
            found.append(segment)
            known[each["txn_id"]] = segment
        segment["last"] = each["lsn"]
        segment["entries"] += 1
        segment["size"] += each["size"]
        segment["invisible"] += each["invisible"]
        segment["prepared"] |= each["type"] == BY_NAME["Prepare"].no
        segment["dbs"] |= {each["db_id"]} if "db_id" in each else set()
        if is_end:
            segment |= {"end_type": each["type"], "end_ms": each.get("time_ms", 0)}
            del known[each["txn_id"]]
    return [{**segment, "dbs": sorted(segment["dbs"])} for segment in found]


def lines_of(segments: Segments) -> list[Line]:
    """Return segments in the form of `segments_of`."""
    return [
        {
            "txn_id": int(segments.txn_id[i]),
            "first": int(segments.first_lsn[i]),
            "last": int(segments.last_lsn[i]),
            "begins": bool(segments.begins[i]),
            "entries": int(segments.entries[i]),
            "size": int(segments.size[i]),
            "invisible": int(segments.invisible[i]),
            "prepared": bool(segments.prepared[i]),
            "dbs": segments.db_id[segments.db_first[i] : segments.db_first[i + 1]].tolist(),
            "end_type": int(segments.end_type[i]),
            "end_ms": int(segments.end_ms[i]),
        }
        for i in range(len(segments.txn_id))
    ]


def _work(rows: Rows) -> tuple[list[Line] | None, list[Line]]:
    return entries_of(rows), [] if rows.segments is None else lines_of(rows.segments)


def assert_segments_are_right(environment: Environment, scanner: Scanner) -> int:
    """Compare the segments of each range with those of its entries; return their number."""
    count = 0
    for expected, found in _ranges(environment, replace(scanner, segmented=True)):
        if expected is not None:
            assert found == segments_of(expected)
            count += len(found)
    return count


def _ranges(
    environment: Environment, scanner: Scanner
) -> Iterator[tuple[list[Line] | None, list[Line]]]:
    for part in scanner.scan(environment, _work):
        entries = [lines for lines, _ in part.results]
        found = [line for _, lines in part.results for line in lines]
        is_known = all(lines is not None for lines in entries)
        yield [line for lines in entries for line in lines or ()] if is_known else None, found
