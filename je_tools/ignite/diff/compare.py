"""Comparison of the partitions of two nodes: which copy needs data of the other.

Source: GridDhtPartitionsExchangeFuture, CacheHistory.searchEarliestWalPointer,
IgniteCacheOffheapManager.rebalanceIterator, Ignite 2.18.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.formats.ignite.ids import cache_id
from je_tools.ignite.checkpoints.reach import partition_reach

if TYPE_CHECKING:
    from je_tools.ignite.diff.partitions import NodePartitions, PartitionFacts


class PartitionVerdict(StrEnum):
    """Relation of two copies of a partition."""

    SAME = "same"
    """Counters and hashes are equal."""
    BEHIND = "behind"
    """One copy has a lower update counter."""
    DIVERGED = "diverged"
    """The counters are equal, and the records are not: rebalance does not notice that."""
    GAPS = "gaps"
    """A copy misses updates below its highest counter."""
    ONE_COPY = "one copy"
    """Only one node has the partition."""
    UNREADABLE = "unreadable"
    """A copy could not be read to its end, or its counter is unknown."""


class Help(StrEnum):
    """Data that a copy needs of the other."""

    NOTHING = "nothing"
    LOG = "log"
    """The updates since its counter, which the log of the other still has."""
    FULL = "full copy"


class PartitionDifference(Struct, frozen=True):
    """Two copies of a partition, and how they differ.

    Attributes:
        group: name of the cache group.
        partition: number.
        verdict: relation of the copies.
        needs: copy that needs data of the other, `a` or `b`; None if none does, or if it is unknown
            which one is right.
        help: data that it needs.
        a, b: the copies; None for none.
        reach: lowest counter from which the log of the node that helps has all updates; None if it
            has none, or no node needs help.
    """

    group: str
    partition: int
    verdict: PartitionVerdict
    needs: str | None
    help: Help
    a: PartitionFacts | None
    b: PartitionFacts | None
    reach: int | None


def compare_nodes(one: NodePartitions, other: NodePartitions) -> Iterator[PartitionDifference]:
    """Yield the partitions of two nodes, by group and number."""
    reaches = [_reach(one), _reach(other)]
    for group, partition in sorted(one.partitions.keys() | other.partitions.keys()):
        first = one.partitions.get((group, partition))
        second = other.partitions.get((group, partition))
        if first is None or second is None:
            known = PartitionVerdict.ONE_COPY
            yield PartitionDifference(
                group, partition, known, None, Help.NOTHING, first, second, None
            )
            continue
        verdict, behind = _verdict(first, second)
        if behind is None:
            needed = Help.FULL if verdict is PartitionVerdict.DIVERGED else Help.NOTHING
            yield PartitionDifference(group, partition, verdict, None, needed, first, second, None)
            continue
        needy = first if behind == 0 else second
        reach = reaches[1 - behind].get((cache_id(group), partition))
        needed = _help(needy, reach)
        yield PartitionDifference(
            group, partition, verdict, "ab"[behind], needed, first, second, reach
        )


def _verdict(first: PartitionFacts, second: PartitionFacts) -> tuple[PartitionVerdict, int | None]:
    """Return how two copies relate, and which needs the other's data: 0 or 1, None for none."""
    one, other = first.counter, second.counter
    if one is None or other is None or not (first.is_complete and second.is_complete):
        return PartitionVerdict.UNREADABLE, None
    if one.low != other.low:
        return PartitionVerdict.BEHIND, int(other.low < one.low)
    if one.gaps or other.gaps:
        if one.high != other.high:
            return PartitionVerdict.GAPS, int(other.high < one.high)
        return PartitionVerdict.GAPS, None
    hashes = (first.hash, first.version_hash, first.size)
    same = hashes == (second.hash, second.version_hash, second.size)
    return (PartitionVerdict.SAME if same else PartitionVerdict.DIVERGED), None


def _help(needy: PartitionFacts, reach: int | None) -> Help:
    assert needy.counter is not None
    return Help.FULL if reach is None or reach > needy.counter.low else Help.LOG


def _reach(node: NodePartitions) -> dict[tuple[int, int], int]:
    """Return the lowest counters from which the log of a node can serve another one."""
    if node.recovered.logical.end.lost_records:
        return {}
    found = partition_reach(node.checkpoints)
    return {(each.group_id, each.partition): each.counter_from for each in found}
