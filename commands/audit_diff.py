"""`je-tools audit diff`: what has changed between two runs of an audit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from je_tools.commands._options import (
    A_PATH,
    CONTEXT,
    check_has_output,
    format_option,
    output_option,
)
from je_tools.commands._terminal import say, terminal_width
from je_tools.core.escaping import counted
from je_tools.errors import EXIT_DAMAGE, EXIT_OK
from je_tools.output.formats import ROWS

if TYPE_CHECKING:
    from je_tools.audit.changes import Changes

NEVER = "never"
SHOWN = 40
"""Largest number of rows of a table for people."""


class Options(TypedDict):
    """Options of the command line."""

    folder: Path
    runs: tuple[str, ...]
    format_: str
    output: Path | None
    fail_on: str


@click.command("diff", context_settings=CONTEXT)
@click.argument("folder", metavar="DIR", type=A_PATH)
@click.argument("runs", metavar="[RUN [RUN]]", nargs=-1)
@format_option(*ROWS)
@output_option
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", NEVER]),
    default="error",
    show_default=True,
    help="Exit with 3 if there is a new finding of this severity or worse.",
)
def command(**options: Unpack[Options]) -> int:
    """Show what has changed between two runs: new and gone findings, growth, files gone.

    Without RUN, the last two runs are compared; with one RUN, that one and the last. `je-tools
    audit trend DIR` lists the runs. A finding is the same in both runs if its environment, code,
    file and offset are the same.

    \b
    Examples:
      je-tools audit diff /var/lib/audit
      je-tools audit diff /var/lib/audit 20261101T020000Z --format jsonl
      je-tools audit diff /var/lib/audit --fail-on warning
    """
    from je_tools.audit.changes import find_changes
    from je_tools.errors import UsageError
    from je_tools.findings import Severity
    from je_tools.output.files.outputs import open_output
    from je_tools.output.views.change_tables import change_sections
    from je_tools.output.views.section_formats import write_sections

    form, output = options["format_"], options["output"]
    check_has_output(form, output)
    if len(options["runs"]) > 2:
        raise UsageError("name at most two runs")
    changes = find_changes(options["folder"], options["runs"])
    with open_output(output) as out:
        sections = change_sections(changes, SHOWN if form == "table" else None)
        write_sections(form, sections, out, terminal_width(output))
    _say(changes)
    fail_on = options["fail_on"]
    fails = fail_on != NEVER and changes.reaches(Severity(fail_on))
    return EXIT_DAMAGE if fails else EXIT_OK


def _say(changes: Changes) -> None:
    new, gone = changes.new_findings.num_rows, changes.gone_findings.num_rows
    say(
        f"je-tools: from {changes.before} to {changes.after}: "
        f"{counted(changes.table.num_rows, 'environment')} changed, "
        f"{counted(new, 'new finding')}, {counted(gone, 'gone finding')}"
    )
