"""`je-tools journal`: the journals of StarRocks and Doris front ends."""

from __future__ import annotations

import click

from je_tools.commands._command_groups import DefaultGroup
from je_tools.commands._options import CONTEXT

VERBS = {
    "show": "Show the journals: ids, holes, op codes, leader changes; or one record.",
    "truncate": "Delete all records above an id, and remove later journals.",
}
"""Verbs and their lines. The module of a verb is loaded when it is run."""


@click.group("journal", cls=DefaultGroup, verbs=VERBS, context_settings=CONTEXT)
def command() -> None:
    """Show the journals of a StarRocks or Doris front end, or truncate them.

    `je-tools journal ENV` is short for `je-tools journal show ENV`.

    \b
    Examples:
      je-tools journal meta
      je-tools journal doris-meta/bdb --format json
      je-tools journal meta --show 5485
      je-tools journal truncate meta --above 5485
    """
