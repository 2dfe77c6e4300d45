"""DbDump and db_recover of Berkeley DBs, by their options, as commands of je-tools.

`db-dump -h HOME -s DB` prints records as DbDump does; `db-recover -h HOME` shows what recovery
would do. Both are translated into commands of je-tools, so that there is one way to do each thing.

Source: DbDump.parseArgs, JE 18.3.12; db_dump and db_recover of Berkeley DB 18.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict, Unpack

import click

from je_tools.commands._findings import report_findings
from je_tools.commands._options import A_PATH, CONTEXT
from je_tools.commands._progress import staged_bar
from je_tools.commands._snapshot import open_home
from je_tools.errors import UsageError

HOME = "-h"
"""Option that names the environment; without a value, it is that for help."""

_TIMES = {8: "%m%d%H%M", 10: "%y%m%d%H%M", 12: "%Y%m%d%H%M"}
"""Formats of a time by the number of digits before the seconds: [[CC]YY]MMDDhhmm[.SS]."""


def names_home(arguments: Sequence[str]) -> bool:
    """Return True if the arguments are those of the engine's tools: -V, or -h with a home."""
    if list(arguments) == ["-V"]:
        return True
    if HOME not in arguments:
        return False
    following = arguments[arguments.index(HOME) + 1 :]
    return bool(following) and not following[0].startswith("-")


class DumpOptions(TypedDict):
    """Options of DbDump."""

    home: Path
    database: str | None
    lists: bool
    printable: bool
    salvages: bool
    file: Path | None
    folder: Path | None
    verbose: bool


_home_option = click.option(HOME, "home", required=True, type=A_PATH, help="The environment.")
_verbose_option = click.option("-v", "verbose", is_flag=True, help="Accepted; changes nothing.")


@click.command("db-dump", context_settings={**CONTEXT, "help_option_names": ["--help"]})
@_home_option
@click.option("-s", "database", help="The database to print.")
@click.option("-l", "lists", is_flag=True, help="List the names of the databases.")
@click.option("-p", "printable", is_flag=True, help="Print visible characters as they are.")
@click.option("-r", "-R", "salvages", is_flag=True, help="Salvage the records of a damaged log.")
@click.option("-f", "file", type=A_PATH, help="Write to this file.")
@click.option("-d", "folder", type=A_PATH, help="With -r, write to this new directory.")
@_verbose_option
@click.version_option(None, "-V", package_name="je-tools")
def dump_arguments(**options: Unpack[DumpOptions]) -> list[str] | int:
    """Print the records of a database, as the engine's DbDump does."""
    home = str(options["home"])
    chosen = [name for name in ("lists", "salvages", "database") if options[name]]
    if len(chosen) != 1:
        raise UsageError("db-dump -h HOME needs one of -s DB, -l and -r")
    if options["file"] is not None and options["database"] is None:
        raise UsageError("db-dump -f FILE is for the records of one database: give -s DB too")
    if options["folder"] is not None and not options["salvages"]:
        raise UsageError("db-dump -d DIR is for the records of a salvage: give -r too")
    if options["lists"]:
        return _list_names(options["home"])
    printable = ["--print"] if options["printable"] else []
    if options["salvages"]:
        if options["folder"] is None:
            raise UsageError("db-dump -r: name the new directory for the records with -d DIR")
        return ["salvage", home, "--output", str(options["folder"]), *printable]
    words = ["export", home, "--db", str(options["database"]), "--format", "dump", *printable]
    return words + (["--output", str(options["file"])] if options["file"] is not None else [])


def _list_names(home: Path) -> int:
    """Print the names of the databases of applications, one a line, and return the exit code."""
    from je_tools.core.escaping import printable
    from je_tools.log.scan import Scanner
    from je_tools.output.files.outputs import open_output
    from je_tools.recovery.choices import ChosenEnd, choose_databases, chosen_snapshot
    from je_tools.recovery.findings import missing_findings, snapshot_findings

    environment = open_home(home)
    with (
        staged_bar(0, "databases"),
        chosen_snapshot(environment, Scanner(wide=True), ChosenEnd(), None) as snapshot,
        open_output(None) as out,
    ):
        for database in choose_databases(snapshot, ()):
            out.write(f"{printable(database.name or '')}\n".encode("utf-8", "backslashreplace"))
        findings = [*snapshot_findings(snapshot), *missing_findings(snapshot)]
    return report_findings(findings, environment, side_file=None, exit_zero=False)


class RecoverOptions(TypedDict):
    """Options of db_recover."""

    home: Path
    catastrophic: bool
    keeps: bool
    feedback: bool
    time: str | None
    apply: bool
    verbose: bool


@click.command("db-recover", context_settings={**CONTEXT, "help_option_names": ["--help"]})
@_home_option
@click.option("-c", "catastrophic", is_flag=True, help="Accepted; changes nothing.")
@click.option("-e", "keeps", is_flag=True, help="Accepted; changes nothing.")
@click.option("-f", "feedback", is_flag=True, help="Accepted; changes nothing.")
@click.option("-t", "time", metavar="[[CC]YY]MMDDhhmm[.SS]", help="Recover to this local time.")
@click.option(
    "--apply", is_flag=True, help="Do it. Without this option, only show what would be done."
)
@_verbose_option
@click.version_option(None, "-V", package_name="je-tools")
def recover_arguments(**options: Unpack[RecoverOptions]) -> list[str]:
    """Show what recovery would do with a log, and do it with --apply."""
    words = ["recover", str(options["home"])]
    if options["time"] is not None:
        words += ["--to-time", _utc(options["time"])]
    return words + (["--apply"] if options["apply"] else [])


def _utc(text: str) -> str:
    """Return a local time of db_recover as the UTC time that `--to-time` takes.

    Raises:
        UsageError: it is not such a time.
    """
    digits, _, seconds = text.partition(".")
    try:
        found = datetime.strptime(digits, _TIMES[len(digits)])
        if len(digits) == 8:
            found = found.replace(year=datetime.now(UTC).year)
        found = found.replace(second=int(seconds or 0))
    except (KeyError, ValueError) as error:
        raise UsageError(f"-t {text}: not a time [[CC]YY]MMDDhhmm[.SS]") from error
    return found.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
