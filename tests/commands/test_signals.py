"""More than one signal: the first ends a command, and no other interrupts its cleanup."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.builders.forked import Forked
from tests.builders.signals import send_two
from tests.corpus import FIXTURES

CRASHED = FIXTURES / "v17-crash-txn" / "env"

INT, TERM = signal.SIGINT, signal.SIGTERM


@pytest.mark.parametrize(
    ("first", "second", "code", "word"),
    [
        (INT, INT, 130, "interrupted"),
        (INT, TERM, 130, "interrupted"),
        (TERM, INT, 143, "terminated"),
        (TERM, TERM, 143, "terminated"),
    ],
)
@pytest.mark.parametrize("is_copy", [True, False])
def test_what_is_put_in_order_is_not_interrupted(
    is_copy: bool, first: int, second: int, code: int, word: str, tmp_path: Path, forked: Forked
) -> None:
    home = Path(shutil.copytree(CRASHED, tmp_path / "env"))
    words = [home, *(["--output", tmp_path / "copy"] if is_copy else [])]
    sending = (send_two.__module__, send_two.__name__, int(first), int(second))
    done = forked.run("je-tools", "recover", "--apply", *words, before=sending)
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"{word}; {tmp_path / 'copy' if is_copy else 'nothing was changed'}")
    assert [path.name for path in tmp_path.iterdir()] == ["env"]
    assert not list(home.glob(".je-tools*"))
