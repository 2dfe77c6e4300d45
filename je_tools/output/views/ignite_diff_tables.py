"""Tables on differences between the nodes of an Ignite store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from je_tools.core.escaping import clean_text
from je_tools.formats.ignite.versions import version_text
from je_tools.output.views.sections import Column, Kind, Section, section_of

if TYPE_CHECKING:
    from je_tools.ignite.diff.compare import PartitionDifference
    from je_tools.ignite.diff.keys import DifferingKey


def _side_cell(side: str, name: str) -> Any:
    def cell(item: PartitionDifference) -> Any:
        facts = getattr(item, side)
        return None if facts is None else getattr(facts, name)

    return cell


def _counter(side: str, name: str) -> Any:
    def cell(item: PartitionDifference) -> int | None:
        facts = getattr(item, side)
        return None if facts is None or facts.counter is None else getattr(facts.counter, name)

    return cell


def _gaps(side: str) -> Any:
    def cell(item: PartitionDifference) -> str | None:
        facts = getattr(item, side)
        if facts is None or facts.counter is None:
            return None
        gaps = (f"{low + 1}-{high}" for low, high in facts.counter.gaps)
        return " ".join(gaps) or None

    return cell


def _side(side: str) -> tuple[Column, ...]:
    return (
        Column(f"state_{side}", f"state {side}", Kind.TEXT, rank=3, cell=_side_cell(side, "state")),
        Column(f"size_{side}", f"size {side}", rank=2, cell=_side_cell(side, "size")),
        Column(f"counter_{side}", f"counter {side}", rank=1, cell=_counter(side, "low")),
        Column(f"high_{side}", f"highest {side}", rank=8, cell=_counter(side, "high")),
        Column(f"gaps_{side}", f"gaps {side}", Kind.TEXT, rank=6, cell=_gaps(side)),
        Column(f"hash_{side}", f"hash {side}", Kind.ID, rank=7, cell=_side_cell(side, "hash")),
        Column(
            f"version_hash_{side}",
            f"version hash {side}",
            Kind.ID,
            rank=8,
            cell=_side_cell(side, "version_hash"),
        ),
    )


PARTITIONS = (
    Column("group", "group", Kind.TEXT, cell=lambda item: clean_text(item.group)),
    Column("partition", "partition", Kind.ID),
    Column("verdict", "verdict", Kind.TEXT, cell=lambda item: item.verdict.value),
    *_side("a"),
    *_side("b"),
    Column("needs", "needs", Kind.TEXT),
    Column("help", "what", Kind.TEXT, cell=lambda item: item.help.value),
    Column("reach", "log from", rank=4),
)
"""Columns of partitions."""


def partition_table(items: Iterable[PartitionDifference], a: str, b: str) -> Section:
    """Return the table of partitions of two nodes, `a` and `b`."""
    title = f"Partitions; a is {clean_text(a)}, b is {clean_text(b)}"
    return section_of("partitions", title, PARTITIONS, items, folds=True)


def _version(version: tuple[int, int, int] | None) -> str | None:
    return None if version is None else version_text(*version)


def key_table(keys: Sequence[tuple[DifferingKey, str | None, str]]) -> Section:
    """Return the table of keys that differ: each with its text, and the name of its cache."""

    def version(side: str) -> Column:
        name = f"version_{side}"

        def cell(item: Any) -> str | None:
            return _version(getattr(item[0], name))

        return Column(name, f"version {side}", Kind.TEXT, rank=1, cell=cell)

    columns = (
        Column("cache", "cache", Kind.TEXT, cell=lambda item: clean_text(item[2])),
        Column("partition", "partition", Kind.ID, cell=lambda item: item[0].partition),
        Column("difference", "difference", Kind.TEXT, cell=lambda item: item[0].what.value),
        Column("key", "key", Kind.KEY, cell=lambda item: item[1]),
        version("a"),
        version("b"),
    )
    return section_of("keys", "Keys that differ", columns, keys, folds=True)
