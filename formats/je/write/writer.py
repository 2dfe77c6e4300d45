"""Encoding of entries at the end of a log, in files as the engine lays them out.

An entry names the one before it in its file, and has a checksum. An entry that would exceed the
maximum file size goes into a new file, whose header names the last entry of the file before. Bytes
are emitted in pieces, in log order; this module writes nothing to disk.

Source: LogManager.serialLogWork, FileManager.shouldFlipFile and advanceLsn, FileHeader, JE 7.5.11.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats import _native
from je_tools.formats.je import header as h
from je_tools.formats.je.entry.entries import Value, encode_item
from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.header import Header, with_header
from je_tools.formats.je.types import BY_NAME, FILE_HEADER_NO, LOG_VERSION_MAX, type_name

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.spans import Spans

WRITTEN_MIN, WRITTEN_MAX = 8, LOG_VERSION_MAX
"""Log versions of files that can be written to; before them, flags held versions of entries."""

PIECE_SIZE = 1 << 20
"""Number of bytes emitted at once; a longer entry is a piece of its own."""

Emit = Callable[[int, int, bytes], None]
"""Receiver of a piece: number of the file, offset in it, bytes."""

_MIN = h.MIN_HEADER_SIZE
_FILE_HEADER_SIZE = h.FILE_HEADER_SIZE
_SUM_MASK = 0xFF & ~HeaderFlag.INVISIBLE.value


class LogTail(Struct, frozen=True):
    """End of a log.

    Attributes:
        file_no: number of its last file.
        next_offset: offset of the next entry in this file.
        last_offset: offset of the last entry of this file; 0 if that is its header.
        version: log version of this file and of new ones.
    """

    file_no: int
    next_offset: int
    last_offset: int
    version: int


class Appender:
    """Encoder of entries that are appended to a log.

    Attributes:
        tail: end of the log, after all appended entries.
        counts: number of appended entries and their bytes, by name of the entry type.
        written: half-open byte range that was appended, by file number.
        file_nos: numbers of the files that were begun.
    """

    def __init__(self, tail: LogTail, *, file_max: int, created_ms: int, emit: Emit) -> None:
        """Begin at a tail.

        Args:
            tail: end of a log whose last file has its header.
            file_max: maximum size of a file; a longer entry gets a file of its own.
            created_ms: creation time in the headers of new files.
            emit: receiver of the bytes, in log order; a piece never spans two files.

        Raises:
            ValueError: files of this log version cannot be written.
        """
        if not WRITTEN_MIN <= tail.version <= WRITTEN_MAX:
            raise ValueError(f"files of log version {tail.version} are not written")
        self.tail = tail
        self.counts: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        self.written: dict[int, tuple[int, int]] = {}
        self.file_nos: list[int] = []
        self._file_max = file_max
        self._created_ms = created_ms
        self._emit = emit
        self._piece: npt.NDArray[np.uint8] = np.empty(PIECE_SIZE, np.uint8)
        self._used = 0

    def append(
        self,
        name: str,
        fields: Mapping[str, Value],
        *,
        flags: int = 0,
        vlsn: int | None = None,
    ) -> int:
        """Append one entry, given its fields by name; return its LSN.

        Args:
            name: name of the entry type.
            fields: fields, as `decode_entry` returns them.
            flags: flags of the header.
            vlsn: VLSN of the header, if the flags announce one.

        Raises:
            ValueError: there is a VLSN that no flag announces, or the reverse.
        """
        if bool(flags & h.vlsn_mask(self.tail.version)) != (vlsn is not None):
            raise ValueError(f"flags {flags:#x} and VLSN {vlsn} do not agree")
        type_no = BY_NAME[name].no
        item = encode_item(type_no, self.tail.version, fields)
        return self._append_item(type_no, item, flags, vlsn)

    def append_items(self, type_no: int, items: Spans, *, flags: int | Ints) -> Ints:
        """Append many entries of one type, without VLSNs; return their LSNs, int64 (n,).

        Args:
            type_no: type number of all entries.
            items: bytes after the header of each entry.
            flags: flags of all entries, or int64 (n,).

        Raises:
            ValueError: a flag announces a VLSN.
        """
        n = len(items)
        of_rows = np.broadcast_to(np.asarray(flags, np.int64), (n,))
        if (of_rows & h.vlsn_mask(self.tail.version)).any():
            raise ValueError("entries with VLSNs are appended one by one")
        return self._append_rows(type_no, items, np.ascontiguousarray(of_rows))

    def _append_rows(self, type_no: int, items: Spans, flags: Ints) -> Ints:
        n, row = len(items), 0
        lsns = np.empty(n, np.int64)
        while row < n:
            tail, begin = self.tail, row
            row, next_offset, last_offset, self._used = _native.append_rows(
                items,
                row=row,
                flags=flags,
                type_no=type_no,
                tail=tail,
                file_max=self._file_max,
                summed_flags=_SUM_MASK,
                used=self._used,
                piece=self._piece,
                lsns=lsns,
            )
            if row > begin:
                self._advance(type_no, row - begin, next_offset, last_offset)
            if row < n:
                # The entry that did not fit flushes the piece, or begins a file.
                lsns[row] = self._append_item(type_no, items[row] or b"", int(flags[row]), None)
                row += 1
        return lsns

    def _append_item(self, type_no: int, item: bytes, flags: int, vlsn: int | None) -> int:
        size = len(item) + (_MIN if vlsn is None else h.MAX_HEADER_SIZE)
        offset = self.tail.next_offset
        # Unlike the engine, never leave a file that has only a header.
        if offset + size > self._file_max and offset > _FILE_HEADER_SIZE:
            self.flip()
        return self._put(type_no, item, flags, vlsn)

    def flip(self) -> None:
        """Begin a new file."""
        self.flush()
        before = self.tail
        file_no = before.file_no + 1
        self.tail = LogTail(file_no, 0, 0, before.version)
        self.file_nos.append(file_no)
        fields = {
            "created_ms": self._created_ms,
            "header_file_no": file_no,
            "last_entry_in_prev_file_offset": before.last_offset,
            "log_version": before.version,
        }
        item = encode_item(FILE_HEADER_NO, before.version, fields)
        self._put(FILE_HEADER_NO, item, 0, None)

    def flush(self) -> None:
        """Emit the bytes that are still buffered."""
        if self._used:
            start = self.tail.next_offset - self._used
            self._emit(self.tail.file_no, start, self._piece[: self._used].tobytes())
            self._used = 0

    def _put(self, type_no: int, item: bytes, flags: int, vlsn: int | None) -> int:
        """Append to the current file."""
        tail = self.tail
        entry = with_header(
            Header(0, type_no, flags, tail.last_offset, 0, vlsn), tail.version, item
        )
        if self._used + len(entry) > PIECE_SIZE:
            self.flush()
        if len(entry) > PIECE_SIZE:
            self._emit(tail.file_no, tail.next_offset, entry)
        else:
            self._piece[self._used : self._used + len(entry)] = np.frombuffer(entry, np.uint8)
            self._used += len(entry)
        self._advance(type_no, 1, tail.next_offset + len(entry), tail.next_offset)
        return h.lsn_of(tail.file_no, tail.next_offset)

    def _advance(self, type_no: int, count: int, next_offset: int, last_offset: int) -> None:
        """Record entries that were appended to the current file."""
        before = self.tail
        self.tail = replace(before, next_offset=next_offset, last_offset=last_offset)
        start, _ = self.written.get(before.file_no, (before.next_offset, 0))
        self.written[before.file_no] = start, next_offset
        entries, size = self.counts[type_name(type_no)]
        added = next_offset - before.next_offset
        self.counts[type_name(type_no)] = entries + count, size + added
