"""`je-tools missing`: the losses from files that do not exist."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from je_tools.commands._findings import add_findings, check_outputs, save_findings
from je_tools.commands._options import (
    check_has_output,
    chosen_file_mode,
    chosen_masking,
    format_option,
    output_option,
    tmp_option,
)
from je_tools.commands._progress import progress_bar
from je_tools.commands._scanning import chosen_scanner
from je_tools.commands._snapshot import (
    SnapshotOptions,
    end_lsn,
    open_home,
    snapshot_options,
)
from je_tools.commands._terminal import say, terminal_width
from je_tools.core.escaping import counted, printable
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError
from je_tools.output.formats import ROWS
from je_tools.recovery.choices import chosen_now

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.missing.losses import DatabaseLoss, LossReport


NAMED = 5
"""Largest number of databases that the verdict names."""


class Options(SnapshotOptions):
    """Options of the command line."""

    without: tuple[str, ...]
    tmp: Path | None


@click.command("missing")
@snapshot_options
@click.option(
    "--without",
    multiple=True,
    metavar="FILE",
    help="Treat this file as missing, by number (0x3) or name. Can be repeated.",
)
@format_option(*ROWS)
@output_option
@tmp_option
def command(**options: Unpack[Options]) -> int:
    """Show what is lost with missing log files, and what survives elsewhere.

    The B-trees point to every record and node in use. The command lists those in missing files:
    databases with a lost descriptor, key ranges with a lost node, and keys of which only the record
    is lost. It also counts the keys that have a record in the other files; `je-tools salvage`
    recovers these. With --without, it shows what would be lost with existing files. The exit code
    is 3 if something is lost.

    \b
    Examples:
      je-tools missing meta/bdb
      je-tools missing meta/bdb --without 00000003.jdb
      je-tools missing meta/bdb --format jsonl --output lost.jsonl
    """
    from je_tools.missing.losses import LossOptions
    from je_tools.missing.run import report_missing
    from je_tools.output.files.outputs import open_output, scratch_directory
    from je_tools.output.views.missing_tables import LISTED, missing_sections
    from je_tools.output.views.section_formats import write_sections

    form = options["format_"]
    check_has_output(form, options["output"])
    environment = open_home(options["path"])
    without = _numbers(environment, options["without"])
    check_outputs({"output": options["output"], "findings": options["findings_path"]}, environment)
    temporary = scratch_directory(options["tmp"], environment)
    with progress_bar(environment.size, "missing") as progress:
        scanner = chosen_scanner(options, progress)
        to_lsn = end_lsn(environment, scanner, options)
        now_ms = chosen_now(options["now"])
        wanted = LossOptions(now_ms, without, to_lsn, temporary)
        report = report_missing(environment, scanner, wanted)
    masking = chosen_masking(options["data_mode"])
    with open_output(options["output"], environment, chosen_file_mode()) as out:
        listed = LISTED if form == "table" else None
        sections = list(missing_sections(report, masking, listed=listed))
        if sections:
            write_sections(form, sections, out, terminal_width(options["output"]))
        add_findings(report.findings, out, form, options["findings_path"])
    save_findings(report.findings, options["findings_path"], environment)
    for finding in report.findings:
        say(f"je-tools: {finding.text()}")
    say(f"je-tools: {_verdict(environment, report)}")
    return EXIT_DAMAGE if _has_loss(report) and not options["exit_zero"] else EXIT_OK


def _numbers(environment: Environment, named: tuple[str, ...]) -> frozenset[int]:
    """Return the numbers of files that are given by name or number.

    Raises:
        UsageError: there is no such file.
    """
    known = environment.numbers
    numbers = set()
    for text in named:
        stem = Path(text).name.removesuffix(".jdb")
        try:
            number = int(stem, 0 if stem.lower().startswith("0x") else 16)
        except ValueError:
            number = -1
        if number not in known:
            raise UsageError(
                f"--without {text}: the log has no such file: name one as 00000003.jdb or 0x3"
            )
        numbers.add(number)
    return frozenset(numbers)


def _has_loss(report: LossReport) -> bool:
    from je_tools.findings import Severity

    is_damaged = any(finding.severity is Severity.ERROR for finding in report.findings)
    return bool(report.losses) or report.refused is not None or is_damaged


def _verdict(environment: Environment, report: LossReport) -> str:
    if report.refused is not None:
        return report.refused
    if report.losses:
        return f"{environment.name}: {_losses_text(report.losses)}"
    if any(finding.code == "missing-file" for finding in report.findings):
        return f"{environment.name}: a file in use is missing, but no record is known to be lost"
    text = "no file in use is missing"
    return f"{environment.name}: {text}{', but see above' if _has_loss(report) else ''}"


def _losses_text(losses: Sequence[DatabaseLoss]) -> str:
    """Return the counts of what is lost, and of what is left of it, as text."""
    whole = [loss for loss in losses if loss.is_whole]
    others = [loss for loss in losses if not loss.is_whole and (loss.ranges or len(loss.keys))]
    parts = []
    if whole:
        known = [loss.whole_count for loss in whole if loss.whole_count is not None]
        records = f" with {counted(sum(known), 'record')}" if len(known) == len(whole) else ""
        parts.append(f"{counted(len(whole), 'whole database')}{records}")
    if others:
        ranges = sum(len(loss.ranges) for loss in others)
        keys = sum(len(loss.keys) for loss in others)
        places = f"{counted(ranges, 'range')} of keys and {counted(keys, 'single key')}"
        parts.append(
            f"in {counted(len(others), 'other database' if whole else 'database')} {places}"
        )
    names = [loss for loss in losses if loss.name_lost and not loss.is_internal]
    if names:
        text = ", ".join(map(_label, names[:NAMED]))
        more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
        parts.append(f"{'the name' if len(names) == 1 else 'the names'} of {text}{more}")
    if not parts:
        parts.append("names of the engine's own databases")
    kept = counted(sum(loss.kept_count for loss in losses), "record")
    return f"lost: {'; '.join(parts)}. `je-tools salvage` gets {kept} of them from the other files"


def _label(loss: DatabaseLoss) -> str:
    by_id = f"id:{loss.db_id}"
    return by_id if loss.name == by_id else f"{printable(loss.name)} ({by_id})"
