"""Field values of an entry as text for people: LSNs, times, bits and keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.core.escaping import is_lsn, printable
from je_tools.formats.je.btree.keys import slot_parts
from je_tools.formats.je.flags import ID_DB_LEVELS, LEVEL_MASK, HeaderFlag, NodeFlag, SlotState
from je_tools.formats.je.header import NULL_LSN, invisible_mask, lsn_of, lsn_text
from je_tools.formats.je.layout import COMPACT_NULL_OFFSET
from je_tools.formats.je.tuples import TupleError, TupleReader
from je_tools.formats.je.types import ERASED_NO, RELEASES, Family, type_name
from je_tools.log.field_descriptions import NAME_OPERATIONS, bits_of, bits_text

if TYPE_CHECKING:
    from je_tools.formats.je.entry.entries import Value
    from je_tools.formats.je.header import Header

TEXT_LIMIT = 120
"""Largest number of characters of a text that are shown; the bytes hold the rest."""

_LIST_LIMIT = 12
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INDEX = re.compile(r"\[\d+\]")
_SEQUENCE_TOP = 0x7FFFFFFF


def last_name(path: str) -> str:
    """Return the field's own name in a path: `key` for `slots[2].key`."""
    return _INDEX.sub("", path.rpartition(".")[2])


def header_texts(
    header: Header, version: int, file_no: int, *, computed: int, whole: bool
) -> dict[str, str]:
    """Return the header's fields as text for people, by name.

    Args:
        header: the header.
        version: log version of the file.
        file_no: number of the file.
        computed: checksum of the entry's bytes.
        whole: True if all of these bytes are present.
    """
    stored = f"0x{header.checksum:08x}"
    if header.type_no == ERASED_NO:
        checksum = f"{stored}, of the entry before it was erased"
    elif not whole:
        checksum = f"{stored}; bytes that it covers are missing"
    elif computed == header.checksum:
        checksum = f"{stored}, right"
    else:
        checksum = f"{stored}, wrong: these bytes give 0x{computed:08x}"
    previous = lsn_text(lsn_of(file_no, header.prev_offset))
    return {
        "checksum": checksum,
        "type": f"{header.type_no} {type_name(header.type_no)}",
        "flags": _header_flags(header.flags, version),
        "prev_offset": previous if header.prev_offset else f"{previous}, the file header",
        "item_size": f"{header.item_size} bytes",
        "vlsn": str(header.vlsn),
    }


def _header_flags(flags: int, version: int) -> str:
    bits = HeaderFlag.texts()
    if version < 8:
        del bits[HeaderFlag.VLSN_PRESENT]
    if not invisible_mask(version):
        # The low bits are the entry's own version, which later releases dropped.
        own = f"entry version {flags & 0x1F}"
        high = {bit: name for bit, name in bits.items() if bit > 0x1F}
        names = bits_text(flags & 0xE0, high)
        return own if names == "none" else f"{names}, {own}"
    return bits_text(flags, bits)


class FieldContext(Struct, frozen=True):
    """An entry, on whose other fields the text of a field may depend.

    Attributes:
        type_no, family: type of the entry; no family for an unknown type number.
        version: log version of the file.
        values: all decoded fields by path.
    """

    type_no: int
    family: Family | None
    version: int
    values: Mapping[str, Value]

    def text_of(self, path: str, value: Value) -> str:
        """Return the value of a field on one line, without control characters."""
        name = last_name(path)
        own = _OWN.get((type_name(self.type_no), path))
        if own and isinstance(value, bytes):
            text = own(value)
            if text is not None:
                return text
        special = _BY_NAME.get(name)
        if special is not None:
            return special(self, path, value)
        return self._plain(name, value)

    def _plain(self, name: str, value: Value) -> str:
        bits = bits_of(self.family, name)
        if value is None:
            return "null"
        if isinstance(value, bytes):
            return bytes_text(value)
        if isinstance(value, str):
            return text_in_quotes(value)
        if isinstance(value, list):
            return list_text(value)
        if bits is not None:
            return bits_text(value, bits)
        if is_lsn(name):
            return null_or_lsn(value)
        if name.endswith("_ms"):
            return "none" if value in (0, -1) else time_text(value)
        if name.endswith("_size"):
            return f"{value} bytes"
        return str(value)

    def sibling(self, path: str, name: str) -> Value:
        """Return the field `name` of the same slot, else of the node; None if absent."""
        scope, dot, _ = path.rpartition(".")
        return self.values.get(f"{scope}{dot}{name}", self.values.get(name))


def bytes_text(value: bytes) -> str:
    """Return bytes as quoted text if printable, else their number and a long if they may be one."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text and text.isprintable():
        return text_in_quotes(text)
    count = f"{len(value)} byte{'' if len(value) == 1 else 's'}"
    if len(value) == 8 and value[0] in (0x7F, 0x80):
        return f"{count}, as long:{TupleReader(value).i64()}"
    return count if value else "empty"


def text_in_quotes(text: str) -> str:
    """Return text in quotes, cut to TEXT_LIMIT, with unprintable characters escaped."""
    cut = len(text) > TEXT_LIMIT
    return f'"{printable(text[:TEXT_LIMIT])}"' + (f"... ({len(text)} characters)" if cut else "")


def list_text(values: list[int]) -> str:
    """Return the first numbers of a list, and the length of a long one."""
    shown = ", ".join(map(str, values[:_LIST_LIMIT]))
    more = "" if len(values) <= _LIST_LIMIT else f", ... ({len(values)} in all)"
    return shown + more if values else "none"


def null_or_lsn(lsn: int) -> str:
    """Return an LSN as 0x…/0x…, or NULL."""
    return "NULL" if lsn == NULL_LSN else lsn_text(lsn)


def time_text(ms: int) -> str:
    """Return a time in UTC with milliseconds, or the number of ms if it is out of range."""
    try:
        time = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms, out of range"
    return time.strftime("%Y-%m-%d %H:%M:%S.") + f"{time.microsecond // 1000:03d} UTC"


def expiration_text(units: int, *, hours: bool) -> str:
    """Return an expiration, in days or hours since 1970, as a time in UTC."""
    if units == 0:
        return "none"
    try:
        time = _EPOCH + timedelta(hours=units if hours else 24 * units)
    except OverflowError:
        return f"{units} {'hours' if hours else 'days'}, out of range"
    return time.strftime("%Y-%m-%d %H:00 UTC" if hours else "%Y-%m-%d UTC")


def _expiration(_: FieldContext, __: str, value: Value) -> str:
    return expiration_text(abs(value), hours=value < 0)


def _in_hours(context: FieldContext) -> bool:
    return bool((context.values.get("booleans") or 0) & NodeFlag.IN_HOURS)


def _expiration_base(context: FieldContext, _: str, value: Value) -> str:
    return "none" if value == -1 else expiration_text(value, hours=_in_hours(context))


def _expiration_offset(context: FieldContext, _: str, value: Value) -> str:
    base = context.values.get("expiration_base")
    if not value or base is None:
        return "none" if not value else str(value)
    return f"{value}: {expiration_text(base + value - 1, hours=_in_hours(context))}"


def _time_offset(base_name: str) -> Callable[[FieldContext, str, Value], str]:
    def text(context: FieldContext, _: str, value: Value) -> str:
        base = context.values.get(base_name)
        if not value or base is None:
            return "none" if not value else str(value)
        return f"{value}: {time_text(base + value - 1)}"

    return text


def _compact_lsn(context: FieldContext, _: str, value: Value) -> str:
    difference, offset = value
    if offset == COMPACT_NULL_OFFSET:
        return "NULL"
    return lsn_text(lsn_of((context.values.get("base_file_no") or 0) + difference, offset))


def _key(context: FieldContext, path: str, value: Value) -> str:
    state = context.sibling(path, "state")
    if value is None or not path.startswith("slots") or not (state or 0) & SlotState.EMBEDDED:
        return "null" if value is None else bytes_text(value)
    key, data = slot_parts({"key": value, "state": state})
    if data is None:
        return bytes_text(key)
    return f"key {bytes_text(key)}, data {bytes_text(data)}"


def _level(_: FieldContext, __: str, value: Value) -> str:
    tree = ", id database" if value & ID_DB_LEVELS else ""
    return f"0x{value:x}: level {value & LEVEL_MASK}{tree}"


def _log_version(_: FieldContext, __: str, value: Value) -> str:
    return f"{value} (JE {RELEASES[value]})" if value in RELEASES else str(value)


def _master_term(_: FieldContext, __: str, value: Value) -> str:
    return f"{value}: {time_text(value)}" if value else "0"


_BY_NAME: dict[str, Callable[[FieldContext, str, Value], str]] = {
    "expiration": _expiration,
    "abort_expiration": _expiration,
    "before_image_expiration": _expiration,
    "expiration_base": _expiration_base,
    "expiration_offset": _expiration_offset,
    "created_offset": _time_offset("created_base_ms"),
    "modified_offset": _time_offset("modified_base_ms"),
    "compact_lsn": _compact_lsn,
    "key": _key,
    "level": _level,
    "log_version": _log_version,
    "created_at_log_version": _log_version,
    "initial_log_version": _log_version,
    "operation": lambda _, __, value: f"{value} {NAME_OPERATIONS.get(value, '')}".strip(),
    "mark": lambda _, __, value: f"0x{value:02x}",
    "master_term": _master_term,
}
"""Formatters of fields with a form of their own, by the field's own name."""


def _file_summary_key(key: bytes) -> str | None:
    """Return file and sequence of a FileSummaryLN key; None for decimal text, as before v5.

    Source: FileSummaryLN.makeFullKey, JE 7.5.11.
    """
    if len(key) != 8:
        return None
    sequence = _SEQUENCE_TOP - int.from_bytes(key[4:])
    return f"file {int.from_bytes(key[:4]):08x}, sequence {sequence}"


def _reserved_key(key: bytes) -> str | None:
    return f"file {TupleReader(key).i64():08x}" if len(key) == 8 else None


def _reserved_data(data: bytes) -> str | None:
    reader = TupleReader(data)
    try:
        reader.byte()
        first, last, count = reader.packed(), reader.packed(), reader.packed()
        ids = [reader.packed() for _ in range(min(count, len(data)))]
    except TupleError:
        return None
    vlsns = "no VLSNs" if last < 0 else f"VLSN {first} to {last}"
    return f"{vlsns}; databases {list_text(ids)}" if ids else vlsns


def _scan_key(key: bytes) -> str | None:
    try:
        return f"scan {TupleReader(key).sorted_packed()}"
    except TupleError:
        return None


_OWN: dict[tuple[str, str], Callable[[bytes], str | None]] = {
    ("FileSummaryLN", "key"): _file_summary_key,
    ("ReservedFileLN", "key"): _reserved_key,
    ("ReservedFileLN", "data"): _reserved_data,
    ("ExtinctScanLN", "key"): _scan_key,
    ("ExtinctScanLN_TX", "key"): _scan_key,
}
"""Formatters for keys and data of internal database records, by type and field path."""
