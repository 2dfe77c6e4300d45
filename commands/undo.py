"""`je-tools undo`: changes to a log, listed and reverted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from je_tools.commands._options import chosen_file_mode, format_option, output_option
from je_tools.commands._snapshot import home_argument, node_home, open_home
from je_tools.commands._undoing import (
    UndoOptions,
    list_or_apply,
    say_plan,
    undo_options,
    write_journals,
)
from je_tools.commands._writing import unless_open
from je_tools.errors import EXIT_OK
from je_tools.output.formats import REPORT

if TYPE_CHECKING:
    from je_tools.writing.disk import Disk
    from je_tools.writing.undo import Undo


class LogUndoJournals:
    """The undo journals of an environment; see `UndoPlace`."""

    subject = "log"

    def __init__(self, home: Path) -> None:
        self._home = home

    def command(self, words: str = "") -> str:
        """Return the command that undoes the last operation, for messages."""
        from je_tools.writing.refusing import undo_command

        return undo_command(self._home, words)

    def has_journals(self) -> bool:
        """Return True if there is a folder of journals, even an empty one."""
        from je_tools.writing.journal_folders import has_folder

        return has_folder(self._home)

    def undos(self) -> list[Undo]:
        """Return the journals, the newest last."""
        from je_tools.writing.undo import list_undos

        return list_undos(self._home)

    @contextmanager
    def locked(self) -> Iterator[list[str]]:
        """Take the engine's lock; yield texts on engines that have the environment open."""
        from je_tools.writing.lock import EnvironmentLock

        with EnvironmentLock(self._home, instead="stop that first") as lock:
            yield [f"{each.text} has the environment open for reading" for each in lock.readers]

    def clear(self, disk: Disk) -> None:
        """Finish interrupted removals of journals, and remove empty folders."""
        from je_tools.writing.undo import clear_remains

        clear_remains(self._home, disk)

    def until_stopped(self) -> str:
        """Return the engines to stop first, as the end of a sentence, or ''."""
        return unless_open(self._home)


@click.command("undo")
@home_argument
@undo_options
@format_option(*REPORT)
@output_option
def command(**options: Unpack[UndoOptions]) -> int:
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
    from je_tools.output.views.writing_tables import undo_sections

    options["path"] = node_home(options["path"])
    environment = open_home(options["path"])
    if options["output"] is not None:
        check_output(options["output"], environment)
    place = LogUndoJournals(options["path"])
    undos = list_or_apply(place, options)
    # The output follows the work, which does not depend on it.
    with open_output(options["output"], environment, chosen_file_mode()) as out:
        has_steps = options["drop"] is None
        sections = undo_sections(undos, has_steps=has_steps)
        write_journals(sections, options["path"], options, out)
    return EXIT_OK if options["apply"] else say_plan(place, undos, options)
