"""Reads every byte of a log and sums it, in parallel, as fast as this machine allows.

    python bench/floor.py DIR [numba|zlib] [map|read]

This is the floor under `je-tools verify`, which must read and Adler-sum the same bytes but also
find the entries in them. It prints the bytes and the sum, so that no work can be left out.
Nothing of je_tools is imported: the floor must not inherit our mistakes.
"""

from __future__ import annotations

import mmap
import os
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

Sum = Callable[[Any], int]

CHUNK = 8 << 20
"""Bytes one task sums: many more tasks than cores, so that the last ones end together."""
READ = 256 << 10
"""Bytes read at a time: small enough to be summed while they are in the core's cache."""


def numba_adler() -> Sum:
    """Adler-32 in blocks whose two sums LLVM vectorises; compiled once, kept on disk."""
    import numba
    import numpy as np

    @numba.njit(
        [numba.uint32(numba.types.Array(numba.uint8, 1, "C", readonly=True))],
        nogil=True,
        cache=True,
    )
    def adler(data: Any) -> Any:
        # 255 * 4096 * 4097 / 2 fits in 32 bits, so a block needs no modulus; a row of fixed
        # length with weights known beforehand is what LLVM turns into multiply-add vectors.
        low, high = np.uint64(1), np.uint64(0)
        start, size, row_size = 0, data.size, 64
        while start < size:
            count = min(4096, size - start)
            block = data[start : start + count]
            total, weighted, before = np.uint32(0), np.uint32(0), np.uint32(0)
            for row_no in range(count // row_size):
                before = np.uint32(before + total)
                row = block[row_no * row_size : (row_no + 1) * row_size]
                row_total, row_weighted = np.uint32(0), np.uint32(0)
                for i in range(row_size):
                    byte = np.uint16(row[i])
                    row_total = np.uint32(row_total + byte)
                    weighted_byte = np.uint32(np.uint16(row_size - i) * byte)
                    row_weighted = np.uint32(row_weighted + weighted_byte)
                total = np.uint32(total + row_total)
                weighted = np.uint32(weighted + row_weighted)
            weighted = np.uint32(weighted + before * np.uint32(row_size))
            for i in range(count // row_size * row_size, count):
                total = np.uint32(total + np.uint32(block[i]))
                weighted = np.uint32(weighted + total)
            high = (high + low * np.uint64(count) + np.uint64(weighted)) % np.uint64(65521)
            low = (low + np.uint64(total)) % np.uint64(65521)
            start += count
        return np.uint32(high << np.uint64(16) | low)

    def of_view(view: Any) -> int:
        array = np.frombuffer(view, np.uint8)
        array.flags.writeable = False
        return int(adler(array))

    return of_view


def sum_mapped(task: tuple[str, int, int], add: Sum) -> int:
    """Sum one chunk of a file through a map."""
    path, start, stop = task
    with (
        Path(path).open("rb") as file,
        mmap.mmap(file.fileno(), stop - start, access=mmap.ACCESS_READ, offset=start) as mapped,
        memoryview(mapped) as view,
    ):
        return add(view)


def sum_read(task: tuple[str, int, int], add: Sum) -> int:
    """Sum one chunk of a file through a small buffer that is used again and again."""
    path, start, stop = task
    total = 0
    buffer = memoryview(bytearray(min(READ, stop - start)))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        while start < stop:
            got = os.preadv(descriptor, [buffer[: stop - start]], start)
            total += add(buffer[:got])
            start += got
    finally:
        os.close(descriptor)
    return total


def main() -> int:
    folder = Path(sys.argv[1])
    how = sys.argv[2] if len(sys.argv) > 2 else "numba"
    reading = sys.argv[3] if len(sys.argv) > 3 else "map"
    add: Sum = numba_adler() if how == "numba" else zlib.adler32
    one = sum_mapped if reading == "map" else sum_read
    tasks = []
    for path in sorted(folder.glob("*.jdb")):
        size = path.stat().st_size
        starts = range(0, size, CHUNK)
        tasks += [(str(path), start, min(start + CHUNK, size)) for start in starts]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        total = sum(pool.map(lambda task: one(task, add), tasks))
    print(sum(stop - start for _, start, stop in tasks), total)
    return 0


if __name__ == "__main__":
    sys.exit(main())
