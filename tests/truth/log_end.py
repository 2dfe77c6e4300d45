"""Where a log ends, and its entries up to there, as an engine takes them when it opens the log.

It shares no code with the project: what it knows is below, and in
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
    """The good entries at the beginning of a file, and where the last of them stops."""

    entries: list[Header]
    stop: int


@dataclass
class Log:
    """A log up to its end.

    Attributes:
        files: bytes of each file by number, up to and with the last that counts.
        last: the number of that file; None where no file counts.
        refusal: why it cannot be opened at all.
    """

    files: dict[int, bytes]
    last: int | None = None
    refusal: str | None = None

    @property
    def end(self) -> int:
        """The LSN behind the last entry."""
        assert self.last is not None
        return self.last << 32 | good_entries(self.files[self.last], self.last).stop

    @property
    def damaged(self) -> list[int]:
        """Files before the last whose entries do not go up to their end."""
        whole = [no for no in self.files if no != self.last]
        return [no for no in whole if good_entries(self.files[no], no).stop < len(self.files[no])]

    def entries(self) -> Iterator[tuple[Header, bytes]]:
        """Every good entry in front of the end, and the bytes behind its header."""
        for file_no, data in self.files.items():
            for header in good_entries(data, file_no).entries:
                start = (header.lsn & 0xFFFFFFFF) + header.header_size
                yield header, data[start : start + header.item_size]


def read_log(home: Path) -> Log:
    """The log of a directory; an engine has not to open it for that."""
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
    """Whether a file begins as the file of this number does."""
    if len(data) < HEADER_SIZE or data[4] != FILE_HEADER:
        return False
    if struct.unpack_from("<I", data, 22)[0] != file_no:
        return False
    return bool(struct.unpack_from("<I", data)[0] == zlib.adler32(data[4:HEADER_SIZE]))


@lru_cache(maxsize=64)
def good_entries(data: bytes, file_no: int) -> Good:
    """The entries up to the first that is none, or whose checksum is wrong."""
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
