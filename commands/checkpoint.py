"""`je-tools checkpoint`: bring a crashed environment to a checkpoint, without the engine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Unpack

import click

from je_tools.commands._options import (
    CONTEXT,
    format_option,
    progress_bar,
    say,
    threads_option,
)
from je_tools.commands._snapshot import home_argument, open_home
from je_tools.commands._writing import (
    WritingOptions,
    apply_option,
    file_max_option,
    run_checkpoint,
    write_outcome,
)
from je_tools.errors import EXIT_OK, UsageError


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
    from je_tools.checkpoint.apply import Orders, plan_checkpoint
    from je_tools.scan import Scanner
    from je_tools.sinks.output import open_output
    from je_tools.snapshot import held_snapshot

    if options["output"] is not None and not options["apply"]:
        raise UsageError("--output DIR is where --apply writes a copy; add --apply")
    environment = open_home(options["path"])
    orders = Orders(file_max=options["file_max"])
    with progress_bar(environment.size, "checkpoint") as progress:
        scanner = Scanner(threads=options["threads"], progress=progress, wide=True)
        if options["apply"]:
            snapshot, outcome = run_checkpoint(environment, options, orders, scanner)
        else:
            now_ms = time.time_ns() // 1_000_000
            with held_snapshot(environment, scanner, now_ms=now_ms, as_member=True) as snapshot:
                outcome = plan_checkpoint(snapshot, orders)
    with open_output(None) as out:
        write_outcome(snapshot, outcome, options, out)
    if not options["apply"] and outcome.changes:
        say("je-tools: nothing was written; --apply writes it")
    return EXIT_OK
