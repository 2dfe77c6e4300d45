"""Too little memory: a clear message, and never damage of the files that are read."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path
from typing import Any

import pytest

from je_tools.errors import EXIT_REFUSED
from je_tools.formats.files import source
from je_tools.formats.files.source import as_source_errors
from tests.builders.ignite import write_checkpointed_store
from tests.je_tools.dumped import je_tools


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
