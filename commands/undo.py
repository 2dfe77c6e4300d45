"""`je-tools undo`: changes to a log, listed and put back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from je_tools.commands._options import format_option, output_option, say, terminal_width
from je_tools.commands._snapshot import home_argument, open_home
from je_tools.commands._writing import unless_open
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, RefusedError, UsageError

if TYPE_CHECKING:
    from je_tools.writing.undo import Undo


class Options(TypedDict):
    """Options of the command line."""

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
    help="Instead of putting anything back, remove this undo journal, or all that are not damaged.",
)
@click.option(
    "--any-time",
    is_flag=True,
    help="Files may have other times than when the operation ended, as in a copy.",
)
@format_option("table", "jsonl")
@output_option
def command(**options: Unpack[Options]) -> int:
    """List what commands have changed in a log, and put the newest of it back.

    Every command that writes into an environment first saves what it cuts off or overwrites in an
    undo journal, in the folder .je-tools-undo there. It is a copy of data of the log: drop it when
    it is not needed any more. Without --apply the journals are listed, and the steps that would put
    back the newest. With it they are done, the engine's lock held, and the journal is removed; when
    that was interrupted, do it again. Refused (exit code 6) where anything else has written to the
    log since, or where the journal is damaged, which then stays with all that it keeps.

    \b
    Examples:
      je-tools undo meta/bdb
      je-tools undo meta/bdb --apply
      je-tools undo meta/bdb --drop all --apply
    """
    from je_tools.output.files.outputs import check_output, open_output
    from je_tools.output.views.sections import write_jsonl, write_table
    from je_tools.output.views.writing_tables import undo_sections
    from je_tools.writing.undo import list_undos

    environment = open_home(options["path"], keep_going=True)
    if options["output"] is not None:
        check_output(options["output"], environment)
    undos = _applied(options) if options["apply"] else list_undos(options["path"])
    dropped = _chosen(undos, options["drop"])
    # The output follows the work, which does not depend on it.
    with open_output(options["output"], environment) as out:
        sections = undo_sections(undos, has_steps=options["drop"] is None)
        if options["format_"] == "jsonl":
            write_jsonl(sections, out)
        else:
            write_table(sections, out, terminal_width(options["output"]))
    if options["apply"]:
        return EXIT_OK
    _say_plan(undos, dropped, options)
    is_damaged = any(undo.damage is not None for undo in undos)
    return EXIT_DAMAGE if is_damaged else EXIT_OK


def _applied(options: Options) -> list[Undo]:
    """Put back or remove what is asked for, and return the journals that existed before.

    Raises:
        UsageError: there is no such journal.
        RefusedError: it cannot be done; what was done before is reported.
    """
    from je_tools.writing.disk import Disk
    from je_tools.writing.lock import EnvironmentLock
    from je_tools.writing.undo import clear_remains, list_undos

    home = options["path"]
    with EnvironmentLock(home, instead="stop that first") as lock, Disk() as disk:
        for reader in lock.readers:
            say(f"je-tools: {reader.text} has the environment open to read")
        undos = list_undos(home)
        if options["drop"] is not None:
            for undo in _chosen(undos, options["drop"]):
                undo.drop(disk)
                say(f"je-tools: removed undo {undo.number}")
            clear_remains(home, disk)
            _refuse_damaged(undos, options)
            return undos
        for undo in undos[-1:]:
            undo.check(any_time=options["any_time"])
            undo.apply(disk)
        clear_remains(home, disk)
    _say_done(undos, home)
    return undos


def _refuse_damaged(undos: list[Undo], options: Options) -> None:
    """Refuse to remove damaged journals that were not named.

    Raises:
        RefusedError: there are some.
    """
    from je_tools.writing.undo_check import drop_text

    damaged = [undo for undo in undos if undo.damage is not None]
    if damaged and options["drop"] == "all":
        number = damaged[0].number
        raise RefusedError(
            f"undo {number}: its journal is damaged, and stays until it is named; "
            f"{drop_text(options['path'], number)}"
        )


def _say_done(undos: list[Undo], home: Path) -> None:
    """Report what was put back, and the journal before it."""
    from je_tools.writing.refusing import undo_command

    if not undos:
        return
    last = undos[-1]
    name = f"undo {last.number} ({last.operation})"
    if last.all_steps:
        say(f"je-tools: {name} is put back: the log is what it was before")
    else:
        say(f"je-tools: {name} was stopped before its first change: there was nothing to put back")
    for before in undos[-2:-1]:
        say(
            f"je-tools: undo {before.number} ({before.operation}), which was before, is still "
            f"there; {undo_command(home)} puts that back too"
        )


def _chosen(undos: list[Undo], drop: str | None) -> list[Undo]:
    """Return the journals to be removed.

    Raises:
        UsageError: there is no such journal.
    """
    if drop is None:
        return []
    if drop == "all":
        return [undo for undo in undos if undo.damage is None]
    chosen = [undo for undo in undos if drop == str(undo.number)]
    if not chosen:
        raise UsageError(f"--drop {drop}: no such undo journal; give its number, or all")
    return chosen


def _say_plan(undos: list[Undo], dropped: list[Undo], options: Options) -> None:
    """Report what would be done or what prevents it, and that nothing was changed."""
    if options["drop"] is not None:
        numbers = ", ".join(str(undo.number) for undo in dropped) or "none"
        say(f"je-tools: nothing was changed; with --apply these are removed: {numbers}")
        _refuse_damaged(undos, options)
    elif undos:
        try:
            undos[-1].check(any_time=options["any_time"])
        except RefusedError as error:
            say(f"je-tools: cannot be put back: {error}")
            return
        say(f"je-tools: nothing was changed; {_apply_text(undos[-1].number, options)}")


def _apply_text(number: int, options: Options) -> str:
    """Return the command that puts it back, and the processes that prevent it now, as text."""
    from je_tools.writing.refusing import undo_command

    home = options["path"]
    command = undo_command(home, " --any-time" if options["any_time"] else "")
    return f"{command} puts back what undo {number} took{unless_open(home)}"
