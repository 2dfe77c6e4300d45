"""Logs with damage between files, and parts of logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.builders.logs import OLD_DELTA, LogFile, write_log
from tests.builders.trees import rooted
from tests.damage.planted_findings import log

UNKNOWN_VERSION = 27

Paths = list[Path]
"""Paths on the command line."""


def torn_last_file_then_an_empty_one(folder: Path) -> Paths:
    """Return the log of a writer that died after it had begun the next file."""
    file = log()
    del file.data[-5:]
    home = write_log(folder, [file])
    (home / "00000001.jdb").touch()
    return [home]


def empty_file_alone(folder: Path) -> Paths:
    home = write_log(folder, [])
    (home / "00000000.jdb").touch()
    return [home]


def begun_files_alone(folder: Path) -> Paths:
    """Return files without a whole header, which no engine could open."""
    file = log()
    home = write_log(folder, [])
    (home / file.name).write_bytes(file.data[:37])
    (home / "00000001.jdb").write_bytes(bytes(38))
    return [home]


def begun_file_behind_a_header(folder: Path) -> Paths:
    """Return a log whose second file is cut inside its header, which engines write in one piece."""
    file = rooted(LogFile(0, 17))
    home = write_log(folder, [file])
    (home / "00000001.jdb").write_bytes(file.follower().data[:10])
    return [home]


def empty_file_in_front(folder: Path) -> Paths:
    first = log()
    second = first.follower()
    second.trace(30)
    home = write_log(folder, [first, second])
    (home / first.name).write_bytes(b"")
    return [home]


def empty_loose_file(folder: Path) -> Paths:
    return [empty_file_alone(folder)[0] / "00000000.jdb"]


def later_version(folder: Path) -> Paths:
    """Return a log with a whole header of an unknown version."""
    first = log()
    second = LogFile(1, UNKNOWN_VERSION, first.last)
    second.trace(20)
    return [write_log(folder, [first, second])]


def cut_between_entries(folder: Path) -> Paths:
    """Return a log cut between entries, which only the next file's header shows."""
    first = log()
    second = first.follower()
    second.trace(30)
    del first.data[first.last :]
    return [write_log(folder, [first, second])]


def entry_inserted_twice(folder: Path) -> Paths:
    file = log()
    start, stop = file.placed[3]
    file.data[stop:stop] = file.data[start:stop]
    return [write_log(folder, [file])]


def loose_files_the_first_cut(folder: Path) -> Paths:
    first = log()
    second = first.follower()
    second.trace(30)
    del first.data[-5:]
    home = write_log(folder, [first, second])
    return [home / first.name, home / second.name]


def loose_files_that_do_not_touch(folder: Path) -> Paths:
    """Return two cut files that are no neighbours: each may be the last one."""
    first, third = log(), log(no=2)
    del first.data[-5:]
    del third.data[-5:]
    home = write_log(folder, [first, third])
    return [home / first.name, home / third.name]


def old_deltas(folder: Path) -> Paths:
    file = rooted(LogFile(0, 8))
    file.add(OLD_DELTA, bytes(5))
    return [write_log(folder, [file])]


def data_directories(folder: Path) -> Paths:
    """Return a log with file f in data directory (f modulo 3) + 1."""
    files = [log()]
    for _ in range(4):
        files.append(files[-1].follower())
        files[-1].trace(30)
    for file in files:
        write_log(folder / f"data{file.no % 3 + 1:03}", [file])
    return [folder]


CASES: dict[str, tuple[Callable[[Path], Paths], int]] = {
    make.__name__.replace("_", "-"): (make, code)
    for make, code in (
        (torn_last_file_then_an_empty_one, 0),
        (empty_file_alone, 3),
        (begun_files_alone, 3),
        (begun_file_behind_a_header, 3),
        (empty_file_in_front, 3),
        (empty_loose_file, 0),
        (later_version, 3),
        (cut_between_entries, 3),
        (entry_inserted_twice, 3),
        (loose_files_the_first_cut, 3),
        (loose_files_that_do_not_touch, 0),
        (old_deltas, 0),
        (data_directories, 0),
    )
}
"""Builders by name, with the exit code that each command has."""
