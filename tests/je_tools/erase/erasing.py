"""Erased copies of environments, and the bytes that changed."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from je_tools.erase.options import ErasureOptions
from je_tools.erase.progress import note_progress
from je_tools.erase.results import ErasureHooks, ErasureResult
from je_tools.erase.run import run_erasure
from je_tools.log.scan import Scanner
from je_tools.writing.disk import Disk
from je_tools.writing.lock import EnvironmentLock
from tests.corpus import environments
from tests.truth.headers import ERASED, Header, walk_bytes

CHECKPOINT_FIRST = ErasureOptions(checkpoint_first=True)


def copy_of(name: str, target: Path) -> Path:
    """Copy the log files of an environment."""
    home = next(each.home for each in environments() if each.name == name)
    target.mkdir()
    for path in sorted(home.glob("*.jdb")):
        shutil.copyfile(path, target / path.name)
    return target


def erase(
    home: Path,
    options: ErasureOptions = CHECKPOINT_FIRST,
    hooks: ErasureHooks | None = None,
    *,
    disk: Disk | None = None,
) -> ErasureResult:
    """Erase an environment in place, and record a cycle as the command does."""
    now_ms, scanner, written = time.time_ns() // 1_000_000, Scanner(threads=1), disk or Disk()

    def record(lock: EnvironmentLock, result: ErasureResult) -> None:
        result.state = note_progress(lock, home, scanner, result, now_ms, written)

    hooks = replace(hooks or ErasureHooks(), on_erased=record)
    return run_erasure(home, scanner, options, now_ms, hooks, disk=written)


def log_bytes(home: Path) -> dict[str, bytes]:
    """Return the log files by name."""
    return {path.name: path.read_bytes() for path in sorted(home.glob("*.jdb"))}


def changed_entries(old: dict[str, bytes], new: dict[str, bytes]) -> list[Header]:
    """Return the entries that were erased; assert that nothing else has changed.

    Only the type changes, and the bytes after the header, which become zeros.
    """
    found = []
    assert old.keys() == new.keys()
    for name, data in new.items():
        before, after = (np.frombuffer(each, np.uint8) for each in (old[name], data))
        assert len(before) == len(after)
        allowed = np.zeros(len(after), np.bool_)
        for entry in walk_bytes(data, int(name[:8], 16)):
            start = entry.lsn & 0xFFFFFFFF
            if entry.type_no == ERASED and before[start + 4] != ERASED:
                item = slice(start + entry.header_size, start + entry.size)
                found.append(entry)
                allowed[start + 4] = allowed[item] = True
                assert not after[item].any()
        assert not ((before != after) & ~allowed).any()
    return found
