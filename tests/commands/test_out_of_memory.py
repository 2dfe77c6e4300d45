"""Too little memory: a clear message, and never damage of the files that are read."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from je_tools.errors import EXIT_REFUSED
from je_tools.formats.files import source
from je_tools.formats.files.source import as_source_errors
from je_tools.writing.disk import Disk
from tests.builders.ignite import write_checkpointed_store
from tests.builders.ignite_recovery import write_unfinished_store
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools
from tests.je_tools.erase.erasing import copy_of, stopped_in_kind


def _fail(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


@pytest.mark.parametrize("verb", [("wal", "verify"), ("recover",), ("checkpoints",)])
def test_memory_that_is_missing_is_no_damage(
    verb: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpointed_store(tmp_path)
    monkeypatch.setattr(source, "_BUFFERS", source._Buffers())
    monkeypatch.setattr(mmap, "mmap", _fail)
    done = je_tools("ignite", *verb, tmp_path, "--threads", "1")
    assert (done.code, done.out) == (EXIT_REFUSED, b"")
    assert done.err.startswith("je-tools: out of memory")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("can't start new thread"), OSError(errno.ENOMEM, "")]
)
def test_any_lack_of_memory_has_one_message(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr("je_tools.ignite.store.open_store", failing)
    done = je_tools("ignite", "wal", "verify", tmp_path)
    assert done.code == EXIT_REFUSED
    assert "ulimit -v" in done.err


def test_a_file_without_memory_is_no_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(MemoryError), as_source_errors(tmp_path):
        _fail()


def _fixture(name: str) -> Any:
    return lambda home: shutil.copytree(FIXTURES / name / "env", home)


CHANGES: dict[str, tuple[Any, list[tuple[str, ...]], int, str]] = {
    "recover": (
        _fixture("v17-crash-txn"),
        [("recover",)],
        3,
        "`je-tools undo {} --apply` reverts it",
    ),
    "undo": (
        _fixture("v17-crash-txn"),
        [("recover",), ("undo",)],
        3,
        "the undo is not finished: run `je-tools undo {} --apply` again",
    ),
    "begin of erase": (_fixture("v17-erase-after"), [("erase", "run")], 1, "nothing was erased"),
    "erase": (
        _fixture("v17-erase-after"),
        [("erase", "run")],
        9,
        "1 file erased, and the engine opens the log as it is: run `je-tools erase run {} --apply`",
    ),
    "resume": (
        lambda home: stopped_in_kind(copy_of("v8-dbops", home)),
        [("erase", "resume")],
        1,
        "run `je-tools erase resume {} --apply` again",
    ),
    "ignite recover": (
        write_unfinished_store,
        [("ignite", "recover")],
        3,
        "`je-tools ignite undo {}/db/node1 --apply` reverts it",
    ),
    "ignite undo": (
        write_unfinished_store,
        [("ignite", "recover"), ("ignite", "undo")],
        3,
        "the undo is not finished: run `je-tools ignite undo {}/db/node1 --apply` again",
    ),
}
"""A function that makes the files, commands of which the last fails at a sync, and its text."""


@pytest.mark.parametrize("name", CHANGES)
def test_the_state_of_what_was_half_written_is_told(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, verbs, at, told = CHANGES[name]
    home = make(tmp_path / "home")
    sync, calls = Disk.sync, [0]

    def failing(self: Disk, path: Path) -> None:
        calls[0] += 1
        if calls[0] == at:
            raise MemoryError
        sync(self, path)

    for verb in verbs[:-1]:
        je_tools(*verb, home, "--apply")
    monkeypatch.setattr(Disk, "sync", failing)
    done = je_tools(*verbs[-1], home, "--apply")
    assert (done.code, done.out) == (EXIT_REFUSED, b"")
    said = done.err.splitlines()[-1]
    assert said.startswith("je-tools: out of memory")
    assert told.format(home) in said
