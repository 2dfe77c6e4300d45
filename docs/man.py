"""Man pages from the help texts: `python docs/man.py DIRECTORY` writes one for each command.

click-man finds the subcommands of a group in its dictionary, which is empty here: commands are
loaded when they are used.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from je_tools import __version__
from je_tools.commands._options import CONTEXT
from je_tools.commands.main import COMMANDS, dump_tool, group, recover_tool
from je_tools.errors import EXIT_MEANINGS

SECTION = "1"


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    found = {}
    for name, command in _commands("je-tools", group):
        found[f"{name.replace(' ', '-')}.{SECTION}"] = _page(name, command)
    for name, tool in (("db-dump", dump_tool([])), ("db-recover", recover_tool([]))):
        found[f"{name}.{SECTION}"] = _page(name, tool)
    return found


def _commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and those below it, with the words that run them."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below is not None
            yield from _commands(f"{name} {word}", below)


def _page(name: str, command: click.Command) -> str:
    # Commands inherit the settings of their group, and keep the help option that they made first.
    context = click.Context(command, info_name=name, **(CONTEXT | command.context_settings))
    title = name.replace(" ", "-")
    lines = [f'.TH "{title.upper()}" "{SECTION}" "" "je-tools {__version__}" "je-tools"']
    lines += [".SH NAME", f"{_text(title)} \\- {_text(_summary(name, command))}"]
    lines += [".SH SYNOPSIS", f".B {_text(name)}"]
    lines += [_text(piece) for piece in command.collect_usage_pieces(context)]
    lines += [".SH DESCRIPTION", *_paragraphs(command.help or "")]
    lines += [".SH OPTIONS"]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and record[1]:
            lines += [".TP", f".B {_text(record[0])}", _text(record[1])]
    if isinstance(command, click.Group):
        lines += [".SH COMMANDS"]
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below is not None
            whole = f"{name} {word}"
            page = f"{whole.replace(' ', '-')}({SECTION})"
            lines += [".TP", f".B {_text(page)}", _text(_summary(whole, below))]
    lines += [".SH EXIT STATUS"]
    for code, meaning in EXIT_MEANINGS.items():
        lines += [".TP", f".B {code}", _text(meaning)]
    if name != "je-tools":
        lines += [".SH SEE ALSO", f".BR je\\-tools ({SECTION})"]
    return "\n".join(lines) + "\n"


def _summary(name: str, command: click.Command) -> str:
    known = COMMANDS.get(name.removeprefix("je-tools "), "") if name != "je-tools" else ""
    return (known or re.split(r"\.\s|\n\n", command.help or "")[0]).replace("\n", " ").rstrip(".")


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the lines of a help text; a paragraph that begins with a backspace keeps its lines."""
    for paragraph in text.split("\n\n"):
        kept = paragraph.lstrip().startswith("\b")
        yield ".PP"
        if not kept:
            yield _text(" ".join(paragraph.split()))
            continue
        yield ".nf"
        lines = [line for line in paragraph.splitlines() if line.strip("\b ")]
        yield from (_text(line) for line in textwrap.dedent("\n".join(lines)).splitlines())
        yield ".fi"


def _text(text: str) -> str:
    """Escape what roff would interpret; hyphens stay those that can be pasted."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("\u2026", "...")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def main() -> None:
    """Write all pages to the directory that the command line names, and remove old ones."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob(f"*.{SECTION}"):
        path.unlink()
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
