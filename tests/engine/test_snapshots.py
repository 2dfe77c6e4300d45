"""What our snapshot says of crashed logs, beside the engine that recovers them.

Workloads, crash points and seeds: `workloads`, `crashes`, `campaign`. A difference is no fault of
ours where the replay of the whole log contradicts the engine too, or where the engine gives up, and
in both cases only if a finding has said so beforehand.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.campaign import Judge, Report, run_campaign
from tests.engine.jars import JE_5, JE_18
from tests.engine.snapshots import recovered

FIRST_SEED = 1
PARTS, WORKLOADS, CRASHES = 2, 5, 10
"""One hundred crash points in all."""


def judged(report: Report) -> None:
    print(report)
    assert report.refused < report.cases / 3
    assert report.records > 100 * report.cases
    assert not report.unexplained, report
    assert not report.unforetold, report


@pytest.mark.engine
@pytest.mark.parametrize("part", range(PARTS))
def test_crash_points(part: int, java: Path, class_path: str, tmp_path: Path) -> None:
    first = FIRST_SEED + part * WORKLOADS
    seeds = range(first, first + WORKLOADS)
    judge = Judge(java, class_path, tmp_path)
    judged(run_campaign(judge, recovered, seeds, CRASHES, small=True))


@pytest.mark.exhaustive
@pytest.mark.engine
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("coordinate", "workloads"), [(JE_18, 50), (JE_5, 20)])
def test_many_crash_points(coordinate: str, workloads: int, tmp_path: Path) -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + workloads)
    report = run_campaign(Judge.of(coordinate, tmp_path), recovered, seeds, 25)
    assert report.cases == 25 * workloads
    judged(report)
