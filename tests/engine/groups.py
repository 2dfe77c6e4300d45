"""Replication groups of the real engine: the nodes run in one JVM, on the loopback device."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.engine.recovered import QUICK_START, engine_class_path
from tests.truth.contents import Contents, parse_contents

GROUP = "group"
"""Name of the group of the nodes in fixtures/ and in the corpus."""


class Group:
    """Nodes of a group that run; see Group.java."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder

    def open(
        self,
        name: str,
        home: Path,
        address: str,
        helper: str,
        *,
        group: str = GROUP,
        leads: bool = False,
    ) -> None:
        """Begin to open a node; one that leads becomes the master without an election."""
        self._ask("open", name, home, group, address, helper, *["leads"] * leads)

    def states(self) -> dict[str, str]:
        """Wait until all nodes are open, and return their states."""
        return dict(line.split("\t") for line in self._ask("ready"))  # type: ignore[misc]

    def put(self, database: str, first: int, count: int) -> None:
        """Let the master write records, which all nodes then have."""
        self._ask("put", database, first, count)

    def leave(self, database: str, first: int, count: int) -> None:
        """Let the master leave a transaction open, in the middle of which another one commits."""
        self._ask("leave", database, first, count)

    def records(self, name: str) -> Contents:
        """Return the records of a node."""
        answer = self._folder / f"{name}.records"
        self._ask("records", name, answer)
        with answer.open(encoding="utf-8", newline="\n") as lines:
            found = parse_contents(list(lines))
        assert isinstance(found, dict)
        return found

    def members(self, name: str) -> list[list[str]]:
        """Return name, type and address of each member, as a node knows them."""
        return [line.split("\t") for line in self._ask("members", name)]

    def close(self, name: str) -> None:
        """Close a node."""
        self._ask("close", name)

    def _ask(self, *words: object) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        lines = []
        for line in self._process.stdout:
            if line == "done\n":
                return lines
            assert not line.startswith("failed\t"), (words, line)
            lines.append(line.rstrip("\n"))
        raise AssertionError(f"{words}: the JVM died")


@contextmanager
def running_group(java: Path, jar: Path, folder: Path) -> Iterator[Group]:
    """Start a JVM for the nodes of a group.

    Args:
        java: launcher of the JVM.
        jar: the engine.
        folder: an empty directory.
    """
    class_path = engine_class_path(java, jar)
    pipe = subprocess.PIPE
    command = [java, *QUICK_START, "-cp", class_path, "Group"]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Group(process, folder)
        finally:
            process.kill()


def free_addresses(count: int) -> list[str]:
    """Return addresses of the loopback device on which nothing listens now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    found = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return found


def is_one_group(states: Mapping[str, str]) -> bool:
    """Return True if one node is the master, and all others are replicas."""
    return sorted(states.values()) == ["MASTER", *["REPLICA"] * (len(states) - 1)]
