"""Findings of commands whose results are something else: as rows, in a file, and as messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click
from msgspec.structs import replace

from je_tools.commands._options import A_FILE, chosen_file_mode
from je_tools.commands._terminal import say
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.log.environment import Environment

SAID = 10
"""Largest number of findings of one code that are reported one by one."""

SECTION = "findings"
"""`section` of the rows of findings among other rows."""

findings_option = click.option(
    "--findings",
    "findings_path",
    type=A_FILE,
    metavar="FILE",
    help="Write the findings to this file, as JSON lines like those of verify.",
)


def check_outputs(paths: Mapping[str, Path | None], *environments: Environment) -> None:
    """Refuse outputs that cannot be written, or are the same file, before anything is read.

    Args:
        paths: outputs by the names of their options, without dashes; None for one not given.
        environments: the logs that are read.

    Raises:
        RefusedError: one exists, or lies inside an environment.
        UsageError: two name the same file.
    """
    from je_tools.output.files.outputs import check_output, is_stream

    named: dict[Path, str] = {}
    for option, path in paths.items():
        if path is None:
            continue
        for environment in environments:
            check_output(path, environment)
        real = path.resolve()
        if real in named and not is_stream(path):
            raise UsageError(
                f"--{named[real]} and --{option} name the same file, {path}: choose "
                "two different files"
            )
        named[real] = option


def add_findings(
    findings: Iterable[Finding], out: BinaryIO, form: str, side_file: Path | None
) -> None:
    """Write findings as rows after those of a command, if its format has rows of several kinds.

    Args:
        findings: findings on what the rows show.
        out: the output.
        form: format of the rows; only JSON lines can have other rows too.
        side_file: file of `--findings`, which holds them instead; None if not given.
    """
    if form == "jsonl" and side_file is None:
        from je_tools.output.views.findings import write_jsonl

        write_jsonl(findings, out, SECTION)


def save_findings(
    findings: Iterable[Finding], side_file: Path | None, environment: Environment
) -> None:
    """Write the file of `--findings`, if it is given; it is empty if there are none.

    Raises:
        RefusedError: it cannot be written.
    """
    if side_file is None:
        return
    from je_tools.output.files.outputs import open_output
    from je_tools.output.views.findings import write_jsonl

    with open_output(side_file, environment, chosen_file_mode()) as out:
        write_jsonl(findings, out)


def exit_code_of(findings: Iterable[Finding], *, exit_zero: bool) -> int:
    """Return the exit code for findings."""
    from je_tools.findings import Severity

    is_damaged = any(finding.severity is Severity.ERROR for finding in findings)
    return EXIT_DAMAGE if is_damaged and not exit_zero else EXIT_OK


def say_findings(findings: Iterable[Finding], name: str = "") -> None:
    """Report findings on standard error: the first SAID of each code, and the number of the others.

    Only the first of a code has its hint.

    Args:
        findings: findings of one environment.
        name: name of the environment if there are several.
    """
    front = f"je-tools: {name}: " if name else "je-tools: "
    of_code: dict[str, list[Finding]] = {}
    for finding in findings:
        of_code.setdefault(finding.code, []).append(finding)
    for code, found in of_code.items():
        say(front + found[0].text())
        for finding in found[1:SAID]:
            say(front + replace(finding, hint=None).text())
        if len(found) > SAID:
            say(
                f"{front}{len(found) - SAID:,} more of {code}; `je-tools verify --tree` reports "
                "them"
            )


def report_findings(
    findings: Sequence[Finding],
    environment: Environment,
    *,
    side_file: Path | None,
    exit_zero: bool,
) -> int:
    """Report findings in the file of `--findings` and on standard error; return the exit code."""
    save_findings(findings, side_file, environment)
    say_findings(findings)
    return exit_code_of(findings, exit_zero=exit_zero)
