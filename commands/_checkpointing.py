"""Options, writing and report of a checkpoint, for `checkpoint` and `recover`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypedDict

import click

from je_tools.commands._findings import add_findings
from je_tools.commands._terminal import terminal_width
from je_tools.commands._writing import noting_that_none_is_made, say_reader

if TYPE_CHECKING:
    from je_tools.checkpoint.apply import OnPlan
    from je_tools.checkpoint.options import CheckpointOptions, CheckpointResult
    from je_tools.findings import Finding
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.recovery.snapshot import Snapshot


class VerifyOptions(TypedDict):
    """Options that decide whether the log is verified before it is written."""

    apply: bool
    accept_loss: bool
    is_to_verify: bool


class WritingOptions(VerifyOptions):
    """Options for writing."""

    path: Path
    output: Path | None
    file_max: int | None
    threads: int
    max_rate: int | None
    format_: str
    findings_path: Path | None
    exit_zero: bool


accept_loss_option = click.option(
    "--accept-loss",
    is_flag=True,
    help="Write even if files in use are missing and the records in them are lost, or if --verify "
    "finds damage.",
)

verify_option = click.option(
    "--verify",
    "is_to_verify",
    is_flag=True,
    help="Verify the checksums of all files, also of those that recovery does not read. With "
    "--apply, refuse to write if there is damage.",
)


def verify_if_asked(snapshot: Snapshot, options: VerifyOptions) -> list[Finding]:
    """Verify all files if `--verify` is given, before anything is written; return the findings.

    Raises:
        RefusedError: with `--apply`, if there is damage and no `--accept-loss`.
    """
    if not options["is_to_verify"]:
        return []
    from je_tools.verify.whole_log import check_undamaged, verify_whole_log

    found = verify_whole_log(snapshot)
    if options["apply"] and not options["accept_loss"]:
        check_undamaged(snapshot, found)
    return found


def run_checkpoint(
    environment: Environment,
    options: WritingOptions,
    wanted: CheckpointOptions,
    scanner: Scanner,
    on_plan: OnPlan | None = None,
) -> tuple[Snapshot, CheckpointResult]:
    """Write a checkpoint, in place or to a copy.

    Args:
        environment: the log.
        options: options of the command line.
        wanted: options of the checkpoint.
        scanner: reads the log.
        on_plan: called with the snapshot that will be written, before anything is written.
    """
    from je_tools.checkpoint.apply import apply_checkpoint, apply_to_copy
    from je_tools.checkpoint.checks import check_readable

    check_readable(environment)
    now_ms = time.time_ns() // 1_000_000
    if options["output"] is not None:
        with noting_that_none_is_made(options["output"]):
            return apply_to_copy(environment, options["output"], scanner, wanted, now_ms, on_plan)
    on_reader = partial(say_reader, is_cut=wanted.to_lsn is not None)
    return apply_checkpoint(options["path"], scanner, wanted, now_ms, on_plan, on_reader=on_reader)


def write_outcome(
    snapshot: Snapshot,
    outcome: CheckpointResult,
    findings: Sequence[Finding],
    options: WritingOptions,
    out: BinaryIO,
    *,
    path: Path | None = None,
    document: Mapping[str, Any] | None = None,
) -> None:
    """Report what was written to the log, or would be.

    Args:
        snapshot: the log as it is written.
        outcome: the checkpoint, and what was done beside it.
        findings: findings on the log as it was before.
        options: options of the command line.
        out: the output.
        path: its name; None for standard output.
        document: for JSON, an object that gets the report as its `checkpoint`; None for the report
            alone.
    """
    from je_tools.output.views.checkpoint_tables import checkpoint_report, checkpoint_sections
    from je_tools.output.views.findings import with_findings
    from je_tools.output.views.section_formats import write_document
    from je_tools.output.views.section_tables import write_table

    form = options["format_"]
    if form == "table":
        write_table(checkpoint_sections(snapshot, outcome), out, terminal_width(path))
        return
    work = checkpoint_report(snapshot, outcome, applied=options["apply"])
    if form == "json":
        whole = work.document()
        whole = whole if document is None else {**document, work.name: whole}
        write_document(with_findings(whole, findings), out)
    else:
        work.write_lines(out)
        add_findings(findings, out, form, options["findings_path"])
