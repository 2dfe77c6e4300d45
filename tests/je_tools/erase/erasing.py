"""Erased copies of environments, and the bytes that changed."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from je_tools.erase.options import ErasureOptions
from je_tools.erase.progress import note_progress
from je_tools.erase.results import ErasureHooks, ErasureResult
from je_tools.erase.run import run_erasure
from je_tools.log.scan import Scanner
from je_tools.writing.disk import Disk
from je_tools.writing.lock import EnvironmentLock
from je_tools.writing.redo_folder import is_unfinished
from tests.builders.power_cuts import KilledError, Recorder
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
    now_ms: int = 0,
) -> ErasureResult:
    """Erase an environment in place, now or at a time, and record a cycle as the command does."""
    now_ms = now_ms or time.time_ns() // 1_000_000
    scanner, written = Scanner(threads=1), disk or Disk()

    def record(lock: EnvironmentLock, result: ErasureResult) -> None:
        result.state = note_progress(lock, home, scanner, result, now_ms, written)

    hooks = replace(hooks or ErasureHooks(), on_erased=record)
    return run_erasure(home, scanner, options, now_ms, hooks, disk=written)


def log_bytes(home: Path) -> dict[str, bytes]:
    """Return the log files by name."""
    return {path.name: path.read_bytes() for path in sorted(home.glob("*.jdb"))}


def all_bytes(home: Path) -> dict[str, bytes]:
    """Return all files below a directory by name."""
    paths = sorted(path for path in home.rglob("*") if path.is_file())
    return {str(path.relative_to(home)): path.read_bytes() for path in paths}


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


def stopped_in_kind(home: Path) -> Path:
    """Erase a log until its redo journal is durable and nothing else is done."""
    erase(home, hooks=ErasureHooks(should_stop=lambda: True))
    trial = shutil.copytree(home, home.with_name("trial"))
    disk = Recorder()
    erase(trial, disk=disk)
    renamed = next(
        i
        for i, call in enumerate(disk.calls)
        if call.path.name == "redo.new" and call.name == "rename"
    )
    with pytest.raises(KilledError):
        erase(home, disk=Recorder(renamed + 2))
    assert is_unfinished(home)
    return home


def marked_copy(target: Path) -> tuple[Path, list[Header], dict[str, bytes]]:
    """Copy a log, and mark what an erasure would overwrite.

    Return the copy, the marked entries, and the log as it is once they are overwritten.
    """
    home, whole = (copy_of("v17-erase-after", target / name) for name in ("env", "whole"))
    erase(whole)
    marked = {name: bytearray(data) for name, data in log_bytes(home).items()}
    entries = changed_entries(log_bytes(home), log_bytes(whole))
    for entry in entries:
        marked[f"{entry.lsn >> 32:08x}.jdb"][(entry.lsn & 0xFFFFFFFF) + 4] = ERASED
    for name, data in marked.items():
        (home / name).write_bytes(data)
    return home, entries, log_bytes(whole)
