"""The extension that formats/native builds: loops over bytes, compiled ahead.

Arrays are contiguous. Those that a function fills are writable and were allocated by the caller.
The interpreter lock is released. A wrong dtype or length is a TypeError or a ValueError; bytes of
a log never raise.
"""

import numpy as np
import numpy.typing as npt

from je_tools.formats.je.walk import HeaderColumns, HeaderRules

_Bytes = npt.NDArray[np.uint8]
_U32s = npt.NDArray[np.uint32]
_Ints = npt.NDArray[np.int64]

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
