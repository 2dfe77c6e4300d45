"""Segments of transactions, and the counts of a survey, equal those of the entries as rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from je_tools.audit.audited_rows import RowAuditor, scanner_of
from je_tools.errors import InputError
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.segments import Segments
from je_tools.formats.je.log.walk import NO_OFFSET
from je_tools.log.checkpoint_intervals import intervals
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.verify.judge import RowInspector
from tests.builders.busy import busy_log
from tests.builders.logs import LogFile, packed, write_log
from tests.builders.planted import VERSIONS, planted_log
from tests.corpus import Environment, environment, environments, marked_if_another
from tests.damage.fuzz import write_input
from tests.damage.mutate import make_input
from tests.je_tools.segmented import assert_segments_are_right

UPD_LN_TX, COMMIT, ABORT = 35, 17, 18
MANY = pytest.mark.exhaustive
DAMAGED = 200
LARGE = {"v17-erase-after"}
"""Logs with nothing but many entries that others have, too."""
WHOLE = {"v17-crash-txn", "v17-rep-uncommitted-before/node2", "v26-dbops"}
"""Logs that are also read in one range each by default."""


@contextmanager
def ranges_of(size: int) -> Iterator[None]:
    """Read ranges and windows of this size."""
    with (
        patch("je_tools.formats.je.log.reader.RANGE_SIZE", size),
        patch("je_tools.formats.je.log.reader.SURVEY_WINDOW", size),
        patch("je_tools.log.scan_options.WIDE_RANGE", size),
    ):
        yield


def shown(home: Path, *, surveyed: bool) -> list[Any]:
    """Return what an audit keeps of a log, with most entries surveyed, or all as rows."""
    environment = open_environment([home])
    show = RowAuditor(RowInspector.of(environment))
    scanner = scanner_of(1, show)
    scanner = scanner if surveyed else replace(scanner, asked=None)
    results = [each for part in scanner.scan(environment, show) for each in part.results]
    types: dict[int, list[int]] = {}
    for number, *line in (line for each in results for line in each.types.tolist()):
        a = types.setdefault(number, line)
        if a is not line:
            types[number] = [a[0] + line[0], a[1] + line[1], min(a[2], line[2]), max(a[3], line[3])]
            types[number].append(a[4] + line[4])
    return [
        sorted(types.items()),
        intervals((each.checkpoints for each in results), environment),
        [each.rollbacks for each in results if each.rollbacks],
        [each.first_active_lsn for each in results if each.first_active_lsn is not None],
        [str(each.segments) for each in results if len(each.segments.txn_id)],
        [each.file.first_vlsn for each in results if each.file.first_vlsn],
        [each.file.last_offset for each in results if each.file.last_offset != NO_OFFSET][-1:],
        sum(each.file.judged.entries for each in results),
    ]


def check(home: Path) -> int:
    """Compare a log's segments with its entries, and surveys with rows."""
    environment = open_environment([home])
    assert shown(home, surveyed=True) == shown(home, surveyed=False)
    return assert_segments_are_right(environment, Scanner(threads=1))


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(
            each, id=each.name, marks=[MANY] if each.name in LARGE else marked_if_another(each)
        )
        for each in environments()
    ],
)
def test_logs_of_engines(log: Environment) -> None:
    with ranges_of(3000):
        check(log.home)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each.name, marks=[] if each.name in WHOLE else [MANY])
        for each in environments()
    ],
)
def test_logs_of_engines_in_one_range(name: str) -> None:
    check(environment(name).home)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_type_of_every_version(version: int, tmp_path: Path) -> None:
    check(planted_log(tmp_path / "planted", version))
    home = busy_log(random.Random(version), tmp_path / "busy", version, 200)
    with ranges_of(900):
        assert check(home) > 20


def test_damaged_logs(tmp_path: Path) -> None:
    found = 0
    for number in range(DAMAGED):
        home = tmp_path / str(number)
        write_input(make_input(7, number), home)
        try:
            environment = open_environment([home])
        except InputError:
            continue
        found += assert_segments_are_right(environment, Scanner(threads=1))
    assert found > 100


def record(txn_id: int, prev_lsn: int, db_id: int) -> bytes:
    """Return the item of an UPD_LN_TX of log version 17 without key and value."""
    return b"\0\0" + packed(db_id) + packed(txn_id) + packed(prev_lsn) + packed(0) * 2


ENTRIES = st.lists(
    st.tuples(
        st.sampled_from([UPD_LN_TX, UPD_LN_TX, COMMIT, ABORT]),
        st.one_of(st.integers(-3, 3), st.integers(-(1 << 62), 1 << 62)),
        st.sampled_from([NULL_LSN, 0, 99]),
        st.integers(1, 4),
        st.sampled_from([0, 0x10]),
        st.integers(0, 2),
    ),
    max_size=40,
)


@given(ENTRIES, st.sampled_from([64, 300, 1 << 20]))
def test_random_transactions(tmp_path_factory: Any, entries: list[Any], size: int) -> None:
    file = LogFile(0, 17)
    for type_no, txn_id, lsn, db_id, flags, cut in entries:
        item = record(txn_id, lsn, db_id)
        if type_no != UPD_LN_TX:
            item = packed(txn_id) + (5).to_bytes(8, "big") + packed(1) + packed(lsn)
        file.add(type_no, item[: len(item) - (cut == 2)], flags=flags)
    environment = open_environment([write_log(tmp_path_factory.mktemp("log"), [file])])
    with ranges_of(size):
        assert_segments_are_right(environment, Scanner(threads=1))


def test_segments_are_selected_in_any_order() -> None:
    ids = np.arange(3)
    columns = [ids] * 6, [ids > 0], [ids.astype(np.uint8)], [ids], [ids > 1]
    flat = [column for group in columns for column in group]
    segments = Segments(*flat, np.array([0, 2, 2, 3]), np.array([5, 6, 7]))
    chosen = segments.select(np.array([2, 0]))
    assert chosen.txn_id.tolist() == [2, 0]
    assert (chosen.db_first.tolist(), chosen.db_id.tolist()) == ([0, 1, 3], [7, 5, 6])
    nothing = segments.select(np.empty(0, np.int64))
    assert str(nothing) == str(Segments.none())
