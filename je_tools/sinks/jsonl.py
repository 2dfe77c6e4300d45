"""Entries as JSON lines, spelled from columns: no Python runs per entry but for rare types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from je_tools.entries import ROW_FIELDS, EntryTable, FamilyPart
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.je.columns import Columns
from je_tools.formats.je.header import PROVISIONAL_NAMES, lsn_text
from je_tools.formats.je.reader import Rows
from je_tools.formats.je.slots import split_embedded
from je_tools.formats.je.types import Family, type_name
from je_tools.formats.je.walk import CHECKSUM_NAMES
from je_tools.formats.source import Bytes
from je_tools.formats.spelling import ALWAYS, NOT_NULL, Cells, Kind, Op, spell
from je_tools.masking import KEY_FIELDS, DataMode, Masking
from je_tools.plain import clean_text, is_lsn

_EMBEDDED_FIELDS = frozenset({"key", "data"})
_HAS_VLSN, _HAS_DB, _HAS_TXN, _HAS_DATA = range(4)


class Sheet:
    """Rows that are to be spelled: the operations, and the columns that they take values from.

    Args:
        data: what spans of bytes point into.
        present: int64 (rows,), a bit for each condition.
        numbers, sizes: int64 (columns, rows), where there are some already.
        fast: use compiled kernels.
    """

    def __init__(
        self,
        data: Bytes,
        present: Ints,
        numbers: Ints | None = None,
        sizes: Ints | None = None,
        *,
        fast: bool,
    ) -> None:
        none = np.empty((0, len(present)), np.int64)
        self.ops: list[Op] = []
        self._data, self._present, self._fast = data, present, fast
        self._numbers = [none if numbers is None else numbers]
        self._sizes = [none if sizes is None else sizes]
        self._texts: list[Bytes] = []

    def label(self, text: str) -> None:
        """The same text in every row."""
        self.ops.append(Op(text))

    def open(self) -> None:
        """The begin of an object, whose first field loses the comma in front."""
        self.ops.append(Op("{", Kind.OPEN))

    def numbers(self, label: str, values: Any, null: int = ALWAYS) -> None:
        """Whole numbers (rows,) behind a label; null where bit `null` is not set."""
        self.ops.append(Op(label, Kind.NUMBER, self._add(self._numbers, values), null=null))

    def lsns(self, label: str, values: Ints) -> None:
        """LSNs (rows,) behind a label."""
        self.ops.append(Op(label, Kind.LSN, self._add(self._numbers, values)))

    def decoded(self, label: str, kind: Kind, column: int, sized: int, when: int) -> None:
        """A column that was there from the beginning, left out where bit `when` is not set."""
        self.ops.append(Op(label, kind, column, max(sized, 0), when))

    def texts(self, label: str, starts: Ints, sizes: Ints, texts: Bytes) -> None:
        """Spans of some ASCII bytes, as they are; null where a size is below 0."""
        base = sum(map(len, self._texts))
        self._texts.append(texts)
        column = self._add(self._numbers, starts + base)
        self.ops.append(Op(label, Kind.TEXT, column, self._add(self._sizes, sizes)))

    def spans(
        self, label: str, starts: Ints, sizes: Ints, masking: Masking, when: int = ALWAYS
    ) -> None:
        """Spans of the data: hexadecimal, or what the masking puts in their place."""
        kind = Kind.HEX
        if masking.mode is not DataMode.SHOW:
            kind, base = Kind.TEXT, sum(map(len, self._texts))
            masked = masking.texts(self._data, starts, sizes)
            starts, sizes, texts = _in_a_row([None if m is None else f'"{m}"' for m in masked])
            self._texts.append(texts)
            starts = starts + base
        column, sized = self._add(self._numbers, starts), self._add(self._sizes, sizes)
        self.ops.append(Op(label, kind, column, sized, when))

    def spell(self) -> tuple[Ints, Bytes]:
        """All rows behind each other: where each begins and the last ends, and the bytes.

        Raises:
            TooLongError: they are longer than an output can be.
        """
        texts = self._texts[0] if len(self._texts) == 1 else _joined(self._texts)
        numbers, sizes = np.concatenate(self._numbers), np.concatenate(self._sizes)
        cells = Cells(self._data, texts, numbers, sizes, self._present)
        return spell(tuple(self.ops), cells, fast=self._fast)

    def _add(self, columns: list[Ints], values: Any) -> int:
        number = sum(map(len, columns))
        columns.append(np.asarray(values, np.int64)[None])
        return number


def json_lines(
    table: EntryTable, names: Mapping[int, str], masking: Masking, *, fast: bool
) -> Bytes:
    """The entries of a table as JSON lines, in their order; UTF-8 (in fact ASCII) bytes.

    Args:
        table: the entries.
        names: database names by id.
        masking: what becomes of keys and values.
        fast: use compiled kernels.

    Raises:
        TooLongError: they are longer than an output can be.
    """
    rows = table.rows
    present = rows.has_vlsn.astype(np.int64) << _HAS_VLSN
    present |= table.has_db.astype(np.int64) << _HAS_DB
    present |= table.has_txn.astype(np.int64) << _HAS_TXN
    present |= (table.data_size >= 0).astype(np.int64) << _HAS_DATA
    sheet = Sheet(rows.data, present, fast=fast)
    kinds, marks, choice = _kinds_and_marks(rows)
    sheet.numbers(f'{{"file_no":{rows.file_no},"offset":', rows.offset)
    sheet.lsns(',"lsn":', rows.lsn)
    _choose(sheet, ',"type":', choice, kinds)
    sheet.numbers(',"item_size":', rows.item_size)
    sheet.numbers(',"prev_offset":', rows.prev_offset)
    sheet.numbers(',"vlsn":', rows.vlsn, _HAS_VLSN)
    _choose(sheet, ',"provisional":', choice, marks)
    sheet.numbers(',"db_id":', table.db_id, _HAS_DB)
    _put_db_names(sheet, table, names)
    sheet.numbers(',"txn_id":', table.txn_id, _HAS_TXN)
    sheet.spans(',"key":', table.key_start, table.key_size, masking)
    sheet.numbers(',"data_size":', table.data_size, _HAS_DATA)
    sheet.spans(',"data":', table.data_start, table.data_size, masking)
    sheet.texts(',"entry":', *entry_objects(table, masking, fast=fast))
    sheet.label("}\n")
    return sheet.spell()[1]


def _kinds_and_marks(rows: Rows) -> tuple[list[str], list[str], Ints]:
    """What follows from type, flags and checksum, spelled once for each that occurs."""
    codes = rows.type.astype(np.int32) | rows.flags.astype(np.int32) << 8
    codes |= rows.checksum.astype(np.int32) << 16
    _, first, choice = np.unique(codes, return_index=True, return_inverse=True)
    like = rows.take(first)
    kinds, marks = [], []
    for i in range(len(first)):
        kinds.append(
            f'{json.dumps(type_name(int(like.type[i])))},"version":{rows.version},'
            f'"header_size":{like.header_size[i]}'
        )
        marks.append(
            f'"{PROVISIONAL_NAMES[like.provisional[i]]}",'
            f'"replicated":{json.dumps(bool(like.replicated[i]))},'
            f'"invisible":{json.dumps(bool(like.invisible[i]))},'
            f'"checksum":"{CHECKSUM_NAMES[like.checksum[i]]}"'
        )
    return kinds, marks, choice


def _put_db_names(sheet: Sheet, table: EntryTable, names: Mapping[int, str]) -> None:
    ids, choice = np.unique(table.db_id, return_inverse=True)
    known = [names.get(int(id_)) for id_ in ids]
    spelled = [None if name is None else json_string(name) for name in known]
    _choose(sheet, ',"db_name":', choice, spelled, table.has_db)


def _choose(
    sheet: Sheet, label: str, choice: Ints, texts: list[Any], valid: Mask | None = None
) -> None:
    """The text of each row's choice; null where it has none, or is not valid."""
    starts, sizes, joined = _in_a_row(texts)
    chosen = sizes[choice]
    sheet.texts(
        label, starts[choice], chosen if valid is None else np.where(valid, chosen, -1), joined
    )


def _in_a_row(texts: list[str | None]) -> tuple[Ints, Ints, Bytes]:
    """ASCII texts behind each other: starts, sizes (-1 for none), and the bytes."""
    sizes = np.array([-1 if text is None else len(text) for text in texts], np.int64)
    ends = np.cumsum(np.maximum(sizes, 0))
    joined = "".join(text for text in texts if text is not None).encode("ascii")
    return ends - np.maximum(sizes, 0), sizes, np.frombuffer(joined, np.uint8)


def _joined(texts: list[Bytes]) -> Bytes:
    return np.concatenate(texts) if texts else np.empty(0, np.uint8)


def entry_objects(table: EntryTable, masking: Masking, *, fast: bool) -> tuple[Ints, Ints, Bytes]:
    """The payload of each entry as a JSON object: starts, sizes (n,) int64, and ASCII bytes."""
    starts, sizes = np.zeros((2, len(table)), np.int64)
    pieces: list[Bytes] = []
    size = 0
    for part in table.parts:
        ends, spelled = family_json(part, masking, fast=fast)
        starts[part.index], sizes[part.index] = ends[:-1] + size, np.diff(ends)
        pieces.append(spelled)
        size += len(spelled)
    if table.singles:
        # An entry of a family that did not decode stands twice; the later counts, the single.
        singles = [single_json(s.fields, s.problem, masking) for s in table.singles.values()]
        index = np.fromiter(table.singles, np.int64, len(singles))
        single_starts, sizes[index], joined = _in_a_row(list(singles))
        starts[index] = single_starts + size
        pieces.append(joined)
    return starts, sizes, pieces[0] if len(pieces) == 1 else _joined(pieces)


def family_json(part: FamilyPart, masking: Masking, *, fast: bool) -> tuple[Ints, Bytes]:
    """The payloads of one family as JSON objects, absent fields left out: ends and bytes."""
    decoded = part.decoded
    sheet = _sheet_of(decoded.fields, fast)
    sheet.open()
    _put_fields(sheet, decoded.fields, ROW_FIELDS, masking)
    if decoded.slots is not None:
        ends, slots = _slots(part, masking, fast)
        first, behind = ends[decoded.slot_first[:-1]], ends[decoded.slot_first[1:]]
        # All but the comma in front of the first.
        filled = (behind > first).astype(np.int64)
        sheet.texts(',"slots":[', first + filled, behind - first - filled, slots)
        sheet.label("]")
    sheet.label("}")
    return sheet.spell()


def _sheet_of(columns: Columns, fast: bool) -> Sheet:
    return Sheet(columns.data, columns.present, columns.values, columns.sizes, fast=fast)


def _put_fields(sheet: Sheet, columns: Columns, without: frozenset[str], masking: Masking) -> None:
    """Fields of a JSON object, a comma in front of each; those that are absent are left out."""
    for column, name in enumerate(columns.program.names):
        if name in without or columns.is_empty(name):
            continue
        label, sized = f',"{name}":', columns.program.sized[column]
        if sized >= 0 and name in KEY_FIELDS and masking.mode is not DataMode.SHOW:
            sheet.spans(label, *columns.span(name), masking, when=column)
            continue
        kind = Kind.HEX if sized >= 0 else Kind.LSN if is_lsn(name) else Kind.NUMBER
        when = ALWAYS if columns.is_complete(name) else column
        sheet.decoded(label, kind, column, sized, when)


def _slots(part: FamilyPart, masking: Masking, fast: bool) -> tuple[Ints, Bytes]:
    """The slots of a family as JSON objects, a comma in front of each: ends and bytes."""
    slots = part.decoded.slots
    assert slots is not None
    sheet = _sheet_of(slots, fast)
    sheet.label(",")
    sheet.open()
    without: frozenset[str] = frozenset()
    if part.family is Family.NODE:
        without = _EMBEDDED_FIELDS
        key_start, key_size, data_start, data_size = split_embedded(slots, fast=fast)
        sheet.spans(',"key":', key_start, key_size, masking)
        sheet.spans(',"data":', data_start, data_size, masking, when=NOT_NULL)
    _put_fields(sheet, slots, without, masking)
    sheet.label("}")
    return sheet.spell()


def single_json(fields: Mapping[str, Any], problem: str | None, masking: Masking) -> str:
    """One payload that was decoded by itself, as a JSON object."""
    if problem is not None:
        return json.dumps({"undecodable": problem})
    return json.dumps(plain_fields(fields, masking), separators=(",", ":"))


def plain_fields(fields: Mapping[str, Any], masking: Masking) -> dict[str, Any]:
    """Decoded fields as JSON has them, without those that are columns of each row."""
    return {k: _plain(k, v, masking) for k, v in fields.items() if k not in ROW_FIELDS}


def json_string(text: str) -> str:
    """A JSON string, ASCII only; its text as `clean_text` gives it."""
    return json.dumps(clean_text(text))


def _plain(name: str, value: Any, masking: Masking) -> Any:
    """A decoded value as JSON has it: bytes in hexadecimal, LSNs spelled, text made valid."""
    if isinstance(value, int):
        return lsn_text(value) if is_lsn(name) else value
    if isinstance(value, dict):
        return {k: _plain(k, v, masking) for k, v in value.items()}
    if isinstance(value, list):
        # Obsolete offsets come by the thousand, and are what they are.
        numbers = not value or isinstance(value[0], int)
        return value if numbers else [_plain(name, item, masking) for item in value]
    if isinstance(value, bytes):
        return masking.text_of(value) if name in KEY_FIELDS else value.hex()
    return clean_text(value) if isinstance(value, str) else value
