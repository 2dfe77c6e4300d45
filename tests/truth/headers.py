"""A plain walk over the entry headers of whole logs, for comparison with dumps and prints.

It shares no code with the project: its knowledge is below, and in
je-log.md "Entries" and "The file header".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# name, in transactions, user record. The numbers have never changed; JE 3.3 called 16 Root.
_TYPES = """
1 LN_TX t u|2 LN - u|3 MapLN_TX t -|4 MapLN - -|5 NameLN_TX t -|6 NameLN - -|7 DelDupLN_TX t u
8 DelDupLN - u|9 DupCountLN_TX t -|10 DupCountLN - -|11 FileSummaryLN - -|12 IN - -|13 BIN - -
14 DIN - -|15 DBIN - -|16 DbTree - -|17 Commit t -|18 Abort t -|19 CkptStart - -|20 CkptEnd - -
21 INDelete - -|22 BINDelta - -|23 DupBINDelta - -|24 Trace - -|25 FileHeader - -
26 INDupDelete - -|27 Prepare t -|28 RollbackStart - -|29 RollbackEnd - -|30 Matchpoint - -
31 DEL_LN_TX t u|32 DEL_LN - u|33 INS_LN_TX t u|34 INS_LN - u|35 UPD_LN_TX t u|36 UPD_LN - u
37 NewBINDelta - -|38 ImmutableFile - -|39 RestoreRequired - -|40 ReservedFileLN - -
41 ExtinctScanLN - -|42 ExtinctScanLN_TX t -|43 Erased - -|44 UPD_LN_TX_WITH_BEFORE_IMAGE t u
45 DEL_LN_TX_WITH_BEFORE_IMAGE t u
"""
_ROWS = [row.split() for row in _TYPES.replace("|", "\n").split("\n") if row]

NAMES = {int(no): name for no, name, _, _ in _ROWS}
NUMBERS = {name: no for no, name in NAMES.items()} | {"Root": 16}
USER_TYPES = frozenset(int(no) for no, _, _, user in _ROWS if user == "u")
TRANSACTIONAL_TYPES = frozenset(int(no) for no, _, txnal, _ in _ROWS if txnal == "t")

FILE_HEADER, ERASED = 25, 43
_FIXED = struct.Struct("<IBBIi")
_FILE_HEADER_ITEM = struct.Struct("<qIqi")
_INVISIBLE = 0x10


class Header(NamedTuple):
    """One entry's header.

    `provisional` is YES, BEFORE_CKPT_END or NO; `vlsn` is None if the header has none;
    `checksum_ok` is None for an erased entry, whose checksum is of its former bytes.
    """

    lsn: int
    type_no: int
    version: int
    provisional: str
    replicated: bool
    invisible: bool
    vlsn: int | None
    prev_offset: int
    header_size: int
    item_size: int
    checksum: int
    checksum_ok: bool | None

    @property
    def size(self) -> int:
        """Size of the entry in bytes, including its header."""
        return self.header_size + self.item_size


def walk_log(home: Path) -> Iterator[Header]:
    """Yield the entries of every .jdb file of a directory, in log order."""
    for path in sorted(home.glob("*.jdb")):
        yield from walk_file(path)


def walk_file(path: Path) -> Iterator[Header]:
    """Yield the entries of one file, up to the first that is incomplete.

    Raises:
        ValueError: the file does not begin with a file header, or an entry's type or size is
            invalid; the message has the LSN.
    """
    yield from walk_bytes(path.read_bytes(), int(path.stem, 16))


def walk_bytes(data: bytes, file_no: int) -> Iterator[Header]:
    """Yield the entries of a file's bytes, like `walk_file`."""
    if len(data) < 38:
        return
    if data[4] != FILE_HEADER:
        raise ValueError(f"{file_no:08x}.jdb: no file header")
    version = _FILE_HEADER_ITEM.unpack_from(data, 14)[3]
    offset = 0
    while offset + 14 <= len(data):
        header = _header(data, file_no << 32 | offset, version)
        if header is None or offset + header.size > len(data):
            return
        yield header
        offset += header.size


def _header(data: bytes, lsn: int, version: int) -> Header | None:
    """Decode the header at an LSN; return None if the bytes end inside it."""
    start = lsn & 0xFFFFFFFF
    checksum, type_no, flags, prev_offset, item_size = _FIXED.unpack_from(data, start)
    if type_no not in NAMES or item_size < 0:
        raise ValueError(f"no entry at 0x{lsn >> 32:x}/0x{start:x}")
    has_vlsn = bool(flags & (0x28 if version >= 8 else 0x20 if version >= 6 else 0))
    header_size = 22 if has_vlsn else 14
    if start + header_size > len(data):
        return None
    vlsn = struct.unpack_from("<q", data, start + 14)[0] if has_vlsn else None
    invisible = version >= 7 and bool(flags & _INVISIBLE)
    summed = zlib.adler32(bytes([type_no, flags & ~_INVISIBLE if invisible else flags]))
    summed = zlib.adler32(data[start + 6 : start + header_size + item_size], summed)
    return Header(
        lsn=lsn,
        type_no=type_no,
        version=version,
        provisional="YES" if flags & 0x80 else "BEFORE_CKPT_END" if flags & 0x40 else "NO",
        replicated=bool(flags & 0x20),
        invisible=invisible,
        vlsn=vlsn,
        prev_offset=prev_offset,
        header_size=header_size,
        item_size=item_size,
        checksum=checksum,
        checksum_ok=None if type_no == ERASED else summed == checksum,
    )
