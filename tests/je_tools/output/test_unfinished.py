"""Outputs on their way to their path: nobody else can read them, and none is left for long."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from je_tools.output.files import unfinished
from je_tools.output.files.unfinished import unfinished_file, unfinished_folder
from tests.corpus import FIXTURES
from tests.damage.running import je_tools

HOME = FIXTURES / "v17-dups" / "env"
LOST = ("missing", HOME, "--without", "0")
FILES = {
    "count": ("count", HOME),
    "databases": ("databases", HOME),
    "diff": ("diff", FIXTURES / "v17-basic" / "env", HOME),
    "dump": ("dump", HOME),
    "dump parquet": ("dump", HOME, "--format", "parquet"),
    "export": ("export", HOME, "--db", "visits"),
    "files": ("files", HOME),
    "get": ("get", HOME, "hex:*", "--db", "visits"),
    "get history": ("get", HOME, "hex:*", "--db", "visits", "--history"),
    "missing": LOST,
    "space": ("space", HOME),
    "summary": ("summary", HOME),
    "verify": ("verify", HOME),
}
MODES_OF = ("count", "dump parquet")
"""Those of FILES of which `make test` tries each mode."""

FOLDERS = {
    "dump": ("dump", HOME, "--format", "parquet", "--parts"),
    "export": ("export", HOME, "--all"),
    "salvage": ("salvage", HOME),
}

MANY = pytest.mark.exhaustive


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


MODES = (
    (0o022, (), 0o600),
    (0o077, ("--file-mode", "644"), 0o644),
    (0, (), 0o600),
    (0o277, (), 0o400),
    (0, ("--file-mode", "0400"), 0o400),
)


@pytest.mark.parametrize(
    ("name", "mask", "options", "expected"),
    [
        # One function gives all outputs their mode; each command passes the option to it.
        pytest.param(name, *mode, marks=[MANY] if at > 1 and name not in MODES_OF else [])
        for name in FILES
        for at, mode in enumerate(MODES)
    ],
)
def test_only_the_owner_may_read_a_file(
    name: str, mask: int, options: tuple[str, ...], expected: int, tmp_path: Path
) -> None:
    out, findings = tmp_path / "out", tmp_path / "findings"
    more = ("--findings", findings) if name in ("count", "get", "missing") else ()
    with umask(mask):
        done = je_tools(*FILES[name], "--output", out, *more, *options)
    assert done.code in (0, 3), done.err
    assert {mode_of(path) for path in tmp_path.iterdir()} == {expected}
    assert {path.name for path in tmp_path.iterdir()} == {"out", *(["findings"] if more else [])}


@pytest.mark.parametrize(
    ("mask", "options", "expected"),
    [(0o022, (), 0o644), (0o027, (), 0o640), (0o022, ("--file-mode", "600"), 0o600)],
)
def test_totals_and_manifest_have_the_mode_of_the_umask(
    mask: int, options: tuple[str, ...], expected: int, tmp_path: Path
) -> None:
    """They hold no records, and a collector of metrics may be another user."""
    files = ("--stats", tmp_path / "stats", "--manifest", tmp_path / "manifest")
    with umask(mask):
        assert je_tools("verify", FIXTURES / "v17-basic" / "env", *files, *options).code == 0
    assert [mode_of(path) for path in tmp_path.iterdir()] == [expected] * 2


@pytest.mark.parametrize(
    ("mask", "options", "file", "folder"),
    [
        (0o022, (), 0o600, 0o700),
        (0o077, ("--file-mode", "640"), 0o640, 0o750),
        (0, ("--file-mode", "444"), 0o444, 0o555),
    ],
)
@pytest.mark.parametrize("name", FOLDERS)
def test_only_the_owner_may_list_a_directory(
    name: str, mask: int, options: tuple[str, ...], file: int, folder: int, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with umask(mask):
        assert je_tools(*FOLDERS[name], "--output", out, *options).code == 0
    assert mode_of(out) == folder
    assert {mode_of(path) for path in out.iterdir()} == {file}
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("text", ["", "8", "rw", "1000", "-1", "0o600"])
def test_permissions_that_are_none(text: str, tmp_path: Path) -> None:
    done = je_tools("count", HOME, "--output", tmp_path / "out", "--file-mode", text)
    assert done.code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [unfinished_file, unfinished_folder])
def test_nobody_reads_what_is_being_written(make: object, tmp_path: Path) -> None:
    with umask(0), make(tmp_path / "out") as beside:  # type: ignore[operator]
        assert mode_of(beside) & 0o077 == 0
        assert list(tmp_path.iterdir()) == [beside]
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from je_tools.output.files.unfinished import unfinished_file, unfinished_folder
with unfinished_file(Path(sys.argv[1])) as file, unfinished_folder(Path(sys.argv[1])) as folder:
    file.write_bytes(b"half of the records")
    (folder / "part").write_bytes(b"half of the records")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_has_left_is_removed_by_the_next(tmp_path: Path) -> None:
    out = tmp_path / "out"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(out)], check=False)
    assert killed.returncode == -signal.SIGKILL
    left = sorted(tmp_path.iterdir())
    assert [path.is_dir() for path in left] == [True, False]
    # Another output is not concerned.
    assert je_tools("count", HOME, "--output", tmp_path / "other").code == 0
    assert set(left) < set(tmp_path.iterdir())
    assert je_tools("count", HOME, "--output", out).code == 0
    assert set(tmp_path.iterdir()) == {out, tmp_path / "other", left[0]}
    out.unlink()
    assert je_tools("export", HOME, "--all", "--output", out).code == 0
    assert set(tmp_path.iterdir()) == {out, tmp_path / "other"}


@pytest.mark.parametrize("make", [unfinished_file, unfinished_folder])
def test_what_another_run_writes_stays(make: object, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with make(out) as first:  # type: ignore[operator]
        with make(out) as second:  # type: ignore[operator]
            assert first != second
            assert first.exists()
            assert second.exists()
        assert first.exists()
        assert je_tools("count", HOME, "--output", out).code == 0
        assert first.exists()
    assert list(tmp_path.iterdir()) == [out]


def test_what_is_nobodys_output_stays(tmp_path: Path) -> None:
    """A link is not followed; a file system without locks shows nothing."""
    out, precious = tmp_path / "out", tmp_path / "precious"
    precious.write_bytes(b"precious")
    with unfinished_file(out) as beside:
        pass
    beside.symlink_to(precious)
    with unfinished_file(out) as other:
        assert other != beside
        other.write_bytes(b"records")
    assert precious.read_bytes() == b"precious"
    assert beside.is_symlink()


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr(fcntl, "flock", refuse)
    out = tmp_path / "out"
    with unfinished_file(out) as first, unfinished_file(out) as second:
        assert first != second
        assert first.exists()
        assert second.exists()


def test_a_run_that_is_removed_between_making_and_locking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, calls = fcntl.flock, []

    def removing(number: int, operation: int) -> None:
        if not calls:
            for path in tmp_path.iterdir():
                shutil.rmtree(path)
        calls.append(operation)
        flock(number, operation)

    monkeypatch.setattr(unfinished.fcntl, "flock", removing)
    with unfinished_folder(tmp_path / "out") as beside:
        assert list(tmp_path.iterdir()) == [beside]
    assert len(calls) == 2
