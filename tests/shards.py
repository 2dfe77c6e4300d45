"""Shards: with `--shard 1/4`, a run has a quarter of the cases of each test function.

Shard 1 has at least one case of every function. The order of the cases does not decide: they are
distributed by a checksum of their names.
"""

from __future__ import annotations

import zlib
from collections import Counter

import pytest


def shard_of(nodeids: list[str], count: int) -> list[int]:
    """Return the number of the shard of each test, from 1 to `count`."""
    numbers = {}
    seen: Counter[str] = Counter()
    for nodeid in sorted(nodeids, key=lambda each: (zlib.crc32(each.encode()), each)):
        function = nodeid.partition("[")[0]
        numbers[nodeid] = seen[function] % count + 1
        seen[function] += 1
    return [numbers[nodeid] for nodeid in nodeids]


def parse_shard(text: str) -> tuple[int, int]:
    """Parse `1/4`; UsageError if it is no such text."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise pytest.UsageError(f"--shard {text}: expected a number and a count, such as 1/4")
    return int(number), int(count)


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "run one of several shards, such as 1/4; the first has a case of every test function"
    parser.addoption("--shard", metavar="N/COUNT", help=text)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the cases of the shard, after those that `-m` deselects are gone."""
    if config.getoption("--shard"):
        number, count = parse_shard(config.getoption("--shard"))
        numbers = shard_of([item.nodeid for item in items], count)
        chosen = [item for item, its in zip(items, numbers, strict=True) if its == number]
        others = [item for item, its in zip(items, numbers, strict=True) if its != number]
        config.hook.pytest_deselected(items=others)
        items[:] = chosen
