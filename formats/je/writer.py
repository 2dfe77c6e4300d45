"""The end of a log that grows: entries in files, as the engine puts them there.

An entry names the one before it in its file, and has a checksum. Where it would lead beyond the
size that files may have, a new file begins with a header, which names the last entry of the file
before. Bytes are handed on in pieces, in the order of the log; nothing is written here.

Source: LogManager.serialLogWork, FileManager.shouldFlipFile and advanceLsn, FileHeader, JE 7.5.11.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats import _native
from je_tools.formats.arrays import Ints
from je_tools.formats.je import header as h
from je_tools.formats.je.entries import Header, Value, encode_item, with_header
from je_tools.formats.je.types import BY_NAME, FILE_HEADER_NO, LOG_VERSION_MAX, type_name
from je_tools.formats.spans import Spans

WRITTEN_MIN, WRITTEN_MAX = 8, LOG_VERSION_MAX
"""Log versions of files that can be written to; before, flags held versions of entries."""

PIECE_SIZE = 1 << 20
"""Bytes that are handed on at once; an entry that is longer is a piece of its own."""

Emit = Callable[[int, int, bytes], None]
"""Takes a piece: number of the file, offset in it, bytes."""

_MIN = h.MIN_HEADER_SIZE
_FILE_HEADER_SIZE = h.FILE_HEADER_SIZE
_SUM_MASK = 0xFF & ~h.INVISIBLE


class Tail(Struct, frozen=True):
    """Where a log ends.

    Attributes:
        file_no: of its last file.
        next_offset: where in it the next entry comes.
        last_offset: of the last entry of this file; 0 where that is its header.
        version: log version of the file, and of those that follow it.
    """

    file_no: int
    next_offset: int
    last_offset: int
    version: int


class Appender:
    """Entries behind the end of a log.

    Attributes:
        tail: where the log ends now, with all that was appended.
        counts: by the name of an entry type, how many entries were appended and their bytes.
        written: by the number of a file, from where to where bytes of it were appended.
        file_nos: files that were begun.
    """

    def __init__(self, tail: Tail, *, file_max: int, created_ms: int, emit: Emit) -> None:
        """Begin at a tail.

        Args:
            tail: of a log whose last file has its header.
            file_max: bytes of a file; an entry that has more gets a file of its own.
            created_ms: when new files say that they were made.
            emit: takes the bytes, in the order of the log; a piece is never of two files.

        Raises:
            ValueError: the log version is not written.
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
        """Append one entry, of its fields by name: its LSN.

        Args:
            name: the entry type's.
            fields: as `decode_entry` gives them.
            flags: of the header.
            vlsn: stored in the header, where the flags say so.

        Raises:
            ValueError: there is a VLSN and no flag says so, or the reverse.
        """
        if bool(flags & h.vlsn_mask(self.tail.version)) != (vlsn is not None):
            raise ValueError(f"flags {flags:#x} and VLSN {vlsn} do not agree")
        type_no = BY_NAME[name].no
        item = encode_item(type_no, self.tail.version, fields)
        return self._append_item(type_no, item, flags, vlsn)

    def append_items(self, type_no: int, items: Spans, *, flags: int | Ints) -> Ints:
        """Append many entries of one type, without VLSNs: int64 (n,), their LSNs.

        Args:
            type_no: of all.
            items: what comes behind the header of each.
            flags: of all, or int64 (n,).

        Raises:
            ValueError: a flag says that there is a VLSN.
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
                # What did not fit makes room for itself.
                lsns[row] = self._append_item(type_no, items[row] or b"", int(flags[row]), None)
                row += 1
        return lsns

    def _append_item(self, type_no: int, item: bytes, flags: int, vlsn: int | None) -> int:
        size = len(item) + (_MIN if vlsn is None else h.MAX_HEADER_SIZE)
        offset = self.tail.next_offset
        # Unlike the engine's, a file that has only a header is not left for another.
        if offset + size > self._file_max and offset > _FILE_HEADER_SIZE:
            self.flip()
        return self._put(type_no, item, flags, vlsn)

    def flip(self) -> None:
        """Begin another file."""
        self.flush()
        before = self.tail
        file_no = before.file_no + 1
        self.tail = Tail(file_no, 0, 0, before.version)
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
        """Hand on what has not been."""
        if self._used:
            start = self.tail.next_offset - self._used
            self._emit(self.tail.file_no, start, self._piece[: self._used].tobytes())
            self._used = 0

    def _put(self, type_no: int, item: bytes, flags: int, vlsn: int | None) -> int:
        """Append to the file that there is."""
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
        """Note what was appended to the last file."""
        before = self.tail
        self.tail = replace(before, next_offset=next_offset, last_offset=last_offset)
        start, _ = self.written.get(before.file_no, (before.next_offset, 0))
        self.written[before.file_no] = start, next_offset
        entries, size = self.counts[type_name(type_no)]
        added = next_offset - before.next_offset
        self.counts[type_name(type_no)] = entries + count, size + added
