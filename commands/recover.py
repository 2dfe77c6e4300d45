"""`je-tools recover`, also `db-recover`: what would recovery do with this log?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, Unpack

import click

from je_tools.commands._options import (
    CONTEXT,
    format_option,
    output_option,
    progress_bar,
    terminal_width,
)
from je_tools.commands._snapshot import (
    SnapshotOptions,
    chosen_end,
    open_home,
    open_results,
    open_snapshot,
    report,
    snapshot_options,
)
from je_tools.commands._writing import (
    apply_option,
    file_max_option,
    force_option,
    run_checkpoint,
    write_outcome,
)
from je_tools.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    from je_tools.snapshot import Snapshot


class Options(SnapshotOptions):
    """What the command line says."""

    format_: str
    output: Path | None
    apply: bool
    force: bool
    file_max: int | None


HELP = """Tell what the engine's recovery would do with a log, and with --apply do it.

Where the log ends and why, which committed transactions lie behind that and would be lost, the
checkpoint from which recovery begins, what each pass over the log does, transactions without an
end, databases that come and go, rollbacks. With an earlier end the same of a log that is cut there.
The exit code is 3 where the engine would refuse the log, or its trees are damaged.

Without --apply nothing is changed. With it what is behind the end is cut off, unusable last files
are renamed to .bad, and a checkpoint is written, as `je-tools checkpoint` does; with an earlier end
the log is cut back to that. `je-tools undo` takes it back.

\b
Examples:
  je-tools recover meta/bdb
  je-tools recover meta/bdb --format jsonl --output plan.jsonl
  je-tools recover meta/bdb --to-time 2026-11-20T10:00:00
  je-tools recover meta/bdb --to-lsn 0x3/0x1a2f
  je-tools recover meta/bdb --apply
  je-tools recover meta/bdb --apply --output /backup/bdb
"""

F = TypeVar("F", bound=Callable[..., Any])


def recover_options(function: F) -> F:
    """All that the command line may say."""
    for option in (
        file_max_option,
        force_option,
        apply_option,
        output_option,
        format_option("table", "jsonl"),
        snapshot_options,
    ):
        function = option(function)
    return function


def execute(options: Options) -> int:
    """Tell it, or do it; the exit code."""
    if options["apply"]:
        return _apply(options)
    if options["force"] or options["file_max"] is not None:
        raise UsageError("--force and --file-max say how --apply writes; add --apply")
    return _tell(options)


def _apply(options: Options) -> int:
    from je_tools.checkpoint.apply import Orders
    from je_tools.scan import Scanner
    from je_tools.sinks.output import open_output

    if options["now"] is not None:
        raise UsageError("--now is for reading: what is written does not depend on it")
    environment = open_home(options["path"])
    with progress_bar(environment.size, "recover") as progress, open_output(None) as out:
        scanner = Scanner(threads=options["threads"], progress=progress, wide=True)
        orders = Orders(
            cuts=True,
            file_max=options["file_max"],
            to_lsn=chosen_end(environment, scanner, options),
            force=options["force"],
        )

        def tell(snapshot: Snapshot) -> None:
            _write_plan(snapshot, options["format_"], out, terminal_width(None))
            out.flush()

        snapshot, outcome = run_checkpoint(environment, options, orders, scanner, tell)
        write_outcome(snapshot, outcome, options, out)
    return EXIT_OK


def _tell(options: Options) -> int:
    from je_tools.sinks.output import check_output

    with open_snapshot(options, "recover") as snapshot:
        if options["output"] is not None:
            check_output(options["output"], snapshot.environment)
        with open_results(options["output"], snapshot) as out:
            _write_plan(snapshot, options["format_"], out, terminal_width(options["output"]))
    return report(snapshot, options)


def _write_plan(snapshot: Snapshot, form: str, out: BinaryIO, width: int | None) -> None:
    from je_tools.recovery_plan import plan_recovery
    from je_tools.sinks.recovery_tables import (
        lost_key_rows,
        recovery_lists,
        recovery_rows,
        recovery_sections,
    )
    from je_tools.sinks.sections import write_jsonl, write_table

    plan = plan_recovery(snapshot)
    if form == "jsonl":
        for row in recovery_rows(plan):
            out.write(json.dumps(row).encode() + b"\n")
        write_jsonl(recovery_lists(plan), out)
        for row in lost_key_rows(plan):
            out.write(json.dumps(row).encode() + b"\n")
    else:
        write_table(recovery_sections(plan), out, width)


def _make(name: str, text: str) -> click.Command:
    @click.command(name, help=text, context_settings=CONTEXT)
    @recover_options
    def made(**options: Unpack[Options]) -> int:
        return execute(options)

    return made


command = _make("recover", HELP)

db_recover_command = _make(
    "db-recover",
    "This db-recover changes nothing without --apply, unlike that of other Berkeley DBs.\n\n"
    + HELP.replace("je-tools recover", "db-recover"),
)
