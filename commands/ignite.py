"""`je-tools ignite`: persistent stores of Apache Ignite."""

from __future__ import annotations

import click

from je_tools.commands._command_groups import VerbGroup
from je_tools.commands._options import CONTEXT

VERBS = {
    "checkpoints": "Show checkpoint markers, their records, and the log still needed.",
    "diff": "Compare the partitions of two nodes: counters, hashes, keys.",
    "export": "Write the records of caches, as recovery would leave them.",
    "info": "Show nodes, caches and folders, and whether a node holds its lock.",
    "pages": "Check the pages of partitions, indexes and the metastorage.",
    "recover": "Show what the next start of a node would do, and repair the store.",
    "undo": "List the changes that commands made to a store, and revert the newest.",
    "wal": "Print, check and count the records of the write-ahead log.",
}
"""Verbs and their lines. The module of a verb is loaded when it is run."""


@click.group("ignite", cls=VerbGroup, verbs=VERBS, context_settings=CONTEXT)
def command() -> None:
    """Read persistent stores of Apache Ignite 2.4 to 2.18.

    STORE is the work directory of one or more nodes, its folder db, or the folder of a node.
    SEGMENT is a file of a segment (.wal, .wal.zip), or a folder of such. Unless --apply is given,
    the commands take no lock and write nothing to the store.

    \b
    Examples:
      je-tools ignite info /var/lib/ignite
      je-tools ignite checkpoints /var/lib/ignite
      je-tools ignite pages verify /var/lib/ignite
      je-tools ignite recover /var/lib/ignite
      je-tools ignite wal verify /var/lib/ignite
      je-tools ignite wal summary work/db/wal/archive/node1
    """
