"""Tail: entries as a running engine appends them to the log, across file flips.

Reading takes no lock. A partly written entry is left for the next poll; a file that another one
follows is complete.

Source: LogManager.logInternal, FileManager.syncLogEndAndFinishFile, JE 7.5.11: all of a file is
written before the next one is created.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.dump.entries import Dump, Encoded, read_names_and_times
from je_tools.errors import InputError, StoppedError
from je_tools.findings import Finding, Severity
from je_tools.log.file_findings import unreadable_findings
from je_tools.log.opening import open_environment
from je_tools.log.selection import Selection, database_ids
from je_tools.verify.state_findings import file_findings
from je_tools.verify.totals import Totals

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FileState, ScanPart
    from je_tools.log.log_files import LogFile
    from je_tools.verify.judge import InspectedRows, Judge

E = TypeVar("E")

POLL_SECONDS = 0.5
"""Seconds between two polls of the log."""

_OPEN_TRIES = 20


class FollowedLog(Struct):
    """A log that is followed, and how far it was read.

    Attributes:
        paths: arguments of `open_environment`.
        environment: the log at the last poll.
        states: states of the files that were read to their end, by path.
        judged: totals of a judge that saw the whole log in an earlier pass.
        judge: judge that sees the log while it is read.
        reported: number of errors that `new_errors` has returned.
    """

    paths: Sequence[Path]
    environment: Environment
    states: dict[Path, FileState] = field(default_factory=dict)
    judged: Totals | None = None
    judge: Judge | None = None
    reported: int = 0
    _counted: Totals | None = None
    _known: set[tuple[str, int | None, int | str | None]] = field(default_factory=set)
    _settled: set[Path] = field(default_factory=set)

    def merge(self, part: ScanPart[Any], seen: list[InspectedRows]) -> None:
        """Pass a range to the judge, if the log is judged while it is read."""
        if self.judge is not None:
            self.judge.merge(part, seen)

    def on_file_end(self, state: FileState) -> None:
        """Record the state of a file that was read to its end, after that of its front, if any."""
        before = self.states.get(state.file.path)
        if before is not None:
            state.gaps[:0] = before.gaps
            state.chain_breaks[:0] = before.chain_breaks
            state.bad[:0] = before.bad
            state.unreadable[:0] = before.unreadable
        self.states[state.file.path] = state

    def totals(self) -> Totals:
        """Return the totals of errors; without a judge, those that the files' states show.

        The states cover files that were read to their end: bytes and headers, but not faults of
        entries whose checksum is right.
        """
        if self.judge is not None:
            self.judge.finish()
            self.judged, self.judge = self.judge.totals, None
        if self.judged is not None:
            return self.judged
        self._count(is_over=True)
        for found in unreadable_findings(self.environment):
            self._of_states.count(found)
        return self._of_states

    def new_errors(self) -> list[Finding]:
        """Return errors in the files' states that are certain and were not returned before.

        The log may still grow: bytes after the last whole entry of its last file are no damage
        yet, nor is an incomplete file header.
        """
        found = self._count(is_over=False)
        self.reported += len(found)
        return found

    @property
    def _of_states(self) -> Totals:
        """Errors so far, including those of files that the cleaner has deleted since."""
        if self._counted is None:
            self._counted = Totals(self.environment.name, listed=[])
        return self._counted

    def _count(self, *, is_over: bool) -> list[Finding]:
        """Count and return errors not counted before; complete files are checked only once.

        Args:
            is_over: True if nothing more is awaited.
        """
        environment = self.environment
        new = []
        for path, state in self.states.items():
            index = environment.places.get(path)
            if index is None or path in self._settled:
                continue
            file = environment.files[index]
            is_read = file.is_begun and state.size >= file.size
            if not (is_read or is_over):
                continue
            if is_read and index not in environment.ends:
                self._settled.add(path)
            for found in file_findings(environment, state):
                key = (
                    found.code,
                    found.file_no,
                    found.found if found.offset is None else found.offset,
                )
                if found.severity is Severity.ERROR and key not in self._known:
                    self._known.add(key)
                    self._of_states.count(found)
                    new.append(found)
        return new

    def forget_end(self, file: LogFile) -> None:
        """Forget the end of a file that has grown: a tail that was torn may be complete now."""
        state = self.states.get(file.path)
        if state is not None:
            state.size = state.tail


class FollowedDatabases(Struct, frozen=True):
    """Databases of a followed log, as they become known.

    Attributes:
        names: names by id; databases created meanwhile are added.
        wanted: names and ids of the databases to select; empty for all.
    """

    names: dict[int, str] = field(default_factory=dict)
    wanted: Sequence[str] = ()


def follow(
    dump: Dump[E],
    reading: FollowedLog,
    limit: int | None = None,
    databases: FollowedDatabases | None = None,
    report: Callable[[list[Finding]], None] | None = None,
) -> Iterator[Encoded[E]]:
    """Yield entries after those already read; end only if no later entry can match.

    Times are looked up within one poll: an entry whose transaction ends later gets the last time
    before it.

    Args:
        dump: selection and encoding of entries.
        reading: the position to start from; kept up to date.
        limit: largest number of entries; None for no end.
        databases: known databases; kept up to date.
        report: called with errors, each once, as soon as they are certain.

    Raises:
        StoppedError: the log was truncated, or the file being read vanished or was replaced.
        InputError: a file cannot be read.
    """
    left = limit
    follower = _Follower(dump, reading, databases or FollowedDatabases())

    def report_errors() -> None:
        errors = reading.new_errors() if report is not None else []
        if errors and report is not None:
            report(errors)

    report_errors()
    while not follower.is_past():
        for file in follower.poll():
            for encoded in follower.read_on(file, left):
                yield encoded
                left = None if left is None else left - encoded.count
                if left == 0:
                    return
            report_errors()
        sleep(POLL_SECONDS)


class _Follower(Generic[E]):
    """Position in a growing log: the last file, and the offset reached in it."""

    def __init__(self, dump: Dump[E], reading: FollowedLog, databases: FollowedDatabases) -> None:
        self.dump = dump
        self.reading = reading
        self.databases = databases
        self.last = reading.environment.files[-1]
        self.inode = _inode(self.last)
        state = reading.states.get(self.last.path)
        self.at = state.tail if state else 0

    def is_past(self) -> bool:
        """Return whether all further entries lie after the last selected LSN."""
        to_lsn = self.dump.selection.to_lsn
        return to_lsn is not None and self.last.file_no << 32 | self.at > to_lsn

    def poll(self) -> list[LogFile]:
        """Poll the log; return the last file if it has grown, and the files after it."""
        environment = self.reading.environment = self._open()
        order = _order(self.last)
        again = next((file for file in environment.files if _order(file) == order), None)
        later = [file for file in environment.files if _order(file) > order]
        if again is None and not later:
            raise self._vanished()
        if again is not None and _inode(again) != self.inode:
            raise StoppedError(f"{again.path}: replaced while it was followed")
        if again is not None and again.size < self.at:
            raise StoppedError(
                f"{again.path}: cut back from {self.at} to {again.size} bytes while it was "
                "followed (a rollback or a truncation); start again to see the log as it is now"
            )
        return [again, *later] if again is not None and again.size > self.at else later

    def read_on(self, file: LogFile, limit: int | None) -> Iterator[Encoded[E]]:
        """Yield the entries of one file after those already read."""
        if _order(file) != _order(self.last):
            self.last, self.at, self.inode = file, 0, _inode(file)
        self.reading.forget_end(file)
        one = replace(self.reading.environment, files=(file,))
        scanner = replace(self.dump.scanner, start=self.at)
        selection = self._look_ahead(one)
        dump = replace(self.dump, scanner=scanner, selection=selection, limit=limit)
        yield from dump.run(one, self.reading.on_file_end)
        state = self.reading.states.get(file.path)
        self.at = max(self.at, state.tail) if state else self.at

    def _open(self) -> Environment:
        """Open the log as it is now; retry while the engine's cleaner deletes files of it."""
        try:
            for _ in range(_OPEN_TRIES):
                with suppress(StoppedError):
                    return self._reopen()
            return self._reopen()
        except InputError as error:
            if self.last.path.exists():
                raise
            raise self._vanished() from error

    def _reopen(self) -> Environment:
        known = self.reading.environment
        keep_going = bool(known.unreadable)
        return open_environment(self.reading.paths, known, keep_going=keep_going)

    def _vanished(self) -> StoppedError:
        return StoppedError(f"{self.last.path}: vanished while it was followed")

    def _look_ahead(self, one: Environment) -> Selection:
        """Return the selection with the databases and times in the rest of a file."""
        selection = self.dump.selection
        before = selection.times
        scanner = replace(self.dump.scanner, start=self.at, progress=None)
        found = read_names_and_times(one, selection, scanner)
        self.databases.names.update(found.names)
        if before is not None and found.selection.times is not None:
            selection = replace(selection, times=found.selection.times.after(before))
        if self.databases.wanted:
            ids = database_ids(self.databases.wanted, self.databases.names, must_exist=False)
            selection = replace(selection, db_ids=ids)
        self.dump = replace(self.dump, selection=selection)
        return selection


def _inode(file: LogFile) -> int:
    """Return the inode of a file, which a replaced file does not keep; 0 without a file."""
    try:
        return file.path.stat().st_ino
    except FileNotFoundError:
        return 0


def _order(file: LogFile) -> tuple[int, str]:
    return file.file_no, str(file.path)
