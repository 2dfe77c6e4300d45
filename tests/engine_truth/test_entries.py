"""Every entry of the dump equals the engine's print, in every field that the engine prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import pytest

from tests.corpus import Environment
from tests.engine_truth.dumped import differences
from tests.engine_truth.parquet import parquet_rows
from tests.engine_truth.running import json_rows
from tests.engine_truth.selected import PRINTED, PRINTED_FIXTURES, PRINTLOG, over
from tests.truth.printlog import Printed, read_printlog

SHOWN = 5
"""Number of differing entries that a failure names."""


def check(printed: Iterable[Printed], rows: Iterable[dict[str, Any]]) -> None:
    """Compare rows of the dump with the print, entry by entry and in log order."""
    found: list[str] = []
    for said, row in zip_longest(printed, rows):
        assert said is not None, f"the engine does not print {row}"
        assert row is not None, f"not dumped: {said.lsn_text} {said.type}"
        if wrong := differences(said, row):
            found.append(f"{said.lsn_text} {said.type}: {'; '.join(wrong)[:2000]}")
            if len(found) == SHOWN:
                break
    assert not found, "\n".join(found)


def printed_of(env: Environment) -> Iterator[Printed]:
    assert env.truth is not None
    return read_printlog(env.truth / PRINTLOG)


def json_lines(env: Environment) -> Iterable[dict[str, Any]]:
    code, rows = json_rows("dump", env.home)
    assert code == 0
    return rows


@over(PRINTED_FIXTURES)
def test_fixtures(env: Environment) -> None:
    printed = list(printed_of(env))
    check(printed, json_lines(env))
    check(printed, parquet_rows(env.home))


@over([each for each in PRINTED if each not in PRINTED_FIXTURES])
def test_json_lines(env: Environment) -> None:
    check(printed_of(env), json_lines(env))


@pytest.mark.exhaustive
@over(PRINTED)
def test_parquet(env: Environment) -> None:
    check(printed_of(env), parquet_rows(env.home))
