"""Places in stores of Ignite, for people and as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from rich.text import Text

from je_tools.core.escaping import clean_text, printable
from je_tools.output.views.explanations import make_console, print_rows, print_trimmed

if TYPE_CHECKING:
    from je_tools.explain.store_places import PlaceFacts


def print_place(out: TextIO, found: Sequence[PlaceFacts]) -> None:
    """Print the facts about a place, a list for each node."""
    console = make_console(out)
    for i, place in enumerate(found):
        if i:
            out.write("\n")
        node = f" ({printable(place.node)})" if place.node else ""
        print_trimmed(console, Text(f"{printable(place.place)}{node}", "bold"))
        print_rows(
            console, ("fact", "value"), [(name, printable(text)) for name, text in place.facts]
        )


def place_row(place: PlaceFacts) -> dict[str, Any]:
    """Return the facts about a place as a row."""
    return {
        "place": clean_text(place.place),
        "node": None if place.node is None else clean_text(place.node),
        "damaged": place.is_damaged,
        "facts": [{"fact": name, "value": clean_text(text)} for name, text in place.facts],
    }
