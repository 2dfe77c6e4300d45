"""Recognised engine messages, for a terminal of 40 columns or more and as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.text import Text

from je_tools.core.escaping import clean_text, printable, quoted
from je_tools.core.masking import SHOWN, DataMode
from je_tools.formats.je.header import lsn_text
from je_tools.output.views.explanations import print_rows, print_trimmed

if TYPE_CHECKING:
    from rich.console import Console

    from je_tools.core.masking import Masking
    from je_tools.explain.message_case import Case
    from je_tools.explain.message_places import MessagePlace
    from je_tools.explain.recognition import Occurrences, Recognition, Sighting


def print_recognition(
    console: Console, found: Recognition, env: str | None, masking: Masking = SHOWN
) -> None:
    """Print the messages of a text and the places that it names.

    Args:
        console: where to print.
        found: what was recognised.
        env: the environment to name in commands; None for the placeholder ENV.
        masking: masking of excerpts, which may quote keys and values.
    """
    for i, sighting in enumerate(found.sightings):
        if i:
            console.file.write("\n")
        _print_sighting(console, sighting, env, masking)
    if not found.sightings:
        _print_unknown(console, found.nearest)
    if found.places:
        console.file.write("\n")
        rows = [
            (
                each.place.text,
                each.place.file,
                f"{each.seen.count:,}",
                _note(each.place),
            )
            for each in found.places
        ]
        print_rows(console, ("place", "file", "seen", "note"), rows)
    if found.more_places:
        print_trimmed(console, Text(f"and other places, named {found.more_places:,} times"))


def _note(place: MessagePlace) -> str:
    return f"printed as {place.printed}, in decimal" if place.printed else ""


def _print_sighting(
    console: Console, sighting: Sighting, env: str | None, masking: Masking
) -> None:
    case = sighting.case
    print_trimmed(console, Text(f"{case.name}: {case.title}", "bold"))
    _indented(console, printable(_excerpt(sighting, masking) or "(hidden)"), 4)
    if sighting.seen.count > 1 or sighting.seen.first_line > 1:
        _indented(console, _seen_text(sighting.seen), 4)
    _print_case(console, case)
    print_trimmed(console, Text("What to run:"))
    for command, why in commands_of(sighting, env):
        _indented(console, command, 2)
        _indented(console, f"{why}.", 6)


def _print_case(console: Console, case: Case) -> None:
    print_trimmed(console, Text(case.meaning))
    print_trimmed(console, Text(case.misread))


def _print_unknown(console: Console, nearest: Case | None) -> None:
    print_trimmed(console, Text("No known message.", "bold"))
    if nearest is None:
        print_trimmed(console, Text("No case has a word in common with the text."))
        return
    print_trimmed(
        console, Text(f"The nearest is {nearest.name}: {nearest.title}. It is printed as:")
    )
    _indented(console, printable(" ".join(nearest.sample.split())), 4)
    _print_case(console, nearest)


def _seen_text(seen: Occurrences) -> str:
    text = f"in {seen.count:,} log entries" if seen.count > 1 else "in 1 log entry"
    text += f", line {seen.first_line:,}"
    if seen.first_time:
        text += f" ({seen.first_time})"
    if seen.count > 1:
        text += f" to line {seen.last_line:,}"
        if seen.last_time:
            text += f" ({seen.last_time})"
    return text


def _indented(console: Console, text: str, columns: int) -> None:
    print_trimmed(console, Padding(Text(text), (0, 0, 0, columns)))


def commands_of(sighting: Sighting, env: str | None) -> Iterator[tuple[str, str]]:
    """Yield the command lines to run next, with what the text names, and what each shows."""
    values = {
        "ENV": None if env is None else quoted(env),
        "LSN": None if sighting.lsn is None else lsn_text(sighting.lsn),
        "VLSN": None if sighting.vlsn is None else str(sighting.vlsn),
        "POINTER": sighting.pointer,
        "PAGE": sighting.page,
    }
    for step in sighting.case.steps:
        words = (values.get(word) or word for word in step.command.split())
        yield f"je-tools {' '.join(words)}", step.why


def _excerpt(sighting: Sighting, masking: Masking) -> str | None:
    """Return the excerpt of a message, or what replaces it."""
    if masking.mode is DataMode.SHOW:
        return sighting.excerpt
    return masking.text_of(sighting.excerpt.encode("utf-8", "backslashreplace"))


def recognition_rows(
    found: Recognition, env: str | None, masking: Masking = SHOWN
) -> Iterator[dict[str, Any]]:
    """Yield a row for each message, or one for the nearest case, then one for each place."""
    for sighting in found.sightings:
        case = sighting.case
        excerpt = _excerpt(sighting, masking)
        yield {
            "message": case.name,
            **_case_row(case),
            "excerpt": None if excerpt is None else clean_text(excerpt),
            **_seen_row(sighting.seen),
            "commands": [
                {"command": command, "why": why} for command, why in commands_of(sighting, env)
            ],
        }
    if not found.sightings:
        nearest = found.nearest
        row = {} if nearest is None else _case_row(nearest)
        yield {"message": None, "nearest": nearest.name if nearest else None, **row}
    for each in found.places:
        place = each.place
        yield {
            "place": place.text,
            "file": place.file,
            "lsn": None if place.lsn is None else lsn_text(place.lsn),
            "printed": place.printed,
            **_seen_row(each.seen),
        }


def _case_row(case: Case) -> dict[str, Any]:
    return {
        "title": case.title,
        "meaning": case.meaning,
        "does_not_mean": case.misread,
        "sources": list(case.sources),
    }


def _seen_row(seen: Occurrences) -> dict[str, Any]:
    return {
        "count": seen.count,
        "first_line": seen.first_line,
        "first_time": seen.first_time,
        "last_line": seen.last_line,
        "last_time": seen.last_time,
    }
