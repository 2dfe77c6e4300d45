"""Places in the text of a message: LSNs, log files and VLSNs; pointers and pages of Ignite.

JE up to 18.3 prints decimal digits after `0x` in the text of RollbackException; later releases
print hexadecimal ones. Such a place is corrected.

Source: RollbackException.makeMessage, JE 7.5.11 and 25.3.21; apache/doris#17475 and
StarRocks/starrocks#39871 show it in JE 18.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from je_tools.formats.ignite.page_ids import page_file_name, partition_of
from je_tools.formats.je.header import lsn_of, lsn_text

_LSN = re.compile(rb"(?<![\w/])0x([0-9a-fA-F]{1,8})/0x([0-9a-fA-F]{1,8})(?!\w)")
_TRUNCATED = re.compile(
    rb"truncated\s+to\s+file\s+0x([0-9a-fA-F]{1,10}),\s+offset\s+0x([0-9a-fA-F]{1,10})(?!\w)"
)
_TO_TRUNCATE = re.compile(
    rb"truncate\s+the\s+log\s+to\s+file\s+([0-9a-f]{8})\.jdb,\s+offset\s+0x([0-9a-f]{1,8})(?!\w)"
)
_FILE = re.compile(rb"(?<![0-9a-zA-Z])([0-9a-f]{8}\.(?:jdb|del|bad|bup))(?!\w)")
_PASSED = re.compile(rb"vlsn=[\d,]+\s+lsn=0x([0-9a-fA-F]{1,8})/0x([0-9a-fA-F]{1,8})\s+durable=")
_RELEASE = re.compile(rb"\(JE\s+(\d{1,3})\.")
_VLSN = re.compile(
    rb"(?:vlsn[ =]|VLSN:\s+|VLSN\s+of\s+|want\s+to\s+read\s+|reader\s+at\s+|recoveryFirst=\s*)"
    rb"(\d[\d,]{0,25})"
)

_POINTER = re.compile(rb"WALPointer\s+\[idx=(\d{1,18}),\s+fileOff=(\d{1,10}),")
_PAGES = (
    re.compile(rb"\bgrpId = (?P<group>-?\d{1,10}), pageId = (?P<page>[0-9A-F]{1,16})\b"),
    re.compile(
        rb"\bpageId=(?P<page>[0-9a-f]{16}),\s+effectivePageId=[0-9a-f]{16},\s+"
        rb"grpId=(?P<group>-?\d{1,10})\b"
    ),
)
"""Source: WALPointer, FullPageId, PageMemoryImpl.tryToRestorePage, Ignite 2.18.0."""

_LAST_DECIMAL_RELEASE = 18
_U32 = 0xFFFFFFFF


class MessagePlace(Struct, frozen=True):
    """A place that a message names.

    Attributes:
        file: name of the log file, `000000fb.jdb`.
        lsn: the LSN; None if the message names only the file.
        printed: the place as printed, if that was corrected.
        pointer, page: of a store of Ignite, as `explain` takes them; else None.
    """

    file: str
    lsn: int | None = None
    printed: str | None = None
    pointer: str | None = None
    page: str | None = None

    @property
    def text(self) -> str:
        """The LSN in the engine's notation, the pointer or page, or the name of the file."""
        if self.pointer is not None or self.page is not None:
            return self.pointer or self.page or ""
        return self.file if self.lsn is None else lsn_text(self.lsn)


def places_in(text: bytes) -> Iterator[MessagePlace]:
    """Yield the places that a text names: first where it says to cut, then LSNs, then files."""
    for found in _TRUNCATED.finditer(text):
        place = _truncated(text, found[1].decode("ascii"), found[2].decode("ascii"))
        if place is not None:
            yield place
    for found in (*_TO_TRUNCATE.finditer(text), *_LSN.finditer(text)):
        yield _place(int(found[1], 16), int(found[2], 16))
    for found in _FILE.finditer(text):
        yield MessagePlace(found[1].decode("ascii"))
    yield from _store_places(text)


def _store_places(text: bytes) -> Iterator[MessagePlace]:
    for found in _POINTER.finditer(text):
        segment, offset = int(found[1]), int(found[2])
        yield MessagePlace(f"{segment:016d}.wal", pointer=f"{segment}:{offset}")
    for pattern in _PAGES:
        for found in pattern.finditer(text):
            page_id = int(found["page"], 16)
            file = page_file_name(partition_of(page_id))
            group = found["group"].decode("ascii")
            yield MessagePlace(file, page=f"{group}:{page_id:016x}")


def _place(file_no: int, offset: int, printed: str | None = None) -> MessagePlace:
    return MessagePlace(f"{file_no:08x}.jdb", lsn_of(file_no, offset), printed)


def _truncated(text: bytes, file: str, offset: str) -> MessagePlace | None:
    """Return the place of `truncated to file 0x…, offset 0x…`, or None if it can be none."""
    decimal = _numbers(file, offset, 10)
    hexadecimal = _numbers(file, offset, 16)
    if decimal and (hexadecimal is None or _is_decimal(text, decimal, hexadecimal)):
        return _place(*decimal, printed=f"file 0x{file}, offset 0x{offset}")
    return _place(*hexadecimal) if hexadecimal else None


def _numbers(file: str, offset: str, base: int) -> tuple[int, int] | None:
    """Return file number and offset read in a base, or None if one is no number of 32 bits."""
    if base == 10 and not (file.isdecimal() and offset.isdecimal()):
        return None
    numbers = int(file, base), int(offset, base)
    return numbers if max(numbers) <= _U32 else None


def _is_decimal(text: bytes, decimal: tuple[int, int], hexadecimal: tuple[int, int]) -> bool:
    """Return whether the digits are decimal, by the first transaction that is rolled back.

    The text names its LSN, which is after the place and near it. Without one, the release
    decides; without a release, the digits are taken as decimal.
    """
    passed = _PASSED.search(text)
    if passed:
        at = (int(passed[1], 16), int(passed[2], 16))
        fitting = [each for each in (decimal, hexadecimal) if each <= at]
        if len(fitting) == 1:
            return fitting[0] == decimal
        if fitting:
            return max(fitting) == decimal
    release = _RELEASE.search(text)
    return release is None or int(release[1]) <= _LAST_DECIMAL_RELEASE


def vlsns_in(text: bytes) -> list[int]:
    """Return the VLSNs that a text names, each once, in their order."""
    found = (int(each[1].replace(b",", b"")) for each in _VLSN.finditer(text))
    return list(dict.fromkeys(found))
