"""Findings as text for people, on a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from rich.text import Text

from je_tools.findings import CODES, Finding
from je_tools.formats.je.header import lsn_text
from je_tools.output.views.rich_texts import (
    STYLES,
    WIDE,
    console_for,
    wrapped_lines,
    write_lines,
)


def write_texts(findings: Iterable[Finding], out: BinaryIO, width: int | None) -> None:
    """Write each finding as it comes, then the meanings of codes; see `findings.write_table`."""
    console = console_for(out, width)
    seen: set[str] = set()
    for found in findings:
        seen.add(found.code)
        write_lines(console, out, _finding_lines(found, console.width))
    write_lines(console, out, _meaning_lines(seen, console.width))


def _finding_lines(found: Finding, width: int) -> Iterator[Text]:
    head = Text(f"{found.severity.value} {found.code}", STYLES[found.severity])
    place = f"at {found.where}" if found.where else ""
    if place and width >= WIDE:
        head = Text.assemble(head, Text(f"  {place}"))
        place = ""
    yield head
    if place:
        yield from wrapped_lines(place, "", width)
    resume = "" if found.resume_lsn is None else lsn_text(found.resume_lsn)
    hint = "" if found.hint == CODES[found.code].hint else found.hint or ""
    tree = found.tree
    texts = (
        ("in       ", tree.path if tree else ""),
        ("expected ", found.expected or ""),
        ("found    ", found.found or ""),
        ("lost     ", tree.lost if tree else ""),
        ("resumes  ", f"at {resume}" if resume else ""),
        ("", hint.removesuffix(CODES[found.code].hint).strip()),
    )
    for label, text in texts:
        if text:
            yield from wrapped_lines(text, label, width)


def _meaning_lines(codes: set[str], width: int) -> Iterator[Text]:
    yield Text("")
    for code in CODES.values():
        if code.name in codes:
            yield Text(code.name, "bold")
            yield from wrapped_lines(code.meaning, "", width)
            yield from wrapped_lines(f"What to do: {code.hint}", "", width)
