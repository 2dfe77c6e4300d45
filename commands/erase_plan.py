"""`je-tools erase plan`: what would be erased, what stays, and why."""

from __future__ import annotations

from typing import Unpack

import click

from je_tools.commands._erase_options import EraseOptions, chosen_erasure, erase_options
from je_tools.commands._erase_reports import show_plan
from je_tools.commands._options import CONTEXT


@click.command("plan", context_settings=CONTEXT)
@erase_options
def command(**options: Unpack[EraseOptions]) -> int:
    """Show what would be erased in each file, what stays, and why.

    The command reads the whole log and all trees, and changes nothing. It lists the entries by
    reason: old versions of records and nodes, deletions, records that are embedded in their BINs,
    entries of removed databases, and what an interrupted erasure has left. An entry stays if a tree
    needs it, if recovery may read it, if another node may need it, or if its file has a hard link.

    With --checkpoint-first, the plan is that of the log after a checkpoint, except for the nodes
    that the checkpoint replaces. The exit code is 3 if the log is damaged: nothing can be erased
    then.

    \b
    Examples:
      je-tools erase plan env
      je-tools erase plan env --checkpoint-first
      je-tools erase plan env --format jsonl --output plan.jsonl
    """
    return show_plan(options, chosen_erasure(options), "erase run")
