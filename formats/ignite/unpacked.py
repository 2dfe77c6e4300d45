"""Compacted segments: a ZIP with one segment of logical records, unpacked into a nameless file.

Source: FileWriteAheadLogManager.FileCompressor, Ignite 2.18.0.
"""

from __future__ import annotations

import errno
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.ignite.segments import SEGMENT_SIZE_MAX

if TYPE_CHECKING:
    from je_tools.formats.files.source import Bytes

MEMORY_MAX = 16 << 20
"""Bytes of an unpacked segment that stay in memory; a longer one goes to a temporary file."""

_PIECE = 1 << 20

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Methods that the engine can unpack: those of Java's ZipInputStream."""

_DAMAGE = (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError, struct.error)
"""Errors of `zipfile` on damaged bytes.

A flag for encryption gives RuntimeError, a version NotImplementedError, a name UnicodeDecodeError.
"""


class Unpacked:
    """The bytes of a compacted segment.

    Attributes:
        size: bytes that could be unpacked.
        problem: why the rest could not be; None if everything was.
    """

    def __init__(self, path: Path) -> None:
        """Unpack a file; damage ends the bytes, and is not an error."""
        self.size = 0
        self.problem: str | None = None
        self._file = SpooledTemporaryFile(MEMORY_MAX)  # noqa: SIM115 (closed by `close`)
        try:
            for piece in _pieces(path):
                self._file.write(piece)
                self.size += len(piece)
                if self.size > SEGMENT_SIZE_MAX:
                    self.size = SEGMENT_SIZE_MAX
                    self.problem = "it unpacks to more bytes than a segment can have"
                    break
        except _DAMAGE as error:
            self.problem = str(error) or type(error).__name__
        except OSError as error:
            # A damaged offset is a seek before the file.
            if error.errno not in (None, errno.EINVAL):
                raise
            self.problem = "an offset in its directory is wrong"

    def read(self, start: int, stop: int) -> Bytes:
        """Return bytes [start, stop), cut at the end."""
        self._file.seek(start)
        return np.frombuffer(self._file.read(max(min(stop, self.size) - start, 0)), np.uint8)

    def close(self) -> None:
        """Release the bytes."""
        self._file.close()


def _pieces(path: Path) -> Iterator[bytes]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) != 1:
            raise zipfile.BadZipFile(f"expected one member, found {len(members)}")
        if members[0].compress_type not in _METHODS:
            raise zipfile.BadZipFile(f"unknown compression method {members[0].compress_type}")
        with archive.open(members[0]) as member:
            while piece := member.read(_PIECE):
                yield piece
