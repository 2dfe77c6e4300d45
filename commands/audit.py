"""`je-tools audit`: audits of whole directories of logs."""

from __future__ import annotations

import click

from je_tools.commands._command_groups import VerbGroup
from je_tools.commands._options import CONTEXT

VERBS = {
    "run": "Verify every environment below some directories; write tables and a report.",
    "find": "Find a person's data in every environment below some directories.",
    "diff": "Show what has changed between two runs.",
    "trend": "Show the totals of all runs, or the history of an environment.",
}
"""Verbs and their lines. The module of a verb is loaded when it is run."""


@click.group("audit", cls=VerbGroup, verbs=VERBS, context_settings=CONTEXT)
def command() -> None:
    """Audit every environment below some directories, run after run.

    \b
    Examples:
      je-tools audit run /backups --output /var/lib/audit
      je-tools audit find /backups --key-file people.txt
      je-tools audit diff /var/lib/audit
      je-tools audit trend /var/lib/audit
    """
