"""Disasters planted in copies of environments, for `je-tools doctor` and the engine."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.builders.logs import CREATED_MS, RESTORE_REQUIRED, LogFile, packed, text
from tests.corpus import corpus, environment

FILES = "v17-erase-after"
"""Environment of three files, closed by the engine."""

CRASHED = "v17-crash-txn"
BASIC = "v17-basic"
NODES = "starrocks-fe"
"""Group of three nodes of two files each, which only the corpus has."""

MARKER = LogFile(0x7FFFFFFF, 17)
MARKER.add(RESTORE_REQUIRED, text("NETWORK_RESTORE") + packed(CREATED_MS) + text("p=1\n"))

Plant = Callable[[Path], None]


class Disaster(NamedTuple):
    """A disaster.

    Attributes:
        name: what happened.
        base: environment to which it happens.
        plant: makes it happen to a copy of that environment.
        outcome: outcome that `doctor` must give.
    """

    name: str
    base: str
    plant: Plant
    outcome: str


def path_of(home: Path, number: int) -> Path:
    return home / f"{number:08x}.jdb"


def without(*numbers: int) -> Plant:
    """Remove files."""

    def plant(home: Path) -> None:
        for number in numbers:
            path_of(home, number).unlink()

    return plant


def cut(number: int, size: float) -> Plant:
    """Cut a file to a number of bytes, or to a share of its size."""

    def plant(home: Path) -> None:
        data = path_of(home, number).read_bytes()
        kept = int(len(data) * size) if isinstance(size, float) else size
        path_of(home, number).write_bytes(data[:kept])

    return plant


def zeroed(number: int, start: float = 0.0, length: int | None = None) -> Plant:
    """Overwrite bytes of a file with zeros, all of it by default."""

    def plant(home: Path) -> None:
        data = bytearray(path_of(home, number).read_bytes())
        at = int(len(data) * start)
        stop = len(data) if length is None else at + length
        data[at:stop] = bytes(stop - at)
        path_of(home, number).write_bytes(data)

    return plant


def flipped(number: int, place: float) -> Plant:
    """Flip a bit of a file, at an offset or at a share of its size."""

    def plant(home: Path) -> None:
        data = bytearray(path_of(home, number).read_bytes())
        at = int(len(data) * place) if isinstance(place, float) else place
        data[at] ^= 0x10
        path_of(home, number).write_bytes(data)

    return plant


def swapped(one: int, other: int) -> Plant:
    """Exchange the names of two files."""

    def plant(home: Path) -> None:
        first, second = path_of(home, one), path_of(home, other)
        data = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(data)

    return plant


def copied(number: int, name: str) -> Plant:
    """Copy a file of the log under another name."""

    def plant(home: Path) -> None:
        (home / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(path_of(home, number), home / name)

    return plant


def renamed(number: int, name: str) -> Plant:
    """Rename a file of the log."""
    return lambda home: path_of(home, number).rename(home / name) and None


def appended(number: int, data: bytes) -> Plant:
    """Append bytes to a file."""

    def plant(home: Path) -> None:
        with path_of(home, number).open("ab") as file:
            file.write(data)

    return plant


def with_file(name: str, data: bytes = b"") -> Plant:
    """Add a file."""
    return lambda home: (home / name).write_bytes(data) and None


def from_elsewhere(number: int, other: str, other_no: int | None = None) -> Plant:
    """Replace a file by one of another environment."""

    def plant(home: Path) -> None:
        source = path_of(environment(other).home, number if other_no is None else other_no)
        shutil.copyfile(source, path_of(home, number))

    return plant


def all_removed(home: Path) -> None:
    for path in home.glob("*.jdb"):
        path.unlink()


def nothing(_: Path) -> None:
    pass


def _in_fixtures() -> list[Disaster]:
    noise = random.Random(7).randbytes(3000)
    return [
        Disaster("nothing", FILES, nothing, "opens"),
        Disaster("first file missing", FILES, without(0), "refuses"),
        Disaster("middle file missing", FILES, without(1), "refuses"),
        Disaster("last file missing", FILES, without(2), "fails"),
        Disaster("last two files missing", FILES, without(1, 2), "fails"),
        Disaster("first two files missing", FILES, without(0, 1), "refuses"),
        Disaster("all files missing", FILES, all_removed, "no-log"),
        Disaster("first file empty", FILES, cut(0, 0), "refuses"),
        Disaster("middle file empty", FILES, cut(1, 0), "refuses"),
        Disaster("last file empty", FILES, cut(2, 0), "fails"),
        Disaster("only file empty", BASIC, cut(0, 0), "refuses"),
        Disaster("first file zeroed", FILES, zeroed(0), "refuses"),
        Disaster("middle file zeroed", FILES, zeroed(1), "refuses"),
        Disaster("last file zeroed", FILES, zeroed(2), "refuses"),
        Disaster("a page of the first file zeroed", FILES, zeroed(0, 0.5, 4096), "fails"),
        Disaster("a page of the last file zeroed", CRASHED, zeroed(0, 0.9, 4096), "loses"),
        Disaster("first file cut in half", FILES, cut(0, 0.5), "fails"),
        Disaster("middle file cut in half", FILES, cut(1, 0.5), "refuses"),
        Disaster("last file cut inside an entry", CRASHED, cut(0, 0.95), "opens"),
        Disaster("last file cut inside its header", FILES, cut(2, 13), "fails"),
        Disaster("last file cut after its header", FILES, cut(2, 38), "fails"),
        Disaster("first and middle file swapped", FILES, swapped(0, 1), "refuses"),
        Disaster("middle and last file swapped", FILES, swapped(1, 2), "refuses"),
        Disaster("middle file again after the last", FILES, copied(1, "00000003.jdb"), "refuses"),
        Disaster("last file again after the last", FILES, copied(2, "00000003.jdb"), "refuses"),
        Disaster("middle file put aside", FILES, renamed(1, "00000001.bad"), "refuses"),
        Disaster("first file put aside", FILES, renamed(0, "00000000.del"), "refuses"),
        Disaster("a bit in the first file", FILES, flipped(0, 0.3), "fails"),
        Disaster("a bit in the middle file", FILES, flipped(1, 0.9), "fails"),
        Disaster("a bit before Commits", CRASHED, flipped(0, 270_000), "loses"),
        Disaster("a bit in the header of the only file", BASIC, flipped(0, 20), "refuses"),
        Disaster("a bit in the header of the first file", FILES, flipped(0, 20), "fails"),
        Disaster("a bit in the header of the last file", FILES, flipped(2, 20), "refuses"),
        Disaster("noise after the last entry", BASIC, appended(0, noise), "opens"),
        Disaster("zeros after the last entry", CRASHED, appended(0, bytes(9000)), "opens"),
        Disaster("the next file begun", FILES, with_file("00000003.jdb"), "opens"),
        Disaster("a restore marker", BASIC, with_file(MARKER.name, bytes(MARKER.data)), "refuses"),
        Disaster("an empty restore marker", BASIC, with_file(MARKER.name), "refuses"),
        Disaster(
            "a directory like a log file",
            BASIC,
            lambda home: (home / "00000001.jdb").mkdir(),
            "fails",
        ),
        Disaster(
            "a link that leads nowhere",
            BASIC,
            lambda home: (home / "00000001.jdb").symlink_to("/nowhere/00000001.jdb"),
            "fails",
        ),
        Disaster(
            "a setting that the engine refuses",
            BASIC,
            with_file("je.properties", b"je.log.fileMax=1\n"),
            "refuses",
        ),
        Disaster(
            "data directories that do not exist",
            BASIC,
            with_file("je.properties", b"je.log.nDataDirectories=2\n"),
            "refuses",
        ),
        Disaster(
            "a disk limit that is reached",
            BASIC,
            with_file("je.properties", b"je.freeDisk=9000000000000000\n"),
            "opens",
        ),
        Disaster("a log of version 8", "v8-cleaned", nothing, "opens"),
        Disaster("a log of version 6", "v6-halt", nothing, "opens"),
        Disaster("a log of version 26", "v26-basic", nothing, "opens"),
        Disaster("first file of another log", FILES, from_elsewhere(0, BASIC), "fails"),
    ]


def _in_corpus() -> list[Disaster]:
    node, other = f"{NODES}/node1", f"{NODES}/node2"
    return [
        Disaster("a whole node", node, nothing, "opens"),
        Disaster("first file of another node", node, from_elsewhere(0, other), "opens"),
        Disaster("last file of another node", node, from_elsewhere(1, other), "opens"),
        Disaster("newest file of a cleaned log missing", "v17-cleaned", without(3), "refuses"),
    ]


def every_disaster() -> list[Disaster]:
    """Return all disasters, whether or not the corpus is available."""
    return [*_in_fixtures(), *_in_corpus()]


DISASTERS = every_disaster() if corpus() else _in_fixtures()
"""All disasters; those of the corpus only if it is available."""


def planted(disaster: Disaster, folder: Path) -> Path:
    """Return a copy of the environment with the disaster."""
    home = folder / "env"
    shutil.copytree(environment(disaster.base).home, home, symlinks=True)
    disaster.plant(home)
    return home
