"""Options of the commands that write to a log, and how they say what they did."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypedDict, cast

import click

from je_tools.commands._options import progress_bar, say, terminal_width
from je_tools.commands._snapshot import open_home
from je_tools.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    from je_tools.checkpoint.apply import Outcome
    from je_tools.snapshot import Snapshot


class WritingOptions(TypedDict):
    """What the command line says of writing."""

    path: Path
    apply: bool
    output: Path | None
    file_max: int | None
    threads: int
    format_: str


apply_option = click.option(
    "--apply", is_flag=True, help="Write it; without, only what would be written is told."
)

file_max_option = click.option(
    "--file-max",
    type=click.IntRange(1_000_000, 1 << 30),
    metavar="BYTES",
    help="Size of new log files; as in je.properties, or as the largest file, by default.",
)


def run_checkpoint(options: WritingOptions, label: str, *, cuts: bool) -> int:
    """Plan or write a checkpoint; the exit code."""
    from je_tools.checkpoint.apply import Orders, apply_checkpoint, apply_to_copy, plan_checkpoint
    from je_tools.scan import Scanner
    from je_tools.snapshot import held_snapshot

    if options["output"] is not None and not options["apply"]:
        raise UsageError("--output DIR is where --apply writes a copy; add --apply")
    orders = Orders(cuts=cuts, file_max=options["file_max"])
    now_ms = time.time_ns() // 1_000_000
    environment = open_home(options["path"])
    with progress_bar(environment.size, label) as progress:
        scanner = Scanner(threads=options["threads"], progress=progress, wide=True)
        if not options["apply"]:
            with held_snapshot(environment, scanner, now_ms=now_ms, as_member=True) as snapshot:
                outcome = plan_checkpoint(snapshot, orders)
        elif options["output"] is not None:
            snapshot, outcome = apply_to_copy(
                environment, options["output"], scanner, orders, now_ms
            )
        else:
            snapshot, outcome = apply_checkpoint(options["path"], scanner, orders, now_ms)
    with click.open_file("-", "wb") as out:
        write_outcome(snapshot, outcome, options, cast(BinaryIO, out))
    if not options["apply"] and outcome.changes:
        say("je-tools: this was a dry run, and nothing was written; --apply writes it")
    elif outcome.journal_no is not None:
        say(f"je-tools: `je-tools undo {options['path']} --apply` takes it back")
    return EXIT_OK


def write_outcome(
    snapshot: Snapshot, outcome: Outcome, options: WritingOptions, out: BinaryIO
) -> None:
    """Tell what was written, or would be."""
    from je_tools.sinks.checkpoint_tables import (
        checkpoint_lists,
        checkpoint_rows,
        checkpoint_sections,
    )
    from je_tools.sinks.sections import write_jsonl, write_table

    if options["format_"] == "jsonl":
        for row in checkpoint_rows(snapshot, outcome, applied=options["apply"]):
            out.write(json.dumps(row).encode() + b"\n")
        write_jsonl(checkpoint_lists(snapshot, outcome), out)
    else:
        write_table(checkpoint_sections(snapshot, outcome), out, terminal_width(None))
