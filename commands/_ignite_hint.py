"""The hint of a command on logs of JE that was given a store of Apache Ignite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.core.escaping import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from je_tools.errors import NoLogError

COUNTERPARTS = {
    "verify": ("ignite wal verify", "ignite pages verify"),
    "summary": ("ignite wal summary",),
    "files": ("ignite info",),
    "dump": ("ignite wal dump", "ignite pages dump"),
    "lock": ("ignite info",),
    "recover": ("ignite recover",),
    "missing": ("ignite recover",),
    "salvage": ("ignite export",),
    "databases": ("ignite info",),
    "count": ("ignite export",),
    "get": ("ignite wal dump --key KEY",),
    "export": ("ignite export",),
    "diff": ("ignite diff",),
    "space": ("ignite pages space",),
    "checkpoint": ("ignite checkpoints",),
    "undo": ("ignite undo",),
}
"""Commands on stores by the commands on logs that answer the same questions."""


def ignite_hint(error: NoLogError, command: str, words: Sequence[str] = ()) -> str | None:
    """Return what to run instead of a command, if its path is a store; None if it is none.

    Args:
        error: the error, which has the path.
        command: name of the command.
        words: its arguments; `diff` names two stores.
    """
    from je_tools.ignite.segment_files import segment_name
    from je_tools.ignite.store_search import is_of_store

    path = error.path
    if path is None or not is_of_store(path):
        return None
    counterparts = COUNTERPARTS.get(command, ())
    if segment_name(path.name) is not None:
        counterparts = tuple(each for each in counterparts if "pages" not in each)
    named = quoted(str(path))
    if command == "diff":
        both = [each for each in words if not each.startswith("-") and Path(each).is_dir()]
        named = " ".join(map(quoted, both)) or named
    steps = " or ".join(f"`je-tools {each} {named}`" for each in counterparts)
    next_step = f"use {steps}" if counterparts else "`je-tools ignite --help` lists what reads it"
    return f"{path}: a store of Apache Ignite, not a log of JE; {next_step}"
