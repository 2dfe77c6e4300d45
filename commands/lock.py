"""`je-tools lock`: the processes that have an environment open."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, Unpack

import click

from je_tools.commands._options import chosen_file_mode, format_option, output_option
from je_tools.commands._snapshot import home_argument, open_home
from je_tools.commands._terminal import terminal_width
from je_tools.output.formats import REPORT


class Options(TypedDict):
    """Options of the command line."""

    path: Path
    format_: str
    output: Path | None


@click.command("lock")
@home_argument
@format_option(*REPORT)
@output_option
def command(**options: Unpack[Options]) -> None:
    """Show the processes that have an environment open, for writing or reading.

    The command reads the state of the engine's lock, je.lck, without taking it, and writes nothing.
    If a process in another container (another pid namespace) holds the lock, the system reports
    that it is held, but not by which process. The exit code is 0 whether the lock is held or not.

    \b
    Examples:
      je-tools lock meta/bdb
      je-tools lock meta/bdb --format jsonl
    """
    from je_tools.output.files.outputs import open_output
    from je_tools.output.views.section_tables import write_table
    from je_tools.output.views.writing_tables import lock_report, lock_sections
    from je_tools.writing.lock import find_holders

    environment = open_home(options["path"])
    holders = find_holders(options["path"])
    with open_output(options["output"], environment, chosen_file_mode()) as out:
        if options["format_"] == "table":
            sections = lock_sections(options["path"], holders)
            write_table(sections, out, terminal_width(options["output"]))
        else:
            lock_report(options["path"], holders).write(options["format_"], out)
