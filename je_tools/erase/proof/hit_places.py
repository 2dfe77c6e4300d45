"""Places of hits: the kind of file, or the field of an entry, in which a hit begins."""

from __future__ import annotations

from collections.abc import Set
from enum import StrEnum
from typing import TYPE_CHECKING

from je_tools.formats.files.open_source import open_source
from je_tools.formats.files.source import SourceError
from je_tools.formats.je.btree.keys import NotTwoPartError, slot_parts, split_two_part
from je_tools.formats.je.entry.entries import Span, decode_spans
from je_tools.formats.je.header import MAX_HEADER_SIZE, EntryError, Header, read_header
from je_tools.formats.je.log.walk import NO_OFFSET
from je_tools.formats.je.types import ENTRY_TYPES, ERASED_NO, Family

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from je_tools.formats.files.source import Source
    from je_tools.log.log_files import LogFile

BEFORE_IMAGES_ID = -1
_ENTRY_MAX = 64 << 20


class Where(StrEnum):
    """Kind of the place in which a hit begins."""

    KEY = "key"
    """The key of a record's entry."""
    TWO_PART_KEY = "two-part key"
    """The key of a record in a database with duplicates: key and data."""
    DATA = "data"
    BEFORE_IMAGE = "before-image"
    ABORT_KEY = "abort key"
    ABORT_DATA = "abort data"
    SLOT_KEY = "slot key"
    """The key of a slot of a B-tree node, or the part of it that its slot has."""
    PREFIXED_KEY = "prefixed key"
    """A key that begins with its node's prefix, so that no search of the bytes finds it."""
    KEY_PREFIX = "key prefix"
    IDENTIFIER_KEY = "identifier key"
    EMBEDDED = "embedded data"
    ROOT_KEY = "root key"
    DATABASE_NAME = "database name"
    TRACE = "trace text"
    ERASED = "erased item"
    """An entry of type 43 that still has bytes."""
    FIELD = "other field"
    RAW = "raw bytes"
    """Bytes of an entry that belong to no field, or to more than one."""
    NO_ENTRY = "no entry"
    """Bytes of a log file that belong to no readable entry."""
    JOURNAL = "undo journal"
    OTHER_FILE = "other file"
    FILE_NAME = "file name"


_FIELDS = {
    "data": Where.DATA,
    "abort_key": Where.ABORT_KEY,
    "abort_data": Where.ABORT_DATA,
    "data_as_key": Where.TWO_PART_KEY,
    "identifier_key": Where.IDENTIFIER_KEY,
    "key_prefix": Where.KEY_PREFIX,
    "dup_key": Where.SLOT_KEY,
    "main_key": Where.SLOT_KEY,
    "dup_count_key": Where.SLOT_KEY,
    "message": Where.TRACE,
    "root_key": Where.ROOT_KEY,
    "name": Where.DATABASE_NAME,
}


class EntryFields:
    """A reader of the fields of entries of one log file, which keeps those of the last entry.

    Args:
        log: the file.
        duplicates: databases with duplicates.
    """

    def __init__(self, log: LogFile, duplicates: Set[int]) -> None:
        self._log = log
        self._duplicates = duplicates
        self._source: Source | None = None
        self._offset = NO_OFFSET
        self._spans: Sequence[Span] = ()

    def place(self, entry_offset: int, type_no: int, start: int, stop: int) -> Where:
        """Return the kind of place of the bytes [start, stop) of the file.

        Args:
            entry_offset: offset of the entry in which they begin.
            type_no: its type.
            start, stop: offsets in the file.
        """
        if entry_offset == NO_OFFSET:
            return Where.NO_ENTRY
        if type_no == ERASED_NO:
            return Where.ERASED
        self.load(entry_offset)
        first, last = start - entry_offset, stop - entry_offset
        for span in self._spans:
            if span.start <= first and last <= span.stop:
                return self._of_span(span, type_no, first)
        return Where.RAW

    def load(self, entry_offset: int) -> None:
        """Read the entry at an offset, unless it was the last one read."""
        if entry_offset != self._offset:
            self._offset, self._spans = entry_offset, self._read(entry_offset)

    def value_of(self, name: str) -> Any:
        """Return the value of a field of the last entry; None if it has none."""
        return next((span.value for span in self._spans if span.path == name), None)

    def slot_at(self, offset: int) -> Mapping[str, Any] | None:
        """Return `key` and `state` of the slot of the last entry whose key is at an offset.

        The key is as the slot has it: without the prefix of its node, and with embedded data.
        """
        at = offset - self._offset
        for span in self._spans:
            if span.start <= at < span.stop and span.path.startswith("slots["):
                path = span.path.rpartition(".")[0]
                state = self.value_of(f"{path}.state")
                return {"key": self.value_of(f"{path}.key"), "state": state or 0}
        return None

    def type_no_at(self, entry_offset: int) -> int:
        """Return the type of the entry at an offset; 0 if it cannot be read any more."""
        try:
            return self._header(entry_offset).type_no
        except (SourceError, EntryError):
            return 0

    def close(self) -> None:
        """Close the file."""
        if self._source is not None:
            self._source.close()

    def _read(self, offset: int) -> Sequence[Span]:
        """Return the fields of an entry, as far as it decodes."""
        try:
            header = self._header(offset)
            size = header.size + max(header.item_size, 0)
            if size > _ENTRY_MAX:
                return ()
            data = self._opened().read_bytes(offset, offset + size)
            return decode_spans(data, self._log.version)[0]
        except (SourceError, EntryError):
            return ()

    def _header(self, offset: int) -> Header:
        data = self._opened().read_bytes(offset, offset + MAX_HEADER_SIZE)
        return read_header(data, self._log.version)

    def _opened(self) -> Source:
        if self._source is None:
            self._source = open_source(self._log.path)
        return self._source

    def _of_span(self, span: Span, type_no: int, first: int) -> Where:
        family = ENTRY_TYPES[type_no].family if type_no in ENTRY_TYPES else Family.ERASED
        name = span.path.rpartition(".")[2]
        if span.path.startswith("slots["):
            return self._of_slot(span, first) if name == "key" else Where.FIELD
        if name == "key":
            return self._of_key(family, span)
        if name == "data" and self.value_of("db_id") == BEFORE_IMAGES_ID:
            return Where.BEFORE_IMAGE
        return _FIELDS.get(name, Where.FIELD)

    def _of_key(self, family: Family, span: Span) -> Where:
        if family is Family.NAME_LN:
            return Where.DATABASE_NAME
        is_two_part = self.value_of("db_id") in self._duplicates and _is_two_part(span.value)
        return Where.TWO_PART_KEY if is_two_part else Where.KEY

    def _of_slot(self, span: Span, first: int) -> Where:
        """Return the kind of place of a byte in the key of a slot."""
        path = span.path.removesuffix(".key")
        state = self.value_of(f"{path}.state")
        slot: Mapping[str, Any] = {"key": span.value, "state": state or 0}
        key, data = slot_parts(slot)
        key_start = span.stop - len(span.value or b"")
        return (
            Where.EMBEDDED if data is not None and first >= key_start + len(key) else Where.SLOT_KEY
        )


def _is_two_part(key: bytes | None) -> bool:
    try:
        return key is not None and split_two_part(key)[1] is not None
    except NotTwoPartError:
        return False
