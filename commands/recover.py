"""`je-tools recover`, also `db-recover`: what would recovery do with this log?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, Unpack

import click

from je_tools.commands._options import CONTEXT, format_option, output_option, terminal_width
from je_tools.commands._snapshot import (
    SnapshotOptions,
    open_results,
    open_snapshot,
    report,
    snapshot_options,
)


class Options(SnapshotOptions):
    """What the command line says."""

    format_: str
    output: Path | None


HELP = """Tell what the engine's recovery would do with a log; nothing is changed.

Where the log ends and why, which committed transactions lie behind that and would be lost, the
checkpoint from which recovery begins, what each pass over the log does, transactions without an
end, databases that come and go, rollbacks. With an earlier end the same of a log that is cut there.
The exit code is 3 where the engine would refuse the log, or its trees are damaged.

\b
Examples:
  je-tools recover meta/bdb
  je-tools recover meta/bdb --format jsonl --output plan.jsonl
  je-tools recover meta/bdb --to-time 2026-11-20T10:00:00
  je-tools recover meta/bdb --to-lsn 0x3/0x1a2f
"""

F = TypeVar("F", bound=Callable[..., Any])


def recover_options(function: F) -> F:
    """All that the command line may say."""
    for option in (output_option, format_option("table", "jsonl"), snapshot_options):
        function = option(function)
    return function


def execute(options: Options) -> int:
    """Tell it; the exit code."""
    from je_tools.recovery.plan import plan_recovery
    from je_tools.sinks.output import check_output
    from je_tools.sinks.recovery_tables import (
        lost_key_rows,
        recovery_lists,
        recovery_rows,
        recovery_sections,
    )
    from je_tools.sinks.sections import write_jsonl, write_table

    with open_snapshot(options, "recover") as snapshot:
        if options["output"] is not None:
            check_output(options["output"], snapshot.environment)
        plan = plan_recovery(snapshot)
        with open_results(options["output"], snapshot) as out:
            if options["format_"] == "jsonl":
                for row in recovery_rows(plan):
                    out.write(json.dumps(row).encode() + b"\n")
                write_jsonl(recovery_lists(plan), out)
                for row in lost_key_rows(plan):
                    out.write(json.dumps(row).encode() + b"\n")
            else:
                write_table(recovery_sections(plan), out, terminal_width(options["output"]))
    return report(snapshot, options)


def _make(name: str, text: str) -> click.Command:
    @click.command(name, help=text, context_settings=CONTEXT)
    @recover_options
    def made(**options: Unpack[Options]) -> int:
        return execute(options)

    return made


command = _make("recover", HELP)

db_recover_command = _make(
    "db-recover",
    "This db-recover changes nothing, unlike that of other Berkeley DBs.\n\n"
    + HELP.replace("je-tools recover", "db-recover"),
)
