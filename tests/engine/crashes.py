"""Logs as crashes and damage leave them, made from whole ones; random numbers determine each."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.builders.logs import LogFile
from tests.truth.headers import Header
from tests.truth.log_end import HEADER_SIZE, good_entries

RESTORED_SHARE = 0.7
"""Share of crashed logs made as if before the cleaner had removed files."""

_CKPT_START, _CKPT_END = 19, 20


@dataclass
class Source:
    """An environment from which crashed ones are made.

    Attributes:
        files: bytes of its log files by number.
        removed: files that the engine's cleaner gave up and only renamed.
    """

    home: Path
    files: dict[int, bytes]
    removed: frozenset[int] = frozenset()

    @cached_property
    def last(self) -> int:
        """The file with the highest number."""
        return max(self.files)

    def entries(self, file_no: int) -> list[Header]:
        """Return the entries of a file."""
        return good_entries(self.files[file_no], file_no).entries


@dataclass
class Crash:
    """One crashed log.

    Attributes:
        kind: kind of damage.
        detail: place of the damage.
        files: bytes of the files that differ from the source, by number.
        gone: files of the source that are missing.
        restored: files that the cleaner had given up, and that are restored.
    """

    kind: str
    detail: str
    files: dict[int, bytes]
    gone: frozenset[int] = frozenset()
    restored: frozenset[int] = frozenset()


def read_source(home: Path) -> Source:
    """Read an environment's log."""
    files = {int(path.stem, 16): path.read_bytes() for path in sorted(home.glob("*.jdb"))}
    return Source(home, files, frozenset(int(path.stem, 16) for path in home.glob("*.del")))


def make_crash(source: Source, rng: random.Random) -> Crash:
    """Return a crashed log of a random kind that is possible with this source."""
    while True:
        kind = rng.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
        crash = KINDS[kind][1](source, rng)
        if crash is not None:
            crash.kind = kind
            last = max((source.files.keys() - crash.gone) | crash.files.keys())
            earlier = frozenset(no for no in source.removed if no < last)
            if earlier and rng.random() < RESTORED_SHARE:
                crash.restored = earlier
                crash.detail += ", removed files restored"
            return crash


def write_crash(source: Source, crash: Crash, home: Path) -> None:
    """Write the crashed log to a new directory, without links: je-tools does not write to those."""
    home.mkdir(parents=True)
    for file_no in source.files.keys() - crash.gone - crash.files.keys():
        (home / f"{file_no:08x}.jdb").write_bytes(source.files[file_no])
    for file_no in crash.restored:
        shutil.copyfile(source.home / f"{file_no:08x}.del", home / f"{file_no:08x}.jdb")
    for file_no, data in crash.files.items():
        (home / f"{file_no:08x}.jdb").write_bytes(data)


# Kinds. Each returns None if the log lacks what the kind needs.


def _cut(source: Source, file_no: int, at: int, tail: bytes = b"") -> Crash:
    gone = frozenset(no for no in source.files if no > file_no)
    detail = f"{file_no:#x}/{at:#x}" + (f" + {len(tail)} bytes" if tail else "")
    return Crash("", detail, {file_no: source.files[file_no][:at] + tail}, gone)


def _border(source: Source, file_no: int, rng: random.Random) -> int:
    """Return the end of a random entry."""
    entry = rng.choice(source.entries(file_no))
    return (entry.lsn & 0xFFFFFFFF) + entry.size


def _whole(source: Source, rng: random.Random) -> Crash:
    return _cut(source, source.last, len(source.files[source.last]))


def _cut_byte(source: Source, rng: random.Random) -> Crash:
    size = len(source.files[source.last])
    return _cut(source, source.last, rng.randrange(HEADER_SIZE, size + 1))


def _cut_border(source: Source, rng: random.Random) -> Crash:
    return _cut(source, source.last, _border(source, source.last, rng))


def _cut_earlier(source: Source, rng: random.Random) -> Crash | None:
    earlier = [no for no in source.files if no != source.last]
    if not earlier:
        return None
    file_no = rng.choice(earlier)
    size = len(source.files[file_no])
    byte, border = rng.randrange(HEADER_SIZE, size + 1), _border(source, file_no, rng)
    return _cut(source, file_no, rng.choice([byte, border]))


def _in_checkpoint(source: Source, rng: random.Random) -> Crash | None:
    """Cut after an entry of a random checkpoint, often after its first or last."""
    runs: list[list[tuple[int, int]]] = []
    run: list[tuple[int, int]] | None = None
    for file_no in source.files:
        for entry in source.entries(file_no):
            if entry.type_no == _CKPT_START:
                run = []
                runs.append(run)
            if run is not None:
                run.append((file_no, (entry.lsn & 0xFFFFFFFF) + entry.size))
            if entry.type_no == _CKPT_END:
                run = None
    if not runs:
        return None
    chosen = rng.choice(runs)
    return _cut(source, *rng.choice([chosen[0], chosen[-1], *rng.choices(chosen, k=4)]))


def _with_tail(source: Source, rng: random.Random, tail: bytes) -> Crash:
    size = len(source.files[source.last])
    at = rng.choice([size, rng.randrange(HEADER_SIZE, size), _border(source, source.last, rng)])
    return _cut(source, source.last, at, tail)


def _zero_tail(source: Source, rng: random.Random) -> Crash:
    return _with_tail(source, rng, bytes(rng.choice([1, 13, 14, 300, 5000])))


def _noise_tail(source: Source, rng: random.Random) -> Crash:
    return _with_tail(source, rng, rng.randbytes(rng.choice([1, 13, 14, 300, 5000])))


def _foreign_tail(source: Source, rng: random.Random) -> Crash:
    """Append a piece of the same log, as a file system that misplaces blocks may leave it."""
    data = source.files[rng.choice(list(source.files))]
    start = rng.randrange(len(data))
    return _with_tail(source, rng, data[start : start + rng.choice([30, 500, 8000])])


def _flipped(data: bytes, rng: random.Random, start: int, stop: int) -> tuple[bytes, int]:
    at = rng.randrange(start, stop)
    changed = bytes([data[at] ^ 1 << rng.randrange(8)])
    return data[:at] + changed + data[at + 1 :], at


def _flip(source: Source, rng: random.Random) -> Crash | None:
    data = source.files[source.last]
    if len(data) <= HEADER_SIZE:
        return None
    made, at = _flipped(data, rng, HEADER_SIZE, len(data))
    return Crash("", f"{source.last:#x}/{at:#x}", {source.last: made})


def _flip_earlier(source: Source, rng: random.Random) -> Crash | None:
    earlier = [no for no in source.files if no != source.last]
    if not earlier:
        return None
    file_no = rng.choice(earlier)
    made, at = _flipped(source.files[file_no], rng, 0, len(source.files[file_no]))
    return Crash("", f"{file_no:#x}/{at:#x}", {file_no: made})


def _flip_header(source: Source, rng: random.Random) -> Crash:
    data = source.files[source.last]
    made, at = _flipped(data, rng, 0, HEADER_SIZE)
    stop = rng.choice([HEADER_SIZE, len(data)])
    return Crash("", f"{source.last:#x}/{at:#x} of {stop}", {source.last: made[:stop]})


def _header_cut(source: Source, rng: random.Random) -> Crash:
    sizes = [0, 1, 13, 14, 37, 38, 39, 40, 52, rng.randrange(60, 120)]
    return _cut(source, source.last, rng.choice(sizes))


def _next_file(source: Source, rng: random.Random) -> Crash:
    """Add a file after the last: empty, part of a header, or a header with or without noise."""
    first = source.files[source.last]
    number = source.last + 1
    last_before = source.entries(source.last)[-1].lsn & 0xFFFFFFFF
    good = bytes(LogFile(number, int.from_bytes(first[34:38], "little"), last_before).data)
    bad, _ = _flipped(good, rng, 0, HEADER_SIZE)
    noise = rng.randbytes(rng.choice([1, 20, 400]))
    choices = {
        "empty": b"",
        "10 bytes": good[:10],
        "header": good,
        "bad header": bad,
        "header and noise": good + noise,
        "bad header and noise": bad + noise,
    }
    name = rng.choice(list(choices))
    return Crash("", name, {number: choices[name]})


KINDS: dict[str, tuple[int, Callable[[Source, random.Random], Crash | None]]] = {
    "whole": (3, _whole),
    "cut at a byte": (25, _cut_byte),
    "cut at a border": (15, _cut_border),
    "cut in an earlier file": (12, _cut_earlier),
    "cut in a checkpoint": (15, _in_checkpoint),
    "zeros behind": (6, _zero_tail),
    "noise behind": (6, _noise_tail),
    "foreign bytes behind": (3, _foreign_tail),
    "a bit flipped": (6, _flip),
    "a bit flipped in an earlier file": (2, _flip_earlier),
    "a bit flipped in the header": (2, _flip_header),
    "cut at the header": (3, _header_cut),
    "a file behind the last": (6, _next_file),
}
"""Weight and function of each kind."""
