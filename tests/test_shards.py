"""Shards of the tests: each case is in one of them, and the first has every function."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.shards import parse_shard, shard_of

SOME = [f"tests/test_a.py::test_one[{number}]" for number in range(40)]
SOME += [f"tests/test_a.py::test_two[{name}-v17]" for name in "abc"]
SOME += ["tests/test_b.py::test_three", "tests/test_b.py::test_one"]


def test_each_shard_has_a_part_of_each_function() -> None:
    counted = Counter(
        (number, name.partition("[")[0])
        for name, number in zip(SOME, shard_of(SOME, 4), strict=True)
    )
    assert counted == {
        **{(number, "tests/test_a.py::test_one"): 10 for number in range(1, 5)},
        **{(number, "tests/test_a.py::test_two"): 1 for number in range(1, 4)},
        (1, "tests/test_b.py::test_three"): 1,
        (1, "tests/test_b.py::test_one"): 1,
    }


def test_the_order_of_collection_does_not_count() -> None:
    """Processes of xdist and later runs collect the same cases, but may order them otherwise."""
    mixed = random.Random(1).sample(SOME, len(SOME))
    numbers = dict(zip(SOME, shard_of(SOME, 4), strict=True))
    assert shard_of(mixed, 4) == [numbers[name] for name in mixed]


def test_what_a_shard_is() -> None:
    assert parse_shard("1/1") == (1, 1)
    assert parse_shard("3/12") == (3, 12)


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "1/0", "a/b", "-1/4", "1/4/2"])
def test_no_shard(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="expected a number and a count, such as 1/4"):
        parse_shard(text)
