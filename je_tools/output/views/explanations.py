"""Explanations for a terminal of 40 columns or more, and as JSON lines; plain text if piped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TextIO

from msgspec.structs import asdict
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from je_tools.core.escaping import clean_text, is_lsn, printable
from je_tools.explain.entry import ByteKind, EntryExplanation, EntryPiece
from je_tools.explain.topics import ExitExplanation, FieldRow, TypeExplanation, versions_text
from je_tools.formats.je.header import lsn_text
from je_tools.log.field_texts import last_name

if TYPE_CHECKING:
    from je_tools.findings import Code

WIDE = 72
"""Width of a terminal, in columns, from which rows are one line each."""

SHOWN_BYTES = 64
"""Number of bytes shown of one field unless all are asked for."""

_BYTES_A_ROW = 8
_AT_WIDTH, _HEX_WIDTH, _FIELD_WIDTH_MAX = 6, 3 * _BYTES_A_ROW - 1, 26
_HEADER_STYLE, _REST_STYLE = "cyan", "bold red"
_ITEM_STYLES = ("green", "yellow", "magenta", "blue")
_MASKED = "**"
_GAP = "  "


def make_console(file: TextIO) -> Console:
    """Return a console on `file`, with colours only on a terminal and without NO_COLOR."""
    return Console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=False)


def print_types(console: Console, types: Sequence[TypeExplanation]) -> None:
    """Print one type with its fields, or several as a list."""
    if len(types) == 1:
        _print_type(console, types[0])
        return
    rows = [
        (
            str(each.entry_type.no),
            each.entry_type.name,
            f"{each.entry_type.first_version}-{each.entry_type.last_version}",
            each.entry_type.meaning,
        )
        for each in types
    ]
    print_rows(console, ("no", "name", "log versions", "what it is"), rows)


def _print_type(console: Console, explained: TypeExplanation) -> None:
    entry_type = explained.entry_type
    print_trimmed(
        console, Text(f"{entry_type.name} (type {entry_type.no}): {entry_type.meaning}", "bold")
    )
    print_trimmed(console, Text(f"Written in {versions_text(entry_type)}."))
    marks = [
        *(["transactional"] if entry_type.transactional else []),
        *(["a user's record"] if entry_type.user_ln else []),
    ]
    groups = ", ".join(sorted(group.value for group in entry_type.groups))
    facts = [f"Family {entry_type.family.value}", *([f"groups {groups}"] if groups else []), *marks]
    print_trimmed(console, Text("; ".join(facts) + "."))
    if len(explained.layout_versions) > 1:
        versions = ", ".join(map(str, explained.layout_versions))
        print_trimmed(
            console, Text(f"Its fields changed in log versions {versions} (--version shows each).")
        )
    print_trimmed(console, Text(f"\nFields in log version {explained.version}:", "bold"))
    rows = [_field_cells(row) for row in explained.fields]
    print_rows(console, ("field", "coding", "what it is"), rows)


def _field_cells(row: FieldRow) -> tuple[str, str, str]:
    condition = f" [only if {row.when}]" if row.when else ""
    return "  " * row.depth + row.name, row.coding, row.meaning + condition


def print_exits(console: Console, exits: Sequence[ExitExplanation]) -> None:
    """Print exit codes and their meanings."""
    print_rows(console, ("exit", "meaning"), [(str(each.code), each.meaning) for each in exits])


def print_codes(console: Console, codes: Sequence[Code]) -> None:
    """Print findings or refusals: those of one code in full, those of several as a list."""
    if len({code.name for code in codes}) == 1:
        for code in codes:
            print_trimmed(console, Text(f"{code.name} ({code.severity.value})", "bold"))
            print_trimmed(console, Text(code.meaning))
            print_trimmed(console, Text(f"What to do: {code.hint}"))
        return
    rows = [(code.name, code.severity.value, code.meaning) for code in codes]
    print_rows(console, ("code", "severity", "meaning"), rows)


def print_rows(console: Console, names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, or on a narrow terminal each row with its later cells below the first two."""
    if console.width < WIDE:
        for row in rows:
            print_trimmed(console, Text(" ".join(cell for cell in row[:2] if cell), "bold"))
            below = [cell for cell in row[2:] if cell]
            if below:
                print_trimmed(console, Padding(Text("\n".join(below)), (0, 0, 0, 2)))
        return
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for i, name in enumerate(names):
        table.add_column(name, overflow="fold", no_wrap=i == 0)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    print_trimmed(console, table)


def print_trimmed(console: Console, what: RenderableType) -> None:
    """Print without the trailing spaces of rich, which are unwanted in a file."""
    with console.capture() as capture:
        console.print(what)
    console.file.writelines(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def print_entry(console: Console, entry: EntryExplanation, *, all_bytes: bool) -> None:
    """Print an entry byte by byte: offset, bytes, field and value, in the colour of the field."""
    where = printable(f"{entry.path.name} at {entry.lsn & 0xFFFFFFFF}")
    title = f"{lsn_text(entry.lsn)} {entry.type_name}: {entry.meaning}"
    print_trimmed(console, Text(title, "bold"))
    print_trimmed(console, Text(f"{where}, {len(entry.data)} bytes, log version {entry.version}"))
    for problem in entry.problems:
        print_trimmed(console, Text(f"! {printable(problem)}", _REST_STYLE))
    console.file.write("\n")
    wide = console.width >= WIDE
    longest = max((len(piece.path) for piece in entry.pieces), default=0)
    field_width = min(longest, _FIELD_WIDTH_MAX)
    if wide:
        cells = ("at".rjust(_AT_WIDTH), "bytes".ljust(_HEX_WIDTH), "field".ljust(field_width))
        print_trimmed(console, Text(_GAP.join((*cells, "value")), "bold"))
    for piece, style in zip(entry.pieces, _styles(entry.pieces), strict=True):
        rows = list(_hex_rows(entry.data, piece, all_bytes))
        if wide:
            lines = _wide_lines(rows, piece, field_width, console.width)
        else:
            lines = _stacked_lines(rows, piece, console.width)
        for line in lines:
            _print_line(console, line.rstrip(), style)


def _print_line(console: Console, line: str, style: str) -> None:
    """Print one line that fits; through rich only for colours, since there can be many lines."""
    if console.is_terminal:
        console.print(Text(line, style), overflow="fold")
    else:
        console.file.write(f"{line}\n")


def _styles(pieces: Iterable[EntryPiece]) -> Iterator[str]:
    """Yield a colour for each piece; neighbouring items have different colours."""
    turn = -1
    before = ""
    for piece in pieces:
        if piece.part is ByteKind.HEADER:
            yield _HEADER_STYLE
            continue
        if piece.part is ByteKind.REST:
            yield _REST_STYLE
            continue
        # The fields of one slot share a colour, so that slots can be distinguished.
        top = piece.path.partition("].")[0]
        turn += top != before
        before = top
        yield _ITEM_STYLES[turn % len(_ITEM_STYLES)]


def _hex_rows(data: bytes, piece: EntryPiece, all_bytes: bool) -> Iterator[tuple[str, str]]:
    """Yield offset in the entry and bytes, row by row."""
    stop = piece.stop if all_bytes else min(piece.stop, piece.start + SHOWN_BYTES)
    for at in range(piece.start, stop, _BYTES_A_ROW):
        chunk = data[at : min(at + _BYTES_A_ROW, stop)]
        shown = " ".join([_MASKED] * len(chunk)) if piece.masked else chunk.hex(" ")
        yield str(at), shown
    if stop < piece.stop:
        yield "", f"({piece.stop - stop} more: --all)"
    if piece.start == piece.stop:
        yield str(piece.start), ""


def _wide_lines(
    rows: Sequence[tuple[str, str]], piece: EntryPiece, field_width: int, width: int
) -> Iterator[str]:
    room = width - _AT_WIDTH - _HEX_WIDTH - field_width - 3 * len(_GAP)
    paths, values = _path_lines(piece.path, field_width), _cut(piece.text, room)
    for row, path, value in zip_longest(rows, paths, values):
        at, shown = row or ("", "")
        cells = (at.rjust(_AT_WIDTH), shown.ljust(_HEX_WIDTH), (path or "").ljust(field_width))
        yield _GAP.join((*cells, value or ""))


def _path_lines(path: str, width: int) -> list[str]:
    """Return a path as one line, or each of its names on its own line if it is too long."""
    if len(path) <= width or "." not in path:
        return _cut(path, width)
    first, *others = path.split(".")
    parts = [*(f"{name}." for name in (first, *others[:-1])), others[-1]]
    lines = (_cut("  " * depth + part, width) for depth, part in enumerate(parts))
    return [line for some in lines for line in some]


def _stacked_lines(rows: Iterable[tuple[str, str]], piece: EntryPiece, width: int) -> Iterator[str]:
    yield from _cut(f"{piece.path} = {piece.text}".removeprefix(" = "), width)
    for at, shown in rows:
        yield f"{at.rjust(_AT_WIDTH)}{_GAP}{shown}"


def _cut(text: str, width: int) -> list[str]:
    return wrap(text, max(width, 8), drop_whitespace=False, replace_whitespace=False) or [""]


def type_rows(types: Iterable[TypeExplanation]) -> Iterator[dict[str, Any]]:
    """Yield entry types as rows for JSON lines."""
    for each in types:
        entry_type = each.entry_type
        yield {
            "type": entry_type.name,
            "no": entry_type.no,
            "meaning": entry_type.meaning,
            "family": entry_type.family.value,
            "groups": sorted(group.value for group in entry_type.groups),
            "transactional": entry_type.transactional,
            "user_record": entry_type.user_ln,
            "first_version": entry_type.first_version,
            "last_version": entry_type.last_version,
            "layout_versions": list(each.layout_versions),
            "version": each.version,
            "fields": [asdict(row) for row in each.fields],
        }


def exit_rows(exits: Iterable[ExitExplanation]) -> Iterator[dict[str, Any]]:
    """Yield exit codes as rows for JSON lines."""
    for each in exits:
        yield {"exit": each.code, "meaning": each.meaning}


def code_rows(kind: str, codes: Iterable[Code]) -> Iterator[dict[str, Any]]:
    """Yield codes of findings or refusals as rows for JSON lines."""
    for code in codes:
        yield {
            kind: code.name,
            "severity": code.severity.value,
            "meaning": code.meaning,
            "hint": code.hint,
        }


def entry_rows(entry: EntryExplanation) -> Iterator[dict[str, Any]]:
    """Yield a row for JSON lines for each field of an entry, then one for each problem."""
    shared = {"lsn": lsn_text(entry.lsn), "type": entry.type_name}
    for piece in entry.pieces:
        shown = None if piece.masked else entry.data[piece.start : piece.stop].hex()
        yield {
            **shared,
            "part": piece.part.value,
            "field": piece.path or None,
            "start": piece.start,
            "stop": piece.stop,
            "hex": shown,
            "value": _plain(piece),
            "text": piece.text,
            "meaning": piece.meaning,
        }
    for problem in entry.problems:
        yield {**shared, "part": "problem", "text": problem}


def _plain(piece: EntryPiece) -> Any:
    """Return a value for JSON, formatted as in the other outputs."""
    value, name = piece.value, last_name(piece.path)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str):
        return clean_text(value)
    return lsn_text(value) if isinstance(value, int) and is_lsn(name) else value


def json_line(row: dict[str, Any]) -> str:
    """Return a row as a line of JSON, ASCII only."""
    return json.dumps(row) + "\n"
