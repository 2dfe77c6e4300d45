"""Names of caches and cache groups, which the log has only as numbers.

Source: NodeFileTree, CacheFileTree, Ignite 2.18.0.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.core.escaping import printable
from je_tools.errors import InputError, UsageError
from je_tools.formats.ignite.ids import cache_id

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.ignite.store import Node

_ALONE = "cache-"
_SHARED = "cacheGroup-"
_NAMES_SHOWN = 10

CONFIGURATION = "cache_data.dat"
"""End of the name of a file with the configuration of a cache."""

CACHE_LOST = (
    "The node starts without these caches, unless its own configuration has them. Copy the file "
    "from a backup, or from another node, before the node starts."
)
"""Next step if a configuration is lost."""

METASTORAGE = "MetaStorage"
"""Group of the node's own pages, which lie in another folder than those of caches."""


class CacheFolder(Struct, frozen=True):
    """A folder of a cache, or of the caches of a group.

    Attributes:
        path: the folder.
        group: name of the group: that of the cache if it has none of its own.
        caches: names of the caches.
        configured: those whose configurations are not empty: a node starts no others.
        is_shared: True for a group.
    """

    path: Path
    group: str
    caches: tuple[str, ...]
    configured: tuple[str, ...]
    is_shared: bool


class CacheNames(Struct, frozen=True):
    """Names by id, from the folders of a node."""

    caches: dict[int, str]
    groups: dict[int, str]


def cache_folders(db: Path) -> Iterator[CacheFolder]:
    """Yield the folders of caches in a node's folder, by name.

    Raises:
        InputError: a folder cannot be read.
    """
    try:
        for path in sorted(each for each in db.iterdir() if each.is_dir()):
            if path.name.startswith(_SHARED):
                group = path.name.removeprefix(_SHARED)
                files = sorted(each.name for each in path.iterdir())
                ends = [name for name in files if name.endswith(CONFIGURATION)]
                caches = tuple(name.removesuffix(CONFIGURATION) for name in ends)
                written = tuple(name for name in caches if _is_written(path, name))
                yield CacheFolder(path, group, caches, written, is_shared=True)
            elif path.name.startswith(_ALONE):
                cache = path.name.removeprefix(_ALONE)
                written = (cache,) if _is_written(path) else ()
                yield CacheFolder(path, cache, (cache,), written, is_shared=False)
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}") from error


def _is_written(folder: Path, cache: str = "") -> bool:
    """Return True unless the configuration of a cache is gone or empty."""
    path = folder / f"{cache}{CONFIGURATION}"
    try:
        return path.stat().st_size > 0
    except OSError:
        # The node fails to read it too.
        return os.path.lexists(path)


def cache_names(node: Node) -> CacheNames:
    """Return the names of the caches and groups whose folders a node has.

    Raises:
        InputError: a folder cannot be read.
    """
    names = CacheNames({}, {cache_id(METASTORAGE): METASTORAGE})
    for folder in cache_folders(node.db) if node.db is not None else ():
        names.groups[cache_id(folder.group)] = folder.group
        names.caches.update((cache_id(name), name) for name in folder.caches)
    return names


def parse_id(text: str) -> int:
    """Return the id that a user wrote, as a number or as the name of a cache or group.

    Raises:
        UsageError: it is empty, or a number outside of 32 bits.
    """
    if not text:
        raise UsageError("a cache has a name or an id")
    if _is_number(text):
        number = int(text)
        if not -(1 << 31) <= number < 1 << 31:
            raise UsageError(f"{text}: an id of a cache or group has 32 bits, with sign")
        return number
    return cache_id(text.removeprefix("name:"))


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii()


def known_ids(texts: Iterable[str], nodes: Iterable[Node]) -> frozenset[int]:
    """Return the ids of caches and groups that a user wrote, as `parse_id` does.

    Raises:
        InputError: a folder cannot be read.
        UsageError: as by `parse_id`, or no node has a folder of such a cache or group.
    """
    ids = {text: parse_id(text) for text in texts}
    names = _names_of(nodes) if ids else {}
    for text, number in ids.items():
        if number not in names:
            raise UsageError(
                f"--cache {printable(text)}: there is no such cache or group. {_listed(names)}"
            )
    return frozenset(ids.values())


def known_groups(
    texts: Iterable[str], nodes: Iterable[Node], option: str = "--group"
) -> frozenset[str]:
    """Return the names of cache groups that a user wrote by name or id.

    A cache without a group counts as a group with the name of the cache.

    Args:
        texts: names and ids.
        nodes: the nodes.
        option: option with which the user wrote them, for messages.

    Raises:
        InputError: a folder cannot be read.
        UsageError: as by `parse_id`, or no node has a folder of such a group.
    """
    ids = {text: parse_id(text) for text in texts}
    names: dict[int, str] = {}
    for node in nodes if ids else ():
        names |= cache_names(node).groups
    for text, number in ids.items():
        if number not in names:
            raise UsageError(
                f"{option} {printable(text)}: there is no such group, nor a cache without one. "
                f"{_listed(names)}"
            )
    return frozenset(names[number] for number in ids.values())


def check_names(texts: Iterable[str], nodes: Iterable[Node], option: str = "--cache") -> None:
    """Check that nodes have the caches and groups that a user wrote by name.

    Ids are not checked: the log can have records of a cache that was destroyed. If only segments
    were named, without the folder of a node, there are no names to compare with.

    Raises:
        InputError: a folder cannot be read.
        UsageError: as by `parse_id`, or no node has a folder of such a cache or group.
    """
    by_name = (text for text in texts if not _is_number(text))
    for text, number, listed in _unknown(by_name, nodes):
        raise UsageError(
            f"{option} {printable(text)}: there is no such cache or group. If it was "
            f"destroyed, select its records by its id, {number}. {listed}"
        )


def unknown_warnings(texts: Iterable[str], nodes: Iterable[Node]) -> Iterator[str]:
    """Yield a warning for each cache or group that a user wrote and no node has a folder of.

    The log can have records of it nevertheless. If only segments were named, without the folder of
    a node, there are no names, so nothing is unknown.

    Raises:
        InputError: a folder cannot be read.
        UsageError: as by `parse_id`.
    """
    for text, number, listed in _unknown(texts, nodes):
        yield (
            f"warning: {printable(text)}: no node has a folder of such a cache or group. Only "
            f"records of one that was destroyed can match (id {number}). {listed}"
        )


def _unknown(texts: Iterable[str], nodes: Iterable[Node]) -> Iterator[tuple[str, int, str]]:
    """Yield the caches and groups that no node has a folder of: text, id, and known names in words.

    There are none if no node has a folder, as nothing is known then.
    """
    ids = {text: parse_id(text) for text in texts}
    with_folder = [node for node in nodes if node.db is not None] if ids else []
    names = _names_of(with_folder)
    for text, number in ids.items():
        if with_folder and number not in names:
            yield text, number, _listed(names)


def _names_of(nodes: Iterable[Node]) -> dict[int, str]:
    names: dict[int, str] = {}
    for node in nodes:
        found = cache_names(node)
        names |= found.groups | found.caches
    return names


def _listed(names: Mapping[int, str]) -> str:
    known = sorted(names.values())
    more = f" and {len(known) - _NAMES_SHOWN:,} more" if len(known) > _NAMES_SHOWN else ""
    return f"The store has: {', '.join(map(printable, known[:_NAMES_SHOWN]))}{more}"


def check_partitions(numbers: Iterable[int], known: Set[int]) -> None:
    """Check that partitions that a user wrote exist.

    Raises:
        UsageError: one is not among those that are known.
    """
    for number in numbers:
        if number not in known:
            listed = ", ".join(_ranges(known)) or "none"
            raise UsageError(f"--partition {number}: no such partition there. There are: {listed}")


def _ranges(numbers: Set[int]) -> Iterator[str]:
    """Yield consecutive numbers as `first-last`, in order."""
    run: list[int] = []
    for number in [*sorted(numbers), None]:
        if number is not None and run and number == run[-1] + 1:
            run.append(number)
            continue
        if run:
            yield str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"
        run = [] if number is None else [number]
