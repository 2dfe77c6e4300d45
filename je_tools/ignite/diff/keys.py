"""Keys that differ between two copies of a partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.ignite.hashes import value_digests
from je_tools.formats.je.btree.keysort import group_keys
from je_tools.formats.spans import Spans, joined_spans
from je_tools.ignite.caches import cache_names
from je_tools.ignite.values.texts import key_texts
from je_tools.ignite.values.types import node_types

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.formats.arrays import Ints
    from je_tools.ignite.diff.compare import PartitionDifference
    from je_tools.ignite.diff.partitions import NodePartitions
    from je_tools.ignite.records.merge import CacheRecords


class KeyDifference(StrEnum):
    """Ways in which a key differs."""

    ONLY_A = "only in a"
    ONLY_B = "only in b"
    VERSION = "version"
    """The versions differ, and maybe the values."""
    VALUE = "value"
    """The versions are equal, and the values are not."""


class DifferingKey(Struct, frozen=True):
    """A key that differs.

    Attributes:
        cache_id: cache.
        partition: partition.
        key_type, key: kind and bytes of the key.
        what: the way in which it differs.
        version_a, version_b: topology version, node and order; None if a node does not have it.
    """

    cache_id: int
    partition: int
    key_type: int
    key: bytes
    what: KeyDifference
    version_a: tuple[int, int, int] | None
    version_b: tuple[int, int, int] | None


def keys_of_nodes(
    partitions: Iterable[PartitionDifference], one: NodePartitions, other: NodePartitions
) -> Iterator[DifferingKey]:
    """Yield the keys that differ in partitions that both nodes have.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    for each in partitions:
        if each.a is None or each.b is None:
            continue
        sides = (side.records.partition(each.group, each.partition) for side in (one, other))
        first, second = (side.batches() for side in sides)
        yield from differing_keys(first, second, each.partition)


def shown_keys(
    keys: Sequence[DifferingKey], nodes: Iterable[NodePartitions], masking: Masking
) -> list[tuple[DifferingKey, str | None, str]]:
    """Return keys, each with its JSON or what masks it, and the name of its cache."""
    names: dict[int, str] = {}
    types = None
    for side in nodes:
        names |= cache_names(side.node).caches
        types = types or node_types(side.node)
    assert types is not None
    kinds = np.array([each.key_type for each in keys], np.int64)
    texts = key_texts(types, Spans.of([each.key for each in keys]), kinds, masking)
    caches = (names.get(each.cache_id, str(each.cache_id)) for each in keys)
    return list(zip(keys, texts, caches, strict=True))


class _Copy(Struct, frozen=True):
    """The keys of one copy, without values."""

    keys: Spans
    numbers: Ints
    """Cache, kind of the key, topology, node, order, digest and size: int64 (7, n)."""


def differing_keys(
    one: Iterable[CacheRecords], other: Iterable[CacheRecords], partition: int
) -> Iterator[DifferingKey]:
    """Yield the keys that differ between two copies of a partition, by cache and bytes.

    The keys of both copies are in memory, and digests of their values. A value counts as equal if
    its size and 64 bits of checksums are.
    """
    copies = [_copy_of(one), _copy_of(other)]
    keys = joined_spans([each.keys for each in copies])
    if not len(keys):
        return
    numbers = np.concatenate([each.numbers for each in copies], axis=1)
    side = np.repeat([0, 1], [len(each.keys) for each in copies])
    order, is_new = group_keys(keys, two_part=False)
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.cumsum(is_new)
    rows = np.lexsort((side, rank, numbers[0]))
    same = (rank[rows][1:] == rank[rows][:-1]) & (numbers[0][rows][1:] == numbers[0][rows][:-1])
    firsts = np.flatnonzero(np.append(True, ~same))
    is_pair = np.append(same, False)[firsts]
    a, b = rows[firsts], rows[np.minimum(firsts + 1, len(rows) - 1)]
    differs = ~is_pair | (numbers[2:, a] != numbers[2:, b]).any(axis=0)
    for at in np.flatnonzero(differs).tolist():
        pair = (int(a[at]), int(b[at])) if is_pair[at] else (int(a[at]),)
        yield _difference(keys, numbers, side, pair, partition)


def _copy_of(batches: Iterable[CacheRecords]) -> _Copy:
    keys, numbers = [], [np.empty((7, 0), np.int64)]
    for each in batches:
        keys.append(each.keys.packed())
        digests = value_digests(each.values)
        columns = (each.cache_id, each.key_type, each.topology, each.node, each.order)
        numbers.append(np.stack((*columns, digests, each.values.sizes)))
    return _Copy(joined_spans(keys), np.concatenate(numbers, axis=1))


def _difference(
    keys: Spans, numbers: Ints, side: Ints, rows: tuple[int, ...], partition: int
) -> DifferingKey:
    versions: list[tuple[int, int, int] | None] = [None, None]
    for row in rows:
        topology, node, order = numbers[2:5, row].tolist()
        versions[int(side[row])] = (topology, node, order)
    if len(rows) == 1:
        what = KeyDifference.ONLY_B if side[rows[0]] else KeyDifference.ONLY_A
    else:
        what = KeyDifference.VALUE if versions[0] == versions[1] else KeyDifference.VERSION
    cache, kind = numbers[:2, rows[0]].tolist()
    key = keys[rows[0]] or b""
    return DifferingKey(cache, partition, kind, key, what, versions[0], versions[1])
