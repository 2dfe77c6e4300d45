"""Compacted segments: a ZIP with one segment of logical records, unpacked into a nameless file.

The engine reads a ZIP from its start, and uses the header before the entry. It does not read the
directory at the end of the file, from which other programs learn where the entry is. So damage in
the directory changes nothing for a node.

Source: UnzipFileIO, FileWriteAheadLogManager.FileCompressor, Ignite 2.18.0, ZipInputStream of
OpenJDK 17.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.files.source import Source
from je_tools.formats.ignite.segments import SEGMENT_SIZE_MAX

if TYPE_CHECKING:
    from je_tools.formats.files.source import Bytes

MEMORY_MAX = 16 << 20
"""Bytes of an unpacked segment that stay in memory; a longer one goes to a temporary file."""

_PIECE = 1 << 20
_PACKED_PIECE = 64 << 10
_ZEROS = bytes(_PIECE)

_DIRECTORY_MAX = 64 << 10
"""Largest number of bytes after the entry that may be the directory of one entry."""

_HEADER = struct.Struct("<4sHHHIIIIHH")
"""Header of an entry: signature, version, flags, method, time, checksum, two sizes, two lengths."""

_DESCRIPTOR = struct.Struct("<III")
"""Checksum and sizes after an entry that does not have them in its header."""

_ENTRY_SIGNATURE, _DESCRIPTOR_SIGNATURE = b"PK\3\4", b"PK\7\x08"
_ENCRYPTED, _DESCRIBED = 1, 8
"""Flags."""

_DAMAGE = (zipfile.BadZipFile, zlib.error, RuntimeError, ValueError, EOFError, struct.error)
"""Errors of `zipfile` on damaged bytes.

A flag for encryption gives RuntimeError, a version NotImplementedError, a name UnicodeDecodeError.
"""


class _EntryError(Exception):
    """An entry that cannot be unpacked to its end; the text says why."""


class Unpacked:
    """The bytes of a compacted segment.

    Attributes:
        size: bytes that could be unpacked.
        problem: why the rest could not be; None if everything was.
        directory_problem: what is wrong with the directory of the file; None if nothing is, and
            after a problem.
    """

    def __init__(self, path: Path) -> None:
        """Unpack a file; damage ends the bytes, and is not an error.

        Raises:
            SourceChangedError: the file shrank, vanished or was replaced while it was read.
            SourceError: it cannot be read.
            OSError: there is no room for the temporary file.
        """
        self.size = 0
        self.problem: str | None = None
        self.directory_problem: str | None = None
        self._file = SpooledTemporaryFile(MEMORY_MAX)  # noqa: SIM115 (closed by `close`)
        with Source(path) as source:
            entry = _Entry(source)
            try:
                for piece in entry.pieces(_PIECE):
                    self._add(piece)
                self.directory_problem = _directory_problem(path, source.size - entry.end)
            except _EntryError as error:
                self.problem = str(error)
            source.check_unchanged()
        if self.size:
            # The end may be zeros, which were not written.
            last = self.read(self.size - 1, self.size).tobytes() or b"\0"
            self._file.seek(self.size - 1)
            self._file.write(last)

    def _add(self, piece: bytes) -> None:
        """Add bytes; zeros become a hole, so that a file of nothing else costs no disk.

        Raises:
            _EntryError: a segment cannot have that many.
        """
        if self.size + len(piece) > SEGMENT_SIZE_MAX:
            self.size = SEGMENT_SIZE_MAX
            raise _EntryError("it unpacks to more bytes than a segment can have")
        if self.size + len(piece) > MEMORY_MAX:
            self._file.rollover()
        if not _ZEROS.startswith(piece):
            self._file.seek(self.size)
            self._file.write(piece)
        self.size += len(piece)

    def read(self, start: int, stop: int) -> Bytes:
        """Return bytes [start, stop), cut at the end."""
        self._file.seek(start)
        return np.frombuffer(self._file.read(max(min(stop, self.size) - start, 0)), np.uint8)

    def close(self) -> None:
        """Release the bytes."""
        self._file.close()


def unpacked_start(path: Path, size: int) -> tuple[bytes, str | None]:
    """Return the first bytes of a compacted segment, and the reason if there are none, else None.

    Raises:
        SourceError: it cannot be read.
    """
    start = b""
    with Source(path) as source:
        try:
            for piece in _Entry(source).pieces(size):
                start += piece
                if len(start) >= size:
                    break
        except _EntryError as error:
            return start, None if start else str(error)
    return start[:size], None


def _directory_problem(path: Path, size: int) -> str | None:
    """Return what is wrong with the directory of a ZIP, the `size` bytes after its entry."""
    if size > _DIRECTORY_MAX:
        return f"{size:,} bytes follow the entry"
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) != 1:
                return f"it has {len(members)} entries; expected one"
            with archive.open(members[0]):
                return None
    except _DAMAGE as error:
        return str(error) or type(error).__name__
    except OSError:
        # A damaged offset makes `zipfile` seek to a place before the file.
        return "an offset in it is wrong"


class _Entry:
    """The first entry of a ZIP.

    Attributes:
        end: offset after the entry, once all of its pieces have been read.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.end = 0

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the bytes of the entry in pieces of at most `size`.

        Raises:
            _EntryError: the engine cannot unpack it to its end, or there is another one.
        """
        method, is_described, facts = self._read_header()
        start, crc, count = self.end, 0, 0
        unpack = self._stored if method == zipfile.ZIP_STORED else self._inflated
        for piece in unpack(facts[1], size):
            crc, count = zlib.crc32(piece, crc), count + len(piece)
            yield piece
        found = (crc, self.end - start, count)
        if found != (self._read_descriptor() if is_described else facts):
            raise _EntryError("the checksum or the size of its entry is wrong")
        if self._source.read_bytes(self.end, self.end + 4) == _ENTRY_SIGNATURE:
            raise _EntryError("it has more than one entry")

    def _read_header(self) -> tuple[int, bool, tuple[int, int, int]]:
        """Return the method, whether checksum and sizes follow the entry, and what these are."""
        head = self._source.read_bytes(0, _HEADER.size)
        if len(head) < _HEADER.size or head[:4] != _ENTRY_SIGNATURE:
            raise _EntryError("it does not begin with an entry of a ZIP")
        _, _, flags, method, _, crc, packed, unpacked, name_size, extra_size = _HEADER.unpack(head)
        if flags & _ENCRYPTED:
            raise _EntryError("its entry is encrypted")
        is_described = bool(flags & _DESCRIBED)
        if method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or (
            method == zipfile.ZIP_STORED and is_described
        ):
            raise _EntryError(f"unknown compression method {method}, with flags {flags}")
        self.end = _HEADER.size + name_size + extra_size
        try:
            self._source.read_bytes(_HEADER.size, _HEADER.size + name_size).decode("utf-8")
        except UnicodeDecodeError as error:
            raise _EntryError("the name of its entry is no text in UTF-8") from error
        return method, is_described, (crc, packed, unpacked)

    def _stored(self, packed_size: int, size: int) -> Iterator[bytes]:
        stop = self.end + packed_size
        while self.end < stop:
            piece = self._source.read_bytes(self.end, min(self.end + size, stop))
            if not piece:
                raise _EntryError("the file ends inside its entry")
            self.end += len(piece)
            yield piece

    def _inflated(self, _: int, size: int) -> Iterator[bytes]:
        stream, packed = zlib.decompressobj(-zlib.MAX_WBITS), b""
        while not stream.eof:
            if not packed:
                packed = self._source.read_bytes(self.end, self.end + _PACKED_PIECE)
                self.end += len(packed)
            is_ended = not packed
            try:
                piece = stream.decompress(packed, size)
            except zlib.error as error:
                raise _EntryError(str(error)) from error
            packed = stream.unconsumed_tail
            yield piece
            if is_ended and not piece and not stream.eof:
                raise _EntryError("the file ends inside its entry")
        self.end -= len(stream.unused_data)

    def _read_descriptor(self) -> tuple[int, int, int]:
        """Return the checksum and the sizes after the entry."""
        start = self._source.read_bytes(self.end, self.end + 4)
        self.end += len(start) if start == _DESCRIPTOR_SIGNATURE else 0
        data = self._source.read_bytes(self.end, self.end + _DESCRIPTOR.size)
        if len(data) < _DESCRIPTOR.size:
            raise _EntryError("the file ends after its entry")
        self.end += len(data)
        crc, packed, unpacked = _DESCRIPTOR.unpack(data)
        return crc, packed, unpacked
