"""The extension built from formats/native: loops over bytes, compiled ahead of time.

The caller allocates the arrays that a function fills; they are contiguous and writable. Other
arrays are copied if they are not contiguous. Functions release the interpreter lock. A wrong dtype
or length raises a TypeError or a ValueError; bytes of a log never raise. A panic raises a
RuntimeError, and is a bug.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from je_tools.formats.files.image import Image
from je_tools.formats.files.source import Source
from je_tools.formats.ignite.page_image import PageImage
from je_tools.formats.ignite.pages import PageRules
from je_tools.formats.ignite.record_table import RecordLayout
from je_tools.formats.ignite.records import Payloads
from je_tools.formats.ignite.replay import PageReplayRules
from je_tools.formats.ignite.walk import RecordColumns, SegmentRules
from je_tools.formats.je.btree.node_states import States
from je_tools.formats.je.btree.slots import Slots
from je_tools.formats.je.entry.columns import EntryPayloads, ListPrograms
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.log.fingerprints import KnownData, Printing
from je_tools.formats.je.log.reader import ReadOptions
from je_tools.formats.je.log.walk import HeaderColumns, HeaderRules
from je_tools.formats.je.write.column_writer import EntryPart
from je_tools.formats.je.write.writer import LogTail
from je_tools.formats.needles import HashedColumns
from je_tools.formats.rows import CellTable
from je_tools.formats.spans import Spans

_Bytes = npt.NDArray[np.uint8]
_I32s = npt.NDArray[np.int32]
_U16s = npt.NDArray[np.uint16]
_U32s = npt.NDArray[np.uint32]
_Ints = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_Joined = tuple[_Bytes, _Ints, _Ints]
"""The fields of `Spans`, with their bytes one after the other and read-only."""
_Strings = tuple[npt.NDArray[np.int32], _Bytes]
_Columns = tuple[_Ints, _Ints, _Ints]

def declared() -> dict[str, int]:
    """Return the numbers that Python modules also declare, by their names below `formats`."""

def encode_packed(value: int) -> bytes:
    """Return the shortest packed form of a signed 64-bit `value`."""

def read_packed(data: bytes) -> tuple[int, int] | None:
    """Return the packed integer at the start of `data` and its size, or None if there is none."""

# Reading logs.

_Survey = tuple[_Ints, int, int, int, int]
_Lines = tuple[_Ints, _Ints]
_Programs = tuple[_Ints, _Ints, _Ints]
_Segments = tuple[
    _Ints, _Ints, _Ints, _Ints, _Ints, _Ints, _Mask, _Bytes, _Ints, _Mask, _Ints, _Ints
]

class File:
    """An open file for reading; threads that read it keep it open until they are done."""

    def __new__(cls, path: Path) -> File: ...
    def fileno(self) -> int:
        """Return the descriptor; raise ValueError after `close`."""

    def close(self) -> None:
        """Close the file as soon as no thread reads it any more."""

class RangeReader:
    """Reader of the entries that begin in a range of one file.

    Args:
        source: the file; its `read_bytes` is called for bytes that cannot be read here.
        file: the same file; None to call `read_bytes` for everything.
        rules: rules for reading the headers of the file.
        options: the range, and how to read it.
    """

    def __new__(
        cls, source: Source, file: File | None, rules: HeaderRules, options: ReadOptions
    ) -> RangeReader: ...
    def step(self, buffer: _Bytes, columns: HeaderColumns) -> tuple[int, int]:
        """Read on until rows are ready, a longer buffer is needed, or the range ends.

        Args:
            buffer: buffer of the bytes; it must not change between calls until it is too short.
            columns: columns of the rows, filled from the front.

        Returns:
            A `StopReason`; number of rows filled, or size that the buffer must have.

        Raises:
            SourceError: as raised by `source.read_bytes`.
        """

    def window(self) -> tuple[int, int]:
        """Return the offset in the file of the buffer's first byte, and the number of bytes."""

    def survey(self) -> _Survey:
        """Return the fields of a `RangeSummary` of the last rows."""

    def take_quiet(self) -> tuple[_Survey, _Lines]:
        """Return the survey and the tally of rows that were not wanted, since the last call."""

    def take_segments(self) -> _Segments | None:
        """Return the fields of `Segments` of all rows; None if not collected, or already taken."""

    def first(self) -> tuple[int, int]:
        """Return the offset of the first entry and its prevOffset; NO_OFFSET if there is none."""

    def place(self) -> tuple[int, int, int, int, bool]:
        """Return the fields of the `ReadState` at which reading continues."""

    def gaps(self) -> _Ints:
        """Return the gaps that were closed, three numbers each."""

    def chain_breaks(self) -> _Ints:
        """Return the breaks of the chain, four numbers each."""

    def bad(self) -> list[tuple[int, int]]:
        """Return half-open ranges of damaged entries, the first `reader.KEPT` of them."""

    def samples(self) -> _Ints:
        """Return offsets of watched entries, some of each type."""

    def odd(self) -> _Ints:
        """Return entries with flags that their types do not allow: offset, type and flags each."""

    def is_blank(self) -> bool:
        """Return True if only zeros were seen from the start of the range."""

def decode_fields(payloads: Payloads, codings: bytes) -> tuple[npt.NDArray[np.int64], _Mask]:
    """Return columns of the fields, (columns, n), and a mask of the payloads that do not decode."""

def decode_entries(
    payloads: Payloads, types: npt.NDArray[np.uint8], start: tuple[int, int, int] | None
) -> tuple[npt.NDArray[np.int64], _Mask, tuple[int, int, int] | None]:
    """Return entries of data records, (ENTRY_COLUMNS, entries), from `start` or the first one on.

    Also return a mask of bad records, complete only without `start`, and where the next call
    continues: the record, the offset of the entry, and the number of entries left in the record;
    None at the end.
    """

_Place = tuple[int, int, int, bool]
_RecordTable = tuple[
    _Ints,
    list[_Ints],
    list[_Mask],
    tuple[_Ints, _Ints],
    tuple[_Ints, _Ints],
    _Mask,
    _Mask,
    list[tuple[int, _Ints, npt.NDArray[np.int64]]],
    _Place | None,
]

class RecordDecoder:
    """Decoder of records of all types into rows: see `record_table.py`."""

    def __new__(cls, layouts: Sequence[RecordLayout]) -> RecordDecoder: ...
    def rows(
        self, payloads: Payloads, types: npt.NDArray[np.uint8], start: _Place | None
    ) -> _RecordTable:
        """Return the fields of a `RecordTable`, of ENTRIES_MAX entries at most, and the next place.

        The place is that of an entry: its record, its offset, its number in the record, and True if
        the record does not decode to its end. It is None at the end.
        """

_Stop = tuple[int, int, int, int, int, int, int]

def check_pages(
    image: PageImage, verdicts: _Bytes
) -> tuple[
    list[tuple[int, int, int]], list[int], int, int, int, list[tuple[int, list[int]]], list[int]
]:
    """Return the fields of a `Structure`; `verdicts` has a `PageFault` or 0 for each page."""

def image_pages(image: PageImage, indexes: _Ints) -> tuple[npt.NDArray[np.uint8], _Bytes]:
    """Return pages of an image as (n, page_size), and a `PageFault` or 0 for each."""

_Fields = list[tuple[str, int, str]]

def page_fields() -> tuple[list[tuple[int, int, int, str, int, str]], _Fields, _Fields]:
    """Return the fields of pages: of single types, of data pages, of pages of trees."""

def page_items(pages: npt.NDArray[np.uint8], is_big: bool) -> tuple[npt.NDArray[np.int64], _Bytes]:
    """Return the items of plain pages, (ITEM_COLUMNS, n), and the bytes of keys and values."""

def read_pages(
    data: _Bytes, rules: PageRules, first: int
) -> tuple[_Bytes, _U16s, _U16s, _Ints, _Bytes, _Bytes, _U16s, _U16s, _U32s, _U32s, _I32s, _I32s]:
    """Return the fields of `PageColumns` for consecutive pages; `first` is the first's index."""

def read_file_pages(
    file: File | None, source: Source, span: tuple[int, int], rules: PageRules, first: int
) -> tuple[_Bytes, _U16s, _U16s, _Ints, _Bytes, _Bytes, _U16s, _U16s, _U32s, _U32s, _I32s, _I32s]:
    """Return the same fields as `read_pages`, for a span of a file.

    `source` reads what cannot be read otherwise.
    """

class PageReplay:
    """Changes of pages, applied in their order: see `replay.py`."""

    def __new__(cls, rules: PageReplayRules) -> PageReplay: ...
    def apply(
        self,
        data: _Bytes,
        base: int,
        columns: RecordColumns,
        segment: int,
        is_big: bool,
    ) -> None:
        """Apply records of a window of a segment; those that change no page are skipped."""

    def take_recovered(
        self,
        data: _Bytes,
        base: int,
        is_big: bool,
    ) -> tuple[int, int]:
        """Apply the pages in bytes of a recovery file.

        Returns the number of bytes read, and the number that the record after them needs; 0 if it
        is damaged.
        """

    def applied(self) -> npt.NDArray[np.uint64]:
        """Return the number of applied records of each type."""

    def misfits(self) -> tuple[list[tuple[int, int, int, int, int, int]], int]:
        """Return the fields of each `Misfit` that is kept, and the number of all."""

    def destroyed(self) -> list[tuple[int, int]]:
        """Return the groups and partitions that are to be destroyed."""

    def places(self) -> tuple[_Ints, _Ints, _Ints, _Mask]:
        """Return the fields of `ReplayedPlaces`."""

    def whole_pages(self, group: int, partition: int) -> _Ints:
        """Return the indexes of the whole pages of a partition, ascending."""

    def plain_pages(
        self, group: int, partition: int, first: int, last: int
    ) -> tuple[_Ints, _Bytes]:
        """Return indexes and bytes of the whole pages of a partition from one index to another."""

    def packed_pages(self, group: int, partition: int) -> tuple[_Ints, _Ints, _Bytes]:
        """Return the fields of `ChangedPages` for the whole pages of a partition."""

class RowWalker:
    """Reader of the rows of the tree of one image of pages."""

    def __new__(cls, image: PageImage) -> RowWalker: ...
    def step(
        self, image: PageImage, most_rows: int, most_bytes: int
    ) -> tuple[npt.NDArray[np.int64], _Bytes]:
        """Read rows of leaves up to a number of rows or of bytes.

        Returns columns of rows, (ROW_COLUMNS, n), and the bytes of keys and values; no rows at the
        end. `image` is that of `__new__`.
        """

    def faults(self) -> list[tuple[int, int]]:
        """Return what is wrong with the tree so far: a page and its fault each."""

def value_digests(values: Spans) -> _Ints:
    """Return Java's hash of bytes in the lower half, and CRC-32 in the upper half; 0 for null."""

def key_hashes(keys: Spans) -> tuple[_I32s, _Mask]:
    """Return Java's hash of each key, and a mask of those whose hash is known."""

def read_metadata(
    data: bytes,
) -> (
    tuple[
        int,
        bytes,
        list[tuple[bytes, int, int]],
        list[tuple[int, list[int]]],
        list[tuple[bytes, int]],
    ]
    | None
):
    """Return the fields of `TypeMetadata`, names in UTF-8; None if the bytes are no metadata."""

class ValueTypes:
    """Names and schemas of types of binary objects."""

    def __new__(
        cls, metadata: Sequence[bytes], classes: Sequence[tuple[int, bytes]]
    ) -> ValueTypes: ...
    def texts(self, values: Spans, kinds: _Ints) -> tuple[_I32s, _Bytes, _Bytes]:
        """Return values as JSON, in the fields of `ValueTexts`."""

class SegmentWalker:
    """Reader of the records of one segment of Ignite's write-ahead log."""

    def __new__(cls, rules: SegmentRules) -> SegmentWalker: ...
    def position(self) -> int:
        """Return the offset at which reading continues."""

    def step(self, data: _Bytes, base: int, columns: RecordColumns) -> tuple[int, int]:
        """Read the records of a window that begins at `position()`.

        Returns the number of rows, and the number of bytes that the next window must have at
        least; `walk.ROOM` if the columns are full, `walk.NOTHING` at the end.
        """

    def gaps(self) -> list[tuple[_Stop, int, bool]]:
        """Return the fields of each `RecordGap`, those of its `Stop` as a tuple."""

    def gap_totals(self) -> tuple[int, int]:
        """Return the number of all gaps, and of their bytes."""

    def tail(self) -> tuple[_Stop, bool, int, int, int] | None:
        """Return the fields of the `SegmentTail`; None before the end."""

def tally(rows: Rows, programs: _Programs | None) -> _Lines:
    """Return the lines of a `Tally`, five numbers each; sizes only with `steps.programs`."""

# Memory maps.

class Maps:
    """Files mapped one after the other into one stretch of address space: a read-only buffer.

    A page that cannot be read any more becomes zeros, with the rest of its file.

    Args:
        stops: end of each file's pages, ascending; only bytes that `map` has mapped may be read.

    Raises:
        OSError: there is no room.
    """

    def __new__(cls, stops: Sequence[int]) -> Maps: ...
    def map(self, file: File, path: str, at: int, size: int) -> None:
        """Map the first bytes of a file at `at`; call this before there is any view.

        Raises:
            OSError: the system refuses; the error names `path`.
        """

    @property
    def lost_at(self) -> int:
        """Position of a page that could not be read; -1 if all could be."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

# Searches for bytes of a person: see `needles.py`.

_Hits = tuple[_Ints, _Ints, _Ints, _Ints]
"""The fields of `needles.Hits`."""

class Needles:
    """Needles of all kinds, prepared for searches in any thread.

    Args:
        literals: distinct byte strings that are not empty.
        patterns: regular expressions over bytes.
        hashed: hashed needles; None for none.

    Raises:
        ValueError: a regular expression is refused; the error says why, without quoting it. Or the
            literals or the columns are not as they must be.
    """

    def __new__(
        cls, literals: Sequence[bytes], patterns: Sequence[str], hashed: HashedColumns | None
    ) -> Needles: ...
    @property
    def reach(self) -> int:
        """Largest number of bytes of a hit."""

    @property
    def fixed_lens(self) -> Sequence[int]:
        """Number of bytes that are alike in all hits, but for the case of letters, by pattern."""

    def search(self, data: _Bytes, first: int, stop: int, most: int) -> _Hits:
        """Search for hits that begin in [first, stop); they may end anywhere in `data`.

        Keep at most `most` of them. Hits of one regular expression do not overlap.
        """

    def search_joined(
        self, first: _Ints, prefixes: Spans, rests: Spans, most: int
    ) -> tuple[_Ints, _Hits]:
        """Search keys that are a prefix and a rest, for hits that lie in both parts.

        Args:
            first: int64 (prefixes + 1,); first rest of each prefix, and the number of rests.
            prefixes, rests: the parts; null for none.
            most: largest number of hits to keep.

        Returns:
            The row in `rests` of each hit, and the hits; `start` counts from the start of the key.
        """

def needle_hashes(values: Sequence[bytes], seed: int, width: int) -> tuple[_Ints, _Ints]:
    """Return the two hashes of each needle; see `needles.hash_needles`."""

# Keys: see `je/btree/keysort.py` and `je/btree/node_checks.py`.

def group_keys(keys: Spans, *, two_part: bool) -> tuple[_Ints, _Mask]:
    """Return the stable ascending order of keys, and a mask of places where a new key begins."""

def equal_keys(ones: Spans, others: Spans) -> _Mask:
    """Return a mask of rows with the same bytes in both columns; null only equals null."""

def search_sorted(keys: Spans, needles: Spans, *, two_part: bool) -> _Ints:
    """Return the number of ascending `keys` that are smaller than each needle."""

def descents(keys: Spans, first: _Ints, *, two_part: bool) -> _Mask:
    """Return a mask of slots whose key is not greater than the key before, in the same node."""

def holders(keys: Spans, first: _Ints, wanted: Spans) -> _Mask:
    """Return a mask of nodes that have a slot with the bytes of their wanted key."""

# Entries at LSNs: see `je/log/fetch.py` and `je/log/fingerprints.py`.

def fetch_entries(
    image: Image, lsns: _Ints, *, rules: Sequence[HeaderRules], check: bool, room_size: int
) -> tuple[dict[str, Any], _Bytes | None]:
    """Read the headers of entries at LSNs and, if `check`, sum the entries.

    Args:
        image: the log.
        lsns: LSNs of the entries, in any order.
        rules: rules by log version; the last ones also apply to newer versions. `file_size` is not
            used.
        check: True if a wrong checksum is `Found.BAD`.
        room_size: number of bytes for copies of the good entries.

    Returns:
        The columns of `Entries` by name, and copies of the good entries if all fit; positions are
        then offsets in the copies, and NOWHERE for other entries.
    """

def fingerprints_of(
    rows: Rows, *, firsts: _Ints, lasts: _Ints, steps: _Ints, printing: Printing
) -> tuple[_U32s, _Ints]:
    """Return the offsets and the fingerprints of the records with a right checksum.

    Args:
        rows: entries of a part of a file, with their bytes.
        firsts, lasts, steps: see `steps.programs`; `steps` is flattened.
        printing: parameters of the fingerprints.
    """

def note_lsns(lsns: _Ints, bits: _Bytes) -> None:
    """Set the bits of LSNs in a filter, whose size is a power of two."""

def doubtful_slots(
    slots: Slots, rows: _Ints, known: KnownData, *, db_id: int, printing: Printing, asks_noted: bool
) -> _Mask:
    """Return a mask of the rows of slots that are not certain to be sound."""

# Nodes: see `je/btree/nodes.py`. The slots of node i are [first[i], first[i + 1]).

def join_keys(first: _Ints, prefixes: Spans, rests: Spans) -> _Joined:
    """Return the key of each slot: the prefix of its node, then the rest."""

def merge_slots(
    keys: Spans,
    first: _Ints,
    full_first: _Ints,
    full_last: _Ints,
    *,
    ordered: bool,
    two_part: bool,
) -> tuple[_Ints, _Ints]:
    """Merge the slots of nodes with those of their full versions; return slots and their counts.

    Of two slots with the same key, the full version's is left out. If keys are not `ordered` by
    their bytes, a slot of a node replaces the first slot of the full version with the same bytes,
    or else follows the node's slot before it.

    Args:
        keys: keys of all slots.
        first: int64 (nodes + 1,).
        full_first, full_last: int64 (nodes,); range of slots of each node's full version.
        ordered: True if keys are ordered by their bytes.
        two_part: True for keys of a database with duplicates.
    """

def count_replaced(
    keys: Spans, first: _Ints, fulls: States, rows: _Ints, alive: _Mask, *, ascending: bool
) -> int:
    """Return the number of live slots of `fulls` that have the key of a slot of their delta.

    Args:
        keys, first: slots of the deltas.
        fulls: full nodes.
        rows: int64 (deltas,); index in `fulls` of the full version of each delta.
        alive: mask of the live slots of `fulls`.
        ascending: True if keys are in byte order, so that each slot is compared only once.
    """

def within(keys: Spans, first: _Ints, low: Spans, high: Spans, *, two_part: bool) -> _Mask:
    """Return a mask of the slots whose key is in [low, high) of their node."""

# Encoding: see `je/write/column_writer.py`, `je/write/node_writer.py` and `je/write/writer.py`.

def encode_parts(types: _Bytes, head: EntryPart, slots: EntryPart, tail: EntryPart) -> _Joined:
    """Return the payloads of entries: head, slots and tail of each, one after the other."""

def prefix_sizes(keys: Spans, first: _Ints) -> _Ints:
    """Return the size of the common prefix of each node's keys, -1 if it has fewer than two."""

def join_rests(keys: Spans, data: Spans, first: _Ints, prefixes: _Ints) -> _Joined:
    """Return the stored key of each slot: the key after the prefix, then data that is not null."""

def blank_sums(entries: Spans, ranges: Spans, first: _Ints, *, summed_flags: int) -> _U32s:
    """Return the checksum of each entry as it will be when its ranges hold zeros.

    Args:
        entries: the entries, with their headers; each has 4 bytes or more.
        ranges: byte ranges of the same buffer, in the order of entries.
        first: int64 (entries + 1,); the ranges of entry i are [first[i], first[i + 1]). If it is
            empty, no entry has ranges, and each is summed as it is.
        summed_flags: flags that the checksum covers.

    Raises:
        ValueError: a range leaves its entry.
    """

def append_rows(
    items: Spans,
    *,
    row: int,
    flags: _Ints,
    type_no: int,
    tail: LogTail,
    file_max: int,
    summed_flags: int,
    used: int,
    piece: _Bytes,
    lsns: _Ints,
) -> tuple[int, int, int, int]:
    """Append entries of one type to `piece`, as far as they fit in it and in their file.

    Args:
        items: bytes after the header of each entry.
        row: first entry to append.
        flags: int64 (items,); no flag may announce a VLSN.
        type_no: type number of all entries.
        tail: end of the log.
        file_max: maximum size of a file; a longer entry gets a file of its own.
        summed_flags: flags that the checksum covers.
        used: number of bytes of `piece` in use.
        piece: filled from `used` on.
        lsns: int64 (items,), filled with the LSNs of the entries.

    Returns:
        The first row that did not fit, the `next_offset` and `last_offset` of the tail, and the
        number of bytes of `piece` in use.
    """

# Columns and text: see `je/entry/columns.py` and `rows.py`.

def distinct(column: _Ints) -> tuple[_Ints, _Ints, _Ints]:
    """Return the distinct numbers of a column, of which there should be few.

    Returns:
        The numbers, in the order of their first occurrence; the row of each first occurrence; for
        each row, the index of its number.
    """

class Program:
    """A program of `programs.Program`, parsed and checked.

    Raises:
        ValueError: the numbers are not a program.
    """

    def __new__(
        cls, *, op_start: _Ints, op_stop: _Ints, ops: _Ints, columns: int, sized: int
    ) -> Program: ...

def decode_columns(
    items: EntryPayloads, *, head: Program, slots: ListPrograms | None, is_whole: bool
) -> tuple[_Columns, _Columns | None, _Ints, _Mask]:
    """Decode payloads of entries of one family and log version.

    Args:
        items: the payloads.
        head: program of the fields, up to a list that is decoded too.
        slots: programs of the list and of the fields after it, if it is decoded.
        is_whole: True if an entry with bytes left over is bad, as it always is with `slots`.

    Returns:
        Columns of the entries: numbers and offsets of byte strings, int64 (columns, n); sizes,
        int64 (byte columns, n), -1 for null; bits of the fields that are present, int64 (n,).
        The same for the items of lists.
        int64 (n + 1,): first item of each entry, and the end of the last ones.
        bool (n,): True for entries that end inside a field or have bytes left over.
    """

def split_keys(keys: Spans, states: _Ints | None) -> tuple[_Ints, _Ints]:
    """Return the sizes of the keys of slots and of their embedded data, -1 for none.

    Without states, all keys have two parts. If a two-part key is malformed, all its bytes are the
    key.
    """

def read_summaries(
    data: _Bytes, starts: _Ints, stops: _Ints, keys: _Ints | None, *, width: int
) -> tuple[_Ints, _Ints, _Ints, _Ints]:
    """Read utilization summaries of one log version.

    Args:
        data: the buffer.
        starts: offset of each summary.
        stops: end of its entry.
        keys: offset of its key, in versions that store the key first; None if it ends the entry.
        width: number of totals.

    Returns:
        Indices of the summaries, without those that are invalid or have more fields; the file
        number of each; their totals, int64 (n, width); LSNs of the obsolete entries of all of them.
    """

def identify(keys: Spans, db_ids: _Ints, seed: _U32s) -> tuple[_Ints, _Ints]:
    """Return two 63-bit digests of each database and key; 0 for a null key."""

def mark_newest(first: _Ints, second: _Ints, wanted: _Mask, threads: int) -> _Mask:
    """Return a mask of the wanted rows that are the last with their two digests."""

def gather(spans: Spans, most: int) -> _Strings | None:
    """Return byte strings one after the other: offsets (n + 1,) and bytes.

    Return None if they come to more than `most` bytes.
    """

def gather_hex(spans: Spans, most: int) -> _Strings | None:
    """Return the same as `gather`, with each byte as two lower-case hexadecimal digits."""

def gather_printable(spans: Spans, limit: int, most: int) -> _Strings | None:
    """Return the same as `gather`, with at most `limit` bytes of each as printable ASCII."""

def lsn_texts(lsns: _Ints, most: int) -> _Strings | None:
    """Return LSNs as `0x3/0x1a2f`, as `gather` returns byte strings."""

def starts_with(spans: Spans, needle: bytes, *, whole: bool) -> _Mask:
    """Return a mask of the byte strings that begin with `needle` or, if `whole`, equal it."""

def contains(spans: Spans, needle: bytes) -> _Mask:
    """Return a mask of the byte strings that contain `needle`."""

def fill_spans(data: _Bytes, starts: _Ints, sizes: _Ints, value: int) -> None:
    """Set the bytes of all byte strings to a value; null ones have none."""

def are_zero(spans: Spans) -> _Mask:
    """Return a mask of the byte strings whose bytes are all zero, or that are null."""

def rows_bound(table: CellTable) -> int | None:
    """Return an upper bound of the size of all rows as text; None if no number holds it."""

def row_texts(table: CellTable, most: int) -> _Strings | None:
    """Return the text of all rows: offsets, and bytes; None if they might exceed `most` bytes."""

def write_rows(table: CellTable, out: _Bytes) -> int:
    """Write the text of all rows; return the end of the last.

    Raises:
        ValueError: `out` does not have SLACK bytes more than the rows take.
    """

def open_thrift(
    data: _Bytes, *, at: int, kind: int, count: int, rules: _Ints, state: int
) -> tuple[_Bytes, npt.NDArray[np.int32], _Ints, _Bytes, int] | None:
    """Extract numbers from Thrift's compact protocol, by the rules of `thrift.open_values`.

    Returns:
        The bytes without the numbers; the places of the numbers; the numbers; their roles; the
        offset after the last value. None if the values are cut short or damaged.
    """

def fill_thrift(
    text: _Bytes, places: npt.NDArray[np.int32], values: _Ints
) -> tuple[_Bytes, _Ints] | None:
    """Return the bytes with numbers at their places, and the offset after each.

    Return None if there are not as many numbers as places.
    """
