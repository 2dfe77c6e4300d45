"""End of a log, and its entries up to there, as an engine determines them on opening.

It shares no code with the project: its knowledge is below, and in
je-log.md "Where a log ends, and what damage costs".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tests.truth.headers import ERASED, FILE_HEADER, Header, walk_bytes

HEADER_SIZE = 38


class Good(NamedTuple):
    """The good entries at the beginning of a file, and the end of the last."""

    entries: list[Header]
    stop: int


@dataclass
class Log:
    """A log up to its end.

    Attributes:
        files: bytes of each file by number, up to and including the last that counts.
        last: number of that file; None if no file counts.
        refusal: reason why it cannot be opened at all, if any.
    """

    files: dict[int, bytes]
    last: int | None = None
    refusal: str | None = None

    @property
    def end(self) -> int:
        """The LSN after the last entry."""
        assert self.last is not None
        return self.last << 32 | good_entries(self.files[self.last], self.last).stop

    @property
    def damaged(self) -> list[int]:
        """Files before the last whose good entries do not reach the end of the file."""
        whole = [no for no in self.files if no != self.last]
        return [no for no in whole if good_entries(self.files[no], no).stop < len(self.files[no])]

    def entries(self) -> Iterator[tuple[Header, bytes]]:
        """Yield every good entry before the end, and the bytes after its header."""
        for file_no, data in self.files.items():
            for header in good_entries(data, file_no).entries:
                start = (header.lsn & 0xFFFFFFFF) + header.header_size
                yield header, data[start : start + header.item_size]


def read_log(home: Path) -> Log:
    """Read the log of a directory, which need not be one that an engine opens."""
    paths = sorted(home.glob("*.jdb"))
    log = Log({int(path.stem, 16): path.read_bytes() for path in paths})
    for file_no in sorted(log.files, reverse=True):
        data = log.files[file_no]
        if len(data) > HEADER_SIZE:
            log.last = file_no
            if not is_header(data, file_no):
                log.refusal = f"the header of {file_no:08x}.jdb"
            break
        del log.files[file_no]
    return log


def is_header(data: bytes, file_no: int) -> bool:
    """Return whether the bytes begin with a valid header of the file of this number."""
    if len(data) < HEADER_SIZE or data[4] != FILE_HEADER:
        return False
    if struct.unpack_from("<I", data, 22)[0] != file_no:
        return False
    return bool(struct.unpack_from("<I", data)[0] == zlib.adler32(data[4:HEADER_SIZE]))


@lru_cache(maxsize=64)
def good_entries(data: bytes, file_no: int) -> Good:
    """Return the entries up to the first that is invalid or whose checksum is wrong."""
    entries: list[Header] = []
    stop = 0
    try:
        for header in walk_bytes(data, file_no):
            if header.checksum_ok is False and header.type_no != ERASED:
                break
            entries.append(header)
            stop = (header.lsn & 0xFFFFFFFF) + header.size
    except ValueError:
        return Good(entries, stop)
    return Good(entries, stop)
