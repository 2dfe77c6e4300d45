"""`je-tools ignite wal`: the write-ahead log of a node."""

from __future__ import annotations

import click

from je_tools.commands._command_groups import VerbGroup
from je_tools.commands._options import CONTEXT

VERBS = {
    "dump": "Print the records: entries of caches, transactions, changes of pages.",
    "verify": "Report every damaged byte range of the segments, and missing segments.",
    "summary": "Count records and bytes by type, segment and cache.",
}
"""Verbs and their lines. The module of a verb is loaded when it is run."""


@click.group("wal", cls=VerbGroup, verbs=VERBS, prefix="ignite_wal", context_settings=CONTEXT)
def command() -> None:
    """Read the write-ahead log of Apache Ignite: work ring, archive and compacted segments.

    \b
    Examples:
      je-tools ignite wal verify /var/lib/ignite
      je-tools ignite wal summary /var/lib/ignite --by-cache
    """
