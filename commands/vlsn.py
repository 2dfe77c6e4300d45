"""`je-tools vlsn`: the replication stream of a node, and its VLSN index."""

from __future__ import annotations

import click

from je_tools.commands._command_groups import VerbGroup
from je_tools.commands._options import CONTEXT

VERBS = {
    "show": "Show the VLSN index, the end of the stream and the masters, or the stream itself.",
    "check": "Check the VLSN index against the log, and the stream against itself.",
    "compare": "Compare nodes: their matchpoints, and what each would roll back.",
    "rebuild": "Build the VLSN index anew from the log.",
    "rollback": "Roll the stream back to a VLSN, as a node does when it joins its group.",
}
"""Verbs and their lines. The module of a verb is loaded when it is run."""


@click.group("vlsn", cls=VerbGroup, verbs=VERBS, context_settings=CONTEXT)
def command() -> None:
    """Show, check and repair the replication stream of a node, and compare the nodes of a group.

    Every entry that the nodes of a group share has a VLSN. The VLSN index of a node maps some of
    them to positions in its log.

    \b
    Examples:
      je-tools vlsn show meta/bdb
      je-tools vlsn check meta/bdb
      je-tools vlsn compare node1 node2 node3
    """
