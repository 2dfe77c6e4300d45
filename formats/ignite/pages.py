"""Files of a page store and the headers of their pages, in columns.

Source: FilePageStore, FilePageStoreV2, PageIO, PageIdAllocator, Ignite 2.18.0.
"""

from __future__ import annotations

import struct
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native

if TYPE_CHECKING:
    from je_tools.formats.arrays import Mask
    from je_tools.formats.files.source import Bytes, Source

SIGNATURE = 0xF19AC4FE60C530B8
FILE_HEADER_SIZE = 17
"""Bytes of the header of a file: signature, version, type, page size."""

FILE_VERSIONS = (1, 2)
"""Versions of files: in 1 (Ignite 2.1, 2.2) pages follow the header, in 2 the header is a page."""

PAGE_SIZES = tuple(1 << bits for bits in range(10, 15))
"""Sizes that the engine accepts for pages."""

PAGE_HEADER_SIZE = 40
"""Bytes of the header of a page."""

ENCRYPTED_TAIL_SIZE = 16
"""Bytes at the end of an encrypted page: its checksum and the id of the key."""

COMPRESSIONS = ("none", "skip-garbage", "zstd", "lz4", "snappy")
"""Methods of compression, by their numbers in the header of a page."""

_NAMES = {
    1: ("data", 1),
    2: ("tree meta", 4),
    3: ("h2 leaf", 1),
    4: ("h2 inner", 1),
    5: ("data tree inner", 1),
    6: ("data tree leaf", 1),
    7: ("index names inner", 1),
    8: ("index names leaf", 1),
    9: ("expiry tree inner", 1),
    10: ("expiry tree leaf", 1),
    11: ("index meta", 2),
    12: ("list meta", 1),
    13: ("list node", 1),
    14: ("partition meta", 3),
    15: ("tracking", 1),
    16: ("group data tree inner", 1),
    17: ("group data tree leaf", 1),
    18: ("group expiry tree inner", 1),
    19: ("group expiry tree leaf", 1),
    20: ("cache sizes", 1),
    21: ("metastorage data", 1),
    22: ("metastorage tree inner", 2),
    23: ("metastorage tree leaf", 2),
    24: ("mvcc data tree inner", 1),
    25: ("mvcc data tree leaf", 1),
    26: ("mvcc group data tree inner", 1),
    27: ("mvcc group data tree leaf", 1),
    28: ("mvcc h2 leaf", 1),
    29: ("mvcc h2 inner", 1),
    30: ("transaction log leaf", 1),
    31: ("transaction log inner", 1),
    32: ("partition data", 1),
    33: ("marker", 1),
    34: ("defragmentation map inner", 1),
    35: ("defragmentation map leaf", 1),
}
"""Name of each type, and the newest version of its layout."""

_INLINE = (
    (10000, "h2 inline leaf"),
    (20000, "h2 inline inner"),
    (23000, "mvcc h2 inline leaf"),
    (26000, "mvcc h2 inline inner"),
)
_INLINE_COUNT = 2048
"""Number of types of an inline tree: one for each number of inlined bytes, from 1 on."""


_MVCC_TYPES = (
    range(24, 32),
    range(23000, 23000 + _INLINE_COUNT),
    range(26000, 26000 + _INLINE_COUNT),
)
_METASTORAGE_TREE = range(22, 24)


def page_type_name(type_no: int) -> str:
    """Return the name of a page type; its number in words if no engine writes it."""
    if type_no in _NAMES:
        return _NAMES[type_no][0]
    for first, name in _INLINE:
        if first <= type_no < first + _INLINE_COUNT:
            return f"{name} {type_no - first + 1}"
    return f"type {type_no}"


DATA_TYPES = (1, 21, 32)
"""Types of pages that hold rows."""

ROW_LEAVES = (6, 17, 23, 25, 27)
"""Types of leaves with an item for each row."""

_LISTS = {12: 40, 13: 56, 20: 40}
"""Offset of the number of items of lists, by type."""

_DATA_FREE_AT = 48
_DATA_ITEMS_AT = 50
_TREE_ITEMS_AT = 40


def _versions() -> npt.NDArray[np.uint8]:
    versions = np.zeros(_INLINE[-1][0] + _INLINE_COUNT, np.uint8)
    for type_no, (_, newest) in _NAMES.items():
        versions[type_no] = newest
    for first, _ in _INLINE:
        versions[first : first + _INLINE_COUNT] = 1
    return versions


VERSIONS = _versions()
"""Newest version of each type's layout, by type; 0 for a type that no engine writes."""


class PagePlaces(Struct, frozen=True):
    """Places of counts in pages, by type; uint8, offset 0 for none.

    Attributes:
        items_at, items_size: offset and bytes of the number of items: entries of a data page,
            items of a tree page, ids of a list.
        free_at: offset of the free bytes of a data page.
    """

    items_at: npt.NDArray[np.uint8]
    items_size: npt.NDArray[np.uint8]
    free_at: npt.NDArray[np.uint8]


def is_tree(type_no: int) -> bool:
    """Return True for an inner page or a leaf of a tree."""
    name = page_type_name(type_no)
    return " leaf" in name or " inner" in name


def unread_trees(type_no: npt.NDArray[np.uint16], version: npt.NDArray[np.uint16]) -> Mask:
    """Return a mask of pages of trees whose items je-tools does not read.

    These are the trees of multi-version caches (2.7 to 2.15), and the first layout of the tree of
    the metastorage.
    """
    unread: Mask = _are_in(type_no, _METASTORAGE_TREE) & (version == 1)
    for types in _MVCC_TYPES:
        unread |= _are_in(type_no, types)
    return unread


def _are_in(type_no: npt.NDArray[np.uint16], types: range) -> Mask:
    found: Mask = (types.start <= type_no) & (type_no < types.stop)
    return found


def _places() -> PagePlaces:
    """Return the places of counts.

    Source: AbstractDataPageIO, BPlusIO, PagesListMetaIO, PagesListNodeIO,
    PagePartitionCountersIO, Ignite 2.18.0.
    """
    items_at, items_size, free_at = (np.zeros(len(VERSIONS), np.uint8) for _ in range(3))
    for type_no in _NAMES:
        if type_no in DATA_TYPES:
            items_at[type_no], items_size[type_no] = _DATA_ITEMS_AT, 1
            free_at[type_no] = _DATA_FREE_AT
        elif is_tree(type_no) or type_no in _LISTS:
            items_at[type_no], items_size[type_no] = _LISTS.get(type_no, _TREE_ITEMS_AT), 2
    for first, _ in _INLINE:
        items_at[first : first + _INLINE_COUNT] = _TREE_ITEMS_AT
        items_size[first : first + _INLINE_COUNT] = 2
    return PagePlaces(items_at, items_size, free_at)


PLACES = _places()
"""Places of counts in the pages of every type."""


_PARTITION_KIND, _INDEX_KIND = 1, 2
"""Numbers in the header of a file. Source: FilePageStore.checkFile, Ignite 2.18.0."""


class FileProblem(StrEnum):
    """Reason why the header of a file is not accepted."""

    EMPTY = "the file is empty"
    SHORT = "the file is shorter than its header"
    SIGNATURE = "it does not begin as a file of pages"
    VERSION = "the version of the file is unknown"
    KIND = "it names itself neither a partition nor an index"
    PAGE_SIZE = "the page size is impossible"


class PageFileHeader(Struct, frozen=True):
    """The header of a file.

    Attributes:
        is_big: True if the writer's numbers have the highest byte first.
        version: version of the file.
        is_index: True for an index file.
        page_size: bytes of a page.
    """

    is_big: bool
    version: int
    is_index: bool
    page_size: int

    @property
    def size(self) -> int:
        """Bytes before the first page."""
        return FILE_HEADER_SIZE if self.version == 1 else self.page_size


def read_file_header(data: bytes) -> PageFileHeader | FileProblem:
    """Return the header in the first bytes of a file, or what is wrong with it."""
    if len(data) < FILE_HEADER_SIZE:
        return FileProblem.SHORT if data else FileProblem.EMPTY
    for order in "<>":
        signature, version, kind, page_size = struct.unpack_from(f"{order}QiBi", data)
        if signature != SIGNATURE:
            continue
        if version not in FILE_VERSIONS:
            return FileProblem.VERSION
        if kind not in (_PARTITION_KIND, _INDEX_KIND):
            return FileProblem.KIND
        if page_size not in PAGE_SIZES:
            return FileProblem.PAGE_SIZE
        return PageFileHeader(order == ">", version, kind == _INDEX_KIND, page_size)
    return FileProblem.SIGNATURE


def file_header_bytes(header: PageFileHeader) -> bytes:
    """Return the header of a file, as long as it is in the file."""
    order = ">" if header.is_big else "<"
    kind = _INDEX_KIND if header.is_index else _PARTITION_KIND
    start = struct.pack(f"{order}QiBi", SIGNATURE, header.version, kind, header.page_size)
    return start.ljust(header.size, b"\0")


class PageState(IntEnum):
    """State of a page, as its bytes show it."""

    GOOD = 0
    ZERO = 1
    """All bytes are zero: allocated and never written, or lost."""
    ENCRYPTED = 2
    """The checksum of an encrypted page is right; nothing else can be judged."""
    UNSUMMED = 3
    """The checksum is zero, and place, type and version are right."""
    CHECKSUM = 4
    CUT = 5
    """The file ends inside the page."""
    MISPLACED = 6
    """The checksum is right, and the id is that of another place."""
    UNKNOWN = 7
    """The checksum is right, and no engine writes this type, version or compression."""
    UNREADABLE = 8
    """The device did not deliver the bytes."""


class PageRules(Struct, frozen=True):
    """Facts of a file that the extension needs; see `PageFileHeader`."""

    page_size: int
    is_big: bool
    partition: int
    versions: npt.NDArray[np.uint8]
    items_at: npt.NDArray[np.uint8]
    items_size: npt.NDArray[np.uint8]
    free_at: npt.NDArray[np.uint8]


class PageColumns(Struct, frozen=True):
    """Headers of pages, one element each.

    Attributes:
        state: a PageState.
        type_no: number of the type.
        version: version of the type's layout.
        page_id: id with flag and rotation.
        rotated: rotation of an id that changed its kind.
        compression: method; 0 for none.
        compressed_size: bytes with content in the file; 0 for all.
        compacted_size: bytes after decompression; 0 for all.
        stored: stored checksum.
        computed: checksum of the bytes.
        items: number of items; -1 for a type without, and if the content is damaged, encrypted or
            compressed.
        free: free bytes of a data page; -1 as for `items`.
    """

    state: npt.NDArray[np.uint8]
    type_no: npt.NDArray[np.uint16]
    version: npt.NDArray[np.uint16]
    page_id: npt.NDArray[np.int64]
    rotated: npt.NDArray[np.uint8]
    compression: npt.NDArray[np.uint8]
    compressed_size: npt.NDArray[np.uint16]
    compacted_size: npt.NDArray[np.uint16]
    stored: npt.NDArray[np.uint32]
    computed: npt.NDArray[np.uint32]
    items: npt.NDArray[np.int32]
    free: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.state)

    def select(self, keep: npt.NDArray[Any]) -> PageColumns:
        """Select pages by a mask or by an index array."""
        return PageColumns(*(getattr(self, name)[keep] for name in self.__struct_fields__))


def page_rules(header: PageFileHeader, partition: int) -> PageRules:
    """Return the rules for the pages of a file."""
    places = (PLACES.items_at, PLACES.items_size, PLACES.free_at)
    return PageRules(header.page_size, header.is_big, partition, VERSIONS, *places)


def read_pages(data: Bytes, rules: PageRules, first: int) -> PageColumns:
    """Return the headers of consecutive pages, the first of which has the index `first`."""
    return PageColumns(*_native.read_pages(data, rules, first))


@lru_cache(maxsize=4)
def zero_pages(count: int, page_size: int) -> PageColumns:
    """Return the headers of pages of zeros; their states are read-only, as they are shared."""
    rules = page_rules(PageFileHeader(False, 2, False, page_size), 0)
    found = read_pages(np.zeros(count * page_size, np.uint8), rules, 0)
    found.state.flags.writeable = False
    return found


def read_file_pages(
    source: Source, start: int, stop: int, rules: PageRules, first: int
) -> PageColumns:
    """Return the headers of the pages in bytes [start, stop) of a file, as `read_pages` does.

    Unreadable bytes count as zeros, and are in `source.unreadable`.

    Raises:
        SourceChangedError: the file has shrunk.
        SourceError: the file cannot be read, for a reason other than unreadable sectors.
    """
    found = _native.read_file_pages(source.file(), source, (start, stop), rules, first)
    return PageColumns(*found)
