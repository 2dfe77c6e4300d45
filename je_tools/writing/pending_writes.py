"""Pending writes of an operation: record bytes in the journal, write them, and read them back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.errors import RefusedError
from je_tools.formats.je.header import FILE_HEADER_SIZE
from je_tools.writing.checksums import crc32c
from je_tools.writing.file_reads import read_at
from je_tools.writing.part_sums import part_sums
from je_tools.writing.refusing import unlike_written
from je_tools.writing.written_pieces import Flip, WrittenPiece

if TYPE_CHECKING:
    from je_tools.writing.disk import Disk
    from je_tools.writing.journal import Journal
    from je_tools.writing.log_files import LogFiles


class PendingWrites:
    """Bytes and flips that are not yet written.

    Attributes:
        size: number of pending bytes.
        flips: pending flips.
    """

    def __init__(self, files: LogFiles, disk: Disk) -> None:
        self.size = 0
        self.flips: list[Flip] = []
        self._files = files
        self._disk = disk
        self._pending: list[tuple[int, int, bytes]] = []
        self._written: list[WrittenPiece] = []
        self._flipped: list[Flip] = []

    def add(self, file_no: int, offset: int, data: bytes) -> None:
        """Add bytes to append; offset 0 begins a file."""
        pieces = [(offset, data)]
        if offset == 0:
            # The header is a separate piece, since it is written alone.
            pieces = [(0, data[:FILE_HEADER_SIZE]), (FILE_HEADER_SIZE, data[FILE_HEADER_SIZE:])]
        self._pending += [(file_no, at, piece) for at, piece in pieces if piece]
        self.size += len(data)

    def flush(self, journal: Journal | None) -> None:
        """Record pending bytes in the journal, then write them."""
        pending, self._pending, self.size = self._pending, [], 0
        if not pending:
            return
        pieces = [
            WrittenPiece(self._files.paths[file_no], at, len(data), crc32c(data))
            for file_no, at, data in pending
        ]
        if journal is not None:
            sums = b"".join(part_sums(at, data).tobytes() for _, at, data in pending)
            listed = [(self._files.name(p.path), p.offset, p.size, p.checksum) for p in pieces]
            journal.add("append", sums, pieces=listed)
            journal.sync()
        for piece, (_, _, data) in zip(pieces, pending, strict=True):
            if piece.offset == 0:
                self._begin_file(piece.path, data)
            else:
                self._disk.write(piece.path, piece.offset, data)
        self._written += pieces

    def _begin_file(self, path: Path, header: bytes) -> None:
        if path in self._files.new:
            self._disk.create(path, self._files.stat_for_new_file())
        self._disk.write(path, 0, header)
        self._disk.sync(path)
        self._disk.sync_folder(path.parent)

    def flip(self, journal: Journal | None) -> None:
        """Record pending flips in the journal, then change the bytes, and make them durable.

        Raises:
            RefusedError: the bytes are not those that were read.
        """
        flips, self.flips = self.flips, []
        for flip in flips:
            found = read_at(flip.path, flip.offset, len(flip.old))
            if found != flip.old:
                raise RefusedError(
                    f"{flip.path} @{flip.offset:#x}: expected {flip.old.hex()}, found {found.hex()}"
                )
        if journal is not None:
            listed = [(self._files.name(f.path), f.offset, f.old.hex(), f.new.hex()) for f in flips]
            journal.add("flip", flips=listed)
            journal.sync()
        for flip in flips:
            self._disk.write(flip.path, flip.offset, flip.new)
        for path in dict.fromkeys(flip.path for flip in flips):
            self._disk.sync(path)
        self._flipped += flips

    def check(self) -> None:
        """Read back all written bytes by new descriptors, from the device if the system allows it.

        Raises:
            RefusedError: they differ from the bytes written.
        """
        for piece in self._written:
            if crc32c(read_at(piece.path, piece.offset, piece.size, fresh=True)) != piece.checksum:
                raise unlike_written(piece.path, piece.offset)
        for flip in self._flipped:
            if read_at(flip.path, flip.offset, len(flip.new), fresh=True) != flip.new:
                raise unlike_written(flip.path, flip.offset)
        self._files.check_sizes()
