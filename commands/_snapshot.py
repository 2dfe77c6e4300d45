"""Options and steps of the commands that show an environment as recovery leaves it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypedDict

import click

from je_tools.commands._completion import complete_databases
from je_tools.commands._findings import (
    add_findings,
    check_outputs,
    findings_option,
    report_findings,
)
from je_tools.commands._opening import open_log
from je_tools.commands._options import (
    A_LOG,
    A_PATH,
    chosen_file_mode,
    chosen_masking,
    data_option,
    exit_zero_option,
    option_group,
    threads_option,
)
from je_tools.commands._progress import staged_bar
from je_tools.commands._scanning import ReadingOptions, chosen_scanner, staged_scanner
from je_tools.commands._terminal import terminal_width
from je_tools.errors import InputError, UsageError
from je_tools.recovery.choices import ChosenEnd, chosen_snapshot

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.log.environment import Environment
    from je_tools.output.views.sections import Section
    from je_tools.recovery.snapshot import Snapshot


class EndOptions(TypedDict):
    """Options for the end of the log."""

    to_lsn: str | None
    to_vlsn: int | None
    to_time: str | None


class SnapshotOptions(EndOptions):
    """Options of a snapshot."""

    path: Path
    now: str | None
    data_mode: str
    threads: int
    max_rate: int | None
    exit_zero: bool
    format_: str
    output: Path | None
    findings_path: Path | None


home_argument = click.argument("path", metavar="ENV_DIR", type=A_PATH)
"""One environment directory."""

_home_or_uri = click.argument("path", metavar="ENV_DIR", type=A_LOG)
"""One environment directory, a path or a URI."""

end_options = option_group(
    click.option("--to-lsn", help="End the log with the entry at this LSN, 0xFILE/0xOFFSET."),
    click.option("--to-vlsn", type=int, help="End the log with this VLSN."),
    click.option("--to-time", help="End the log with the last Commit up to this time, UTC."),
)
"""`--to-lsn`, `--to-vlsn` and `--to-time`."""

now_option = click.option(
    "--now",
    metavar="TIME",
    help="Hide records that have expired by this time. The default is the current time.",
)

database_option = click.option(
    "--db",
    "-d",
    "names",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_databases,
    help="Database, by name or id (id:7). Can be repeated.",
)

internal_option = click.option(
    "--internal", is_flag=True, help="Include the engine's internal databases."
)

show_expired_option = click.option(
    "--show-expired", is_flag=True, help="Also show expired records that are still in the log."
)


_WITHOUT_HOME = option_group(
    end_options,
    now_option,
    data_option,
    threads_option,
    findings_option,
    exit_zero_option,
)
snapshot_options = option_group(home_argument, _WITHOUT_HOME)
"""The environment, the end of its log, the time, masking, findings and threads."""
remote_snapshot_options = option_group(_home_or_uri, _WITHOUT_HOME)
"""The same as `snapshot_options`, but the environment may be in an object store."""


def node_home(path: Path) -> Path:
    """Return the environment of a node: the path itself, or that of a front end below it.

    Raises:
        InputError: the path does not exist or cannot be read.
    """
    from je_tools.journal.front_end import find_front_end

    return find_front_end(path).home


@contextmanager
def open_snapshot(options: SnapshotOptions, label: str) -> Iterator[Snapshot]:
    """Open the snapshot that the options select.

    Raises:
        UsageError: more than one end is given, or one that the log does not have.
        InputError: it is not a whole environment, or nothing in it leads to records.
        StoppedError: a file became shorter while it was read, which may show only at the end.
    """
    environment = open_home(options["path"])
    check_outputs({"findings": options["findings_path"]}, environment)
    with staged_bar(environment.size, label) as stages:
        scanner = chosen_scanner(options, stages.progress)
        end = end_of(options)
        with chosen_snapshot(environment, scanner, end, options["now"]) as snapshot:
            # The trees are read in their own order, so no number of bytes is known.
            if stages.stage is not None:
                stages.stage(label, 0)
            yield snapshot


@contextmanager
def member_snapshot(
    environment: Environment, options: ReadingOptions, now_ms: int | None = None
) -> Iterator[Snapshot]:
    """Open the snapshot of an environment as a member of its group sees it.

    Args:
        environment: the log.
        options: options of the command line.
        now_ms: time at which records expire; None for the current time.

    Raises:
        InputError: it is not a whole environment, or nothing in it leads to records.
        StoppedError: a file became shorter while it was read, which may show only at the end.
    """
    from je_tools.recovery.opening import held_snapshot

    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    with (
        staged_scanner(environment, options) as (scanner, _),
        held_snapshot(environment, scanner, now_ms=now_ms, as_member=True) as snapshot,
    ):
        yield snapshot


@contextmanager
def open_results(path: Path | None, *snapshots: Snapshot) -> Iterator[BinaryIO]:
    """Open a binary file for results from snapshots, like `open_output`.

    It gets its name only if the files of the log are unchanged; see `Snapshot.check_files`.
    """
    from je_tools.output.files.outputs import open_output

    with open_output(path, snapshots[0].environment, chosen_file_mode()) as out:
        yield out
        for snapshot in snapshots:
            snapshot.check_files()


def open_home(path: Path, *, keep_going: bool = True) -> Environment:
    """Open a whole environment.

    Args:
        path: its home.
        keep_going: put files that cannot be opened into `Environment.unreadable` instead of
            failing.

    Raises:
        UsageError: the path is a file.
        InputError: there is no environment, or none that can be read.
    """
    try:
        is_file = path.is_file()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    if is_file:
        raise UsageError(
            f"{path}: expected an environment directory, found a file: name the "
            "directory that holds it"
        )
    return open_log([path], keep_going=keep_going)


def end_of(options: EndOptions) -> ChosenEnd:
    """Return the end of the log that `--to-lsn`, `--to-vlsn` or `--to-time` chooses."""
    return ChosenEnd(options["to_lsn"], options["to_vlsn"], options["to_time"])


def end_lsn(environment: Environment, scanner: Any, options: EndOptions) -> int | None:
    """Return the LSN of the last entry that counts; None for the end of the log.

    Raises:
        UsageError: more than one end is given, or one that the log does not have.
    """
    return end_of(options).lsn(environment, scanner)


def write_section(section: Section, out: BinaryIO, form: str, output: Path | None) -> None:
    """Write one result table in the format of `--format`."""
    from je_tools.output.views.section_formats import write_sections

    write_sections(form, [section], out, terminal_width(output))


def findings_of(
    snapshot: Snapshot, options: SnapshotOptions, out: BinaryIO, *more: Finding
) -> list[Finding]:
    """Return the findings on what was shown, and write them as rows after it; see `add_findings`.

    Args:
        snapshot: the snapshot that was shown.
        options: options of the command line.
        out: the output.
        more: findings in addition to those of the snapshot.
    """
    from je_tools.recovery.findings import snapshot_findings

    found = [*snapshot_findings(snapshot, chosen_masking(options["data_mode"])), *more]
    add_findings(found, out, options["format_"], options["findings_path"])
    return found


def report_on_snapshot(
    findings: Sequence[Finding], snapshot: Snapshot, options: SnapshotOptions
) -> int:
    """Report findings in the file of `--findings` and on standard error; return the exit code."""
    return report_findings(
        findings,
        snapshot.environment,
        side_file=options["findings_path"],
        exit_zero=options["exit_zero"],
    )
