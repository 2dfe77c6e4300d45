"""Every entry of the dump equals the engine's print, in every field that the engine prints."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

import pytest

from tests.corpus import Environment
from tests.engine_truth.dumped import differences
from tests.engine_truth.parquet import parquet_rows
from tests.engine_truth.running import json_rows
from tests.engine_truth.selected import PRINTED, PRINTED_FIXTURES, PRINTLOG, over
from tests.truth.printlog import read_printlog

SHOWN = 5
"""Number of differing entries that a failure names."""


def check(env: Environment, rows: Iterable[dict[str, Any]]) -> None:
    """Compare rows of the dump with the print, entry by entry and in log order."""
    assert env.truth is not None
    printed = read_printlog(env.truth / PRINTLOG)
    found: list[str] = []
    for said, row in zip_longest(printed, rows):
        assert said is not None, f"the engine does not print {row}"
        assert row is not None, f"not dumped: {said.lsn_text} {said.type}"
        if wrong := differences(said, row):
            found.append(f"{said.lsn_text} {said.type}: {'; '.join(wrong)[:2000]}")
            if len(found) == SHOWN:
                break
    assert not found, "\n".join(found)


@over(PRINTED)
def test_json_lines(env: Environment) -> None:
    code, rows = json_rows("dump", env.home)
    assert code == 0
    check(env, rows)


@over(PRINTED_FIXTURES)
def test_parquet_fixtures(env: Environment) -> None:
    check(env, parquet_rows(env.home))


@pytest.mark.exhaustive
@over(PRINTED)
def test_parquet(env: Environment) -> None:
    check(env, parquet_rows(env.home))
