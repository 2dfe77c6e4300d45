"""Options of the commands that look at an environment as it is after recovery."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypedDict, TypeVar

import click
from msgspec.structs import replace

from je_tools.commands._completion import complete_databases
from je_tools.commands._options import (
    chosen_masking,
    data_option,
    exit_zero_option,
    progress_bar,
    say,
    terminal_width,
    threads_option,
)
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError

if TYPE_CHECKING:
    from je_tools.environment import Environment
    from je_tools.findings import Finding
    from je_tools.sinks.sections import Section
    from je_tools.snapshot import Database, Snapshot

F = TypeVar("F", bound=Callable[..., Any])


class EndOptions(TypedDict):
    """What the command line says of the end of the log."""

    to_lsn: str | None
    to_vlsn: int | None
    to_time: str | None


class SnapshotOptions(EndOptions):
    """What the command line says of the snapshot."""

    path: Path
    now: str | None
    data_mode: str
    threads: int
    exit_zero: bool


home_argument = click.argument("path", metavar="ENV_DIR", type=click.Path(path_type=Path))
"""One environment directory."""

_END_OPTIONS = (
    click.option("--to-lsn", help="Take the log to end with the entry there, 0xFILE/0xOFFSET."),
    click.option("--to-vlsn", type=int, help="Take the log to end with this VLSN."),
    click.option("--to-time", help="Take the log to end with the last Commit up to then, UTC."),
)

now_option = click.option(
    "--now", metavar="TIME", help="What has expired by then is hidden; the clock by default."
)

database_option = click.option(
    "--db",
    "-d",
    "names",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_databases,
    help="Database, by name or id (id:7); several times for several.",
)

internal_option = click.option("--internal", is_flag=True, help="The engine's own databases too.")

show_expired_option = click.option(
    "--show-expired", is_flag=True, help="Also records that have expired and are still there."
)


def end_options(function: F) -> F:
    """`--to-lsn`, `--to-vlsn` and `--to-time`."""
    for option in reversed(_END_OPTIONS):
        function = option(function)
    return function


def snapshot_options(function: F) -> F:
    """The environment, the end of its log, the time of reading, what is shown of keys, threads."""
    shared = (exit_zero_option, threads_option, data_option, now_option, end_options)
    for option in (*shared, home_argument):
        function = option(function)
    return function


@contextmanager
def open_snapshot(options: SnapshotOptions, label: str) -> Iterator[Snapshot]:
    """The snapshot that the options ask for.

    Raises:
        UsageError: more than one end is named, or one that the log does not have.
        InputError: not a whole environment, or nothing in it leads to records.
        StoppedError: a file became shorter meanwhile, which may show only at the end.
    """
    from je_tools.scan import Scanner
    from je_tools.snapshot import held_snapshot

    environment = open_home(options["path"])
    now_ms = chosen_now(options["now"])
    with progress_bar(environment.size, label) as progress:
        scanner = Scanner(threads=options["threads"], progress=progress, wide=True)
        to_lsn = chosen_end(environment, scanner, options)
        with held_snapshot(environment, scanner, now_ms=now_ms, to_lsn=to_lsn) as snapshot:
            yield snapshot


@contextmanager
def open_results(path: Path | None, *snapshots: Snapshot) -> Iterator[BinaryIO]:
    """A binary file for what snapshots tell, as `open_output` has it.

    It gets its name only where their files are what they were; see `Snapshot.check_files`.
    """
    from je_tools.sinks.output import open_output

    with open_output(path, snapshots[0].environment) as out:
        yield out
        for snapshot in snapshots:
            snapshot.check_files()


def open_home(path: Path, *, keep_going: bool = False) -> Environment:
    """A whole environment.

    Args:
        path: its home.
        keep_going: files that cannot be opened are no error, but `Environment.unreadable`.

    Raises:
        UsageError: a file.
        InputError: there is no environment.
    """
    from je_tools.environment import open_environment

    if path.is_file():
        raise UsageError(f"{path}: a file; name the environment's home, the directory it lies in")
    return open_environment([path], keep_going=keep_going)


def chosen_now(text: str | None) -> int:
    """What `--now` says, in milliseconds since 1970; the clock where it says nothing."""
    if text is None:
        return time.time_ns() // 1_000_000
    from je_tools.times import parse_time

    return parse_time(text)


def named_ends(options: EndOptions) -> list[str]:
    """Which of `--to-lsn`, `--to-vlsn` and `--to-time` are given, as they are spelled."""
    named = {
        "--to-lsn": options["to_lsn"],
        "--to-vlsn": options["to_vlsn"],
        "--to-time": options["to_time"],
    }
    return [name for name, value in named.items() if value is not None]


def chosen_end(environment: Environment, scanner: Any, options: EndOptions) -> int | None:
    """The LSN of the last entry that is to count; None for the end of the log.

    Raises:
        UsageError: more than one end is named, or one that the log does not have.
    """
    named = named_ends(options)
    if not named:
        return None
    from je_tools.recovery.cut import lsn_of_time, lsn_of_vlsn
    from je_tools.selection import parse_lsn
    from je_tools.times import parse_time

    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)}: a log has one end; give one of them")
    if options["to_lsn"] is not None:
        return _inside(environment, parse_lsn(options["to_lsn"]))
    if options["to_vlsn"] is not None:
        return lsn_of_vlsn(environment, scanner, options["to_vlsn"])
    if options["to_time"] is not None:
        return lsn_of_time(environment, scanner, parse_time(options["to_time"]))
    return None


def _inside(environment: Environment, lsn: int) -> int:
    """An LSN that some file of the log reaches to.

    Raises:
        UsageError: the log ends before.
    """
    from je_tools.formats.je.header import lsn_of, lsn_text

    last = environment.files[-1]
    if lsn >= lsn_of(last.file_no, last.size):
        end = lsn_text(lsn_of(last.file_no, last.size))
        raise UsageError(f"--to-lsn {lsn_text(lsn)}: {environment.name} ends at {end}")
    return lsn


def choose_databases(
    snapshot: Snapshot, names: tuple[str, ...], *, internal: bool = False
) -> list[Database]:
    """The databases of these names or ids, each once; of no name, all that applications made.

    Args:
        snapshot: that has them.
        names: of them, or `id:7`; a number that is no name is an id too, as `dump` has it.
        internal: where none is named, those of the engine too.

    Raises:
        UsageError: there is no such database; the text names those that there are.
    """
    named = [each for each in snapshot.databases.values() if each.name is not None]
    named.sort(key=lambda each: each.name or "")
    if not names:
        return [each for each in named if internal or not each.is_internal]
    chosen = []
    for name in names:
        found = [each for each in named if each.name == name]
        if not found:
            by_id = name.removeprefix("id:")
            found = [each for each in snapshot.databases.values() if str(each.db_id) == by_id]
        if not found:
            own = [each for each in named if not each.is_internal]
            there = ", ".join(f"{each.name} (id:{each.db_id})" for each in own)
            raise UsageError(f"--db {name}: no such database. There are: {there or 'none'}")
        chosen += found
    return list({each.db_id: each for each in chosen}.values())


def write_section(section: Section, out: BinaryIO, form: str, output: Path | None) -> None:
    """A small table of results in the form of `--format`."""
    from je_tools.sinks import sections as sink

    if form == "csv":
        sink.write_csv([section], out)
    elif form == "jsonl":
        sink.write_jsonl([section], out)
    else:
        sink.write_table([section], out, terminal_width(output))


def report(snapshot: Snapshot, options: SnapshotOptions, *more: Finding) -> int:
    """Say on standard error what is wrong with what was shown; the exit code that follows.

    Args:
        snapshot: what was shown.
        options: of the command line.
        more: findings beside those of the snapshot.
    """
    from je_tools.snapshot_findings import snapshot_findings

    found = snapshot_findings(snapshot, chosen_masking(options["data_mode"]))
    return report_findings([*found, *more], options)


def report_findings(findings: Sequence[Finding], options: SnapshotOptions) -> int:
    """Say findings on standard error; the exit code that follows."""
    from je_tools.findings import Severity

    say_findings(findings)
    is_damaged = any(finding.severity is Severity.ERROR for finding in findings)
    return EXIT_DAMAGE if is_damaged and not options["exit_zero"] else EXIT_OK


SAID = 10
"""Findings of one code that standard error has one by one."""


def say_findings(findings: Iterable[Finding], name: str = "") -> None:
    """Say findings on standard error: the first of each code, what to do once, how many more.

    Args:
        findings: of one environment.
        name: of it, where there are several.
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
            say(f"{front}{len(found) - SAID:,} more of {code}; `je-tools verify --tree` tells them")
