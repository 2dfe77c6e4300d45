"""Status of the eraser: its record in the log, unfinished erasures, and control files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.erase.completion import find_marked
from je_tools.erase.control_files import protected_names, working_names
from je_tools.erase.cycle import stored_state
from je_tools.erase.in_kind.resuming import RedoState, find_unfinished_in_kind
from je_tools.erase.statistics import state_statistics
from je_tools.errors import InputError, RefusedError
from je_tools.recovery.opening import held_snapshot
from je_tools.writing.lock import LockMode, find_holders
from je_tools.writing.refusing import refusing

if TYPE_CHECKING:
    from je_tools.erase.completion import Completion
    from je_tools.erase.statistics import EraserStatistics
    from je_tools.formats.je.internal.cleaner import EraserState
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner


class EraserStatus(Struct, frozen=True):
    """Status of the eraser.

    Attributes:
        home: path of the environment.
        file_numbers: numbers of the files of the log, ascending.
        now_ms: time to which the rest refers.
        state: the eraser's record; None if there is none, or it cannot be read.
        state_problem: reason why the record cannot be read; None if it can.
        statistics: what the record says, under the engine's names.
        unfinished: entries that interrupted erasures have left.
        in_kind_problem: reason why an interrupted erasure in kind cannot be completed.
        protected: names of the files that stay as they are.
        working: name of the file that an erasure works on; None if none runs.
        writer: the process that has the environment open for writing; None for none.
    """

    home: str
    file_numbers: tuple[int, ...]
    now_ms: int
    state: EraserState | None
    state_problem: str | None
    statistics: EraserStatistics
    unfinished: Completion
    in_kind_problem: str | None
    protected: tuple[str, ...]
    working: str | None
    writer: str | None

    @property
    def is_over(self) -> bool:
        """True if the end of the cycle has passed."""
        return self.state is not None and self.state.end_ms <= self.now_ms

    @property
    def outside(self) -> tuple[int, ...]:
        """Numbers of the files that do not belong to the cycle."""
        if self.state is None:
            return ()
        known = {*self.state.completed, *self.state.pending}
        return tuple(each for each in self.file_numbers if each not in known)

    @property
    def in_kind_count(self) -> int:
        """Number of entries that were being overwritten in kind, as far as it is known."""
        found = self.unfinished.in_kind
        return found.entry_count if found is not None and self.is_in_kind else 0

    @property
    def is_in_kind(self) -> bool:
        """True if a log file may have entries of which only a part is overwritten."""
        found = self.unfinished.in_kind
        is_left = found is not None and found.state is RedoState.UNFINISHED
        return is_left or self.in_kind_problem is not None

    @property
    def is_damaged(self) -> bool:
        """True if something cannot be read, or entries may be overwritten only in part."""
        return self.is_in_kind or bool(self.state_problem or self.unfinished.unread)


def read_status(environment: Environment, scanner: Scanner, now_ms: int) -> EraserStatus:
    """Return the status of the eraser; the whole log is read.

    Raises:
        InputError: a file cannot be read.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        RefusedError: the control files cannot be read.
    """
    home = Path(environment.name)
    state, state_problem = _read_state(environment, scanner, now_ms)
    unfinished = find_marked(environment, scanner.staged("reading", environment.size))
    in_kind_problem = None
    try:
        with refusing():
            unfinished.in_kind = find_unfinished_in_kind(home)
    except RefusedError as error:
        in_kind_problem = str(error)
    writers = [each.text for each in find_holders(home) if each.mode is LockMode.READ_WRITE]
    working = working_names(home) if writers else frozenset()
    numbers = tuple(file.file_no for file in environment.files)
    return EraserStatus(
        home=environment.name,
        file_numbers=numbers,
        now_ms=now_ms,
        state=state,
        state_problem=state_problem,
        statistics=state_statistics(state, frozenset(numbers)),
        unfinished=unfinished,
        in_kind_problem=in_kind_problem,
        protected=tuple(sorted(protected_names(home))),
        working=min(working, default=None),
        writer=writers[0] if writers else None,
    )


def _read_state(
    environment: Environment, scanner: Scanner, now_ms: int
) -> tuple[EraserState | None, str | None]:
    """Return the eraser's record, and the reason why it cannot be read; None for neither."""
    try:
        with held_snapshot(environment, scanner, now_ms=now_ms, as_member=True) as snapshot:
            return stored_state(snapshot), None
    except InputError as error:
        return None, str(error)
