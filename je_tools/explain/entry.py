"""Explanation of one entry byte by byte: its fields, their values, and its damage.

A damaged entry is explained as far as it decodes. If no entry begins at a place, the error names
the entries around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.masking import KEY_FIELDS, DataMode, Masking
from je_tools.errors import InputError, StoppedError
from je_tools.formats.files.source import Source, SourceChangedError
from je_tools.formats.je.entry.entries import Span, Value, decode_spans
from je_tools.formats.je.header import (
    EntryError,
    Header,
    entry_checksum,
    lsn_of,
    lsn_text,
    read_header,
    type_no_of,
)
from je_tools.formats.je.log.walk import Checksum
from je_tools.formats.je.types import ENTRY_TYPES, ERASED_NO, type_name
from je_tools.log.field_descriptions import HEADER_FIELDS, field_meaning
from je_tools.log.field_texts import FieldContext, header_texts, last_name
from je_tools.log.parsing import parse_lsn
from je_tools.log.scan import Scanner

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.formats.je.log.places import Gap
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile

_ALL_ZERO = "only zeros: space that was never written, or lost"

TORN_LIMIT = 1 << 16
"""Largest number of bytes shown of something that is no entry: its size cannot be trusted."""


class ByteKind(StrEnum):
    """Kind of the bytes of a piece."""

    HEADER = "header"
    ITEM = "item"
    REST = "rest"
    """Bytes that no field explains."""


class EntryPiece(Struct, frozen=True):
    """One field of an entry.

    Attributes:
        part: header, item or rest.
        path: path of the field, as `slots[2].key`.
        start, stop: half-open byte range in the entry.
        value: as decoded; if masked its replacement, or None if hidden.
        text: the value for people, on one line, control characters escaped.
        meaning: description of the field.
        masked: True if the bytes must not be shown.
    """

    part: ByteKind
    path: str
    start: int
    stop: int
    value: Value
    text: str
    meaning: str
    masked: bool = False


class EntryExplanation(Struct, frozen=True):
    """An entry of a log, or its remains.

    Attributes:
        path: path of the file.
        version: log version of the file.
        lsn: LSN of the entry.
        data: its bytes, up to the end of the file or the next good entry.
        type_no: entry type number.
        checksum: state of the checksum.
        pieces: fields that cover every byte of `data`, in order.
        problems: faults of the entry; empty for a good one.
    """

    path: Path
    version: int
    lsn: int
    data: bytes
    type_no: int
    checksum: Checksum
    pieces: tuple[EntryPiece, ...]
    problems: tuple[str, ...]

    @property
    def type_name(self) -> str:
        """The engine's name of the entry type."""
        return type_name(self.type_no)

    @property
    def meaning(self) -> str:
        """Description of the entry type."""
        known = ENTRY_TYPES.get(self.type_no)
        return known.meaning if known else "no release has an entry type of this number"


class _NearbyEntry(Struct, frozen=True):
    """An entry near the requested offset."""

    offset: int
    type_no: int
    size: int


class _Around(Struct):
    """Entries and damage around an offset of a file.

    Attributes:
        data: the entry that begins there; None if there is none.
        before: the last entry that begins before it.
        following: offset of the first entry that begins after it.
        gap: the damaged range that holds it.
        end: offset at which the file's entries end, if none follows.
    """

    data: bytes | None = None
    before: _NearbyEntry | None = None
    following: int | None = None
    gap: Gap | None = None
    end: int = 0


def explain_lsn(environment: Environment, text: str, masking: Masking) -> EntryExplanation:
    """Explain the entry at an LSN as a user wrote it.

    Raises:
        UsageError: `text` is not an LSN.
        InputError: no entry begins there; the text names the entries around it. If the digits
            read as decimal hit an entry, it says so: JE up to 18.3 prints decimal numbers after
            0x in RollbackException.
        StoppedError: the file changed while it was read.
    """
    lsn = parse_lsn(text)
    try:
        return _explain(environment, lsn, masking)
    except InputError as error:
        decimal = _decimal_reading(text)
        if decimal is None:
            raise
        try:
            entry = _explain(environment, decimal, masking)
        except InputError:
            raise error from None
        raise InputError(
            f"{error} Read as decimal, as JE's RollbackException prints it after 0x, it is "
            f"{lsn_text(decimal)}: the {entry.type_name} there begins at exactly that place."
        ) from None


def _decimal_reading(text: str) -> int | None:
    parts = [part.lower().removeprefix("0x") for part in text.split("/")]
    if not all(part.isdecimal() and int(part) <= 0xFFFFFFFF for part in parts):
        return None
    return lsn_of(int(parts[0]), int(parts[1]))


def _explain(environment: Environment, lsn: int, masking: Masking) -> EntryExplanation:
    file = _file_of(environment, lsn)
    offset = lsn & 0xFFFFFFFF
    around = _look_around(environment, file, offset)
    if around.data is not None:
        return explain_bytes(around.data, file.path, file.version, lsn, masking)
    stop = _expected_until(file, offset, around)
    if stop is None:
        raise InputError(_elsewhere(lsn, file, around))
    data = _remains(file, offset, stop)
    resume = stop if around.gap else None
    return explain_bytes(data, file.path, file.version, lsn, masking, resume)


def _file_of(environment: Environment, lsn: int) -> LogFile:
    files = [*environment.files, *([environment.marker] if environment.marker else [])]
    wanted = lsn >> 32
    for file in files:
        if file.file_no == wanted:
            return file
    for closed in environment.unreadable:
        if closed.file_no == wanted:
            raise InputError(f"{closed.path}: {closed.reason}")
    numbers = [file.file_no for file in files]
    lower = max((no for no in numbers if no < wanted), default=None)
    higher = min((no for no in numbers if no > wanted), default=None)
    near = " and ".join(f"0x{no:x}" for no in (lower, higher) if no is not None)
    raise InputError(
        f"{lsn_text(lsn)}: {environment.name} has no file {wanted:08x}.jdb; nearest: {near}."
    )


def _look_around(environment: Environment, file: LogFile, offset: int) -> _Around:
    """Look up an offset among the entries of its file, which is walked from its start."""
    alone = replace(environment, files=(file,), marker=None)
    around = _Around()
    for part in Scanner().scan(alone, partial(_around_in, offset=offset)):
        for found in part.results:
            around.before = found.before or around.before
            around.data = around.data or found.data
            around.following = found.following if around.following is None else around.following
        around.gap = next((g for g in part.gaps if g.start <= offset < g.stop), around.gap)
        if part.end:
            around.end = part.end.tail
        if around.data is not None or around.following is not None:
            break
    return around


def _around_in(rows: Rows, offset: int) -> _Around:
    """Return the entry at an offset, and its neighbours, among some rows of the file."""
    at = int(np.searchsorted(rows.offset, offset))
    found = _Around()
    if at:
        row = at - 1
        found.before = _NearbyEntry(int(rows.offset[row]), int(rows.type[row]), int(rows.size[row]))
    if at < len(rows):
        if int(rows.offset[at]) == offset:
            found.data = rows.entry_bytes(at)
        else:
            found.following = int(rows.offset[at])
    return found


def _expected_until(file: LogFile, offset: int, around: _Around) -> int | None:
    """Return the end of the bytes that should begin with an entry at `offset`, or None."""
    if around.gap and around.gap.start == offset:
        return around.gap.stop
    if around.following is None and around.end == offset < file.size:
        return file.size
    return None


def _remains(file: LogFile, offset: int, stop: int) -> bytes:
    """Return the bytes of a broken entry: at most TORN_LIMIT, no more than its header claims."""
    size = min(stop - offset, TORN_LIMIT)
    try:
        with Source(file.path) as source:
            data = source.read_bytes(offset, offset + size)
            header = read_header(data, file.version)
    except SourceChangedError as error:
        raise StoppedError(str(error)) from error
    except EntryError:
        return data
    claimed = header.size + header.item_size
    return data[:claimed] if header.item_size >= 0 and header.type_no else data


def _elsewhere(lsn: int, file: LogFile, around: _Around) -> str:
    """Return a text that says that no entry begins at an LSN and names the nearest ones."""

    def place(offset: int) -> str:
        return lsn_text(lsn_of(file.file_no, offset))

    offset, before = lsn & 0xFFFFFFFF, around.before
    text = f"{lsn_text(lsn)}: no entry begins there."
    if before:
        name = f"the {type_name(before.type_no)} at {place(before.offset)}"
        if offset < before.offset + before.size:
            text += f" It is byte {offset - before.offset} of {name} ({before.size} bytes)."
        else:
            text += f" The entry before is {name}."
    if around.gap:
        start, stop = place(around.gap.start), place(around.gap.stop)
        text += f" It lies in damaged bytes from {start} to {stop}: explain {start}."
    elif around.following is not None:
        text += f" The next one is at {place(around.following)}."
    else:
        text += f" The entries of {file.path.name} end at {place(around.end)}."
    return text


def explain_bytes(
    data: bytes,
    path: Path,
    version: int,
    lsn: int,
    masking: Masking,
    resume: int | None = None,
) -> EntryExplanation:
    """Explain the bytes of an entry.

    Args:
        data: an entry or its remains, at least one byte.
        path: path of the file that holds it.
        version: log version of that file.
        lsn: LSN of the entry.
        masking: masking of keys and values, and of bytes that no field explains.
        resume: offset of the next good entry after a damaged one, in the same file.
    """
    if not any(data):
        return _without_header(data, path, version, lsn, masking, _ALL_ZERO)
    try:
        header = read_header(data, version)
        spans, error = decode_spans(data, version)
    except EntryError as failure:
        return _without_header(data, path, version, lsn, masking, str(failure))
    checksum = _checksum(data, version, header)
    pieces = [*_header_pieces(data, version, lsn, header)]
    pieces += _item_pieces(spans, header.type_no, version, masking)
    pieces += _rest(data, pieces[-1].stop, masking)
    problems = tuple(_problems(data, lsn, header, checksum, error, resume))
    return EntryExplanation(
        path, version, lsn, data, header.type_no, checksum, tuple(pieces), problems
    )


def _problems(
    data: bytes,
    lsn: int,
    header: Header,
    checksum: Checksum,
    error: EntryError | None,
    resume: int | None,
) -> Iterator[str]:
    size = header.size + header.item_size
    if size != len(data):
        text = f"its header claims {size} bytes, {len(data)} are there"
        if resume is None:
            yield f"{text}, then the file ends"
        else:
            yield f"{text} before {lsn_text(lsn_of(lsn >> 32, resume))}, where reading resumes"
    elif checksum is Checksum.BAD:
        yield "the checksum is wrong: bytes were changed, or never written"
    if header.type_no not in ENTRY_TYPES:
        yield f"no release has an entry type {header.type_no}"
    if error:
        yield f"its fields make no sense: {error}"


def _without_header(
    data: bytes, path: Path, version: int, lsn: int, masking: Masking, problem: str
) -> EntryExplanation:
    """Explain bytes that do not begin with a header."""
    type_no = type_no_of(data)
    pieces = _rest(data, 0, masking)
    return EntryExplanation(path, version, lsn, data, type_no, Checksum.BAD, pieces, (problem,))


def _checksum(data: bytes, version: int, header: Header) -> Checksum:
    if header.type_no == ERASED_NO:
        return Checksum.NONE
    whole = len(data) == header.size + header.item_size
    right = whole and entry_checksum(data, version) == header.checksum
    return Checksum.OK if right else Checksum.BAD


def _header_pieces(data: bytes, version: int, lsn: int, header: Header) -> list[EntryPiece]:
    whole = len(data) == header.size + header.item_size
    computed = entry_checksum(data, version)
    texts = header_texts(header, version, lsn >> 32, computed=computed, whole=whole)
    values = {
        "checksum": (4, header.checksum),
        "type": (1, header.type_no),
        "flags": (1, header.flags),
        "prev_offset": (4, header.prev_offset),
        "item_size": (4, header.item_size),
        **({} if header.vlsn is None else {"vlsn": (8, header.vlsn)}),
    }
    pieces, at = [], 0
    for name, (size, value) in values.items():
        meaning = HEADER_FIELDS[name]
        pieces.append(EntryPiece(ByteKind.HEADER, name, at, at + size, value, texts[name], meaning))
        at += size
    return pieces


def _item_pieces(
    spans: Sequence[Span], type_no: int, version: int, masking: Masking
) -> list[EntryPiece]:
    known = ENTRY_TYPES.get(type_no)
    family = known.family if known else None
    values = {span.path: span.value for span in spans}
    context = FieldContext(type_no, family, version, values)
    pieces = []
    for span in spans:
        name = last_name(span.path)
        masked = masking.mode is not DataMode.SHOW and name in KEY_FIELDS
        if masked:
            shown = masking.text_of(span.value or b"")
            text, value = "hidden" if shown is None else shown, shown
        else:
            text, value = context.text_of(span.path, span.value), span.value
        meaning = field_meaning(name, family)
        pieces.append(
            EntryPiece(
                ByteKind.ITEM, span.path, span.start, span.stop, value, text, meaning, masked
            )
        )
    return pieces


def _rest(data: bytes, start: int, masking: Masking) -> tuple[EntryPiece, ...]:
    if start >= len(data):
        return ()
    left = len(data) - start
    zeros = "all zero" if not any(data[start:]) else "not explained"
    masked = masking.mode is not DataMode.SHOW
    text = f"{left} bytes, {zeros}"
    meaning = "bytes that no field explains"
    return (EntryPiece(ByteKind.REST, "", start, len(data), None, text, meaning, masked),)
