"""Files of segments: their names, headers and bytes."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from stat import S_ISREG

from msgspec import Struct
from msgspec.structs import replace

from je_tools.errors import InputError
from je_tools.formats.files.source import Source
from je_tools.formats.ignite.segments import (
    SEGMENT_HEADER_SIZE,
    SEGMENT_SIZE_MAX,
    SERIALIZERS,
    Problem,
    SegmentHeader,
    read_segment_header,
)
from je_tools.formats.ignite.unpacked import Unpacked, unpacked_start
from je_tools.formats.ignite.walk import SegmentReader
from je_tools.log.source_errors import translated_errors

_START_SIZE = SEGMENT_HEADER_SIZE + 64
"""Bytes of a segment that tell its header, or the header that its first record implies."""

_NAME = re.compile(r"(\d{16,19})\.wal(\.zip)?")


class Status(StrEnum):
    """State of a file, by its header."""

    READABLE = "readable"
    UNUSED = "unused"
    """Created in advance, and not yet written."""
    BAD_HEADER = "bad header"
    UNSUPPORTED = "unsupported"
    """Its framing is of a version that this reader does not know."""
    UNREADABLE = "unreadable"
    """It cannot be opened or unpacked."""


class SegmentFile(Struct, frozen=True):
    """A file of one segment.

    Attributes:
        path: path of the file.
        number: number in its name: the index in an archive, the position in a ring.
        is_packed: True for a ZIP.
        size: bytes of the file.
        status: state of the file.
        header: header of the segment, its own or derived; None if there is none.
        problem: why it is not readable, in words; None if it is.
        is_derived: True if the file's own header is damaged, and `header` is what its first record
            implies.
    """

    path: Path
    number: int
    is_packed: bool
    size: int
    status: Status
    header: SegmentHeader | None = None
    problem: str | None = None
    is_derived: bool = False

    @property
    def is_refused(self) -> bool:
        """True if the engine does not read the file because of its header.

        It ignores the checksum of the header.

        Source: RecordV1Serializer.readSegmentHeader, Ignite 2.18.0, and starts of a node.
        """
        is_read = self.problem == Problem.CHECKSUM.value
        return self.status is not Status.READABLE and not is_read

    @property
    def is_archived(self) -> bool:
        """True if it lies in the archive of a node."""
        return self.path.parent.parent.name == "archive"


def segment_name(name: str) -> tuple[int, bool] | None:
    """Return the number in the name of a segment's file, and whether it is a ZIP."""
    found = _NAME.fullmatch(name)
    return (int(found[1]), found[2] is not None) if found else None


def inspect_segment(path: Path) -> SegmentFile:
    """Return what the beginning of a segment's file shows; its `status` says what is wrong."""
    number, is_packed = segment_name(path.name) or (-1, path.name.endswith(".zip"))
    try:
        status = path.stat()
        if not S_ISREG(status.st_mode):
            # To open a pipe would wait for somebody who writes to it.
            raise InputError("it is no regular file")
        size = status.st_size
        start, problem = _start_of(path, is_packed=is_packed)
    except (OSError, InputError) as error:
        text = getattr(error, "strerror", None) or str(error)
        return SegmentFile(path, number, is_packed, 0, Status.UNREADABLE, problem=text)
    segment = SegmentFile(path, number, is_packed, size, Status.READABLE)
    if problem is not None and not start:
        return replace(segment, status=Status.UNREADABLE, problem=problem)
    return _with_header(segment, start)


def _start_of(path: Path, *, is_packed: bool) -> tuple[bytes, str | None]:
    """Return the first bytes of a segment, and why a compacted one has none."""
    if is_packed:
        with _as_segment_errors(path):
            return unpacked_start(path, _START_SIZE)
    with open_segment_bytes(path, is_packed=False) as source:
        return source.read(0, min(_START_SIZE, source.size)).tobytes(), None


def _with_header(segment: SegmentFile, start: bytes) -> SegmentFile:
    header = read_segment_header(start[:SEGMENT_HEADER_SIZE])
    if header is Problem.UNUSED:
        return replace(segment, status=Status.UNUSED, problem=header.value)
    if isinstance(header, Problem):
        derived = _derived_header(start, segment.is_packed)
        if header is Problem.CHECKSUM and derived is not None:
            own = read_segment_header(start[:SEGMENT_HEADER_SIZE], checks_sum=False)
            is_same = isinstance(own, SegmentHeader) and own.segment == derived.segment
            header = header if is_same else Problem.SEGMENT
        return replace(
            segment,
            status=Status.BAD_HEADER,
            problem=header.value,
            header=derived,
            is_derived=derived is not None,
        )
    if header.serializer not in SERIALIZERS:
        text = f"serializer version {header.serializer} is not supported; expected 2"
        return replace(segment, status=Status.UNSUPPORTED, header=header, problem=text)
    return replace(segment, header=header)


def _derived_header(start: bytes, is_packed: bool) -> SegmentHeader | None:
    """Return the header that the first record after a damaged one implies; None if none does."""
    record = start[SEGMENT_HEADER_SIZE:]
    if len(record) < 17 or not record[0]:
        return None
    for order in ("little", "big"):
        index = int.from_bytes(record[1:9], order, signed=True)
        offset = int.from_bytes(record[9:13], order)
        if 0 <= index < 1 << 40 and (offset == SEGMENT_HEADER_SIZE or is_packed):
            return SegmentHeader(index, order == "big", is_packed, SERIALIZERS[0], summed=True)
    return None


@contextmanager
def open_segment_bytes(path: Path, *, is_packed: bool) -> Iterator[Source | Unpacked]:
    """Open the bytes of a segment.

    Raises:
        InputError: it cannot be read.
        StoppedError: it shrank, vanished or was replaced while it was read.
    """
    with _as_segment_errors(path):
        source = Unpacked(path) if is_packed else Source(path)
        try:
            yield source
            if isinstance(source, Source):
                source.check_unchanged()
        finally:
            source.close()


@contextmanager
def _as_segment_errors(path: Path) -> Iterator[None]:
    """Convert errors of a file of a segment to those of commands."""
    try:
        with translated_errors():
            yield
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError(f"{path}: {error.strerror}") from error
        raise InputError(f"{path}: {error.strerror or error}") from error


@contextmanager
def segment_reader(segment: SegmentFile) -> Iterator[tuple[SegmentReader, Source | Unpacked]]:
    """Open a reader of the records of a segment that has a header, and the bytes it reads.

    Raises:
        InputError, StoppedError: as `open_segment_bytes`.
    """
    assert segment.header is not None
    with open_segment_bytes(segment.path, is_packed=segment.is_packed) as source:
        size = min(source.size, SEGMENT_SIZE_MAX)
        yield SegmentReader(source, segment.header, size), source
