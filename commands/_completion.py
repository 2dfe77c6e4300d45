"""Shell completion of option values; never an error, and never a noticeable wait."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from click.shell_completion import CompletionItem

SECONDS = 0.5
"""Time in seconds for which a log is read for the names of its databases."""

_PLAIN = re.compile(r"[\w.%+@/-]+")
"""Names that every shell reads as one word without quoting."""


def complete_types(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names of entry types and of their groups."""
    from je_tools.formats.je.types import ENTRY_TYPES, Group

    groups = [group.value for group in Group]
    meanings = {each.name: each.meaning for each in ENTRY_TYPES.values() if each.name not in groups}
    meanings |= dict.fromkeys(groups, "all entry types of this group")
    begun = incomplete.lower()
    return [
        CompletionItem(name, help=meaning)
        for name, meaning in sorted(meanings.items())
        if name.lower().startswith(begun)
    ]


def complete_databases(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the databases of the log that is already on the command line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = _names(context)
    # Completion is not the place to report a damaged or missing log.
    except Exception:
        return []
    return [
        CompletionItem(text, help=meaning)
        for text, meaning in _forms(names)
        if text.startswith(incomplete)
    ]


def _names(context: click.Context) -> Mapping[int, str]:
    from je_tools.log.names import names_within
    from je_tools.log.opening import open_environment

    # An option still without its value prevents click from assigning arguments to parameters.
    own = [*(context.params.get("paths") or ()), context.params.get("path")]
    words = [word for word in (*own, *context.args) if word is not None]
    if any(parameter.name == "path" for parameter in context.command.params):
        # Words after the first are not environments.
        del words[1:]
    paths = [Path(os.path.expandvars(word)).expanduser() for word in words]
    return names_within(open_environment(paths), SECONDS) if paths else {}


def _forms(names: Mapping[int, str]) -> Iterator[tuple[str, str]]:
    """Yield databases as `--db` takes them, with their ids; by id if the name needs quoting."""
    from je_tools.core.escaping import printable

    known = set(names.values())
    offered: dict[str, str] = {}
    for db_id, name in names.items():
        if _PLAIN.fullmatch(name):
            # `--db` selects every database that had this name.
            offered[name] = f"{offered[name]}, {db_id}" if name in offered else f"id {db_id}"
        elif str(db_id) not in known:
            offered[str(db_id)] = printable(name)
    # Internal databases come last.
    yield from sorted(offered.items(), key=lambda item: (item[0].startswith("_je"), item[0]))
