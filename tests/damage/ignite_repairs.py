"""Repairs of mutated stores: they can be made, leave nothing more to repair, and be undone."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from je_tools.errors import InputError
from je_tools.ignite.repairs.log_plan import plan_log_repairs
from je_tools.ignite.repairs.session import StoreSession
from je_tools.ignite.store import Node, open_store
from tests.builders.power_cuts import Recorder
from tests.je_tools.ignite.repairs.operations import digests, put_back

ROUNDS = 3
"""Largest number of times that a store is repaired: a marker is judged once the log is whole."""


def check_repairs(home: Path) -> None:
    """Repair a copy of a store until nothing is left to repair, and put everything back."""
    with tempfile.TemporaryDirectory() as made:
        root = Path(shutil.copytree(home, Path(made, "store")))
        lock = root / "db" / "node1" / "lock"
        if not lock.parent.is_dir():
            return
        lock.touch()
        before = digests(root)
        done = 0
        while _repaired(root):
            done += 1
            assert done <= ROUNDS
        for _ in range(done):
            put_back(root)
        assert digests(root) == before


def _repaired(root: Path) -> bool:
    node = _node(root)
    try:
        with StoreSession(node, Recorder()) as session:
            edits = plan_log_repairs(node, 1).edits
            return session.apply(edits, "recover") is not None
    except InputError:
        return False


def _node(root: Path) -> Node:
    return open_store([root], ["node1"]).nodes[0]
