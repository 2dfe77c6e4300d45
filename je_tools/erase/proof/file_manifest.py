"""Manifests of all files below a directory: sizes, times, CRC-32C and SHA-256, and changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec
from crc32c import crc32c
from msgspec import Struct

from je_tools.core.ordered import map_in_order
from je_tools.errors import InputError
from je_tools.formats.files.source import Source, SourceError

if TYPE_CHECKING:
    from je_tools.erase.proof.file_tree import FoundFile

_FORMAT = "je-tools files"
_VERSION = 1
_PIECE = 1 << 20


class ManifestFile(Struct, frozen=True):
    """A file of a manifest.

    Attributes:
        name: its name as reports show it.
        size: bytes.
        mtime_ms: time of its last change in ms since 1970.
        crc32c, sha256: hexadecimal; None if not all of it could be read.
    """

    name: str
    size: int
    mtime_ms: int
    crc32c: str | None
    sha256: str | None


class FileManifest(Struct, frozen=True):
    """A manifest.

    Attributes:
        format, version: kind of this file.
        made_ms: time at which it was made, in ms since 1970.
        files: the files, by name.
    """

    format: str
    version: int
    made_ms: int
    files: tuple[ManifestFile, ...]


class FileChange(StrEnum):
    """Change of a file since a manifest was made."""

    SAME = "same"
    CHANGED = "changed"
    GROWN = "grown"
    """It is longer; whether its earlier bytes changed is not known."""
    CUT = "cut"
    """It is shorter."""
    NEW = "new"
    GONE = "gone"
    UNKNOWN = "unknown"
    """Not all of it could be read, now or then."""


def make_manifest(
    files: Sequence[FoundFile], name_of: Callable[[str], str], threads: int, made_ms: int
) -> FileManifest:
    """Read files and return their manifest; a file that cannot be read has no digests.

    Args:
        files: the files.
        name_of: returns a file's name as reports show it.
        threads: number of threads.
        made_ms: the current time.
    """
    read = map_in_order(lambda file: _of_file(file, name_of(file.name)), files, threads)
    return FileManifest(_FORMAT, _VERSION, made_ms, tuple(read))


def _of_file(file: FoundFile, name: str) -> ManifestFile:
    digest, checksum = hashlib.sha256(), 0
    is_whole = True
    try:
        with Source(file.path) as source:
            for at in range(0, source.size, _PIECE):
                piece = source.read(at, min(at + _PIECE, source.size)).data
                digest.update(piece)
                checksum = crc32c(piece, checksum)
            source.check_unchanged()
            is_whole = not source.unreadable and source.size == file.size
    except SourceError:
        is_whole = False
    return ManifestFile(
        name,
        file.size,
        file.mtime_ns // 1_000_000,
        f"{checksum:08x}" if is_whole else None,
        digest.hexdigest() if is_whole else None,
    )


def write_file_manifest(manifest: FileManifest, out: BinaryIO) -> None:
    """Write a manifest as JSON."""
    out.write(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")


def read_file_manifest(path: Path) -> FileManifest:
    """Read a manifest.

    Raises:
        InputError: it cannot be read, or is no manifest.
    """
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=FileManifest)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError):
        raise InputError(f"{path}: not a manifest; `erase prove --manifest` writes one") from None
    if (manifest.format, manifest.version) != (_FORMAT, _VERSION):
        raise InputError(
            f"{path}: a manifest of another kind or version; `erase prove --manifest` writes one"
        )
    return manifest


def compare_manifests(before: FileManifest, after: FileManifest) -> dict[str, FileChange]:
    """Return the change of each file in two manifests, by name."""
    old: Mapping[str, ManifestFile] = {each.name: each for each in before.files}
    new = {each.name: each for each in after.files}
    found = {name: _change(old.get(name), each) for name, each in new.items()}
    return found | {name: FileChange.GONE for name in old if name not in new}


def _change(old: ManifestFile | None, new: ManifestFile) -> FileChange:
    if old is None:
        return FileChange.NEW
    if new.size != old.size:
        return FileChange.GROWN if new.size > old.size else FileChange.CUT
    if old.sha256 is None or new.sha256 is None:
        return FileChange.UNKNOWN
    return FileChange.SAME if old.sha256 == new.sha256 else FileChange.CHANGED
