"""The extension that formats/native builds: loops over bytes, compiled ahead.

Arrays that a function fills are contiguous and writable, and were allocated by the caller.
The interpreter lock is released. A wrong dtype or length is a TypeError or a ValueError; bytes of
a log never raise.
"""

import numpy as np
import numpy.typing as npt

from je_tools.formats.je.columns import Items, ListPrograms
from je_tools.formats.je.walk import HeaderColumns, HeaderRules
from je_tools.formats.rows import Table
from je_tools.formats.spans import Spans

_Bytes = npt.NDArray[np.uint8]
_U32s = npt.NDArray[np.uint32]
_Ints = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_Strings = tuple[npt.NDArray[np.int32], _Bytes]
_Columns = tuple[_Ints, _Ints, _Ints]

def declared() -> dict[str, int]:
    """Return the numbers that a Python module declares as well, by their names below `formats`."""

def encode_packed(value: int) -> bytes:
    """Return the shortest packed form of a signed 64-bit `value`."""

def read_packed(data: bytes) -> tuple[int, int] | None:
    """Return the packed integer at the start of `data` and its size, or None if there is none."""

def walk(
    data: _Bytes,
    *,
    base: int,
    at: int,
    limit: int,
    expected_prev: int,
    shift: int,
    rules: HeaderRules,
    columns: HeaderColumns,
    survey: _Ints | None,
) -> tuple[int, int, int]:
    """Step over entries from offset `at` while they begin before `limit`, filling `columns`.

    With a survey, each entry but the last is summed when the one after it has been taken, as its
    bytes are in the core's cache then; before that its size may be wild.

    Args:
        data: bytes [base, base + len(data)) of the file.
        base: offset in the file of the first byte of `data`.
        at: offset in the file of an entry.
        limit: first offset at which no entry is begun.
        expected_prev: what the first header's prevOffset must be, or NO_OFFSET for anything.
        shift: how much further back than they are entries name the ones before them; not 0 where
            bytes were inserted or are missing.
        rules: how the headers of the file are read.
        columns: filled from the front; `checksum` only with a survey, and not of the last entry.
        survey: int64 (SURVEY_SIZE,), to which the summed entries are added: how many there are of
            each type, how many are BAD, the flags that any has.

    Returns:
        Entries found, offset of the first entry not taken, a `Stop`.
    """

def check_sums(
    data: _Bytes, *, base: int, rules: HeaderRules, offsets: _U32s, states: _Bytes
) -> None:
    """Fill `states` with the `Checksum` of the entries at `offsets`; BAD if not inside `data`."""

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
