"""`je-tools recover`, also `db-recover`: recovery, planned or done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Unpack, cast

import click
from msgspec.structs import replace

from je_tools.commands._checkpointing import (
    accept_loss_option,
    run_checkpoint,
    verify_if_asked,
    verify_option,
    write_outcome,
)
from je_tools.commands._findings import check_outputs
from je_tools.commands._options import CONTEXT, chosen_masking, format_option, option_group
from je_tools.commands._scanning import staged_scanner
from je_tools.commands._snapshot import (
    SnapshotOptions,
    end_lsn,
    findings_of,
    open_home,
    open_results,
    open_snapshot,
    report_on_snapshot,
    snapshot_options,
)
from je_tools.commands._terminal import say, terminal_width
from je_tools.commands._writing import (
    file_max_option,
    force_option,
    output_or_copy_option,
    results_path,
    say_what_would_be_done,
    tell_of_work,
)
from je_tools.core.escaping import quoted
from je_tools.errors import JeToolsError, UsageError
from je_tools.output.formats import REPORT

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.output.views.section_formats import Report
    from je_tools.recovery.snapshot import Snapshot


class Options(SnapshotOptions):
    """Options of the command line."""

    apply: bool
    force: bool
    accept_loss: bool
    is_to_verify: bool
    file_max: int | None
    asked_as: str | None


HELP = """Show what the engine's recovery would do with a log, and with --apply do it.

The plan shows the committed transactions that would be lost, where the log ends and why, the
checkpoint from which recovery begins, the work of each pass over the log, transactions without an
end, databases that are created or removed, and rollbacks. With --to-lsn, --to-vlsn or --to-time, it
shows the same for a log that is cut back to there. The exit code is 3 if the engine would refuse
the log, its trees are damaged, or committed transactions after damage are lost. With --apply, the
command first does what is possible.

Without --apply, the command changes nothing. With --apply, it cuts off everything after the end,
renames unusable last files to .bad, and writes a checkpoint, as `je-tools checkpoint` does. With
--to-lsn, --to-vlsn or --to-time, it cuts the log back to there. `je-tools undo` reverts all
changes.

Recovery does not read the files before its interval. With --verify, the command first verifies the
checksums of all files, as `je-tools verify` does, and reports what it finds.

\b
Examples:
  je-tools recover meta/bdb
  je-tools recover meta/bdb --format jsonl --output plan.jsonl
  je-tools recover meta/bdb --to-time 2026-11-20T10:00:00
  je-tools recover meta/bdb --to-lsn 0x3/0x1a2f
  je-tools recover meta/bdb --verify
  je-tools recover meta/bdb --apply
  je-tools recover meta/bdb --apply --output /backup/bdb
"""

_apply_option = click.option(
    "--apply", is_flag=True, help="Write it. Without this option, the command only shows the plan."
)

_asked_as_option = click.option(
    "--asked-as",
    hidden=True,
    help="The command that runs this one, vlsn rollback: messages name it instead.",
)


_OPTIONS = (
    snapshot_options,
    format_option(*REPORT),
    output_or_copy_option,
    _apply_option,
    verify_option,
    accept_loss_option,
    force_option,
    file_max_option,
    _asked_as_option,
)
recover_options = option_group(*_OPTIONS)
"""All options of the command."""


def execute(options: Options) -> int:
    """Report the plan or carry it out, and return the exit code."""
    output = results_path(options)
    if options["apply"]:
        return _apply(options)
    if options["force"] or options["accept_loss"] or options["file_max"] is not None:
        raise UsageError("--force, --accept-loss and --file-max need --apply: add it")
    return _show_plan(options, output)


def _apply(options: Options) -> int:
    from je_tools.checkpoint.options import CheckpointOptions
    from je_tools.output.files.output_file import held_output
    from je_tools.recovery.findings import missing_findings, snapshot_findings

    if options["now"] is not None:
        raise UsageError(
            "--now and --apply exclude each other: the written log does not depend "
            "on the time; omit --now"
        )
    environment = open_home(options["path"], keep_going=False)
    check_outputs({"findings": options["findings_path"]}, environment)
    findings: list[Finding] = []
    document: dict[str, Any] = {}
    with held_output() as plan:
        with staged_scanner(environment, options) as (scanner, _):
            wanted = CheckpointOptions(
                cuts=True,
                file_max=options["file_max"],
                to_lsn=end_lsn(environment, scanner, options),
                force=options["force"],
                accept_loss=options["accept_loss"],
            )

            def on_plan(snapshot: Snapshot) -> None:
                # Afterwards, what is cut off can no longer be examined.
                checked = verify_if_asked(snapshot, options)
                if options["format_"] == "json":
                    document.update(_report(snapshot, options).document())
                else:
                    _write_plan(snapshot, options, cast(BinaryIO, plan), terminal_width(None))
                # The hints are for a log before recovery.
                found = snapshot_findings(snapshot, chosen_masking(options["data_mode"]))
                found += [*missing_findings(snapshot), *checked]
                findings.extend(replace(each, hint=None) for each in found)

            snapshot, outcome = run_checkpoint(environment, options, wanted, scanner, on_plan)

        def write(out: BinaryIO) -> None:
            plan.copy_to(out)
            write_outcome(snapshot, outcome, findings, options, out, document=document)

        tell_of_work(environment, outcome.changes, options, write)
    return report_on_snapshot(findings, snapshot, options)


def _show_plan(options: Options, output: Path | None) -> int:
    from je_tools.output.views.findings import with_findings
    from je_tools.output.views.section_formats import write_document
    from je_tools.recovery.findings import missing_findings

    with open_snapshot(options, "recover") as snapshot:
        both = {"output": output, "findings": options["findings_path"]}
        check_outputs(both, snapshot.environment)
        checked = verify_if_asked(snapshot, options)
        with open_results(output, snapshot) as out:
            if options["format_"] == "json":
                document = _report(snapshot, options).document()
                more = [*missing_findings(snapshot), *checked]
                found = findings_of(snapshot, options, out, *more)
                write_document(with_findings(document, found), out)
            else:
                _write_plan(snapshot, options, out, terminal_width(output))
                more = [*missing_findings(snapshot), *checked]
                found = findings_of(snapshot, options, out, *more)
        _say_refusals(snapshot, options)
    return report_on_snapshot(found, snapshot, options)


def _say_refusals(snapshot: Snapshot, options: Options) -> None:
    """Report what `--apply` would refuse, and for an earlier end the command to reach it."""
    from je_tools.checkpoint.decision import has_work
    from je_tools.checkpoint.options import CheckpointOptions
    from je_tools.checkpoint.truncation import FORCE_ADVICE, group_refusal

    to_lsn = snapshot.to_lsn
    if to_lsn is not None:
        try:
            has_work(snapshot, CheckpointOptions(cuts=True, to_lsn=to_lsn, force=True))
        except JeToolsError as error:
            say(f"je-tools: --apply would refuse this: {error}")
            return
    refusal, asked_as = group_refusal(snapshot), options["asked_as"]
    if refusal is not None and asked_as is None:
        say(f"je-tools: --apply would refuse this without --force: {refusal} {FORCE_ADVICE}")
    elif refusal is not None:
        say(f"je-tools: {refusal}")
    if to_lsn is None:
        return
    if asked_as is not None:
        more = f" --to {options['to_vlsn']} --force"
        say_what_would_be_done(snapshot, asked_as, options, more)
        return
    named = {
        "--to-lsn": options["to_lsn"],
        "--to-vlsn": options["to_vlsn"],
        "--to-time": options["to_time"],
    }
    words = [f" {name} {quoted(str(value))}" for name, value in named.items() if value is not None]
    words += [" --force"] if refusal is not None else []
    say_what_would_be_done(snapshot, "recover", options, "".join(words))


def _write_plan(snapshot: Snapshot, options: Options, out: BinaryIO, width: int | None) -> None:
    from je_tools.output.views.recovery_tables import recovery_sections
    from je_tools.output.views.section_tables import write_table
    from je_tools.recovery.plan import plan_recovery

    if options["format_"] == "jsonl":
        _report(snapshot, options).write_lines(out)
    else:
        write_table(recovery_sections(plan_recovery(snapshot)), out, width)


def _report(snapshot: Snapshot, options: Options) -> Report:
    from je_tools.output.views.recovery_tables import recovery_report
    from je_tools.recovery.plan import plan_recovery

    return recovery_report(plan_recovery(snapshot), chosen_masking(options["data_mode"]))


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
