"""Findings as text for people, on a terminal of any width."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import BinaryIO

from rich.console import Console
from rich.text import Text

from je_tools.core.escaping import printable
from je_tools.findings import CODES, Finding, Severity
from je_tools.formats.je.header import lsn_text
from je_tools.output.files.output_file import encoding_of

WIDE = 72
"""Number of columns from which code and place share a line."""

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "cyan"}
_MIN_WIDTH = 24
_INDENT = 2


def write_texts(findings: Iterable[Finding], out: BinaryIO, width: int | None) -> None:
    """Write each finding as it comes, then the meanings of codes; see `findings.write_table`."""
    console = _console(out, width)
    seen: set[str] = set()
    for found in findings:
        seen.add(found.code)
        _print(console, out, _finding_lines(found, console.width))
    _print(console, out, _meaning_lines(seen, console.width))


def _console(out: BinaryIO, width: int | None) -> Console:
    """Return a console that writes to a string, so that bytes reach `out` in one way only."""
    is_terminal = width is not None and out.isatty()
    return Console(
        file=io.StringIO(),
        force_terminal=is_terminal,
        no_color=None if is_terminal else True,
        highlight=False,
        markup=False,
        emoji=False,
        width=max(width or 80, _MIN_WIDTH),
    )


def _print(console: Console, out: BinaryIO, lines: Iterable[Text]) -> None:
    text = console.file
    for line in lines:
        console.print(line, soft_wrap=True)
    out.write(text.getvalue().encode(encoding_of(out), "backslashreplace"))  # type: ignore[attr-defined]
    text.seek(0)
    text.truncate()


def _finding_lines(found: Finding, width: int) -> Iterator[Text]:
    head = Text(f"{found.severity.value} {found.code}", _STYLES[found.severity])
    place = f"at {found.where}" if found.where else ""
    if place and width >= WIDE:
        head = Text.assemble(head, Text(f"  {place}"))
        place = ""
    yield head
    if place:
        yield from _wrapped(place, "", width)
    resume = "" if found.resume_lsn is None else lsn_text(found.resume_lsn)
    hint = "" if found.hint == CODES[found.code].hint else found.hint or ""
    tree = found.tree
    texts = (
        ("in       ", tree.path if tree else ""),
        ("expected ", found.expected or ""),
        ("found    ", found.found or ""),
        ("lost     ", tree.lost if tree else ""),
        ("goes on  ", f"at {resume}" if resume else ""),
        ("", hint.removesuffix(CODES[found.code].hint).strip()),
    )
    for label, text in texts:
        if text:
            yield from _wrapped(text, label, width)


def _meaning_lines(codes: set[str], width: int) -> Iterator[Text]:
    yield Text("")
    for code in CODES.values():
        if code.name in codes:
            yield Text(code.name, "bold")
            yield from _wrapped(code.meaning, "", width)
            yield from _wrapped(f"What to do: {code.hint}", "", width)


def _wrapped(text: str, label: str, width: int) -> Iterator[Text]:
    """Yield lines of `text` after `label`; on narrow terminals all lines have the same indent."""
    indent = " " * _INDENT
    behind = indent + (" " * len(label) if width >= WIDE else "")
    label = label if width >= WIDE else " ".join(label.split()) + " " * bool(label)
    lines = wrap(
        printable(text),
        width,
        initial_indent=indent + label,
        subsequent_indent=behind,
        break_on_hyphens=False,
    )
    yield from map(Text, lines)
