"""`je-tools ignite undo`: changes to a store, listed and reverted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Unpack

import click

from je_tools.commands._ignite import open_output_outside, output_option
from je_tools.commands._options import A_PATH, format_option
from je_tools.commands._undoing import (
    UndoOptions,
    list_or_apply,
    say_plan,
    undo_options,
    write_journals,
)
from je_tools.errors import EXIT_OK, UsageError
from je_tools.output.formats import REPORT

if TYPE_CHECKING:
    from je_tools.ignite.repairs.node_files import NodeFiles
    from je_tools.ignite.repairs.undo import StoreUndo
    from je_tools.ignite.store import Store
    from je_tools.output.views.sections import Section
    from je_tools.writing.disk import Disk
    from je_tools.writing.undo_places import AnyUndo


class NodeUndoJournals:
    """The undo journals of a node; see `UndoPlace`."""

    subject = "store"

    def __init__(self, files: NodeFiles) -> None:
        self._files = files

    def command(self, words: str = "") -> str:
        """Return the command that undoes the last operation, for messages."""
        return f"`{self._files.undo_words()}{words} --apply`"

    def has_journals(self) -> bool:
        """Return True if there is a folder of journals, even an empty one."""
        return self._files.has_journals()

    def undos(self) -> list[StoreUndo]:
        """Return the journals, the newest last."""
        from je_tools.ignite.repairs.undo import list_store_undos

        return list_store_undos(self._files)

    @contextmanager
    def locked(self) -> Iterator[list[str]]:
        """Take the node's lock."""
        from je_tools.ignite.repairs.lock import NodeLock

        with NodeLock(self._files):
            yield []

    def clear(self, disk: Disk) -> None:
        """Finish interrupted removals of journals, and remove empty folders."""
        from je_tools.ignite.repairs.undo import clear_store_remains

        clear_store_remains(self._files, disk)

    def until_stopped(self) -> str:
        """Return the node to stop first, as the end of a sentence, or ''."""
        from je_tools.ignite.info import lock_state

        held = lock_state(self._files.home)
        return f", after you stop {held.detail}" if held.state == "held" else ""


class Options(UndoOptions):
    """Options of the command line."""

    node: str | None


@click.command("undo")
@click.argument("path", metavar="STORE", type=A_PATH)
@click.option("--node", metavar="NAME", help="The node, if the store has several.")
@undo_options
@format_option(*REPORT)
@output_option
def command(**options: Unpack[Options]) -> int:
    """List the changes that commands made to a store, and revert the newest.

    A command that writes to a store first saves what it overwrites in an undo journal, in the
    folder .je-tools-undo of the node, which the engine ignores. Files that it takes away are moved
    there, or to a folder of the same name beside them. So a journal holds data: drop it when you no
    longer need it.

    Without --apply, the command lists the journals, and the steps that would revert the newest.
    With --apply, it takes the node's lock, carries out the steps, and removes the journal. If it is
    interrupted, run it again. If anything has written to the store since, as a node does when it
    starts, or if the journal is damaged, nothing is changed, and the exit code is 6.

    \b
    Examples:
      je-tools ignite undo work
      je-tools ignite undo work --node node1 --apply
      je-tools ignite undo work --drop all --apply
    """
    from je_tools.ignite.repairs.node_files import NodeFiles
    from je_tools.ignite.store import open_store

    node = options["node"]
    store = open_store([options["path"]], [] if node is None else [node])
    is_list = not options["apply"] and options["drop"] is None
    if len(store.nodes) > 1 and not is_list:
        names = ", ".join(each.name for each in store.nodes)
        raise UsageError(
            f"{store.name}: the store has several nodes ({names}); name one with --node"
        )
    places = [NodeUndoJournals(NodeFiles(each)) for each in store.nodes]
    found = [list_or_apply(place, options) for place in places]
    # The output follows the work, which does not depend on it.
    with open_output_outside(options["output"], store) as out:
        _write(options, store, found, out)
    if options["apply"]:
        return EXIT_OK
    plans = zip(places, found, strict=True)
    return max((say_plan(place, undos, options) for place, undos in plans), default=EXIT_OK)


def _write(
    options: Options, store: Store, found: Sequence[Sequence[AnyUndo]], out: BinaryIO
) -> None:
    """Write the journals of each node, and the steps that revert the newest."""
    from je_tools.output.views.writing_tables import undo_sections, undos_of_node

    sections: list[Section] = []
    for node, undos in zip(store.nodes, found, strict=True):
        own = undo_sections(undos, has_steps=options["drop"] is None)
        is_titled = options["format_"] == "table"
        sections += undos_of_node(node.name, own, is_titled=is_titled, is_alone=len(found) == 1)
    db = store.nodes[0].db if len(found) == 1 else None
    write_journals(sections, db or Path(store.name), options, out)
