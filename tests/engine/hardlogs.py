"""Small logs that are hard on recovery, and the places where they are cut.

HardLogs.java writes a log for each seed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from je_tools.formats.je.entry.entries import decode_entry
from tests.engine.crashes import Source
from tests.engine.recovered import QUICK_START
from tests.truth.headers import Header

HOOKED = "-ea:com.sleepycat.je.recovery.Checkpointer"
"""Assertions of one class, which call the hooks that make changes inside checkpoints."""

LONGEST_SECONDS = 1200

IN, BIN, CKPT_START, CKPT_END = 12, 13, 19, 20
MASK = (1 << 32) - 1

CHILD, ROOT = "old root as child", "new root"
"""Windows that `windows` returns."""


class Cut(NamedTuple):
    """The end of a log: the number of its last file, and the bytes of that file."""

    file_no: int
    offset: int

    def __str__(self) -> str:
        return f"{self.file_no:#x}/{self.offset:#x}"


def write_hard_logs(java: Path, class_path: str, folder: Path, seeds: Sequence[int]) -> list[Path]:
    """Write the log of each seed in one process, and return the directories.

    Raises:
        RuntimeError: the engine or the workload failed; the text is the output.
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
    """Return every end of an entry after the first CkptStart, in the order of the log."""
    found: list[Cut] = []
    has_begun = False
    for file_no in sorted(source.files):
        for entry in source.entries(file_no):
            has_begun |= entry.type_no == CKPT_START
            if has_begun:
                found.append(_behind(entry))
    return found


def windows(source: Source) -> dict[Cut, frozenset[str]]:
    """Return the windows of root changes that are open at each end of an entry.

    The root of a database is the node of the newest earlier entry that has the root mark.

    `CHILD`: recovery replays an entry of the root without the mark. The log holds an old root as
    a child, and not yet its new parent. The window opens after such an entry, unless that is
    provisional for good (YES). It closes after an entry of another root. If the entry is
    BEFORE_CKPT_END, it also closes after the CkptEnd of the same checkpoint, else after that of
    the next one that begins after the entry.

    `ROOT` opens after an entry with the mark of another node than the root: a split has made a
    new root. It closes after a CkptEnd. Until then the descriptor may name the old root.
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
    """State of the windows after some entries of a log.

    Attributes:
        roots: ids of root nodes by database.
        children: entries of these nodes without the mark, by database. The flag marks entries
            that are provisional until the end of the checkpoint.
        new: databases with a new root since the last CkptEnd.
    """

    roots: dict[int, int] = field(default_factory=dict)
    children: dict[int, list[tuple[int, bool]]] = field(default_factory=dict)
    new: set[int] = field(default_factory=set)

    @property
    def open(self) -> frozenset[str]:
        """The open windows."""
        is_open = {CHILD: any(self.children.values()), ROOT: bool(self.new)}
        return frozenset(name for name, some in is_open.items() if some)

    def node(self, entry: Header, fields: Mapping[str, Any]) -> None:
        """Process the next entry, a node."""
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
        """Process the next entry, a CkptEnd."""
        self.new.clear()
        for database, entries in self.children.items():
            kept = [each for each in entries if each[0] >= start_lsn and not each[1]]
            self.children[database] = kept


def _behind(entry: Header) -> Cut:
    return Cut(entry.lsn >> 32, (entry.lsn & MASK) + entry.size)
