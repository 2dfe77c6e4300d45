"""Read every byte of a log and sum it, in parallel, as fast as this machine allows.

    python bench/floor.py DIR [isal|zlib] [map|read]

This is the lower bound for `je-tools verify`, which must read and Adler-sum the same bytes but also
find the entries in them. It prints the bytes and the sum, so that no work can be left out.
Nothing of je_tools is imported: the bound must not inherit its mistakes.
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

from isal import isal_zlib

Sum = Callable[[Any], int]

CHUNK = 8 << 20
"""Bytes that one task sums: tasks far outnumber cores, so that the last ones end together."""
READ = 256 << 10
"""Bytes read at a time, few enough to be summed while they are in the core's cache."""


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
    """Sum one chunk of a file through a small buffer that is reused."""
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
    how = sys.argv[2] if len(sys.argv) > 2 else "isal"
    reading = sys.argv[3] if len(sys.argv) > 3 else "map"
    add: Sum = isal_zlib.adler32 if how == "isal" else zlib.adler32
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
