"""Disks that refuse what is written, or do not keep it."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from je_tools.erase.completion import complete_erasure
from je_tools.erase.options import ErasureOptions
from je_tools.erase.results import ErasureHooks
from je_tools.errors import RefusedError
from je_tools.log.scan import Scanner
from je_tools.writing.disk import Disk
from tests.damage.running import je_tools, states
from tests.je_tools.erase.erasing import copy_of, erase, log_bytes
from tests.je_tools.snapshots import codes_of, snapshot_of
from tests.truth.headers import ERASED

JUST_ERASE = ErasureOptions()
LOG = "v17-erase-after"


class ForgetfulDisk(Disk):
    """A disk on which no byte of a file changes to a given value."""

    def __init__(self, forgotten: int) -> None:
        super().__init__()
        self.forgotten = forgotten

    def write(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        old = path.read_bytes()[offset : offset + len(data)]
        pairs = zip(old, bytes(data), strict=True)
        kept = [was if new == self.forgotten else new for was, new in pairs]
        super().write(path, offset, bytes(kept))


class ReadOnlyDisk(Disk):
    """A disk that is mounted to be read only."""

    def _refuse(self, path: Path) -> OSError:
        return OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    def create(self, path: Path, like: os.stat_result) -> None:
        raise self._refuse(path)

    def write(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        raise self._refuse(path)


@pytest.mark.parametrize(
    ("forgotten", "what"),
    [(0, "bytes that were overwritten are not zero"), (ERASED, "the entry is not what it should")],
)
def test_bytes_that_the_disk_does_not_keep_are_noticed(
    forgotten: int, what: str, tmp_path: Path
) -> None:
    """They are read back: zeros, and the types before them."""
    home = copy_of("v26-dbops", tmp_path / "env")
    erase(home, hooks=ErasureHooks(should_stop=lambda: True))
    whole = Path(shutil.copytree(home, tmp_path / "whole"))
    with pytest.raises(RefusedError, match=what):
        erase(home, JUST_ERASE, disk=ForgetfulDisk(forgotten))
    # On another disk the erasure continues.
    assert (complete_erasure(home, Scanner(threads=1)).entry_count > 0) is (forgotten == 0)
    if forgotten == 0:
        erase(home, JUST_ERASE)
        erase(whole, JUST_ERASE)
        assert log_bytes(home) == log_bytes(whole)


@pytest.mark.parametrize("has_lock_file", [True, False])
def test_a_disk_that_is_read_only(has_lock_file: bool, tmp_path: Path) -> None:
    home = copy_of(LOG, tmp_path / "env")
    if has_lock_file:
        (home / "je.lck").touch()
    old = log_bytes(home)
    with pytest.raises(RefusedError, match="Read-only file system"):
        erase(home, JUST_ERASE, disk=ReadOnlyDisk())
    assert log_bytes(home) == old
    assert codes_of(snapshot_of(home)) == []


@contextmanager
def as_nobody() -> Iterator[None]:
    """Give up the rights of root, to whom permissions mean nothing."""
    user_id = os.geteuid()
    if user_id:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user_id)


@pytest.fixture
def sealed() -> Iterator[Path]:
    """Return a log in a directory in which nobody may write, below ones that all may read."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        home = copy_of(LOG, Path(folder) / "env")
        for path in home.iterdir():
            path.chmod(0o444)
        home.chmod(0o555)
        yield home
        home.chmod(0o755)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("plan",), 0),
        (("status",), 0),
        (("run", "--checkpoint-first"), 0),
        (("resume",), 0),
        (("prove", "--key", "user0000012"), 3),
        (("subject", "--key", "user0000012", "--delete-live"), 3),
        (("run", "--apply"), 6),
        (("resume", "--apply"), 6),
        (("abort", "00000000.jdb"), 6),
        (("subject", "--key", "user0000012", "--delete-live", "--apply"), 6),
    ],
)
def test_a_directory_that_is_read_only(
    words: tuple[str, ...], code: int, sealed: Path, tmp_path: Path
) -> None:
    """Commands that write nothing work there, and all others say why they do not."""
    # Modules are loaded on demand, perhaps from where nobody may read.
    je_tools("erase", words[0], shutil.copytree(sealed, tmp_path / "env"), *words[1:])
    before = states(sealed)
    with as_nobody():
        done = je_tools("erase", words[0], sealed, *words[1:])
    assert done.code == code, done.err
    assert ("Permission denied" in done.err) is (code == 6)
    assert states(sealed) == before
