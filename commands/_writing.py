"""Options of the commands that write to a log, and how they say what they did."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypedDict

import click

from je_tools.commands._options import say, terminal_width

if TYPE_CHECKING:
    from je_tools.checkpoint.apply import Orders, Outcome, Tell
    from je_tools.environment import Environment
    from je_tools.scan import Scanner
    from je_tools.snapshot import Snapshot
    from je_tools.writing.lock import Holder


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

force_option = click.option(
    "--force", is_flag=True, help="Also cut off what a replication group has."
)

file_max_option = click.option(
    "--file-max",
    type=click.IntRange(1_000_000, 1 << 30),
    metavar="BYTES",
    help="Size of new log files; as in je.properties, or as the largest file, by default.",
)


def run_checkpoint(
    environment: Environment,
    options: WritingOptions,
    orders: Orders,
    scanner: Scanner,
    tell: Tell | None = None,
) -> tuple[Snapshot, Outcome]:
    """Write a checkpoint, in place or to a copy, and say how it is taken back.

    Args:
        environment: the log.
        options: of the command line.
        orders: what is asked for.
        scanner: how the log is read.
        tell: told of the log as it will be, before anything is written.
    """
    from je_tools.checkpoint.apply import apply_checkpoint, apply_to_copy

    now_ms = time.time_ns() // 1_000_000
    if options["output"] is not None:
        with _noting_that_none_is_made(options["output"]):
            return apply_to_copy(environment, options["output"], scanner, orders, now_ms, tell)
    done = apply_checkpoint(options["path"], scanner, orders, now_ms, tell, meet=_say_reader)
    if done[1].journal_no is not None:
        say(f"je-tools: `je-tools undo {options['path']} --apply` takes it back")
    return done


def _say_reader(reader: Holder) -> None:
    say(f"je-tools: {reader.text} has the environment open to read; it goes on with what it knows")


@contextmanager
def _noting_that_none_is_made(target: Path) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM tell that there is no copy."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as error:
        if not target.exists():
            error.add_note(f"there is no {target}, and what it was to be a copy of is as it was")
        raise


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
