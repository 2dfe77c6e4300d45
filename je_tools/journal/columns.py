"""Keys and values of journal records as columns: journal ids, op codes, values that do not decode.

Source: je-log.md "Journals of front ends"; JournalEntity.write, BDBJEJournal.write, StarRocks and
Apache Doris; LongBinding, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.spans import Spans

KEY_SIZE = 8
OP_SIZE = 2
LENGTH_SIZE = 4
"""Bytes of a key, of an op code, and of the length before a text."""

OP_CODES = 1 << 16
"""Number of op codes that fit their size."""

NUMBER_OPS = (0, 104)
"""Op codes whose payload is a decimal number as text: the next id, the next transaction id."""

TIMESTAMP_OP = 70
"""Op code whose payload is a time: 8 bytes without a length."""

_TIME_SIZE = 8
_SIGN = np.uint64(1 << 63)


def ids_of(keys: Spans) -> tuple[Ints, Mask]:
    """Return journal ids, int64, 0 where a key is not 8 bytes long, and a mask of those that are.

    Source: LongBinding.longToEntry, JE 18.3.12: big endian, the sign bit flipped.
    """
    good = keys.sizes == KEY_SIZE
    ids = np.zeros(len(keys), np.int64)
    numbers = _big_endian(keys.data, keys.starts[good], KEY_SIZE)
    ids[good] = (numbers ^ _SIGN).view(np.int64)
    return ids, good


def ops_of(values: Spans) -> tuple[npt.NDArray[np.int16], Mask]:
    """Return op codes, int16, 0 where a value is too short or null, and a mask of the others."""
    good = values.sizes >= OP_SIZE
    ops = np.zeros(len(values), np.int16)
    numbers = _big_endian(values.data, values.starts[good], OP_SIZE)
    ops[good] = numbers.astype(np.uint16).view(np.int16)
    return ops, good


def count_by_op(counts: Ints) -> dict[int, int]:
    """Return the number of records of each op code that occurs.

    Args:
        counts: int64 (OP_CODES,); the number of each op code, by its bits as an unsigned number.
    """
    codes = np.flatnonzero(counts)
    signed = codes.astype(np.uint16).view(np.int16)
    return dict(zip(signed.tolist(), counts[codes].tolist(), strict=True))


def fits_of(values: Spans, ops: npt.NDArray[np.int16], good: Mask) -> Mask:
    """Return a mask of the values whose payload has the size that its op code requires.

    Only op codes whose form is the same in all releases are checked: NUMBER_OPS and TIMESTAMP_OP.

    Args:
        values: values of records.
        ops, good: their op codes, as `ops_of` returns them.
    """
    fits = good.copy()
    times = good & (ops == TIMESTAMP_OP)
    fits[times] = values.sizes[times] == OP_SIZE + _TIME_SIZE
    texts = np.flatnonzero(good & ((ops == NUMBER_OPS[0]) | (ops == NUMBER_OPS[1])))
    is_long = values.sizes[texts] >= OP_SIZE + LENGTH_SIZE
    fits[texts[~is_long]] = False
    texts = texts[is_long]
    lengths = _big_endian(values.data, values.starts[texts] + OP_SIZE, LENGTH_SIZE)
    sizes = lengths.astype(np.int64) + (OP_SIZE + LENGTH_SIZE)
    fits[texts] = sizes == values.sizes[texts]
    return fits


def _big_endian(data: npt.NDArray[np.uint8], starts: Ints, size: int) -> npt.NDArray[np.uint64]:
    """Return unsigned big-endian numbers of `size` bytes each; all must lie in `data`."""
    numbers = np.zeros(len(starts), np.uint64)
    for i in range(size):
        numbers = (numbers << np.uint64(8)) | data[starts + i]
    return numbers
