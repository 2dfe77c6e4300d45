"""Findings as JSON lines, or one after the other for people: both as they are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from je_tools.core.escaping import clean_text

if TYPE_CHECKING:
    from je_tools.findings import Finding


def write_jsonl(findings: Iterable[Finding], out: BinaryIO) -> None:
    """Write each finding as a line of strict JSON."""
    import json

    for found in findings:
        row = {
            name: clean_text(value) if isinstance(value, str) else value
            for name, value in found.row().items()
        }
        out.write(json.dumps(row).encode() + b"\n")


def write_table(findings: Iterator[Finding], out: BinaryIO, width: int | None) -> None:
    """Write findings for people, then the meanings of their codes; without findings, nothing.

    Args:
        findings: findings in output order.
        out: stream to write to; colours only on a terminal.
        width: columns of the terminal; None if it is not one.
    """
    first = next(findings, None)
    if first is None:
        return
    # rich takes longer to import than a small log to read.
    from je_tools.output.views.finding_texts import write_texts

    write_texts(chain([first], findings), out, width)
