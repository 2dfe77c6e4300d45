"""Stores of Ignite that a source reads, and the options that name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.audit.discover import EnvironmentKind, UnreadPath
from je_tools.audit.reasons import why_unread
from je_tools.errors import JeToolsError, UsageError
from je_tools.ignite.store import Node, Store, open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from je_tools.spark.places import LogPlaces

STORE_PLACES: Mapping[str, str] = {
    "path": "What is read: the work directory of Ignite, its folder `db`, the folder of a node, a "
    "directory with such folders below it, or a pattern of directories. `load(path)` sets it.",
    "paths": "Several paths, as a list. `load([…])` sets it.",
    "env": "Stores to read, by the column `env` or a pattern of it, as a list.",
    "node": "Nodes to read, by name or a pattern of it, as a list.",
}
"""Options of the sources of stores, and their descriptions."""

_HINT = (
    "To read the rest, give the option unreadable=skip; `je-tools ignite wal verify` and `pages "
    "verify` list what is left out then"
)


class NodePlace(Struct, frozen=True):
    """A node of a store, and the name of the store in the column `env`."""

    env: str
    store: Store
    node: Node


def nodes_of(places: LogPlaces, wanted: Sequence[str]) -> list[NodePlace]:
    """Return the nodes to read of all stores.

    Args:
        places: where the stores are.
        wanted: names and patterns of nodes; empty for all.

    Raises:
        UsageError: no store or no node has one of the names that were asked for.
        InputError: there is no store, or one cannot be opened, and nothing may be left out.
    """
    found, problems = places.search(EnvironmentKind.IGNITE)
    stores: list[tuple[str, Store]] = []
    for each in found:
        try:
            stores.append((each.name, open_store(each.paths)))
        except (JeToolsError, OSError) as error:
            problems.append(UnreadPath(each.name, why_unread(error)))
    places.check(problems, _HINT)
    nodes = [NodePlace(env, store, node) for env, store in stores for node in store.nodes]
    kept = [each for each in nodes if _is_wanted(each.node.name, wanted)]
    if wanted and not kept:
        names = sorted({each.node.name for each in nodes})
        raise UsageError(
            f"option node: {', '.join(wanted)}: no node has this name; there are {', '.join(names)}"
        )
    return kept


def check_readable(places: LogPlaces, problems: Iterator[UnreadPath]) -> None:
    """Check that files can be read, unless they may be left out.

    Raises:
        InputError: one cannot be read.
    """
    places.check(list(problems), _HINT)


def _is_wanted(name: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(name == each or fnmatchcase(name, each) for each in wanted)
