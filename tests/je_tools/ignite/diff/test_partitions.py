"""Partitions after recovery: the states, counters and hashes of the engine's own check."""

from __future__ import annotations

import pytest

from je_tools.ignite.caches import cache_names
from je_tools.ignite.diff.compare import Help, Verdict, compare_nodes
from je_tools.ignite.diff.keys import KeyDifference, keys_of_nodes
from je_tools.ignite.diff.partitions import NodePartitions, node_partitions
from je_tools.ignite.records.node_records import CacheFilter
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


@pytest.fixture(scope="module")
def pair() -> tuple[NodePartitions, NodePartitions]:
    """Return two nodes of which the second stopped earlier; only the corpus has them."""
    nodes = [node for node in ignite_nodes() if node.case == TWO]
    if not nodes:
        pytest.skip("only the corpus has two nodes")
    one, other = map(_partitions, nodes)
    return one, other


def test_the_node_that_stopped_earlier_needs_the_log_of_the_other(
    pair: tuple[NodePartitions, NodePartitions],
) -> None:
    found = list(compare_nodes(*pair))
    assert {each.verdict for each in found} == {Verdict.SAME, Verdict.BEHIND}
    for each in found:
        if each.verdict is Verdict.SAME:
            assert each.a is not None
            assert each.b is not None
            assert (each.a.hash, each.needs, each.help) == (each.b.hash, None, Help.NOTHING)
            continue
        assert each.needs == "b"
        assert each.reach is not None
        # The log of the first node begins before the second one stopped.
        assert each.help is Help.LOG
    turned = [each.needs for each in compare_nodes(*reversed(pair))]
    assert set(turned) == {None, "a"}


def test_keys_that_differ_are_those_with_another_version(
    pair: tuple[NodePartitions, NodePartitions],
) -> None:
    differing = [each for each in compare_nodes(*pair) if each.verdict is not Verdict.SAME]
    rows: list[dict[tuple[str, str], tuple[str, str]]] = []
    for node in ignite_nodes():
        if node.case == TWO:
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
