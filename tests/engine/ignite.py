"""Rows that a real Ignite node finds in work directories: one JVM for many of them."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.engine.jars import IGNITE, IGNITE_NEEDS, engine_jar
from tests.engine.java import find_java
from tests.engine.recovered import Engine, compile_java
from tests.truth.contents import Refusal

PROGRAM = Path(__file__).parent / "IgniteRows.java"
CONFIGURATION = Path(__file__).parent / "IsolatedNode.java"
"""Settings of a node, which all programs that start one share."""

_OPENED = ("java.nio", "sun.nio.ch", "java.io", "java.util", "java.lang")
OPTIONS = (
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "-DIGNITE_UPDATE_NOTIFIER=false",
    "-DIGNITE_QUIET=true",
    "-DIGNITE_NO_ASCII=true",
    "-DIGNITE_NO_SHUTDOWN_HOOK=true",
)
_ROW_CELLS = 9
_JSON_CELL = 3


class IgniteEngine(Engine):
    """A JVM that starts a node on one work directory after the other.

    A node writes to its directory, so open copies only.
    """

    def rows(self, work: Path, node: str = "node1", *, options: str = "") -> list[str] | Refusal:
        """Return the rows of all caches of a node, sorted, or the engine's refusal.

        Args:
            work: its work directory.
            node: its consistent id.
            options: `recovery-files` to configure a node that keeps recovery files.

        Returns:
            Lines as of `recorded_rows`, or a refusal; the stage of one is `start`, `read`, `halt`
            (the node halted its JVM), `died` or `hung`.
        """
        told = self.tell(work, node, options)
        found = told if isinstance(told, Refusal) else parse_rows(told)
        if isinstance(found, Refusal) and found.stage != "start":
            # Threads of a node that had started may still run, and after a halt there is no JVM.
            self.stop()
        return found


def ignite_engine(seconds: float = 120) -> IgniteEngine:
    """Compile the program, and return the engine; its JVM starts when it is asked."""
    java = find_java()
    class_path = ignite_class_path(java, [PROGRAM])
    return IgniteEngine(java, class_path, seconds, program="IgniteRows", options=OPTIONS)


def ignite_class_path(java: Path, sources: Sequence[Path]) -> str:
    """Compile programs against Ignite, and return the class path to run them with."""
    needs = [engine_jar(each) for each in IGNITE_NEEDS]
    return compile_java(java, engine_jar(IGNITE), [CONFIGURATION, *sources], needs)


def parse_rows(lines: Iterable[str]) -> list[str] | Refusal:
    """Parse an answer; rows before a refusal are dropped.

    Raises:
        ValueError: a line has an unknown form.
    """
    found = []
    for line in lines:
        cells = line.removesuffix("\n").split("\t")
        if cells[0] == "#refused":
            return Refusal(cells[1], cells[2], "\t".join(cells[3:]))
        if len(cells) != _ROW_CELLS:
            raise ValueError(f"not a row: {line!r:.200}")
        found.append("\t".join(cells))
    return sorted(found)


def recorded_rows(path: Path) -> list[str]:
    """Return the rows of a `records.tsv.gz`, sorted, without their JSON.

    The cells of a row are cache, partition, key type, key bytes, value type, length and SHA-256 of
    the value, version, expiry time.
    """
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        rows = [line.removesuffix("\n").split("\t") for line in lines]
    return sorted("\t".join(row[:2] + row[_JSON_CELL + 1 :]) for row in rows[1:])


def writable_copy(store: Path, target: Path) -> Path:
    """Copy a work directory, and make the copy writable: the corpus is not."""
    shutil.copytree(store, target, copy_function=shutil.copyfile)
    for path in target.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    return target
