"""Small logs that are hard on recovery, and where they are cut.

The logs are those of HardLogs.java; each is told by a seed, but for every fourth, whose threads
meet as they like.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

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
    command: list[str | Path] = [java, *QUICK_START, HOOKED, "-cp", class_path, "HardLogs", folder]
    command += [str(seed) for seed in seeds]
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

    `CHILD`: among the entries that recovery replays is one of a root, without the mark. An old root
    is in the log as a child, and its new parent is not. It opens behind such an entry that is not
    provisional for good (YES). It closes behind an entry of another root, and behind the CkptEnd
    of the same checkpoint if the entry is provisional until then, else behind that of the next.

    `ROOT` opens behind an entry with the mark of another node than the root: a split has given the
    tree a new one. It closes behind a CkptEnd: until then the descriptor may name the old one.
    """
    found: dict[Cut, frozenset[str]] = {}
    state = _Roots()
    for file_no in sorted(source.files):
        for entry in source.entries(file_no):
            start = entry.lsn & MASK
            if entry.type_no in (IN, BIN, CKPT_END):
                data = source.files[file_no][start : start + entry.size]
                fields = decode_entry(data, entry.version).fields
                if entry.type_no == CKPT_END:
                    state.checkpoint(fields["ckpt_start_lsn"])
                else:
                    state.node(entry, fields)
            found[_behind(entry)] = state.open
    return found


@dataclass
class _Roots:
    """The windows as they are behind some entries of a log.

    Attributes:
        roots: ids of the nodes that are roots, by database.
        children: entries of these without the mark, by database: LSN, and whether it is
            provisional until the end of the checkpoint.
        new: databases whose root has changed since the last CkptEnd.
    """

    roots: dict[int, int] = field(default_factory=dict)
    children: dict[int, list[tuple[int, bool]]] = field(default_factory=dict)
    new: set[int] = field(default_factory=set)

    @property
    def open(self) -> frozenset[str]:
        """What is open here."""
        is_open = {CHILD: any(self.children.values()), ROOT: bool(self.new)}
        return frozenset(name for name, some in is_open.items() if some)

    def node(self, entry: Header, fields: Mapping[str, Any]) -> None:
        """A node comes next."""
        database, node = fields["db_id"], fields["node_id"]
        known = self.roots.get(database)
        if fields["booleans"] & 1:
            if known not in (None, node):
                self.new.add(database)
            if known != node:
                self.children.pop(database, None)
            self.roots[database] = node
        elif node == known and entry.provisional != "YES":
            is_until_end = entry.provisional == "BEFORE_CKPT_END"
            self.children.setdefault(database, []).append((entry.lsn, is_until_end))

    def checkpoint(self, start_lsn: int) -> None:
        """A CkptEnd comes next."""
        self.new.clear()
        for database, entries in self.children.items():
            kept = [each for each in entries if each[0] >= start_lsn and not each[1]]
            self.children[database] = kept


def _behind(entry: Header) -> Cut:
    return Cut(entry.lsn >> 32, (entry.lsn & MASK) + entry.size)
