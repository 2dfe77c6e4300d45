"""File summaries as columns: the engine's totals for each file, and offsets of obsolete entries.

A large log has thousands of summaries, with some thousand offsets each.

Source: je-log.md "Utilization"; FileSummaryLN, FileSummary, PackedOffsets, JE 7.5.11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.arrays import Ints, distinct
from je_tools.formats.je.layout import SUMMARY_TOTALS, Field, layout
from je_tools.formats.je.log.entry_rows import lsns_of
from je_tools.formats.je.log.fetch import Entries, fetch, fetch_entry
from je_tools.formats.je.types import FILE_SUMMARY_NO, Family

if TYPE_CHECKING:
    from je_tools.formats.files.image import Image

_KEY_SIZE = 8
_FILE_NO_SIZE = 4
_KEY_LAST_SINCE = 8
_KEY_FIRST_SINCE = 19


class Summaries(Struct, frozen=True):
    """Summaries that exist and were not deleted, in the order in which they were requested.

    Attributes:
        row: int64; index of the requested LSN.
        file_no: int64; number of the summarized file.
        totals: int64 (n, len(SUMMARY_TOTALS)); 0 for a total that the log version does not have.
        obsolete: int64; LSNs of obsolete entries, of all summaries, in no order.
    """

    row: Ints
    file_no: Ints
    totals: Ints
    obsolete: Ints

    def __len__(self) -> int:
        return len(self.row)


def read_summaries(image: Image, lsns: Ints) -> Summaries:
    """Read summaries; skip entries that are not summaries, are damaged or were deleted.

    Args:
        image: the log.
        lsns: int64; LSNs of their entries.
    """
    entries = fetch(image, lsns)
    is_left = entries.good
    parts = []
    rows = np.flatnonzero(entries.is_family(Family.FILE_SUMMARY_LN))
    for version in distinct(entries.version[rows]):
        if version >= _KEY_LAST_SINCE:
            of_version = rows[entries.version[rows] == version]
            part = _in_columns(entries, of_version, version)
            is_left[part.row] = False
            parts.append(part)
    parts.append(_singly(entries, np.flatnonzero(is_left)))
    row = np.concatenate([part.row for part in parts])
    order = np.argsort(row, kind="stable")
    return Summaries(
        row[order],
        np.concatenate([part.file_no for part in parts])[order],
        np.concatenate([part.totals for part in parts])[order],
        np.concatenate([part.obsolete for part in parts]),
    )


def _in_columns(entries: Entries, rows: Ints, version: int) -> Summaries:
    """Read the summaries of one log version that have no further fields."""
    starts, key_starts = np.empty(len(rows), np.int64), np.full(len(rows), -1, np.int64)
    stops = (entries.position + entries.size)[rows]
    whole = np.zeros(len(rows), np.bool_)
    has_key_first = version >= _KEY_FIRST_SINCE
    wanted = frozenset({"data", "key"} if has_key_first else {"data"})
    places = np.zeros(len(entries), np.int64)
    places[rows] = np.arange(len(rows))
    for some, decoded in entries.decode(Family.FILE_SUMMARY_LN, rows, wanted=wanted):
        at = places[some]
        data_starts, data_sizes = decoded.fields.span("data")
        starts[at] = data_starts + data_sizes
        whole[at] = ~decoded.bad & (data_sizes >= 0)
        if has_key_first:
            key_starts[at], key_sizes = decoded.fields.span("key")
            whole[at] &= key_sizes == _KEY_SIZE
    names = [each.name for each in _summary_fields(version)]
    fits, file_nos, totals, obsolete = _native.read_summaries(
        entries.image.data,
        starts[whole],
        stops[whole],
        key_starts[whole] if has_key_first else None,
        width=len(names),
    )
    every = np.zeros((len(file_nos), len(SUMMARY_TOTALS)), np.int64)
    every[:, [SUMMARY_TOTALS.index(name) for name in names]] = totals
    return Summaries(rows[whole][fits], file_nos, every, obsolete)


def _summary_fields(version: int) -> tuple[Field, ...]:
    (group,) = (each for each in layout(FILE_SUMMARY_NO, version) if each.name == "summary")
    return group.fields


def _singly(entries: Entries, rows: Ints) -> Summaries:
    """Read summaries of any form, one by one."""
    kept, file_nos, totals = [], [], [np.empty((0, len(SUMMARY_TOTALS)), np.int64)]
    obsolete = [np.empty(0, np.int64)]
    for row in rows.tolist():
        entry = fetch_entry(entries.image, int(entries.lsn[row]))
        fields = entry.fields if entry is not None else {}
        if not fields.get("key") or "summary" not in fields:
            continue
        file_no = int.from_bytes(fields["key"][:_FILE_NO_SIZE], "big")
        kept.append(row)
        file_nos.append(file_no)
        group = fields["summary"]
        totals.append(np.array([[group.get(name, 0) for name in SUMMARY_TOTALS]], np.int64))
        obsolete.append(lsns_of(file_no, np.array(fields["obsolete_offsets"], np.int64)))
    return Summaries(
        np.array(kept, np.int64),
        np.array(file_nos, np.int64),
        np.concatenate(totals),
        np.concatenate(obsolete),
    )
