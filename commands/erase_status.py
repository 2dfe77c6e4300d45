"""`je-tools erase status`: the cycle of the eraser, and what is unfinished."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypedDict, Unpack

import click

from je_tools.commands._options import (
    CONTEXT,
    exit_zero_option,
    format_option,
    output_option,
    threads_option,
)
from je_tools.commands._scanning import staged_scanner
from je_tools.commands._snapshot import home_argument, open_home
from je_tools.commands._terminal import terminal_width
from je_tools.errors import EXIT_DAMAGE, EXIT_OK


class Options(TypedDict):
    """Options of the command line."""

    path: Path
    threads: int
    max_rate: int | None
    format_: str
    output: Path | None
    exit_zero: bool


@click.command("status", context_settings=CONTEXT)
@home_argument
@threads_option
@format_option("table", "json", "prometheus")
@output_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Show the cycle of the eraser, and what an interrupted erasure has left.

    The cycle is that of the eraser's record in the log, which the engine and `je-tools erase run
    --period` share. The statistics have the engine's names. The command reads the whole log to find
    entries that are marked as erased and still have their bytes. It also names the files that
    `je-tools erase abort` protects, and the one that a running erasure works on. The exit code is 3
    if an erasure in kind was interrupted, or if something could not be read.

    \b
    Examples:
      je-tools erase status env
      je-tools erase status env --format prometheus --output eraser.prom
    """
    from je_tools.erase.status import read_status
    from je_tools.output.files.outputs import open_output
    from je_tools.output.views.erase_status import write_status

    environment = open_home(options["path"], keep_going=False)
    with staged_scanner(environment, options) as (scanner, _):
        status = read_status(environment, scanner, time.time_ns() // 1_000_000)
    with open_output(options["output"], environment) as out:
        write_status(status, options["format_"], out, terminal_width(options["output"]))
    return EXIT_DAMAGE if status.is_damaged and not options["exit_zero"] else EXIT_OK
