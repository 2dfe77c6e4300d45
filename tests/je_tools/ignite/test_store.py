"""Paths in results are those below the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.ignite.store import path_below


@pytest.mark.parametrize(
    ("path", "root", "shown"),
    [
        ("/data/work/db/node1", "/data/work", "db/node1"),
        ("/data/work", "/data/work", "."),
        ("/data/workspace/db", "/data/work", "/data/workspace/db"),
        ("/archive/node1/0.wal", "/data/work", "/archive/node1/0.wal"),
        ("db/node1", ".", "db/node1"),
        ("/db/node1", "/", "db/node1"),
    ],
)
def test_paths_are_shown_below_the_store(path: str, root: str, shown: str) -> None:
    assert path_below(Path(path), Path(root)) == shown
    assert path_below(Path(path), root) == shown
