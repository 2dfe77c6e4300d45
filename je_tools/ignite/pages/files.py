"""Files of the page store of a node: its caches, their partitions and indexes, the metastorage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.errors import InputError
from je_tools.formats.files.source import Source, SourceError
from je_tools.formats.ignite.page_ids import INDEX_PARTITION
from je_tools.formats.ignite.pages import (
    FILE_HEADER_SIZE,
    FileProblem,
    PageFileHeader,
    read_file_header,
)
from je_tools.ignite.caches import METASTORAGE, cache_folders

if TYPE_CHECKING:
    from je_tools.ignite.store import Node

_PARTITION = re.compile(r"part-(\d{1,5})\.bin")
_INDEX = "index.bin"
_METASTORAGE = "metastorage"


class FileKind(StrEnum):
    """Content of a file."""

    PARTITION = "partition"
    INDEX = "index"
    METASTORAGE = "metastorage"


class PageFile(Struct, frozen=True):
    """One file of pages.

    Attributes:
        path: path of the file.
        group: name of the cache group, or of the cache if it has none.
        kind: content.
        partition: partition in the ids of its pages.
        size: bytes of the file.
        header: its header, or that of the files beside it if its own is damaged; None if there
            is none.
        problem: what is wrong with its own header, in words; None if nothing is.
    """

    path: Path
    group: str
    kind: FileKind
    partition: int
    size: int
    header: PageFileHeader | None
    problem: str | None = None

    @property
    def is_empty(self) -> bool:
        """True for a file without a header, to which the node will write one."""
        return self.problem == FileProblem.EMPTY.value

    @property
    def is_without_pages(self) -> bool:
        """True for an empty file, or one of a header alone."""
        return self.is_empty or (self.header is not None and self.size <= self.header.size)

    @property
    def pages(self) -> int:
        """Number of pages, the last of which may be cut; 0 if the page size is unknown."""
        if self.header is None:
            return 0
        return -(-max(self.size - self.header.size, 0) // self.header.page_size)


class PageFolder(Struct, frozen=True):
    """The page store of one node.

    Attributes:
        files: by group and partition, the index of a group last.
        others: files whose names are not those of a partition or an index.
    """

    files: tuple[PageFile, ...]
    others: tuple[Path, ...]


def page_folder(node: Node) -> PageFolder:
    """Return the files of pages of a node.

    Raises:
        InputError: the node has no folder of caches, or one cannot be listed.
    """
    if node.db is None:
        where = node.name or "segments alone"
        raise InputError(f"{where}: no files of pages; name the work directory of the node")
    files, others = [], []
    for folder, group in _groups(node.db):
        for path in _listed(folder):
            if path.suffix != ".bin":
                continue
            number = partition_of(path.name)
            if number is None:
                others.append(path)
                continue
            is_metastorage = group == METASTORAGE
            kind = FileKind.METASTORAGE if is_metastorage else FileKind.PARTITION
            kind = FileKind.INDEX if number == INDEX_PARTITION else kind
            files.append(_open(path, group, kind, number))
    files.sort(key=lambda each: (each.group, each.partition))
    return PageFolder(tuple(_with_headers(files)), tuple(others))


def _groups(db: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folders with files of pages, and the names of their groups."""
    metastorage = db / _METASTORAGE
    if metastorage.is_dir():
        yield metastorage, METASTORAGE
    for folder in cache_folders(db):
        yield folder.path, folder.group


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from error


def partition_of(name: str) -> int | None:
    """Return the partition in the name of a file; None if it names none."""
    if name == _INDEX:
        return INDEX_PARTITION
    found = _PARTITION.fullmatch(name)
    number = int(found[1]) if found else INDEX_PARTITION
    return number if number < INDEX_PARTITION else None


def _open(path: Path, group: str, kind: FileKind, partition: int) -> PageFile:
    if path.exists() and not path.is_file():
        # To open a pipe would wait for somebody who writes to it.
        return PageFile(path, group, kind, partition, 0, None, "it is no regular file")
    try:
        with Source(path) as source:
            size, start = source.size, source.read_bytes(0, FILE_HEADER_SIZE)
    except SourceError as error:
        return PageFile(path, group, kind, partition, 0, None, error.reason)
    header = read_file_header(start)
    if isinstance(header, FileProblem):
        return PageFile(path, group, kind, partition, size, None, header.value)
    problem = None
    if header.is_index != (kind is FileKind.INDEX):
        problem = "it names itself an index" if header.is_index else "it names itself no index"
    return PageFile(path, group, kind, partition, size, header, problem)


def _with_headers(files: list[PageFile]) -> Iterator[PageFile]:
    """Yield the files; one with a damaged header gets the first good one of another file."""
    good = next((each.header for each in files if each.header is not None), None)
    for each in files:
        if each.header is None and each.size and good is not None:
            yield PageFile(
                each.path, each.group, each.kind, each.partition, each.size, good, each.problem
            )
        else:
            yield each
