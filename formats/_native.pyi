"""The extension that formats/native builds: loops over bytes, compiled ahead.

Arrays that a function fills are contiguous and writable, and were allocated by the caller. Others
are copied where they are not contiguous. The interpreter lock is released. A wrong dtype or length
is a TypeError or a ValueError; bytes of a log never raise. A panic is a RuntimeError, and a bug.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from je_tools.formats.image import Image
from je_tools.formats.je.column_writer import Part
from je_tools.formats.je.columns import Items, ListPrograms
from je_tools.formats.je.fingerprints import Known, Printing
from je_tools.formats.je.nodes import Slots, States
from je_tools.formats.je.reader import ReadOptions, Rows
from je_tools.formats.je.walk import HeaderColumns, HeaderRules
from je_tools.formats.je.writer import Tail
from je_tools.formats.rows import Table
from je_tools.formats.source import Source
from je_tools.formats.spans import Spans

_Bytes = npt.NDArray[np.uint8]
_U32s = npt.NDArray[np.uint32]
_Ints = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_Joined = tuple[_Bytes, _Ints, _Ints]
"""The fields of `Spans`, whose bytes are behind each other and read-only."""
_Strings = tuple[npt.NDArray[np.int32], _Bytes]
_Columns = tuple[_Ints, _Ints, _Ints]

def declared() -> dict[str, int]:
    """Return the numbers that a Python module declares as well, by their names below `formats`."""

def encode_packed(value: int) -> bytes:
    """Return the shortest packed form of a signed 64-bit `value`."""

def read_packed(data: bytes) -> tuple[int, int] | None:
    """Return the packed integer at the start of `data` and its size, or None if there is none."""

# Reading logs.

_Survey = tuple[_Ints, int, int, int, int]
_Lines = tuple[_Ints, _Ints]
_Programs = tuple[_Ints, _Ints, _Ints]

class File:
    """A file that is open for reading; threads that read it keep it open until they are done."""

    def __new__(cls, path: Path) -> File: ...
    def fileno(self) -> int:
        """Return the descriptor; a ValueError after `close`."""

    def close(self) -> None:
        """Close the file as soon as nobody reads it any more."""

class RangeReader:
    """Reads the entries that begin in a range of one file.

    Args:
        source: asked by `read_bytes` for what cannot be read here.
        file: the same; None to ask `source` for all.
        rules: how the headers of the file are read.
        options: which range, and how.
    """

    def __new__(
        cls, source: Source, file: File | None, rules: HeaderRules, options: ReadOptions
    ) -> RangeReader: ...
    def step(self, buffer: _Bytes, columns: HeaderColumns) -> tuple[int, int]:
        """Read on until rows have to be taken, a longer buffer is needed, or the range ends.

        Args:
            buffer: what is read; it must stay as it is from call to call, until it is too short.
            columns: filled from the front.

        Returns:
            An `Event`; how many rows are filled, or how long the buffer must be.

        Raises:
            SourceError: what `source.read_bytes` says.
        """

    def window(self) -> tuple[int, int]:
        """Return the offset in the file of the first byte in the buffer, and how many are there."""

    def survey(self) -> _Survey:
        """Return the fields of a `Survey` of the rows that were returned last."""

    def take_quiet(self) -> tuple[_Survey, _Lines]:
        """Return the same of rows that were not wanted, since the last call, and their tally."""

    def first(self) -> tuple[int, int]:
        """Return the offset of the first entry and its prevOffset; NO_OFFSET if there is none."""

    def place(self) -> tuple[int, int, int, int, bool]:
        """Return the fields of the `Place` where reading goes on."""

    def gaps(self) -> _Ints:
        """Return the gaps that were closed, three numbers each."""

    def chain_breaks(self) -> _Ints:
        """Return the breaks of the chain, four numbers each."""

    def bad(self) -> list[tuple[int, int]]:
        """Return half-open ranges of damaged entries, the first `reader.KEPT` of them."""

    def is_blank(self) -> bool:
        """Return whether nothing but zeros was seen from the start of the range."""

def tally(rows: Rows, programs: _Programs | None) -> _Lines:
    """Return the lines of a `Tally`, five numbers each; no sizes without `steps.programs`."""

# Memory maps.

class Maps:
    """Files mapped behind each other in one stretch of address space: a buffer, read-only.

    A page that cannot be read any more becomes zeros, with all that its file has after it.

    Args:
        stops: where the pages of each file end, ascending; all but what `map` maps is not to be
            read.

    Raises:
        OSError: there is no room.
    """

    def __new__(cls, stops: Sequence[int]) -> Maps: ...
    def map(self, file: File, path: str, at: int, size: int) -> None:
        """Map the first bytes of a file at `at`, before there is any view.

        Raises:
            OSError: the system refuses; `path` is in it.
        """

    @property
    def torn_at(self) -> int:
        """How far into the stretch a page was that could not be read; -1 where all could."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

# Keys: see `je/keysort.py` and `je/node_checks.py`.

def group_keys(keys: Spans, *, two_part: bool) -> tuple[_Ints, _Mask]:
    """Return the ascending order of keys, stable, and where in it other bytes begin."""

def equal_keys(ones: Spans, others: Spans) -> _Mask:
    """Return where two columns of one length have the same bytes; null is only like null."""

def search_sorted(keys: Spans, needles: Spans, *, two_part: bool) -> _Ints:
    """Return for each needle how many of the ascending `keys` are less."""

def descents(keys: Spans, first: _Ints, *, two_part: bool) -> _Mask:
    """Return which slots have a key that is not greater than that before, in their node."""

def holders(keys: Spans, first: _Ints, wanted: Spans) -> _Mask:
    """Return which nodes have a slot with the bytes of the key that is wanted in them."""

# Entries at LSNs: see `je/fetch.py` and `je/fingerprints.py`.

def fetch_entries(
    image: Image, lsns: _Ints, *, rules: Sequence[HeaderRules], check: bool, room_size: int
) -> tuple[dict[str, Any], _Bytes | None]:
    """Read the headers of entries at LSNs, and with `check` sum the entries.

    Args:
        image: the log.
        lsns: of the entries, in any order.
        rules: by log version; newer ones are as the last. `file_size` is not looked at.
        check: whether a wrong checksum is `Found.BAD`.
        room_size: bytes that copies of the good entries may take.

    Returns:
        The columns of `Entries` by name, and the copies, if all good entries had room: then
        positions are those in the copies, and NOWHERE for the others.
    """

def fingerprints_of(
    rows: Rows, *, firsts: _Ints, lasts: _Ints, steps: _Ints, printing: Printing
) -> tuple[_U32s, _Ints]:
    """Return the offsets and the fingerprints of the records whose checksum is right.

    Args:
        rows: entries of a part of a file, whose bytes they have.
        firsts, lasts, steps: see `steps.programs`; the last flattened.
        printing: how fingerprints are made.
    """

def note_lsns(lsns: _Ints, bits: _Bytes) -> None:
    """Set the bits of LSNs in a filter, whose size is a power of two."""

def doubtful_slots(
    slots: Slots, rows: _Ints, known: Known, *, db_id: int, printing: Printing, asks_noted: bool
) -> _Mask:
    """Return of which rows of slots it is not certain that they name a record as they should."""

# Nodes: see `je/nodes.py`. The slots of node i are [first[i], first[i + 1]).

def join_keys(first: _Ints, prefixes: Spans, rests: Spans) -> _Joined:
    """Return the prefix of each slot's node and the rest of its key, behind each other."""

def merge_slots(
    keys: Spans,
    first: _Ints,
    full_first: _Ints,
    full_last: _Ints,
    *,
    ordered: bool,
    two_part: bool,
) -> tuple[_Ints, _Ints]:
    """Return the slots of nodes and of their full versions, and how many each node has then.

    Of two slots with one key the full version's is left out. Where keys are not `ordered` by their
    bytes, a slot of a node takes the place of the first one of the full version that has the same
    bytes, or a place behind the node's slot before it.

    Args:
        keys: of all slots.
        first: int64 (nodes + 1,).
        full_first, full_last: int64 (nodes,); slots of the full version of each.
        ordered: whether keys are ordered by their bytes.
        two_part: whether keys are those of a database with duplicates.
    """

def count_replaced(
    keys: Spans, first: _Ints, fulls: States, rows: _Ints, alive: _Mask, *, ascending: bool
) -> int:
    """Return how many slots of `fulls` are alive and have the key of a slot of their delta.

    Args:
        keys, first: slots of the deltas.
        fulls: full nodes.
        rows: int64 (deltas,); the place in `fulls` of the full version of each.
        alive: of the slots of `fulls`.
        ascending: keys are in the order of bytes, so that none need be looked at twice.
    """

def within(keys: Spans, first: _Ints, low: Spans, high: Spans, *, two_part: bool) -> _Mask:
    """Return which slots have a key from their node's lower bound on and below its upper one."""

# What is written: see `je/column_writer.py`, `je/node_writer.py` and `je/writer.py`.

def encode_parts(types: _Bytes, head: Part, slots: Part, tail: Part) -> _Joined:
    """Return the payloads of entries: head, slots and tail of each, behind each other."""

def prefix_sizes(keys: Spans, first: _Ints) -> _Ints:
    """Return how many bytes all keys of each node begin with, -1 where there are less than two."""

def join_rests(keys: Spans, data: Spans, first: _Ints, prefixes: _Ints) -> _Joined:
    """Return what slots have of their keys behind the prefix, with their data if it is not null."""

def append_rows(
    items: Spans,
    *,
    row: int,
    flags: _Ints,
    type_no: int,
    tail: Tail,
    file_max: int,
    summed_flags: int,
    used: int,
    piece: _Bytes,
    lsns: _Ints,
) -> tuple[int, int, int, int]:
    """Put entries of one type behind each other as far as they fit into their file and `piece`.

    Args:
        items: what comes behind the header of each.
        row: the first one.
        flags: int64 (items,); none of them says that there is a VLSN.
        type_no: of all.
        tail: where the log ends.
        file_max: bytes that a file may have, if it is to have more than one entry.
        summed_flags: the flags that the checksum covers.
        used: bytes of `piece` that are taken.
        piece: filled from `used` on.
        lsns: int64 (items,), filled.

    Returns:
        The first row that did not fit, the `next_offset` and `last_offset` of the tail, and the
        bytes of `piece` that are taken.
    """

# Columns and text: see `je/columns.py` and `rows.py`.

def distinct(column: _Ints) -> tuple[_Ints, _Ints, _Ints]:
    """Return the different numbers of a column, of which there should be few.

    Returns:
        The numbers in the order in which they come first; the rows in which they do; of each row,
        which of the numbers it holds.
    """

class Program:
    """A program of `programs.Program`, parsed and checked.

    Raises:
        ValueError: the numbers are no program.
    """

    def __new__(
        cls, *, op_start: _Ints, op_stop: _Ints, ops: _Ints, columns: int, sized: int
    ) -> Program: ...

def decode_columns(
    items: Items, *, head: Program, slots: ListPrograms | None, is_whole: bool
) -> tuple[_Columns, _Columns | None, _Ints, _Mask]:
    """Decode payloads of entries of one family and log version.

    Args:
        items: the payloads.
        head: of the fields, up to a list that is decoded too.
        slots: of the list and what is after it, if it is decoded.
        is_whole: take an entry with bytes left over for bad.

    Returns:
        Columns of the entries: numbers and offsets of byte strings int64 (columns, n), sizes
        int64 (byte columns, n) with -1 for null, bits of what is present int64 (n,).
        The same of the items of lists.
        int64 (n + 1,): where the items of each entry begin, and the last ones end.
        bool (n,): which entries end inside a field or have bytes left over.
    """

def split_keys(keys: Spans, states: _Ints | None) -> tuple[_Ints, _Ints]:
    """Return the sizes of keys of slots and of the data embedded in them, -1 where there is none.

    Without states all keys have two parts. One that should have and has not keeps all its bytes.
    """

def read_summaries(
    data: _Bytes, starts: _Ints, stops: _Ints, keys: _Ints | None, *, width: int
) -> tuple[_Ints, _Ints, _Ints, _Ints]:
    """Read utilization summaries of one log version.

    Args:
        data: the bytes.
        starts: where each begins.
        stops: where its entry ends.
        keys: where its key is, of versions that have it first; else it ends the entry.
        width: how many totals there are.

    Returns:
        Which of them hold nothing but what every summary does; the number of the file of each of
        these; their totals int64 (n, width); LSNs of obsolete entries, of all of them.
    """

def identify(keys: Spans, db_ids: _Ints, seed: _U32s) -> tuple[_Ints, _Ints]:
    """Return two digests of 63 bits of each database and key; 0 where the key is null."""

def mark_newest(first: _Ints, second: _Ints, wanted: _Mask, threads: int) -> _Mask:
    """Return which wanted rows are the last with their two digests."""

def gather(spans: Spans, most: int) -> _Strings | None:
    """Return byte strings one after the other: offsets (n + 1,) and bytes.

    Return None if they come to more than `most` bytes.
    """

def gather_hex(spans: Spans, most: int) -> _Strings | None:
    """Return the same as `gather`, each byte as two lower-case hexadecimal digits."""

def gather_printable(spans: Spans, limit: int, most: int) -> _Strings | None:
    """Return the same as `gather`, at most `limit` bytes of each as printable ASCII."""

def lsn_texts(lsns: _Ints, most: int) -> _Strings | None:
    """Return LSNs as `0x3/0x1a2f`, as `gather` returns byte strings."""

def starts_with(spans: Spans, needle: bytes, *, whole: bool) -> _Mask:
    """Return which byte strings begin with `needle`, or with `whole` are equal to it."""

def contains(spans: Spans, needle: bytes) -> _Mask:
    """Return which byte strings hold `needle` somewhere."""

def rows_bound(table: Table) -> int | None:
    """Return a size that the text of all rows does not pass; None if no number holds it."""

def write_rows(table: Table, out: _Bytes, ends: _Ints | None) -> int:
    """Write the text of all rows, and where each ends; return where the last one does.

    Raises:
        ValueError: `out` does not have SLACK bytes more than they take.
    """

def open_thrift(
    data: _Bytes, *, at: int, kind: int, count: int, rules: _Ints, state: int
) -> tuple[_Bytes, npt.NDArray[np.int32], _Ints, _Bytes, int] | None:
    """Take numbers out of Thrift's compact protocol, by the rules of `thrift.open_values`.

    Returns:
        The bytes without the numbers; where these stood; the numbers; their roles; the offset
        after the last value. None if the values are cut short or damaged.
    """

def fill_thrift(
    text: _Bytes, places: npt.NDArray[np.int32], values: _Ints
) -> tuple[_Bytes, _Ints] | None:
    """Return the bytes with numbers at their places, and where each ends.

    Return None if there are not as many numbers as places.
    """
