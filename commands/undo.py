"""`je-tools undo`: changes to a log, listed and put back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from je_tools.commands._options import (
    chosen_file_mode,
    format_option,
    output_option,
    say,
    staged_bar,
    terminal_width,
)
from je_tools.commands._snapshot import home_argument, node_home, open_home
from je_tools.commands._writing import unless_open
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, RefusedError, UsageError
from je_tools.output.formats import REPORT

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
@click.option("--apply", is_flag=True, help="Do it. Without this option, nothing is changed.")
@click.option(
    "--drop",
    metavar="N|all",
    help="Do not revert anything, but remove this undo journal, or all that are not damaged.",
)
@click.option(
    "--any-time",
    is_flag=True,
    help="Accept files whose times have changed since the operation, as in a copy.",
)
@format_option(*REPORT)
@output_option
def command(**options: Unpack[Options]) -> int:
    """List the changes that commands made to a log, and revert the newest.

    Every command that writes to an environment first saves the bytes that it cuts off or
    overwrites. It saves them in an undo journal, in the folder .je-tools-undo of the environment.
    The journal holds data of the log: drop it when you do not need it any more. Without --apply,
    the command lists the journals, and the steps that would revert the newest. With --apply, it
    takes the engine's lock, carries out the steps, and removes the journal. If it is interrupted,
    run it again. The command refuses (exit code 6) if another program has written to the log since,
    or if the journal is damaged. A damaged journal is kept.

    \b
    Examples:
      je-tools undo meta/bdb
      je-tools undo meta/bdb --apply
      je-tools undo meta/bdb --drop all --apply
    """
    from je_tools.output.files.outputs import check_output, open_output
    from je_tools.output.views.section_formats import write_document
    from je_tools.output.views.sections import write_jsonl, write_table
    from je_tools.output.views.writing_tables import undo_document, undo_sections
    from je_tools.writing.undo import list_undos

    options["path"] = node_home(options["path"])
    environment = open_home(options["path"])
    if options["output"] is not None:
        check_output(options["output"], environment)
    undos = _applied(options) if options["apply"] else list_undos(options["path"])
    dropped = _chosen(undos, options["drop"])
    # The output follows the work, which does not depend on it.
    with open_output(options["output"], environment, chosen_file_mode()) as out:
        has_steps = options["drop"] is None
        sections = undo_sections(undos, has_steps=has_steps)
        if options["format_"] == "jsonl":
            write_jsonl(sections, out)
        elif options["format_"] == "json":
            write_document(undo_document(options["path"], undos, has_steps=has_steps), out)
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
    from je_tools.writing.journal_folders import has_folder
    from je_tools.writing.lock import EnvironmentLock
    from je_tools.writing.refusing import refusing
    from je_tools.writing.undo import clear_remains, list_undos

    home = options["path"]
    with refusing():
        if not has_folder(home):
            # Taking the lock would leave a lock file for nothing.
            _chosen([], options["drop"])
            return []
    with EnvironmentLock(home, instead="stop that first") as lock, Disk() as disk:
        for reader in lock.readers:
            say(f"je-tools: {reader.text} has the environment open for reading")
        undos = list_undos(home)
        if options["drop"] is not None:
            for undo in _chosen(undos, options["drop"]):
                undo.drop(disk)
                say(f"je-tools: removed undo {undo.number}")
            clear_remains(home, disk)
            _refuse_damaged(undos, options)
            return undos
        for undo in undos[-1:]:
            with staged_bar(0, "undo"):
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
            f"undo {number}: its journal is damaged, and is only removed by its number; "
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
        say(f"je-tools: {name} is reverted: the log is as it was before")
    else:
        say(f"je-tools: {name} was stopped before its first change: there was nothing to revert")
    for before in undos[-2:-1]:
        say(
            f"je-tools: the earlier undo {before.number} ({before.operation}) remains; "
            f"{undo_command(home)} reverts that too"
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
        raise UsageError(f"--drop {drop}: there is no such undo journal: give its number, or all")
    return chosen


def _say_plan(undos: list[Undo], dropped: list[Undo], options: Options) -> None:
    """Report what would be done or what prevents it, and that nothing was changed."""
    if options["drop"] is not None:
        numbers = ", ".join(str(undo.number) for undo in dropped) or "none"
        say(f"je-tools: nothing was changed; --apply removes these undo journals: {numbers}")
        _refuse_damaged(undos, options)
    elif undos:
        try:
            undos[-1].check(any_time=options["any_time"])
        except RefusedError as error:
            say(f"je-tools: cannot revert the newest change: {error}")
            return
        say(f"je-tools: nothing was changed; {_apply_text(undos[-1].number, options)}")


def _apply_text(number: int, options: Options) -> str:
    """Return the command that puts it back, and the processes that prevent it now, as text."""
    from je_tools.writing.refusing import undo_command

    home = options["path"]
    command = undo_command(home, " --any-time" if options["any_time"] else "")
    return f"{command} reverts undo {number}{unless_open(home)}"
