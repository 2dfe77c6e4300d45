"""`je-tools journal show`: the journals of StarRocks and Doris front ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Unpack

import click

from je_tools.commands._findings import add_findings
from je_tools.commands._options import (
    CONTEXT,
    check_has_output,
    chosen_masking,
    format_option,
    output_option,
)
from je_tools.commands._snapshot import (
    SnapshotOptions,
    open_results,
    open_snapshot,
    report_on_snapshot,
    snapshot_options,
)
from je_tools.commands._terminal import say, terminal_width
from je_tools.errors import EXIT_INPUT, EXIT_OK
from je_tools.journal.series import ID_MAX
from je_tools.output.formats import REPORT_WITH_ROWS

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.journal.lookup import JournalRecord
    from je_tools.journal.report import JournalReport
    from je_tools.recovery.snapshot import Snapshot


class Options(SnapshotOptions):
    """Options of the command line."""

    ids: tuple[int, ...]


@click.command("show", context_settings=CONTEXT)
@snapshot_options
@click.option(
    "--show",
    "ids",
    type=click.IntRange(0, ID_MAX),
    metavar="ID",
    multiple=True,
    help="Show the record of this journal id instead. Can be repeated.",
)
@format_option(*REPORT_WITH_ROWS)
@output_option
def command(**options: Unpack[Options]) -> int:
    """Show the journals of a front end: ids, holes, op codes, epochs, and records that are wrong.

    ENV_DIR is the environment (meta/bdb) or a directory above it (meta, doris-meta). The journals
    are shown as the engine would return them after recovery. Missing ids are holes; for each, the
    command says whether the log still has the entry. ROLE and VERSION of the directory `image` are
    compared with the replication group.

    --show decodes the payload of a record if it is text, JSON or a time. Ids and op codes are
    always shown; --data masks payloads. The exit code is 3 if there is a hole or damage, and 4 if
    no journal has the id of --show.

    \b
    Examples:
      je-tools journal show meta
      je-tools journal show doris-meta --format jsonl
      je-tools journal show meta/bdb --show 5485
    """
    from je_tools.core.memory import keep_freed_memory
    from je_tools.journal.front_end import find_front_end

    check_has_output(options["format_"], options["output"])
    keep_freed_memory()
    front_end = find_front_end(options["path"])
    options["path"] = front_end.home
    with open_snapshot(options, "journal") as snapshot:
        if options["ids"]:
            return _show_records(snapshot, options)
        from je_tools.journal.report import report_journals

        found = report_journals(snapshot, front_end)
        findings = _findings(snapshot, found, options)
        with open_results(options["output"], snapshot) as out:
            _write(found, findings, options, out)
    return report_on_snapshot(findings, snapshot, options)


def _findings(snapshot: Snapshot, found: JournalReport, options: Options) -> list[Finding]:
    from je_tools.journal.journal_findings import journal_findings
    from je_tools.recovery.findings import missing_findings, snapshot_findings

    return [
        *snapshot_findings(snapshot, chosen_masking(options["data_mode"])),
        *missing_findings(snapshot),
        *journal_findings(found, snapshot.environment.name),
    ]


def _write(found: JournalReport, findings: list[Finding], options: Options, out: BinaryIO) -> None:
    from je_tools.output.views.journal_tables import (
        journal_report,
        journal_sections,
        journal_tables,
    )
    from je_tools.output.views.section_formats import write_sections

    form = options["format_"]
    if form in ("json", "jsonl"):
        rows = findings if options["findings_path"] is None else None
        journal_report(found, rows).write(form, out)
        return
    sections = journal_tables(found) if form == "table" else journal_sections(found)
    write_sections(form, sections, out, terminal_width(options["output"]))


def _show_records(snapshot: Snapshot, options: Options) -> int:
    """Show the records of `--show`, and return the exit code."""
    from je_tools.journal.lookup import records_of_id
    from je_tools.journal.report import check_is_front_end
    from je_tools.recovery.findings import snapshot_findings

    check_is_front_end(snapshot)
    masking = chosen_masking(options["data_mode"])
    records = [each for number in options["ids"] for each in records_of_id(snapshot, number)]
    findings = snapshot_findings(snapshot, masking)
    with open_results(options["output"], snapshot) as out:
        _write_records(records, findings, options, out)
    code = report_on_snapshot(findings, snapshot, options)
    absent = set(options["ids"]) - {each.journal_id for each in records}
    for number in sorted(absent):
        say(f"je-tools: no journal has id {number}{_hint(snapshot, number)}")
    return EXIT_INPUT if absent and code == EXIT_OK else code


def _write_records(
    records: list[JournalRecord], findings: list[Finding], options: Options, out: BinaryIO
) -> None:
    from je_tools.journal.op_codes import product_of
    from je_tools.output.views.journal_tables import record_sections, record_tables
    from je_tools.output.views.section_formats import Report, write_sections

    product = product_of((each.value.op_code or 0 for each in records), _series(records))
    masking, form = chosen_masking(options["data_mode"]), options["format_"]
    if form == "table":
        sections = record_tables(records, product, masking)
    else:
        sections = record_sections(records, product, masking)
    if form == "json":
        rows = [each.row() for each in findings]
        lists = {"findings": rows} if options["findings_path"] is None else {}
        Report({}, "records", sections=sections, lists=lists).write("json", out)
        return
    write_sections(form, sections, out, terminal_width(options["output"]))
    add_findings(findings, out, form, options["findings_path"])


def _series(records: list[JournalRecord]) -> set[str]:
    return {each.database.rstrip("0123456789") for each in records}


def _hint(snapshot: Snapshot, number: int) -> str:
    """Return the command that shows deleted versions of an id; empty if no journal fits."""
    from je_tools.core.escaping import quoted
    from je_tools.journal.lookup import journal_for

    name = journal_for(snapshot, number)
    if name is None:
        return ""
    home = quoted(snapshot.environment.name)
    return (
        f"; `je-tools get {home} --db {name} long:{number} --history` shows what the log has of it"
    )
