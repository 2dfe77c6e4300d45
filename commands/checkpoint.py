"""`je-tools checkpoint`: bring a crashed environment to a checkpoint, without the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import click

from je_tools.commands._options import CONTEXT, format_option, threads_option
from je_tools.commands._snapshot import home_argument
from je_tools.commands._writing import (
    WritingOptions,
    apply_option,
    file_max_option,
    run_checkpoint,
)


@click.command("checkpoint", context_settings=CONTEXT)
@home_argument
@apply_option
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="With --apply: leave the environment as it is, and write to a copy of this name.",
)
@file_max_option
@threads_option
@format_option("table", "jsonl")
def command(**options: Unpack[WritingOptions]) -> int:
    """Write the checkpoint that the engine would write after recovery.

    Unfinished transactions are undone, what was committed since the last checkpoint comes into the
    trees, removals of databases are finished, and the engine's own records are brought up to date.
    The engine then opens and closes the environment without writing a byte. On a log that needs
    nothing nothing is written, so this can run each night.

    Without --apply the plan is told and nothing is touched. With it the engine's lock is held
    meanwhile, and `je-tools undo` takes everything back.

    \b
    Examples:
      je-tools checkpoint meta/bdb
      je-tools checkpoint meta/bdb --apply
      je-tools checkpoint meta/bdb --apply --output /backup/bdb
    """
    return run_checkpoint(options, "checkpoint", cuts=False)
