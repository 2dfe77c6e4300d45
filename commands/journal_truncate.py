"""`je-tools journal truncate`: a front end's journal without the records above an id."""

from __future__ import annotations

from typing import Unpack

import click

from je_tools.commands._appending import AppendOptions, append_options, run_operation
from je_tools.commands._options import CONTEXT
from je_tools.core.escaping import quoted

_NEXT_STEP = (
    "start this node first. If the others elect a leader without it, they continue without the "
    "truncation, and it is rolled back"
)


class Options(AppendOptions):
    """Options of the command line."""

    above: int
    series: str


@click.command("truncate", context_settings=CONTEXT)
@append_options
@click.option(
    "--above",
    type=click.IntRange(0, (1 << 63) - 2),
    metavar="ID",
    required=True,
    help="Last journal id that stays; every higher one is deleted.",
)
@click.option(
    "--series",
    metavar="PREFIX",
    default="",
    help="Series of journals, such as starmgr_. The default is the series without a prefix.",
)
def command(**options: Unpack[Options]) -> int:
    """Delete all records above an id from a front end's journals, as Doris' recovery mode does.

    The journal that has the id loses its higher records, and later journals are removed as whole
    databases. All this is one transaction of the replication group, so the other nodes do the same
    when they join this one. The metadata goes back to what it was at that id: later changes are
    lost, but data files of the backends stay as they are. Copy the metadata directory first, and
    stop all front ends.

    The newest image must not be newer than the id: the front end loads it, whatever the journal
    has. ENV_DIR is the environment (meta/bdb) or a directory above it.

    Without --apply, the command shows the plan and changes nothing. With it, the command holds the
    engine's lock while it writes, and `je-tools undo` reverts the change.

    \b
    Examples:
      je-tools journal truncate meta --above 5485
      je-tools journal truncate meta --above 5485 --apply
      je-tools journal truncate meta/bdb --above 5485 --apply --output /backup/bdb
      je-tools journal truncate meta --above 812 --series starmgr_
    """
    from je_tools.journal.front_end import find_front_end
    from je_tools.operations.journal_truncate import JournalTruncate

    front_end = find_front_end(options["path"])
    options["path"] = front_end.home
    words = f" --above {options['above']}"
    words += f" --series {quoted(options['series'])}" if options["series"] else ""
    operation = JournalTruncate(front_end, options["above"], options["series"])
    return run_operation(options, "journal truncate", words, operation, next_step=_NEXT_STEP)
