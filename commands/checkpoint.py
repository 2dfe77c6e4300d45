"""`je-tools checkpoint`: bring a crashed environment to a checkpoint, without the engine."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Unpack

import click

from je_tools.commands._checkpointing import (
    WritingOptions,
    accept_loss_option,
    run_checkpoint,
    verify_if_asked,
    verify_option,
    write_outcome,
)
from je_tools.commands._findings import check_outputs, findings_option, report_findings
from je_tools.commands._options import CONTEXT, exit_zero_option, format_option, threads_option
from je_tools.commands._scanning import staged_scanner
from je_tools.commands._snapshot import home_argument, open_home
from je_tools.commands._writing import (
    apply_option,
    file_max_option,
    output_or_copy_option,
    results_path,
    say_what_would_be_done,
    tell_of_work,
)
from je_tools.output.formats import REPORT

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.recovery.snapshot import Snapshot


@click.command("checkpoint", context_settings=CONTEXT)
@home_argument
@apply_option
@output_or_copy_option
@file_max_option
@accept_loss_option
@verify_option
@threads_option
@format_option(*REPORT)
@findings_option
@exit_zero_option
def command(**options: Unpack[WritingOptions]) -> int:
    """Write the checkpoint that the engine would write after recovery.

    The command undoes unfinished transactions, writes the changes since the last checkpoint to the
    trees, finishes removals of databases, and updates the engine's internal records. The engine
    then opens and closes the environment without writing a byte. If the log is already at a
    checkpoint, nothing is written, so this can run each night.

    Without --apply, the command shows the plan and changes nothing. With it, the command holds the
    engine's lock while it writes, and `je-tools undo` reverts all changes.

    Recovery does not read the files before its interval. With --verify, the command first verifies
    the checksums of all files, as `je-tools verify` does, and reports what it finds.

    \b
    Examples:
      je-tools checkpoint meta/bdb
      je-tools checkpoint meta/bdb --verify
      je-tools checkpoint meta/bdb --apply
      je-tools checkpoint meta/bdb --apply --output /backup/bdb
    """
    from je_tools.checkpoint.apply import plan_checkpoint
    from je_tools.checkpoint.options import CheckpointOptions
    from je_tools.output.files.outputs import open_output
    from je_tools.recovery.opening import held_snapshot

    output = results_path(options)
    environment = open_home(options["path"], keep_going=False)
    side = options["findings_path"]
    check_outputs({"output": output, "findings": side}, environment)
    wanted = CheckpointOptions(file_max=options["file_max"], accept_loss=options["accept_loss"])
    findings: list[Finding] = []
    with staged_scanner(environment, options) as (scanner, _):
        if options["apply"]:
            snapshot, outcome = run_checkpoint(
                environment,
                options,
                wanted,
                scanner,
                lambda each: findings.extend(_left(each, options)),
            )
        else:
            now_ms = time.time_ns() // 1_000_000
            with held_snapshot(environment, scanner, now_ms=now_ms, as_member=True) as snapshot:
                outcome = plan_checkpoint(snapshot, wanted)
                findings += _found(snapshot, options)
    write = partial(write_outcome, snapshot, outcome, findings, options)
    if options["apply"]:
        tell_of_work(environment, outcome.changes, options, write)
    else:
        with open_output(output, environment) as out:
            write(out, path=output)
        if outcome.changes:
            say_what_would_be_done(snapshot, "checkpoint", options)
    return report_findings(findings, environment, side_file=side, exit_zero=options["exit_zero"])


def _found(snapshot: Snapshot, options: WritingOptions) -> list[Finding]:
    """Return the findings on a log before its checkpoint."""
    from je_tools.recovery.findings import missing_findings, snapshot_findings

    checked = verify_if_asked(snapshot, options)
    return [*snapshot_findings(snapshot), *missing_findings(snapshot), *checked]


def _left(snapshot: Snapshot, options: WritingOptions) -> list[Finding]:
    """Return the findings that a written checkpoint leaves; it repairs every refusal."""
    return [each for each in _found(snapshot, options) if each.code != "recovery-refused"]
