"""`je-tools group`: the replication group of a node."""

from __future__ import annotations

import click

from je_tools.commands._command_groups import VerbGroup
from je_tools.commands._options import CONTEXT

VERBS = {
    "show": "Show the group and its nodes: ids, types, addresses, states.",
    "reset": "Replace the group by a new one that has only this node.",
}
"""Verbs and their lines. The module of a verb is loaded when it is run."""


@click.group("group", cls=VerbGroup, verbs=VERBS, context_settings=CONTEXT)
def command() -> None:
    """Show the replication group as a node knows it, and reset it to one node.

    \b
    Examples:
      je-tools group show meta/bdb
      je-tools group reset meta/bdb --node-name node1 --apply
    """
