"""Partitions after recovery: the states, counters and hashes of the engine's own check."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from je_tools.formats.ignite.ids import cache_id
from je_tools.ignite.caches import cache_names
from je_tools.ignite.diff import compare
from je_tools.ignite.diff.compare import Help, PartitionVerdict, compare_nodes
from je_tools.ignite.diff.keys import KeyDifference, keys_of_nodes
from je_tools.ignite.diff.partitions import NodePartitions, PartitionFacts, node_partitions
from je_tools.ignite.logical.counters import Counter
from je_tools.ignite.records import node_records
from je_tools.ignite.records.node_records import CacheFilter
from tests.builders import ignite as build
from tests.corpus import IgniteNode, ignite_nodes
from tests.je_tools.ignite.reading import node_of
from tests.truth.ignite_rows import engine_rows

TWO = "ignite-two-nodes"


def _partitions(node: IgniteNode) -> NodePartitions:
    return node_partitions(node_of(node.store, node.node), CacheFilter(), 1)


def test_partitions_are_those_of_the_engines_check(ignite_node: IgniteNode) -> None:
    if ignite_node.case == "ignite-tde":
        return
    found = _partitions(ignite_node).partitions
    lines = (ignite_node.truth / "partitions.tsv").read_text().splitlines()[1:]
    expected = {(row[0], int(row[2])): row[3:9] for row in (line.split("\t") for line in lines)}
    made = {}
    for place, each in found.items():
        assert each.counter is not None
        numbers = (each.size, each.counter.low, each.counter.high, each.hash, each.version_hash)
        made[place] = [each.state, *map(str, numbers)]
    # A partition that never had a page has no file, and no row.
    for place in expected.keys() - made.keys():
        assert expected[place] == ["OWNING", *["0"] * 5]
    assert made == {place: row for place, row in expected.items() if place in made}


PAIRS = [nodes] if (nodes := [node for node in ignite_nodes() if node.case == TWO]) else []
"""Two nodes of which the second stopped earlier; only the corpus has them."""


@pytest.mark.parametrize("nodes", PAIRS, ids=[TWO] * len(PAIRS))
def test_the_node_that_stopped_earlier_needs_the_log_of_the_other(
    nodes: list[IgniteNode],
) -> None:
    one, other = map(_partitions, nodes)
    found = list(compare_nodes(one, other))
    assert {each.verdict for each in found} == {PartitionVerdict.SAME, PartitionVerdict.BEHIND}
    for each in found:
        if each.verdict is PartitionVerdict.SAME:
            assert each.a is not None
            assert each.b is not None
            assert (each.a.hash, each.needs, each.help) == (each.b.hash, None, Help.NOTHING)
            continue
        assert each.needs == "b"
        assert each.reach is not None
        # The log of the first node begins before the second one stopped.
        assert each.help is Help.LOG
    turned = [each.needs for each in compare_nodes(other, one)]
    assert set(turned) == {None, "a"}


@pytest.mark.parametrize("nodes", PAIRS, ids=[TWO] * len(PAIRS))
def test_keys_that_differ_are_those_with_another_version(nodes: list[IgniteNode]) -> None:
    pair = (_partitions(nodes[0]), _partitions(nodes[1]))
    differing = [each for each in compare_nodes(*pair) if each.verdict is not PartitionVerdict.SAME]
    rows: list[dict[tuple[str, str], tuple[str, str]]] = []
    for node in nodes:
        listed = engine_rows(node)
        rows.append({(r.cache, r.key_bytes): (r.version, r.value_sha256) for r in listed})
    one, other = rows
    expected = {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}
    names = cache_names(pair[0].node).caches
    found = {
        (names[each.cache_id], each.key.hex()): each.what
        for each in keys_of_nodes(differing, *pair)
    }
    assert found.keys() == expected
    for key, what in found.items():
        if key not in one:
            assert what is KeyDifference.ONLY_B
        elif key not in other:
            assert what is KeyDifference.ONLY_A
        else:
            assert what is KeyDifference.VERSION


def _facts(counter: Counter | None, digest: int = 1, *, is_complete: bool = True) -> PartitionFacts:
    return PartitionFacts("node", "g", 0, "OWNING", 3, counter, digest, 2, is_complete)


def _side(facts: PartitionFacts | None, counter_from: int = 0, lost: int = 0) -> Any:
    """Return what the comparison reads of a node."""
    reach = SimpleNamespace(group_id=cache_id("g"), partition=0, counter_from=counter_from)
    end = SimpleNamespace(lost_records=lost)
    return SimpleNamespace(
        partitions={} if facts is None else {("g", 0): facts},
        recovered=SimpleNamespace(logical=SimpleNamespace(end=end)),
        checkpoints=[reach],
    )


LOW, HIGH, GAP = Counter(5), Counter(9), Counter(5, ((7, 2),))


@pytest.mark.parametrize(
    ("a", "b", "verdict", "needs", "needed"),
    [
        (_side(_facts(LOW)), _side(_facts(LOW)), PartitionVerdict.SAME, None, Help.NOTHING),
        (_side(_facts(LOW)), _side(_facts(LOW, 7)), PartitionVerdict.DIVERGED, None, Help.FULL),
        (_side(_facts(LOW)), _side(_facts(HIGH), 5), PartitionVerdict.BEHIND, "a", Help.LOG),
        (_side(_facts(HIGH), 5), _side(_facts(LOW)), PartitionVerdict.BEHIND, "b", Help.LOG),
        (_side(_facts(HIGH), 6), _side(_facts(LOW)), PartitionVerdict.BEHIND, "b", Help.FULL),
        (
            _side(_facts(HIGH), 5, lost=1),
            _side(_facts(LOW)),
            PartitionVerdict.BEHIND,
            "b",
            Help.FULL,
        ),
        (_side(_facts(GAP)), _side(_facts(LOW)), PartitionVerdict.GAPS, "b", Help.LOG),
        (_side(_facts(GAP)), _side(_facts(GAP)), PartitionVerdict.GAPS, None, Help.NOTHING),
        (_side(_facts(GAP)), _side(_facts(HIGH)), PartitionVerdict.BEHIND, "a", Help.LOG),
        (_side(_facts(None)), _side(_facts(LOW)), PartitionVerdict.UNREADABLE, None, Help.NOTHING),
        (
            _side(_facts(LOW, is_complete=False)),
            _side(_facts(LOW)),
            PartitionVerdict.UNREADABLE,
            None,
            Help.NOTHING,
        ),
        (_side(_facts(LOW)), _side(None), PartitionVerdict.ONE_COPY, None, Help.NOTHING),
    ],
)
def test_who_needs_what(
    a: Any,
    b: Any,
    verdict: PartitionVerdict,
    needs: str | None,
    needed: Help,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compare, "partition_reach", lambda checkpoints: checkpoints)
    (found,) = compare_nodes(a, b)
    assert (found.verdict, found.needs, found.help) == (verdict, needs, needed)


def test_keys_are_compared_by_bytes_version_and_value(tmp_path: Path) -> None:
    entries = {
        "one": [build.Entry(b"\x03\0\0\0\0", b"\x65", counter=1, cache=build.ACCOUNTS)],
        "two": [
            build.Entry(b"\x03\0\0\0\0", b"\x08\x01", counter=1, cache=build.ACCOUNTS),
            build.Entry(b"\x03\1\0\0\0", b"\x65", counter=2, cache=build.ACCOUNTS),
        ],
    }
    sides = []
    for name, some in entries.items():
        build.write_cache_store(tmp_path / name, [entry.record() for entry in some])
        sides.append(node_partitions(node_of(tmp_path / name), CacheFilter(), 1))
    (partition,) = compare_nodes(*sides)
    assert (partition.verdict, partition.needs, partition.help) == (
        PartitionVerdict.BEHIND,
        "a",
        Help.FULL,
    )
    found = {each.key[1]: each.what for each in keys_of_nodes([partition], *sides)}
    assert found == {0: KeyDifference.VALUE, 1: KeyDifference.ONLY_B}


def test_keys_of_caches_that_are_not_wanted_are_not_listed(tmp_path: Path) -> None:
    wanted, sibling = cache_id("carts"), cache_id("sessions")
    sides = []
    for name, value in (("one", b"\x65"), ("two", b"\x08\x01")):
        keys = [(cache, count) for count, cache in enumerate((wanted, sibling), 1)]
        entries = [build.Entry(b"\x03\0\0\0\0", value, 0, count, 2, cache) for cache, count in keys]
        build.write_cache_store(tmp_path / name, [entry.record() for entry in entries])
        folder = tmp_path / name / "db" / "node1" / "cacheGroup-web"
        folder.mkdir()
        for cache in ("carts", "sessions"):
            (folder / f"{cache}cache_data.dat").write_bytes(b"\xac\xed")
        only = CacheFilter(frozenset({wanted}))
        sides.append(node_partitions(node_of(tmp_path / name), only, 1))
    (partition,) = compare_nodes(*sides)
    assert [each.cache_id for each in keys_of_nodes([partition], *sides)] == [wanted]


def test_files_are_listed_once_however_many_partitions_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = []
    for name, value in (("one", b"\x65"), ("two", b"\x08\x01")):
        key, cache = b"\x03\0\0\0\0", build.ACCOUNTS
        entries = [build.Entry(key, value, cache=cache, partition=number) for number in range(4)]
        build.write_cache_store(tmp_path / name, [entry.record() for entry in entries])
        sides.append(node_partitions(node_of(tmp_path / name), CacheFilter(), 1))
    calls: list[Any] = []
    monkeypatch.setattr(node_records, "page_folder", calls.append)
    assert len(list(keys_of_nodes(compare_nodes(*sides), *sides))) == 4
    assert calls == []
