"""The engine accepts erased logs: crash points of stress, the corpus, and groups of nodes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from je_tools.checkpoint.apply import apply_checkpoint
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.erase.options import ErasureOptions
from je_tools.erase.run import run_erasure
from je_tools.errors import InputError, RefusedError
from je_tools.log.scan import Scanner
from tests.engine.acceptance import Judge, WriteRefusedError
from tests.engine.acceptances import Write, read_by, run_acceptances, run_corpus
from tests.engine.jars import JE_18

pytestmark = pytest.mark.engine


def recover_and_erase(erased: list[int]) -> Write:
    """Return a writer that recovers a log, and then erases what it can.

    Args:
        erased: the number of entries overwritten in each log is added to it.
    """

    def write(home: Path) -> None:
        scanner, now_ms = Scanner(threads=1), time.time_ns() // 1_000_000
        try:
            apply_checkpoint(home, scanner, CheckpointOptions(cuts=True, force=True), now_ms)
        except (RefusedError, InputError) as error:
            raise WriteRefusedError(str(error)) from error
        for journal in sorted(home.glob(".je-tools-undo/*/*")):
            journal.unlink()
            journal.parent.rmdir()
        options = ErasureOptions(checkpoint_first=True, force=True)
        try:
            result = run_erasure(home, scanner, options, now_ms)
        except RefusedError as error:
            if "without a Commit or an Abort" not in str(error):
                raise
            # A transaction of the group ends when the node joins it.
            return
        assert result.left is not None
        assert result.left.totals.erase_count == 0
        erased.append(result.counts.entry_count)

    return write


def test_crash_points(judge: Judge) -> None:
    erased: list[int] = []
    report = run_acceptances(judge, recover_and_erase(erased), [201], 6, small=True)
    print(report, erased)
    assert report.cases == 6
    assert not report.refused, report
    assert sum(erased) > 1000


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(210, 240, 3))
def test_many_crash_points(judge: Judge, seed: int) -> None:
    erased: list[int] = []
    report = run_acceptances(judge, recover_and_erase(erased), range(seed, seed + 3), 10)
    print(report, erased)
    assert not report.refused, report


@pytest.mark.exhaustive
def test_the_corpus(judge: Judge) -> None:
    erased: list[int] = []
    chosen = [each for each in read_by(JE_18) if each.name.startswith("v17-")]
    report = run_corpus(judge, recover_and_erase(erased), chosen)
    print(report, erased)
    assert not report.refused, report
