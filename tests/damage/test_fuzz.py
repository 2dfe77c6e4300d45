"""Some inputs of the fuzz run; `make fuzz` runs a hundred thousand, with more checks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpus import ROOT
from tests.damage.fuzz import check, failure_of
from tests.damage.mutate import make_input

SEED, SHARES, SHARE = 0, 4, 100
MANY = 20_000


@pytest.mark.parametrize("share", range(SHARES))
def test_no_input_is_too_much(share: int, tmp_path: Path) -> None:
    for number in range(share * SHARE, (share + 1) * SHARE):
        try:
            check(SEED, number, tmp_path)
        except Exception as error:
            error.add_note(f"again: make fuzz FUZZ='--seed {SEED} --only {number}'")
            raise


def test_an_input_is_told_by_its_number() -> None:
    for number in range(200):
        assert make_input(7, number) == make_input(7, number)
    assert make_input(7, 1) != make_input(8, 1)


def test_a_failure_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise IndexError("index 8 is out of bounds")

    monkeypatch.setattr("tests.damage.fuzz.judge", broken)
    failure = failure_of(SEED, 3, tmp_path)
    assert failure is not None
    assert failure.number == 3
    assert "index 8" in failure.text
    assert "in broken" in failure.place
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(5400)
def test_many_inputs(tmp_path: Path) -> None:
    """Judge a part of what `make fuzz` judges."""
    words = ["--seed", "9", "--inputs", str(MANY), "--keep", tmp_path / "kept"]
    command = [sys.executable, "-m", "tests.damage.fuzz", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{MANY:,} inputs" in done.stdout
