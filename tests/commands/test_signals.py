"""More than one signal: the first ends a command, and no other interrupts its cleanup."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpus import FIXTURES

CRASHED = FIXTURES / "v17-crash-txn" / "env"

SENDING = """
import os, shutil, signal, sys
from je_tools.commands import main
from je_tools.writing.disk import Disk

sent = []

def sending(number, call):
    def called(*values, **named):
        if call is write or sent:
            sent.append(number)
            os.kill(os.getpid(), number)
        return call(*values, **named)
    return called

write = Disk.write

Disk.write = sending({first}, Disk.write)
shutil.rmtree = sending({second}, shutil.rmtree)
Disk.close = sending({second}, Disk.close)
sys.argv = ["je-tools", "recover", "--apply", *{words}]
main.main()
"""

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
    is_copy: bool, first: int, second: int, code: int, word: str, tmp_path: Path
) -> None:
    home = Path(shutil.copytree(CRASHED, tmp_path / "env"))
    words = [str(home), *(["--output", str(tmp_path / "copy")] if is_copy else [])]
    script = SENDING.format(first=int(first), second=int(second), words=words)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{word}; {tmp_path / 'copy' if is_copy else 'nothing was changed'}")
    assert [path.name for path in tmp_path.iterdir()] == ["env"]
    assert not list(home.glob(".je-tools*"))
