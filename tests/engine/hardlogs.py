"""Small logs that are hard on recovery, and where they are cut.

The logs are those of HardLogs.java; each is told by a seed, but for every fourth, whose threads
meet as they like.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from je_tools.formats.je.entries import decode_entry
from tests.engine.crashes import Source
from tests.engine.recovered import FOLDER, QUICK_START
from tests.truth.headers import Header

HARD_LOGS = FOLDER / "HardLogs.java"
HOOKED = "-ea:com.sleepycat.je.recovery.Checkpointer"
"""Assertions of one class: they call the hooks by which there are changes inside checkpoints."""

LONGEST_SECONDS = 1200

IN, BIN, CKPT_START, CKPT_END = 12, 13, 19, 20
MASK = (1 << 32) - 1

CHILD, ROOT = "old root as child", "new root"
"""The windows of `windows`."""


class Cut(NamedTuple):
    """Where a log ends: in which file, and behind how many bytes of it."""

    file_no: int
    offset: int

    def __str__(self) -> str:
        return f"{self.file_no:#x}/{self.offset:#x}"


def write_hard_logs(java: Path, class_path: str, folder: Path, seeds: Sequence[int]) -> list[Path]:
    """Let one process of the engine write the log of each seed; gives their directories.

    Raises:
        RuntimeError: the engine, or what it is told to do, failed; the text is all that it said.
    """
    words = [str(seed) for seed in seeds]
    command = [java, *QUICK_START, HOOKED, "-cp", class_path, "HardLogs", folder, *words]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=LONGEST_SECONDS
    )
    if done.returncode:
        raise RuntimeError(f"seeds {seeds}:\n{done.stderr}")
    return [folder / str(seed) for seed in seeds]


def cuts_of(source: Source) -> list[Cut]:
    """Every border of entries from behind the first CkptStart on, in the order of the log."""
    found: list[Cut] = []
    has_begun = False
    for file_no in sorted(source.files):
        for entry in source.entries(file_no):
            has_begun |= entry.type_no == CKPT_START
            if has_begun:
                found.append(_behind(entry))
    return found


def windows(source: Source) -> dict[Cut, frozenset[str]]:
    """By each border of entries: which windows are open there in which a root changed.

    The root of a database is the node of the newest entry before that is marked as a root.

    `CHILD` opens behind an entry of that node without the mark, unless it is provisional for good
    (YES): an old root is in the log as a child, and its new parent is not. It closes behind the
    next entry of the database with the mark, and behind a CkptEnd.

    `ROOT` opens behind an entry with the mark of another node than the root: the tree has got a new
    root by a split, or because the old one was taken away. It closes behind a CkptEnd: before that
    recovery puts the old root's tree and the new root together.
    """
    found: dict[Cut, frozenset[str]] = {}
    roots: dict[int, int] = {}
    open_: dict[str, set[int]] = {CHILD: set(), ROOT: set()}
    for file_no in sorted(source.files):
        for entry in source.entries(file_no):
            if entry.type_no in (IN, BIN):
                _note(source.files[file_no], entry, roots, open_)
            elif entry.type_no == CKPT_END:
                for databases in open_.values():
                    databases.clear()
            found[_behind(entry)] = frozenset(name for name, some in open_.items() if some)
    return found


def _note(data: bytes, entry: Header, roots: dict[int, int], open_: dict[str, set[int]]) -> None:
    """What one node does to the windows."""
    start = entry.lsn & MASK
    fields = decode_entry(data[start : start + entry.size], entry.version).fields
    database, node = fields["db_id"], fields["node_id"]
    known = roots.get(database)
    if fields["booleans"] & 1:
        open_[CHILD].discard(database)
        if known not in (None, node):
            open_[ROOT].add(database)
        roots[database] = node
    elif node == known and entry.provisional != "YES":
        open_[CHILD].add(database)


def _behind(entry: Header) -> Cut:
    return Cut(entry.lsn >> 32, (entry.lsn & MASK) + entry.size)
