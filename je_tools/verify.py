"""Verification of a whole log: every damaged range, and what the files say of each other."""

from __future__ import annotations

import fcntl
import os
import struct
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from je_tools.continuity import Evidence, Files, finding
from je_tools.damage import FileDamage, RowDamage, row_damage
from je_tools.environment import Environment, LogFile
from je_tools.findings import Finding, Severity
from je_tools.formats.je.reader import Rows
from je_tools.formats.je.walk import Checksum
from je_tools.scan import FileState, Part, Scanner
from je_tools.stream import Runs, Stream, runs_of

LOCK_NAME = "je.lck"

_OF_LOST_ENDS = {"truncated-file", "last-entry-mismatch"}
"""Codes that say, with a file, that entries of the one before it are missing."""


@dataclass
class Totals:
    """What a verification has read, and what it has found.

    Attributes:
        env: name of the environment.
        files, size: log files and their bytes.
        entries: good ones.
        damaged_size: bytes in damaged entries, gaps and tails.
        findings: how many of each severity.
        codes: how many of each code.
    """

    env: str
    files: int = 0
    size: int = 0
    entries: int = 0
    damaged_size: int = 0
    findings: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)

    @property
    def errors(self) -> int:
        """Findings that are damage."""
        return self.findings[Severity.ERROR]

    def count(self, found: Finding) -> None:
        """Take a finding into account."""
        self.findings[found.severity] += 1
        self.codes[found.code] += 1

    def row(self) -> dict[str, Any]:
        """The totals as plain values, for JSON."""
        return {
            "env": self.env,
            "files": self.files,
            "bytes": self.size,
            "entries": self.entries,
            "damaged_bytes": self.damaged_size,
            **{f"{severity}s": self.findings[severity] for severity in Severity},
            "codes": dict(sorted(self.codes.items())),
        }

    def verdict(self) -> str:
        """The outcome in one line."""
        read = ", ".join(
            (
                _counted(self.files, "file"),
                _counted(self.size, "byte"),
                f"{self.entries:,} good {'entry' if self.entries == 1 else 'entries'}",
            )
        )
        kinds = [
            _counted(self.findings[severity], severity)
            for severity in reversed(Severity)
            if self.findings[severity]
        ]
        verdict = "DAMAGED" if self.errors else "intact"
        return f"{self.env}: {verdict}{': ' * bool(kinds)}{', '.join(kinds)} ({read})"


@dataclass(frozen=True, slots=True)
class _Seen:
    """What some rows have shown, in plain numbers, so that the rows can go."""

    entries: int
    damage: RowDamage | None
    runs: Runs | None
    evidence: Evidence | None


def verify(
    environment: Environment, scanner: Scanner, totals: Totals, *, everything: bool = False
) -> Iterator[Finding]:
    """Read a whole log and give its findings in log order, those of the directory last.

    Args:
        environment: the log.
        scanner: how it is read; it must check sums.
        totals: filled on the way.
        everything: also give what is in order, as `clean-end`.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    totals.files, totals.size = len(environment.files), environment.size
    for found in _Verification(environment, scanner, totals).findings():
        if everything or found.code != "clean-end":
            totals.count(found)
            yield found


class _Verification:
    """One pass over a log."""

    def __init__(self, environment: Environment, scanner: Scanner, totals: Totals) -> None:
        self.environment = environment
        self.scanner = scanner
        self.totals = totals
        self.files = Files(environment)
        self.stream = Stream(environment.name)
        self.fast = scanner.is_fast(environment.size)

    def findings(self) -> Iterator[Finding]:
        """All findings; of a file those of its header first, then in the order of offsets."""
        before: FileState | None = None
        index, begun = 0, False
        for part in self.scanner.scan(self.environment, self._work):
            if not begun:
                found = list(self.files.of_file(index, before))
                yield from found
                # Where files or their ends are missing, so are VLSNs.
                is_cut = any(each.code in _OF_LOST_ENDS for each in found)
                self.stream.is_broken |= is_cut or _is_apart(before, part.file)
                begun = True
            yield from self._of_part(part, is_last=index in self.files.ends)
            if part.end is not None:
                yield from self._of_end(index, part.end)
                before, index, begun = part.end, index + 1, False
        yield from self.files.of_missing()
        yield from self.files.of_marker()
        yield from self._of_writer(before)

    def _work(self, rows: Rows) -> _Seen:
        """Look at the rows of a range; runs in any thread."""
        counts = np.bincount(rows.type, minlength=256)
        bad = int((rows.checksum == Checksum.BAD).sum())
        return _Seen(
            len(rows) - bad,
            row_damage(rows, counts),
            runs_of(rows),
            self.files.evidence(rows, fast=self.fast),
        )

    def _of_part(self, part: Part[_Seen], *, is_last: bool) -> Iterator[Finding]:
        damage = FileDamage(self.environment, part.file, is_last=is_last)
        found = [*damage.of_gaps(part.gaps), *damage.of_breaks(part.chain_breaks)]
        lost = [gap.start for gap in part.gaps]
        self.totals.damaged_size += sum(gap.stop - gap.start for gap in part.gaps)
        for seen in part.results:
            self.totals.entries += seen.entries
            if seen.damage is not None:
                found += damage.of_rows(seen.damage)
                self.totals.damaged_size += sum(spot.length for spot in seen.damage.bad)
                lost += [spot.offset for spot in seen.damage.bad]
            if seen.evidence is not None:
                self.files.take(seen.evidence)
        found += self._of_stream(part, lost)
        yield from sorted(found, key=lambda each: each.offset or 0)

    def _of_stream(self, part: Part[_Seen], lost: list[int]) -> Iterator[Finding]:
        waiting = deque(sorted(lost))
        for seen in part.results:
            if seen.runs is not None:
                yield from self.stream.take(part.file.file_no, seen.runs, waiting)
        self.stream.is_broken |= bool(waiting)

    def _of_end(self, index: int, state: FileState) -> Iterator[Finding]:
        damage = FileDamage(self.environment, state.file, is_last=index in self.files.ends)
        behind = self.environment.files[index + 1 : index + 2]
        named_last = None
        if behind and behind[0].header.good and behind[0].file_no == state.file.file_no + 1:
            named_last = behind[0].header.last_entry_in_prev_file_offset
        if state.tail < state.size:
            self.stream.is_broken = True
            self.totals.damaged_size += state.size - state.tail
        yield from damage.of_end(state, named_last)

    def _of_writer(self, last: FileState | None) -> Iterator[Finding]:
        """Whether an engine is writing to the log."""
        if last is None or not self.environment.is_directory:
            return
        holder = lock_holder(Path(self.environment.name) / LOCK_NAME)
        grown = last.file.path.stat().st_size - last.size if last.file.path.exists() else 0
        if holder or grown > 0:
            words = [f"process {holder} holds {LOCK_NAME}"] if holder else []
            words += [f"{last.file.path.name} grew by {grown:,} bytes"] if grown > 0 else []
            yield finding(
                self.environment,
                "live-writer",
                file_no=last.file.file_no,
                offset=last.size,
                found=", ".join(words),
            )


def file_findings(environment: Environment, state: FileState) -> list[Finding]:
    """What is wrong with one file, as far as its state tells.

    For commands that list entries, to say on stderr what they could not list, and what not to
    trust of what they list.
    """
    files = Files(environment)
    paths = [file.path for file in environment.files]
    index = paths.index(state.file.path)
    is_last = index in files.ends
    damage = FileDamage(environment, state.file, is_last=is_last)
    damaged = [
        *damage.of_bad(state.bad),
        *damage.of_gaps(state.gaps),
        *damage.of_breaks(state.chain_breaks),
    ]
    found = [
        *files.of_file(index, None),
        *sorted(damaged, key=lambda each: each.offset or 0),
        *damage.of_end(state, None),
    ]
    return [each for each in found if each.code != "clean-end"]


def lock_holder(path: Path) -> int:
    """The process that holds a write lock on a lock file, 0 for none; takes no lock itself.

    -1 where the holder is not a process that can be named.
    Source: je-log-format 1.2; the engine locks byte 0 for the life of a writable environment.
    """
    flock = struct.Struct("hhqqi")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        asked = flock.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 1, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, asked)
    except OSError:
        return 0
    finally:
        os.close(descriptor)
    kind, _, _, _, holder = flock.unpack(answer[: flock.size])
    return 0 if kind == fcntl.F_UNLCK else int(holder)


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}" + "s" * (number != 1)


def _is_apart(before: FileState | None, file: LogFile) -> bool:
    return before is not None and file.file_no != before.file.file_no + 1
