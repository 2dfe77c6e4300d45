"""Pieces that an operation writes, and bytes that it flips."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class WrittenPiece(Struct, frozen=True):
    """A span of bytes that was written to a file.

    Attributes:
        path: path of the file.
        offset: offset of the first byte.
        size: number of bytes.
        checksum: CRC-32C of the bytes.
    """

    path: Path
    offset: int
    size: int
    checksum: int


class Flip(Struct, frozen=True):
    """Bytes that are changed in place: their file and offset, before and after."""

    path: Path
    offset: int
    old: bytes
    new: bytes
