"""Our snapshot of crashed logs, compared with the engine that recovers them.

Workloads, crash points and seeds: `workloads`, `crashes`, `campaign`. A difference is no fault of
ours if the replay of the whole log contradicts the engine, too, or if the engine gives up; in both
cases a finding must have warned of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.formats.je.header import FILE_HEADER_SIZE
from tests.corpus import environment
from tests.engine.campaign import Difference, Judge, Report, run_campaign
from tests.engine.comparison import REASONS, UNCHECKED, compare
from tests.engine.jars import JE_5, JE_18
from tests.engine.recovered import Engine
from tests.engine.snapshots import recovered
from tests.truth.contents import Refusal

FIRST_SEED = 1
NOW_MS = 1_750_000_000_000
PARTS, APART, WORKLOADS, CRASHES = 2, 5, 2, 9
"""Crash points of the workloads 1, 2, 6 and 7, but not of 4, in which JE spoils an expiration."""


def judged(report: Report) -> None:
    print(report)
    assert report.refused < report.cases / 3
    assert report.records > 100 * report.cases
    assert not [each for each in report.unforetold if not is_spoilt(each)], report


def is_spoilt(difference: Difference) -> bool:
    """Return whether the replay sides with us on records that expire.

    JE 18.3.12 computes expirations in 32 bits: it may keep or lose a record without a trace in the
    nodes, more or less often by the hour of the day.
    """
    return difference.found.database == "ttl" and difference.replayed == "snapshot"


@pytest.mark.engine
@pytest.mark.parametrize("part", range(PARTS))
def test_crash_points(
    part: int, java: Path, class_path: str, engines: dict[str, Engine], tmp_path: Path
) -> None:
    first = FIRST_SEED + part * APART
    seeds = range(first, first + WORKLOADS)
    judge = Judge(java, class_path, tmp_path, engines[JE_18])
    report = run_campaign(judge, recovered, seeds, CRASHES, small=True)
    judged(report)
    assert not report.unexplained, report


@pytest.mark.engine
@pytest.mark.parametrize("size", [1, FILE_HEADER_SIZE - 1, FILE_HEADER_SIZE, FILE_HEADER_SIZE + 1])
@pytest.mark.parametrize("is_flipped", [False, True])
def test_a_log_that_ends_at_its_first_header(
    size: int, is_flipped: bool, engines: dict[str, Engine], tmp_path: Path
) -> None:
    """The engine has one reason to refuse it if the header is good, else another."""
    logged = bytearray((environment("v17-basic").home / "00000000.jdb").read_bytes()[:size])
    logged[size // 2] ^= is_flipped
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000.jdb").write_bytes(logged)
    told = recovered(tmp_path / "ours", NOW_MS).contents
    assert compare(told, engines[JE_18].ask(tmp_path / "theirs", NOW_MS)) is None
    assert isinstance(told, Refusal)
    assert told.reason in REASONS


@pytest.mark.exhaustive
@pytest.mark.engine
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("coordinate", "workloads"), [(JE_18, 50), (JE_5, 20)])
def test_many_crash_points(coordinate: str, workloads: int, tmp_path: Path) -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + workloads)
    with Judge.of(coordinate, tmp_path) as judge:
        report = run_campaign(judge, recovered, seeds, 25)
    assert report.cases == 25 * workloads
    judged(report)
    others = [each for each in report.unexplained if not is_foretold(each)]
    others = [each for each in others if not (coordinate == JE_5 and is_passed(each))]
    assert not others, report


def is_foretold(difference: Difference) -> bool:
    """Return whether the snapshot warned of a difference on which no replay can decide."""
    return bool(difference.warnings) and difference.replayed.startswith("not asked")


def is_passed(difference: Difference) -> bool:
    """Return whether a log is damaged where JE 5.0.73 does not check: see `checks_whole_files`."""
    is_damaged = difference.replayed.startswith("not asked, damage in file")
    return is_damaged and difference.found.group == UNCHECKED
