"""States of a disk after a power cut, rebuilt from a recording of the calls to it.

Only synced data is certain to be there. Of the rest, any part may be: of the writes to a file any
sectors of 512 bytes (missing ones read as zeros if the file was shorter); sizes without the
bytes, and any size between the synced and the last one; of the names in a folder any changes. A
rename is done completely or not at all.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from je_tools.writing.disk import SECTOR, Disk


class KilledError(BaseException):
    """The process has ended: it does nothing after this."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call to the disk: the method of `Disk`, and its arguments."""

    name: str
    path: Path
    value: Any = None


FIRST_FAILURES = {errno.ENOSPC: 0, None: 1, errno.EIO: 2}
"""First index in a sample of failing calls, for each errno, and for the end of the process."""


def sampled(count: int) -> pytest.MarkDecorator:
    """Return a mark that gives a test `every`: one in so many calls, or each under `test-all`."""
    return pytest.mark.parametrize("every", [count, pytest.param(1, marks=pytest.mark.exhaustive)])


def failures(error: int | None, every: int, calls: range) -> range:
    """Return the indexes of calls that fail, one in so many."""
    return calls[FIRST_FAILURES[error] % every :: every]


@dataclass
class Recorder(Disk):
    """A disk that records each change, and can fail at one.

    Attributes:
        calls: the calls, in order.
        fail_at: index of the call that fails; None for none.
        error: an errno, or None for the end of the process. Before an errno, half a write is done.
    """

    fail_at: int | None = None
    error: int | None = None
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def _note(self, name: str, path: Path, value: Any = None) -> None:
        at = len(self.calls)
        if self.fail_at is not None and at >= self.fail_at:
            if self.error is None:
                raise KilledError
            if at == self.fail_at:
                self.calls.append(Call("failed", path))
                if name == "write":
                    offset, data = value
                    super().write(path, offset, data[: len(data) // 2])
                raise OSError(self.error, os.strerror(self.error), str(path))
        self.calls.append(Call(name, path, value))

    def create(self, path: Path, like: os.stat_result) -> None:
        self._note("create", path)
        super().create(path, like)

    def write(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        self._note("write", path, (offset, bytes(data)))
        super().write(path, offset, data)

    def truncate(self, path: Path, size: int) -> None:
        self._note("truncate", path, size)
        super().truncate(path, size)

    def sync(self, path: Path) -> None:
        # A test never loses power, so the real sync is not needed.
        self._note("sync", path, path.stat().st_mtime_ns)

    def set_times(self, path: Path, modified_ns: int) -> None:
        self._note("set_times", path, modified_ns)
        super().set_times(path, modified_ns)

    def rename(self, path: Path, target: Path) -> None:
        self._note("rename", path, target)
        super().rename(path, target)

    def unlink(self, path: Path) -> None:
        self._note("unlink", path)
        super().unlink(path)

    def mkdir(self, path: Path, like: os.stat_result) -> None:
        self._note("mkdir", path)
        super().mkdir(path, like)

    def rmdir(self, path: Path) -> None:
        self._note("rmdir", path)
        if any(path.iterdir()):
            self.calls.pop()
            raise OSError(errno.ENOTEMPTY, "not empty", str(path))
        super().rmdir(path)

    def sync_folder(self, path: Path) -> None:
        self._note("sync_folder", path)


@dataclass
class _Node:
    """A file or folder, whatever its name.

    Attributes:
        is_folder: True for a folder.
        data: bytes that are certain to be there.
        modified_ns: time of modification, if it is known.
        names: names that a folder is certain to have.
        pending: changes of the bytes, or of the names, that are not certain.
    """

    is_folder: bool
    data: bytes = b""
    modified_ns: int | None = None
    names: dict[str, int] = field(default_factory=dict)
    pending: list[tuple[str, Any]] = field(default_factory=list)


class PowerCuts:
    """The states of a directory that a power cut can leave, call by call.

    It must be created before the calls are recorded, since it copies the directory.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._nodes: list[_Node] = []
        self._live: dict[Path, int] = {}
        self._read(root)

    def _read(self, path: Path) -> int:
        number = len(self._nodes)
        info = path.stat()
        node = _Node(path.is_dir(), modified_ns=info.st_mtime_ns)
        self._nodes.append(node)
        self._live[path] = number
        if node.is_folder:
            node.names = {each.name: self._read(each) for each in sorted(path.iterdir())}
        else:
            node.data = path.read_bytes()
        return number

    def states(
        self,
        calls: Sequence[Call],
        folder: Path,
        rng: random.Random,
        count: int | Sequence[int | None],
    ) -> Iterator[tuple[int, Path]]:
        """Yield directories as they may be if the power fails after each call.

        For each call there is one state with all changes, one with only the certain ones, and
        `count` others (a sequence has a count for each number of calls done, None for no state at
        all). Each state comes once. Yields the number of calls done, and the directory, which the
        caller removes.
        """
        seen: set[frozenset[tuple[Path, bytes, int | None]]] = set()
        for i in range(len(calls) + 1):
            others = count if isinstance(count, int) else count[i]
            for which in range(0 if others is None else others + 2):
                made = dict(self._made(0, Path(), _Luck(rng, which)))
                state = frozenset(
                    (path, blake2b(node.data).digest(), node.modified_ns)
                    for path, node in made.items()
                )
                if state not in seen:
                    seen.add(state)
                    target = folder / f"{i:04d}-{which}"
                    _write(made, target)
                    yield i, target
            if i < len(calls):
                self._take(calls[i])

    def _take(self, call: Call) -> None:
        folder = self._live.get(call.path.parent)
        if call.name in ("create", "mkdir"):
            assert folder is not None
            self._live[call.path] = len(self._nodes)
            self._nodes.append(_Node(call.name == "mkdir"))
            self._pend(folder, "link", (call.path.name, self._live[call.path]))
        elif call.name in ("unlink", "rmdir"):
            assert folder is not None
            del self._live[call.path]
            self._pend(folder, "unlink", call.path.name)
        elif call.name == "rename":
            self._rename(call.path, call.value)
        elif call.name == "sync_folder":
            self._settle_folder(self._live[call.path])
        elif call.name == "sync":
            node = self._nodes[self._live[call.path]]
            for change in node.pending:
                _change(node, change, None)
            node.pending.clear()
            node.modified_ns = call.value
        elif call.name != "failed":
            self._pend(self._live[call.path], call.name, call.value)

    def _pend(self, number: int, name: str, value: Any) -> None:
        self._nodes[number].pending.append((name, value))

    def _rename(self, path: Path, target: Path) -> None:
        number = self._live.pop(path)
        inside = {p: n for p, n in self._live.items() if p.is_relative_to(path)}
        for each, inner in inside.items():
            del self._live[each]
            self._live[target / each.relative_to(path)] = inner
        self._live[target] = number
        source, aim = self._live[path.parent], self._live[target.parent]
        move = (source, path.name, aim, target.name, number)
        for folder in dict.fromkeys((source, aim)):
            self._pend(folder, "rename", move)

    def _settle_folder(self, number: int) -> None:
        node = self._nodes[number]
        for change in node.pending:
            self._change_names(self._nodes, number, change)
            if change[0] == "rename":
                for folder in {change[1][0], change[1][2]} - {number}:
                    self._change_names(self._nodes, folder, change)
                    self._nodes[folder].pending.remove(change)
        node.pending.clear()

    @staticmethod
    def _change_names(nodes: Sequence[_Node], number: int, change: tuple[str, Any]) -> None:
        name, value = change
        names = nodes[number].names
        if name == "link":
            names[value[0]] = value[1]
        elif name == "unlink":
            names.pop(value, None)
        else:
            source, old, aim, new, moved = value
            if source == number:
                names.pop(old, None)
            if aim == number:
                names[new] = moved

    def _made(self, number: int, path: Path, luck: _Luck) -> Iterator[tuple[Path, _Node]]:
        """Yield what a power cut leaves of a file, or of a folder and all below it, by path."""
        node = self._nodes[number]
        if not node.is_folder:
            made = _Node(False, node.data, node.modified_ns)
            for change in node.pending:
                _change(made, change, luck)
            made.data = made.data[: luck.size(len(node.data), len(made.data))]
            yield path, made
            return
        held = _Node(True, names=dict(node.names))
        yield path, held
        for change in node.pending:
            # A rename is pending in two folders, but is one change.
            key = change[1] if change[0] == "rename" else None
            if luck.has(key):
                self._change_names({number: held}, number, change)  # type: ignore[arg-type]
        for name, inner in held.names.items():
            yield from self._made(inner, path / name, luck)


def _write(made: Mapping[Path, _Node], target: Path) -> None:
    """Write files and folders below a path; a folder comes before what it has."""
    for path, node in made.items():
        if node.is_folder:
            (target / path).mkdir()
            continue
        (target / path).write_bytes(node.data)
        if node.modified_ns is not None:
            os.utime(target / path, ns=(node.modified_ns, node.modified_ns))


class _Luck:
    """Decisions on uncertain changes: 0 applies all, 1 none, other numbers any part."""

    def __init__(self, rng: random.Random, which: int) -> None:
        self._rng = rng
        self._which = which
        self._decided: dict[Any, bool] = {}

    def has(self, key: Any = None) -> bool:
        """Return whether a change is there; the answer for a key never changes."""
        if key not in self._decided or key is None:
            self._decided[key] = self._which == 0 or (self._which > 1 and self._rng.random() < 0.5)
        return self._decided[key]

    def size(self, sure: int, most: int) -> int:
        """Return the size of a file that grew: half of the time it ends anywhere."""
        first = max(sure, SECTOR)
        if self._which < 2 or first >= most or self._rng.random() < 0.5:
            return most
        return self._rng.randrange(first, most)


def _change(node: _Node, change: tuple[str, Any], luck: _Luck | None) -> None:
    """Apply a change to a file, completely or, with luck, in part."""
    name, value = change
    data = bytearray(node.data)
    if name == "set_times":
        if luck is None or luck.has():
            node.modified_ns = value
        return
    if name == "truncate":
        if luck is not None and not luck.has():
            return
        data = data[:value].ljust(value, b"\0")
    else:
        start, new = value
        stop = start + len(new)
        if luck is None or luck.has():
            # The size changes independently of the bytes.
            data = data.ljust(stop, b"\0")
        changed = luck is None
        for at in range(start // SECTOR * SECTOR, stop, SECTOR):
            a, b = max(at, start), min(at + SECTOR, stop)
            if luck is None or luck.has():
                data = data.ljust(b, b"\0")
                data[a:b] = new[a - start : b - start]
                changed = True
        if not changed and bytes(data) == node.data:
            return
    node.data = bytes(data)
    node.modified_ns = None
