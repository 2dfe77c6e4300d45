"""`je-tools files`: the files of a log, and which engines open them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypedDict, Unpack

import click

from je_tools.commands._findings import (
    add_findings,
    check_outputs,
    findings_option,
    save_findings,
)
from je_tools.commands._opening import open_log
from je_tools.commands._options import (
    check_has_output,
    chosen_file_mode,
    environment_argument,
    exit_zero_option,
    format_option,
    output_option,
    threads_option,
)
from je_tools.commands._progress import progress_bar
from je_tools.commands._scanning import chosen_scanner
from je_tools.commands._terminal import say, terminal_width
from je_tools.errors import EXIT_DAMAGE, EXIT_OK
from je_tools.output.formats import ROWS

if TYPE_CHECKING:
    from je_tools.files.listing import FileRow
    from je_tools.findings import Finding


class Options(TypedDict):
    """Options of the command line."""

    paths: tuple[Path, ...]
    format_: str
    output: Path | None
    findings_path: Path | None
    threads: int
    max_rate: int | None
    exit_zero: bool


@click.command("files")
@environment_argument
@format_option(*ROWS)
@output_option
@findings_option
@threads_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """List the log files: their content, and the releases that write and open them.

    Each file has a row: number, log version, time of creation (UTC), size, good entries, first and
    last LSN and VLSN, the JE releases that write this log version, the lowest release that opens
    it, and later releases that must not open it. Standard error reports mixed versions, a log of
    version 8 that a newer engine would cut off, and damage. The exit code is 3 if there is damage.

    \b
    Examples:
      je-tools files meta/bdb
      je-tools files meta/bdb --format jsonl
      je-tools files /var/lib/app/env --format csv --output files.csv
      je-tools files 00000002.jdb 00000003.jdb
    """
    from je_tools.files.listing import list_files
    from je_tools.output.files.outputs import open_output

    check_has_output(options["format_"], options["output"])
    environment = open_log(options["paths"])
    check_outputs({"output": options["output"], "findings": options["findings_path"]}, environment)
    with (
        open_output(options["output"], environment, chosen_file_mode()) as out,
        progress_bar(environment.size, "files") as progress,
    ):
        rows = list_files(environment, chosen_scanner(options, progress))
        _write(rows, out, options)
        findings = _findings_on(rows)
        add_findings(findings, out, options["format_"], options["findings_path"])
    save_findings(findings, options["findings_path"], environment)
    return _exit_code(rows, findings, options["exit_zero"])


def _write(rows: list[FileRow], out: BinaryIO, options: Options) -> None:
    from je_tools.output.views.file_tables import file_section
    from je_tools.output.views.section_formats import write_sections

    width = terminal_width(options["output"])
    write_sections(options["format_"], [file_section(rows)], out, width)


def _findings_on(rows: list[FileRow]) -> list[Finding]:
    """Return the findings on files as a whole, then those on the directory."""
    of_files = [found for row in rows for found in row.findings]
    return of_files + [found for row in rows for found in row.of_directory]


def _exit_code(rows: list[FileRow], findings: list[Finding], exit_zero: bool) -> int:
    """Report the findings, and return the exit code."""
    from je_tools.findings import Severity

    of_directory = [found for row in rows for found in row.of_directory]
    for found in findings:
        say(f"je-tools: {found.text()}")
    errors = sum(row.damage_count for row in rows)
    errors += sum(found.severity is Severity.ERROR for found in of_directory)
    if errors:
        counted = f"{errors:,} error{'s' * (errors > 1)}"
        say(f"je-tools: damaged, {counted}; `je-tools verify` reports the places")
    return EXIT_DAMAGE if errors and not exit_zero else EXIT_OK
