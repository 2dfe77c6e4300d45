"""Choice, listing and undoing of undo journals, for `undo` and `ignite undo`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO, TypedDict

import click

from je_tools.commands._options import option_group
from je_tools.commands._progress import staged_bar
from je_tools.commands._terminal import say, terminal_width
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, RefusedError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.output.views.sections import Section
    from je_tools.writing.undo_places import AnyUndo, UndoPlace


class UndoOptions(TypedDict):
    """Options of both commands."""

    path: Path
    apply: bool
    drop: str | None
    any_time: bool
    format_: str
    output: Path | None


undo_options = option_group(
    click.option("--apply", is_flag=True, help="Do it. Without this option, nothing is changed."),
    click.option(
        "--drop",
        metavar="N|all",
        help="Remove this undo journal, or all that are not damaged, and revert nothing.",
    ),
    click.option(
        "--any-time",
        is_flag=True,
        help="Accept files whose times have changed since the operation, as in a copy.",
    ),
)
"""`--apply`, `--drop` and `--any-time`."""


def list_or_apply(place: UndoPlace, options: UndoOptions) -> Sequence[AnyUndo]:
    """Return the journals; with `--apply`, revert the newest or remove those of `--drop` first.

    Raises:
        UsageError: there is no such journal.
        RefusedError: it cannot be done; what was done before is reported.
    """
    from je_tools.writing.disk import Disk
    from je_tools.writing.refusing import refusing

    if not options["apply"]:
        undos = place.undos()
        journals_to_drop(undos, options["drop"])
        return undos
    with refusing():
        if not place.has_journals():
            # Taking the lock would leave a lock file for nothing.
            journals_to_drop([], options["drop"])
            say("je-tools: there are no undo journals: nothing was changed")
            return []
    with place.locked() as readers, Disk() as disk:
        for reader in readers:
            say(f"je-tools: {reader}")
        undos = place.undos()
        if options["drop"] is not None:
            for undo in journals_to_drop(undos, options["drop"]):
                undo.drop(disk)
                say(f"je-tools: removed undo {undo.number}")
            place.clear(disk)
            _refuse_damaged(place, undos, options)
            return undos
        for undo in undos[-1:]:
            with staged_bar(0, "undo"):
                undo.check(any_time=options["any_time"])
                undo.apply(disk)
        place.clear(disk)
    _say_done(place, undos)
    return undos


def say_plan(place: UndoPlace, undos: Sequence[AnyUndo], options: UndoOptions) -> int:
    """Report what would be done or what prevents it; return the exit code.

    Raises:
        RefusedError: damaged journals would be removed without being named.
    """
    if options["drop"] is not None:
        dropped = journals_to_drop(undos, options["drop"])
        numbers = ", ".join(str(undo.number) for undo in dropped) or "none"
        say(f"je-tools: nothing was changed; --apply removes these undo journals: {numbers}")
        _refuse_damaged(place, undos, options)
    elif undos:
        try:
            undos[-1].check(any_time=options["any_time"])
        except RefusedError as error:
            say(f"je-tools: cannot revert the newest change: {error}")
        else:
            command = place.command(" --any-time" if options["any_time"] else "")
            what = f"{command} reverts undo {undos[-1].number}{place.until_stopped()}"
            say(f"je-tools: nothing was changed; {what}")
    return EXIT_DAMAGE if any(undo.damage is not None for undo in undos) else EXIT_OK


def journals_to_drop(undos: Sequence[AnyUndo], drop: str | None) -> Sequence[AnyUndo]:
    """Return the journals that `--drop` names; none without it.

    Raises:
        UsageError: there is no such journal.
    """
    if drop is None:
        return []
    if drop == "all":
        return [undo for undo in undos if undo.damage is None]
    found = [undo for undo in undos if drop == str(undo.number)]
    if not found:
        raise UsageError(f"--drop {drop}: there is no such undo journal: give its number, or all")
    return found


def write_journals(
    sections: Sequence[Section], home: Path, options: UndoOptions, out: BinaryIO
) -> None:
    """Write the tables of journals in the format of `--format`.

    Args:
        sections: the tables.
        home: folder whose journals they are, which JSON names.
        options: options of the command line.
        out: the output.
    """
    from je_tools.output.views.section_formats import write_document
    from je_tools.output.views.section_tables import write_table
    from je_tools.output.views.sections import write_jsonl
    from je_tools.output.views.writing_tables import undo_document

    if options["format_"] == "jsonl":
        write_jsonl(sections, out)
    elif options["format_"] == "json":
        write_document(undo_document(home, sections), out)
    else:
        write_table(sections, out, terminal_width(options["output"]))


def _refuse_damaged(place: UndoPlace, undos: Sequence[AnyUndo], options: UndoOptions) -> None:
    """Refuse to remove damaged journals that were not named.

    Raises:
        RefusedError: there are some.
    """
    damaged = [undo for undo in undos if undo.damage is not None]
    if damaged and options["drop"] == "all":
        number = damaged[0].number
        raise RefusedError(
            f"undo {number}: its journal is damaged, and is only removed by its number; "
            f"{place.command(f' --drop {number}')} removes the journal and all bytes that it keeps"
        )


def _say_done(place: UndoPlace, undos: Sequence[AnyUndo]) -> None:
    """Report what was reverted, and the journal before it."""
    if not undos:
        return
    last = undos[-1]
    name = f"undo {last.number} ({last.operation})"
    if last.all_steps:
        say(f"je-tools: {name} is reverted: the {place.subject} is as it was before")
    else:
        say(f"je-tools: {name} was stopped before its first change: there was nothing to revert")
    for before in undos[-2:-1]:
        say(
            f"je-tools: the earlier undo {before.number} ({before.operation}) remains; "
            f"{place.command()} reverts that too"
        )
