"""Commands with answers of one kind offer the same formats."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from je_tools.commands.main import COMMANDS, group
from je_tools.output.formats import RECORDS, REPORT, REPORT_WITH_ROWS, ROWS

_MONITORED = ("table", "json", "prometheus")
OTHERS = {
    "explain": ("table", "jsonl"),
    "audit run": (*_MONITORED, "junit"),
    "erase status": _MONITORED,
    "ignite export": ("jsonl", "csv", "parquet"),
}
"""Formats of texts, and of what a monitor reads."""


def formats_of(name: str, command: click.Command) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield a command and its formats, or those of its subcommands."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for part in command.list_commands(context):
            below = command.get_command(context, part)
            assert below is not None
            yield from formats_of(f"{name} {part}", below)
        return
    for option in command.params:
        if "--format" in option.opts:
            assert isinstance(option.type, click.Choice)
            yield name, tuple(option.type.choices)


@pytest.mark.parametrize("verb", COMMANDS)
def test_formats_are_those_of_the_kind_of_answer(verb: str) -> None:
    command = group.get_command(click.Context(group), verb)
    assert command is not None
    found = dict(formats_of(verb, command))
    assert found, verb
    for name, formats in found.items():
        assert formats in (ROWS, RECORDS, REPORT, REPORT_WITH_ROWS, OTHERS.get(name)), name
