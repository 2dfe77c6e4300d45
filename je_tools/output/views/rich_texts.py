"""Text with styles: written as bytes, with colours only on a terminal, wrapped to its width."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import BinaryIO

from rich.console import Console
from rich.text import Text

from je_tools.core.escaping import printable
from je_tools.findings import Severity
from je_tools.output.files.output_file import encoding_of

WIDE = 72
"""Width of a terminal, in columns, from which text is wrapped to the right of its label."""

STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "cyan"}
"""Style of each severity."""

_MIN_WIDTH = 24
_INDENT = 2


def console_for(out: BinaryIO, width: int | None) -> Console:
    """Return a console that writes to a string, so that bytes reach `out` in one way only.

    Args:
        out: stream of the text; colours only on a terminal.
        width: columns of the terminal; None if it is not one.
    """
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


def write_lines(console: Console, out: BinaryIO, lines: Iterable[Text]) -> None:
    """Write lines with a console of `console_for`, without wrapping them."""
    text = console.file
    for line in lines:
        console.print(line, soft_wrap=True)
    out.write(text.getvalue().encode(encoding_of(out), "backslashreplace"))  # type: ignore[attr-defined]
    text.seek(0)
    text.truncate()


def wrapped_lines(
    text: str, label: str, width: int, *, indent: int = _INDENT, style: str = ""
) -> Iterator[Text]:
    """Yield lines of `text` after `label`, below which it continues if the terminal is narrow.

    Args:
        text: text, in which control characters are escaped.
        label: text before it, of a style of its own.
        width: columns of the terminal.
        indent: spaces before the label.
        style: style of the label.
    """
    margin = " " * indent
    after = margin + (" " * len(label) if width >= WIDE else "")
    label = label if width >= WIDE else " ".join(label.split()) + " " * bool(label)
    lines = wrap(
        printable(text),
        width,
        initial_indent=margin + label,
        subsequent_indent=after,
        break_on_hyphens=False,
    )
    for number, line in enumerate(lines):
        made = Text(line)
        if style and not number:
            made.stylize(style, 0, len(margin + label.rstrip()))
        yield made
