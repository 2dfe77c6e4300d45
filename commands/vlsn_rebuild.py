"""`je-tools vlsn rebuild`: the VLSN index built anew from the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from je_tools.commands._appending import AppendOptions, append_options, run_operation
from je_tools.commands._options import CONTEXT
from je_tools.commands._terminal import say

if TYPE_CHECKING:
    from je_tools.operations.index_rebuild import IndexRebuild
    from je_tools.output.views.sections import Section

WARNING = (
    "je-tools: before the first node of the group is opened, run `je-tools vlsn check` on every "
    "node, and rebuild every damaged index: otherwise a node with a short index may be elected"
)


@click.command("rebuild", context_settings=CONTEXT)
@append_options
def command(**options: Unpack[AppendOptions]) -> int:
    """Build the VLSN index of a node anew from its log.

    The command reads the whole log. It keeps the buckets whose mappings are right, and builds the
    others by the engine's rules. It also works if the index is empty, missing, partly unreadable,
    or that of another log. VLSNs whose files are gone are left out. It refuses a log in which VLSNs
    are missing or were used twice. If the index is in order, it writes nothing.

    Repair every node of the group before you open the first one. A node with a short index can be
    elected, and then uses VLSNs a second time, without a message.

    Without --apply, the command shows the changes, and what the engine would do with the index as
    it is; the exit code is 3 if the index is damaged. With it, the command holds the engine's lock
    while it writes, and `je-tools undo` reverts the changes.

    \b
    Examples:
      je-tools vlsn rebuild meta/bdb
      je-tools vlsn rebuild meta/bdb --apply
      je-tools vlsn rebuild meta/bdb --apply --output /backup/bdb
    """
    from je_tools.operations.index_rebuild import IndexRebuild

    operation = IndexRebuild()
    code = run_operation(options, "vlsn rebuild", "", operation, lambda: _index_sections(operation))
    if operation.plan is not None:
        is_whole = operation.plan.new is None
        say("je-tools: the VLSN index matches the log" if is_whole else WARNING)
    return code


def _index_sections(operation: IndexRebuild) -> list[Section]:
    from je_tools.output.views.vlsn_rebuild import forecast_section, landmark_section

    plan = operation.plan
    if plan is None or plan.new is None:
        return []
    return [landmark_section(plan), forecast_section(plan)]
