"""`je-tools erase`: bytes that nothing needs any more, overwritten, and proof of it."""

from __future__ import annotations

import click

from je_tools.commands._command_groups import VerbGroup
from je_tools.commands._options import CONTEXT

VERBS = {
    "plan": "Show what would be erased in each file, what stays, and why.",
    "run": "Erase what nothing needs, at once or in cycles.",
    "status": "Show the cycle of the eraser, and what an interrupted erasure has left.",
    "resume": "Finish an interrupted erasure.",
    "abort": "Protect files from erasure while a backup copies them.",
    "subject": "List every trace of a person, and what keeps each from being erased.",
    "prove": "Search every byte below a directory for a person's data, and say what is left.",
}
"""Verbs and their lines. The module of a verb is loaded when it is run."""


@click.group("erase", cls=VerbGroup, verbs=VERBS, context_settings=CONTEXT)
def command() -> None:
    """Overwrite old versions, deleted records and removed databases in a log.

    A deleted record stays in the log until its file is cleaned. These commands overwrite it, by the
    same protocol as the engine's eraser, and do not need the engine. `subject` lists the traces of
    a person, and `prove` searches all bytes for data that should be gone.

    \b
    Examples:
      je-tools erase plan env
      je-tools erase run env --apply
      je-tools erase run env --period 30d --until 06:00 --apply
      je-tools erase subject env --key-file people.txt
      je-tools erase prove env --key-file people.txt
    """
