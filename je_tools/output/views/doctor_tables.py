"""The diagnosis of an environment as one page of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, BinaryIO

from rich.text import Text

from je_tools.core.escaping import printable
from je_tools.doctor.facts import OpenOutcome, State
from je_tools.output.views.doctor_texts import Facts, loss_facts, opening_facts
from je_tools.output.views.rich_texts import STYLES, console_for, wrapped_lines, write_lines

if TYPE_CHECKING:
    from je_tools.doctor.facts import Diagnosis
    from je_tools.findings import Finding

OF_CODE, IN_ALL = 3, 20
"""Largest number of findings of one code, and of all, that the page shows; rows have all."""

_OUTCOMES = {
    OpenOutcome.OPENS: "bold green",
    OpenOutcome.LOCKED: "bold yellow",
}
_STATES = {
    State.OK: "green",
    State.UNKNOWN: "bold",
    State.NOTE: "cyan",
    State.WARNING: "bold yellow",
    State.ERROR: "bold red",
}
_WIDTH = max(map(len, State))
_TO_HEED = (State.WARNING, State.ERROR)


def write_page(diagnosis: Diagnosis, out: BinaryIO, width: int | None) -> None:
    """Write the diagnosis for people: the verdict first, the commands to run last."""
    console = console_for(out, width)
    write_lines(console, out, _lines(diagnosis, console.width))


def _lines(diagnosis: Diagnosis, width: int) -> Iterator[Text]:
    for line in wrapped_lines(diagnosis.verdict + ".", "", width, indent=0):
        line.stylize(_OUTCOMES.get(diagnosis.outcome, "bold red"))
        yield line
    if diagnosis.log is not None:
        yield from _facts("Will the engine open it?", opening_facts(diagnosis), width)
        yield from _facts("What would be lost?", loss_facts(diagnosis), width)
    yield from _heading("In what condition is it?")
    names = max(len(each.name) for each in diagnosis.conditions)
    for each in diagnosis.conditions:
        label = f"{each.state.value:{_WIDTH}}  {each.name:{names}}  "
        for line in wrapped_lines(each.text, label, width):
            line.highlight_words([f"  {each.state.value} "], _STATES[each.state])
            yield line
    if diagnosis.findings:
        yield from _heading("Findings")
        yield from _finding_lines(diagnosis.findings, width)
    yield from _heading("What to do next")
    yield from _step_lines(diagnosis, width)


def _heading(text: str) -> Iterator[Text]:
    yield Text("")
    yield Text(text, "bold")


def _facts(heading: str, facts: Facts, width: int) -> Iterator[Text]:
    yield from _heading(heading)
    found = list(facts)
    wide = max(len(name) for name, _ in found)
    for name, value in found:
        yield from wrapped_lines(value, f"{name:{wide}}  ", width)


def _finding_lines(findings: Sequence[Finding], width: int) -> Iterator[Text]:
    shown = 0
    for code, group in groupby(findings, key=lambda each: (each.severity, each.code)):
        some = list(group)
        room = min(OF_CODE, IN_ALL - shown)
        for found in some[:room]:
            yield from _finding_line(found, width)
        shown += len(some[:room])
        if len(some) > room:
            text = f"{len(some) - max(room, 0):,} more of {code[1]}; --format jsonl lists all"
            yield from wrapped_lines(text, "", width)


def _finding_line(found: Finding, width: int) -> Iterator[Text]:
    label = f"{found.severity.value} {found.code} "
    parts = [f"at {found.where}"] if found.where else []
    if found.tree is not None:
        parts.append(f"in {found.tree.path}")
    if found.expected:
        parts.append(f"expected {found.expected}")
    if found.found:
        parts.append(f"found {found.found}")
    if found.tree is not None and found.tree.lost:
        parts.append(f"lost {found.tree.lost}")
    text = f"{label.strip()} {'; '.join(parts)}"
    for number, line in enumerate(wrapped_lines(text, "", width)):
        if not number:
            line.stylize(STYLES[found.severity], 2, 1 + len(label))
        yield line


def _has_warnings(diagnosis: Diagnosis) -> bool:
    is_marked = any(each.state in _TO_HEED for each in diagnosis.conditions)
    return diagnosis.is_damaged or is_marked


def _step_lines(diagnosis: Diagnosis, width: int) -> Iterator[Text]:
    if not diagnosis.steps:
        yield from wrapped_lines("Nothing has to be done.", "", width)
    elif diagnosis.outcome is OpenOutcome.OPENS and not _has_warnings(diagnosis):
        yield from wrapped_lines("Nothing has to be done. These commands show more:", "", width)
    for number, step in enumerate(diagnosis.steps, 1):
        yield from wrapped_lines(step.why, f"{number}. ", width)
        # A command is one line, however narrow the terminal is: it is there to be pasted.
        yield Text(f"     {printable(step.command)}", "bold red" if step.changes else "bold")
