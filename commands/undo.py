"""`je-tools undo`: what was changed, put back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from je_tools.commands._options import format_option, output_option, say, terminal_width
from je_tools.commands._snapshot import home_argument, open_home
from je_tools.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from je_tools.writing.undo import Undo


class Options(TypedDict):
    """What the command line says."""

    path: Path
    apply: bool
    drop: str | None
    any_time: bool
    format_: str
    output: Path | None


@click.command("undo")
@home_argument
@click.option("--apply", is_flag=True, help="Do it; without this nothing is changed.")
@click.option(
    "--drop",
    metavar="N|all",
    help="Instead of putting anything back, remove this undo journal, or all of them.",
)
@click.option(
    "--any-time",
    is_flag=True,
    help="Files may have other times than when the operation ended, as in a copy.",
)
@format_option("table", "jsonl")
@output_option
def command(**options: Unpack[Options]) -> None:
    """List what commands have changed in a log, and put the newest of it back.

    Every command that writes into an environment first saves what it cuts off or overwrites in an
    undo journal, in the folder .je-tools-undo there. It is a copy of data of the log: drop it when
    it is not needed any more. Without --apply the journals are listed, and the steps that would put
    back the newest. With it they are done, the engine's lock held, and the journal is removed; when
    that was interrupted, do it again. Refused (exit code 6) where anything else has written to the
    log since.

    \b
    Examples:
      je-tools undo meta/bdb
      je-tools undo meta/bdb --apply
      je-tools undo meta/bdb --drop all --apply
    """
    from je_tools.sinks.output import open_output
    from je_tools.sinks.sections import write_jsonl, write_table
    from je_tools.sinks.writing_tables import undo_sections
    from je_tools.writing.disk import Disk
    from je_tools.writing.lock import EnvironmentLock
    from je_tools.writing.undo import clear_remains, list_undos

    environment = open_home(options["path"], keep_going=True)
    home = options["path"]
    undos = list_undos(home)
    dropped = _chosen(undos, options["drop"])
    with open_output(options["output"], environment) as out:
        sections = undo_sections(undos)
        if options["format_"] == "jsonl":
            write_jsonl(sections, out)
        else:
            write_table(sections, out, terminal_width(options["output"]))
    if not options["apply"]:
        _say_plan(undos, dropped, options)
        return
    with EnvironmentLock(home) as lock, Disk() as disk:
        for reader in lock.readers:
            say(f"je-tools: {reader.text} has the environment open to read")
        # As it is now that nobody else writes.
        undos = list_undos(home)
        dropped = _chosen(undos, options["drop"])
        if options["drop"] is not None:
            for undo in dropped:
                undo.drop(disk)
                say(f"je-tools: removed undo {undo.number}")
        elif undos:
            undos[-1].check(any_time=options["any_time"])
            undos[-1].apply(disk)
            say(f"je-tools: {undos[-1].operation} taken back: the log is what it was before")
        clear_remains(home, disk)


def _chosen(undos: list[Undo], drop: str | None) -> list[Undo]:
    """The journals that are to be removed.

    Raises:
        UsageError: there is no such journal.
    """
    if drop is None:
        return []
    chosen = [undo for undo in undos if drop in ("all", str(undo.number))]
    if not chosen and drop != "all":
        raise UsageError(f"--drop {drop}: no such undo journal; give its number, or all")
    return chosen


def _say_plan(undos: list[Undo], dropped: list[Undo], options: Options) -> None:
    """Say whether it would be done, and that it was not."""
    if options["drop"] is not None:
        numbers = ", ".join(str(undo.number) for undo in dropped) or "none"
        say(f"je-tools: nothing was changed; with --apply these are removed: {numbers}")
        return
    if not undos:
        return
    try:
        undos[-1].check(any_time=options["any_time"])
    except RefusedError as error:
        say(f"je-tools: cannot be put back: {error}")
    else:
        say(f"je-tools: nothing was changed; --apply puts back what undo {undos[-1].number} took")
