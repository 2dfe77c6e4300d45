"""The real engine takes what `recover --apply` writes: crash points of stress, and the corpus."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from je_tools.checkpoint.apply import Orders, apply_checkpoint
from je_tools.errors import InputError, RefusedError
from je_tools.scan import Scanner
from tests.engine.acceptance import Judge, WriteRefusedError
from tests.engine.acceptances import Write, read_by, run_acceptances, run_corpus
from tests.engine.jars import JE_5, JE_18

SMALL_FILES = 60_000
"""Bytes of a file, so that what is written begins new ones."""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with Judge.of(JE_18, tmp_path_factory.mktemp("judge") / "new") as made:
        yield made


@pytest.fixture(scope="module")
def old_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with Judge.of(JE_5, tmp_path_factory.mktemp("judge") / "old") as made:
        yield made


def recover(file_max: int | None) -> Write:
    """What `je-tools recover --apply` does; every other directory is read with kernels."""

    def write(home: Path) -> None:
        scanner = Scanner(threads=1, fast=sum(home.name.encode()) % 2 == 1)
        now_ms = time.time_ns() // 1_000_000
        try:
            apply_checkpoint(home, scanner, Orders(cuts=True, file_max=file_max), now_ms)
        except (RefusedError, InputError) as error:
            raise WriteRefusedError(str(error)) from error

    return write


@pytest.mark.engine
@pytest.mark.parametrize(("seed", "file_max"), [(101, None), (102, SMALL_FILES)])
def test_crash_points(judge: Judge, seed: int, file_max: int | None) -> None:
    report = run_acceptances(judge, recover(file_max), [seed], 8, small=True)
    print(report)
    assert report.cases == 8
    assert not report.refused, report


@pytest.mark.engine
def test_crash_points_of_an_old_engine(old_judge: Judge) -> None:
    report = run_acceptances(old_judge, recover(None), [103], 5, small=True, ttl=False)
    print(report)
    assert report.cases == 5
    assert not report.refused, report


@pytest.mark.exhaustive
@pytest.mark.engine
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("coordinate", [JE_18, JE_5])
@pytest.mark.parametrize("file_max", [None, SMALL_FILES])
def test_many_crash_points(coordinate: str, file_max: int | None, tmp_path: Path) -> None:
    with Judge.of(coordinate, tmp_path / "judge") as judge:
        ttl = coordinate != JE_5
        report = run_acceptances(judge, recover(file_max), range(111, 121), 20, ttl=ttl)
    print(report)
    assert report.cases == 200
    assert not report.refused, report


@pytest.mark.exhaustive
@pytest.mark.engine
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("coordinate", [JE_18, JE_5])
def test_the_corpus(coordinate: str, tmp_path: Path) -> None:
    with Judge.of(coordinate, tmp_path / "judge") as judge:
        report = run_corpus(judge, recover(None), read_by(coordinate))
    print(report)
    assert report.cases
    assert not report.refused, report
