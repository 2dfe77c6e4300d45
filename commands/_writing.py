"""Options of the commands that write to a log, and the reports of what they did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypedDict

import click

from je_tools.commands._findings import add_findings
from je_tools.commands._options import A_PATH, say, terminal_width
from je_tools.core.escaping import quoted
from je_tools.errors import InputError, RefusedError, UsageError

if TYPE_CHECKING:
    from je_tools.checkpoint.apply import OnPlan
    from je_tools.checkpoint.options import CheckpointOptions, CheckpointResult
    from je_tools.findings import Finding
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.writing.lock import Holder


class VerifyOptions(TypedDict):
    """Options that decide on a verification before writing."""

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


apply_option = click.option(
    "--apply", is_flag=True, help="Write it. Without this option, the command only shows the plan."
)

force_option = click.option(
    "--force",
    is_flag=True,
    help="Also cut off transactions that a replication group has committed.",
)

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

output_or_copy_option = click.option(
    "--output",
    "-o",
    type=A_PATH,
    metavar="FILE|DIR",
    help="Without --apply, write the results to this file instead of standard output. With "
    "--apply, leave the environment unchanged, and write to a copy: a new directory of this "
    "name.",
)

file_max_option = click.option(
    "--file-max",
    type=click.IntRange(1_000_000, 1 << 30),
    metavar="BYTES",
    help="Size of new log files. The default is the size in je.properties, or that of the "
    "largest file.",
)


def results_path(options: WritingOptions) -> Path | None:
    """Return the file that `--output` names for results; None for standard output.

    Raises:
        UsageError: with `--apply` it is `-`, or without it a directory.
    """
    output = options["output"]
    if options["apply"]:
        if output == Path("-"):
            raise UsageError("--output -: with --apply, the output is a copy: name a new directory")
        return None
    if output is None or output == Path("-"):
        return None
    if output.is_dir():
        raise UsageError(
            f"--output {output}: expected a file, found a directory: only --apply writes a copy "
            "to a directory"
        )
    return output


def verified(snapshot: Snapshot, options: VerifyOptions) -> list[Finding]:
    """Do what `--verify` asks for, before anything is written, and return the findings.

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
    orders: CheckpointOptions,
    scanner: Scanner,
    tell: OnPlan | None = None,
) -> tuple[Snapshot, CheckpointResult]:
    """Write a checkpoint, in place or to a copy.

    Args:
        environment: the log.
        options: options of the command line.
        orders: options of the checkpoint.
        scanner: reads the log.
        tell: called with the snapshot that will be written, before anything is written.
    """
    from je_tools.checkpoint.apply import apply_checkpoint, apply_to_copy
    from je_tools.checkpoint.checks import check_readable

    check_readable(environment)
    now_ms = time.time_ns() // 1_000_000
    if options["output"] is not None:
        with _noting_that_none_is_made(options["output"]):
            return apply_to_copy(environment, options["output"], scanner, orders, now_ms, tell)
    meet = partial(_say_reader, is_cut=orders.to_lsn is not None)
    return apply_checkpoint(options["path"], scanner, orders, now_ms, tell, on_reader=meet)


def tell_of_work(
    environment: Environment,
    outcome: CheckpointResult,
    options: WritingOptions,
    write: Callable[[BinaryIO], None],
) -> None:
    """Write the results of the work to standard output, and report the work even if that fails.

    Args:
        environment: the log.
        outcome: the work that was done.
        options: options of the command line.
        write: writes the results to standard output.

    Raises:
        RefusedError: standard output cannot be written; a closed pipe is no error.
    """
    from je_tools.output.files.outputs import open_output
    from je_tools.output.files.standard_output import ClosedPipeError, drop_standard_output

    done = _done_text(environment, outcome, options)
    try:
        with open_output(None) as out:
            write(out)
    except ClosedPipeError:
        drop_standard_output()
    except RefusedError as error:
        error.add_note(f"{done}, and only the report of it failed")
        raise
    if outcome.changes or options["output"] is not None:
        say(f"je-tools: {done}")


def _done_text(environment: Environment, outcome: CheckpointResult, options: WritingOptions) -> str:
    if options["output"] is not None:
        return f"the copy {options['output']} is written, and {environment.name} is unchanged"
    if not outcome.changes:
        return "the log needs no change, and nothing was written"
    home = quoted(str(options["path"]))
    return f"the log is written; `je-tools undo {home} --apply` reverts it"


def say_what_would_be_done(
    snapshot: Snapshot, verb: str, options: WritingOptions, words: str = ""
) -> None:
    """Report after a dry run the command that does the work, and what prevents it.

    Args:
        snapshot: the log as it would be.
        verb: name of the command.
        options: options of the command line.
        words: further words of the command line that are needed.
    """
    from je_tools.checkpoint.decision import is_written_in_place

    command = f"je-tools {verb} {quoted(str(options['path']))}{words} --apply"
    if not is_written_in_place(snapshot):
        version = snapshot.end.files[-1].version
        say(
            f"je-tools: nothing was written; `{command} --output DIR` writes to a copy: je-tools "
            f"does not write a log of version {version} in place"
        )
        return
    say(f"je-tools: nothing was written; `{command}` writes it{unless_open(options['path'])}")


def unless_open(home: Path) -> str:
    """Return the processes to stop before an environment can be written, as text; or ''."""
    from je_tools.writing.lock import LockMode, find_holders

    try:
        holders = find_holders(home)
    except InputError:
        return ""
    writers = [each.text for each in holders if each.mode is LockMode.READ_WRITE]
    who = " and ".join(writers)
    return f", after you stop {who}, which has the environment open for writing" if who else ""


def _say_reader(reader: Holder, *, is_cut: bool) -> None:
    told = f"je-tools: {reader.text} has the environment open for reading; "
    if is_cut:
        say(f"{told}it fails if it reads the part that is cut off: restart it afterwards")
    else:
        say(f"{told}it continues with the state that it knows")


@contextmanager
def _noting_that_none_is_made(target: Path) -> Iterator[None]:
    """Note on Ctrl-C and SIGTERM that the copy does not exist."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as error:
        if not target.exists():
            error.add_note(f"{target} was not created, and the environment is unchanged")
        raise


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
    """Write what was written to the log, or would be.

    Args:
        snapshot: the log as it is written.
        outcome: the work.
        findings: findings on the log before the work.
        options: options of the command line.
        out: the output.
        path: its name; None for standard output.
        document: for JSON, an object that gets the work as its `checkpoint`; None for the work
            alone.
    """
    from je_tools.output.views.checkpoint_tables import checkpoint_report, checkpoint_sections
    from je_tools.output.views.findings import with_findings
    from je_tools.output.views.section_formats import write_document
    from je_tools.output.views.sections import write_table

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
