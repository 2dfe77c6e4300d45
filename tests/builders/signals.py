"""Send a process of `je-tools` signals at its calls of the disk.

If a signal comes at a write, the first half of that is done, in whole sectors: the system copies
page by page.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from je_tools.writing.disk import SECTOR, Disk
from tests.builders.forked import Forked
from tests.builders.power_cuts import Recorder

CALLS = [name for name in vars(Recorder) if name in vars(Disk) and not name.startswith("_")]


def send_at(at: int, number: int) -> None:
    """Let this process get a signal of this number at a call of the disk, from 0 on."""
    count = [0]
    for name in CALLS:
        setattr(Disk, name, _counted(name, at, number, count))


def _counted(name: str, at: int, number: int, count: list[int]) -> Callable[..., Any]:
    whole = getattr(Disk, name)

    def call(self: Disk, path: Path, *values: Any) -> Any:
        count[0] += 1
        if count[0] == at + 1:
            if name == "write":
                offset, data = values
                stop = (offset + len(data) // 2) // SECTOR * SECTOR
                whole(self, path, offset, data[: max(stop - offset, 0)])
            os.kill(os.getpid(), number)
        return whole(self, path, *values)

    return call


def send_two(first: int, second: int) -> None:
    """Let this process get a signal at its first write, and another at each step of its cleanup."""
    sent = []
    write = Disk.write

    def sending(number: int, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*values: Any, **named: Any) -> Any:
            if call is write or sent:
                sent.append(number)
                os.kill(os.getpid(), number)
            return call(*values, **named)

        return called

    changed = ((Disk, "write", first), (Disk, "close", second), (shutil, "rmtree", second))
    for owner, name, number in changed:
        setattr(owner, name, sending(number, getattr(owner, name)))


def run_signalled(forked: Forked, at: int, number: int, *arguments: str | Path) -> tuple[int, str]:
    """Run je-tools, and return its exit code, or minus the signal, and its standard error.

    Args:
        forked: runs it.
        at: index of the call of the disk at which it gets the signal.
        number: number of the signal.
        arguments: arguments of je-tools.
    """
    before = (__name__, send_at.__name__, at, int(number))
    ended = forked.run("je-tools", *arguments, before=before)
    return ended.returncode, ended.stderr.decode()
