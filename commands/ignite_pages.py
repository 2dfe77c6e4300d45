"""`je-tools ignite pages`: the page store of a node."""

from __future__ import annotations

import click

from je_tools.commands._command_groups import VerbGroup
from je_tools.commands._options import CONTEXT

VERBS = {
    "dump": "Print the pages: headers, fields, and items with rows.",
    "verify": "Check every page, and give advice for each file.",
    "space": "Show pages by kind, and free bytes of data pages.",
}
"""Verbs and their lines. The module of a verb is loaded when it is run."""


@click.group("pages", cls=VerbGroup, verbs=VERBS, prefix="ignite_pages", context_settings=CONTEXT)
def command() -> None:
    """Read the page store of Apache Ignite: partitions, indexes and the metastorage.

    \b
    Examples:
      je-tools ignite pages verify /var/lib/ignite
      je-tools ignite pages space /var/lib/ignite --by-type
    """
