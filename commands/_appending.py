"""Options and runs of the commands that append to a log: planned, in place, or on a copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from je_tools.commands._findings import (
    add_findings,
    check_outputs,
    findings_option,
    report_findings,
)
from je_tools.commands._options import (
    check_has_output,
    chosen_file_mode,
    chosen_masking,
    data_option,
    exit_zero_option,
    format_option,
    option_group,
    threads_option,
)
from je_tools.commands._scanning import staged_scanner
from je_tools.commands._snapshot import home_argument, member_snapshot, node_home, open_home
from je_tools.commands._terminal import say, terminal_width
from je_tools.commands._writing import (
    OutputOptions,
    apply_option,
    file_max_option,
    noting_that_none_is_made,
    output_or_copy_option,
    results_path,
    say_reader,
    say_what_would_be_done,
    tell_of_work,
)
from je_tools.errors import UsageError
from je_tools.output.formats import ROWS

if TYPE_CHECKING:
    from je_tools.append.operation import AppendOperation, AppendResult
    from je_tools.findings import Finding
    from je_tools.log.environment import Environment
    from je_tools.output.views.sections import Section
    from je_tools.recovery.snapshot import Snapshot


class AppendOptions(OutputOptions):
    """Options of a command that appends."""

    data_mode: str


_OPTIONS = (
    home_argument,
    apply_option,
    output_or_copy_option,
    file_max_option,
    threads_option,
    data_option,
    format_option(*ROWS),
    findings_option,
    exit_zero_option,
)
append_options = option_group(*_OPTIONS)
"""The environment, and the options of a command that appends."""


def run_operation(
    options: AppendOptions,
    verb: str,
    words: str,
    operation: AppendOperation,
    more: Callable[[], Sequence[Section]] = tuple,
    next_step: str = "",
) -> int:
    """Plan an operation or do it, write its changes, and return the exit code.

    Args:
        options: options of the command line.
        verb: the command, as `group reset`.
        words: the other words of the command line that it needs, each after a space.
        operation: the operation.
        more: returns tables that follow the changes.
        next_step: what to do once it is written; empty for nothing.

    Raises:
        UsageError: the format and `--apply` exclude each other.
        RefusedError, InputError, StoppedError: as `apply_append`.
    """
    options["path"] = node_home(options["path"])
    output = results_path(options)
    if not options["apply"]:
        check_has_output(options["format_"], output)
    elif options["format_"] == "parquet":
        raise UsageError("--format parquet and --apply exclude each other: choose another format")
    environment = open_home(options["path"], keep_going=False)
    check_outputs({"output": output, "findings": options["findings_path"]}, environment)
    if options["apply"]:
        findings = _apply(environment, options, operation, more, next_step)
    else:
        findings = _plan(environment, options, operation, (verb, words), more)
    return report_findings(
        findings,
        environment,
        side_file=options["findings_path"],
        exit_zero=options["exit_zero"],
    )


def _plan(
    environment: Environment,
    options: AppendOptions,
    operation: AppendOperation,
    command: tuple[str, str],
    more: Callable[[], Sequence[Section]],
) -> list[Finding]:
    """Write the changes that an operation would make, and return the findings on the log."""
    from je_tools.append.apply import plan_append
    from je_tools.output.files.outputs import open_output

    output = results_path(options)
    with member_snapshot(environment, options) as snapshot:
        result = plan_append(snapshot, operation, file_max=options["file_max"])
        findings = [*_found(snapshot, options), *operation.findings]
    with open_output(output, environment, chosen_file_mode()) as out:
        _write(result, findings, options, more, out)
    if not result.is_empty:
        verb, words = command
        say_what_would_be_done(snapshot, verb, options, words)
    return findings


def _apply(
    environment: Environment,
    options: AppendOptions,
    operation: AppendOperation,
    more: Callable[[], Sequence[Section]],
    next_step: str,
) -> list[Finding]:
    """Do an operation in place or on a copy, and write its changes."""
    from je_tools.append.apply import append_to_copy, apply_append
    from je_tools.checkpoint.checks import check_readable

    check_readable(environment)
    now_ms, file_max = time.time_ns() // 1_000_000, options["file_max"]
    target = options["output"]
    with staged_scanner(environment, options) as (scanner, _):
        if target is not None:
            with noting_that_none_is_made(target):
                snapshot, result = append_to_copy(
                    environment, target, scanner, operation, now_ms, file_max=file_max
                )
        else:
            snapshot, result = apply_append(
                options["path"],
                scanner,
                operation,
                now_ms,
                file_max=file_max,
                on_reader=partial(say_reader, is_cut=False),
            )
    findings = [each for each in _found(snapshot, options) if not operation.repairs(each)]
    write = partial(_write, result, findings, options, more)
    tell_of_work(environment, not result.is_empty, options, write)
    if next_step and not result.is_empty:
        say(f"je-tools: {next_step}")
    return findings


def _found(snapshot: Snapshot, options: AppendOptions) -> list[Finding]:
    """Return the findings on the part of the log that was read."""
    from je_tools.recovery.findings import missing_findings, snapshot_findings

    masking = chosen_masking(options["data_mode"])
    return [*snapshot_findings(snapshot, masking), *missing_findings(snapshot)]


def _write(
    result: AppendResult,
    findings: list[Finding],
    options: AppendOptions,
    more: Callable[[], Sequence[Section]],
    out: BinaryIO,
) -> None:
    from je_tools.output.views.append_tables import append_sections
    from je_tools.output.views.section_formats import write_sections

    form = options["format_"]
    sections = append_sections(
        result,
        chosen_masking(options["data_mode"]),
        applied=options["apply"],
        as_facts=form == "table",
    )
    width = terminal_width(None if options["apply"] else options["output"])
    write_sections(form, [*sections, *more()], out, width)
    add_findings(findings, out, form, options["findings_path"])
