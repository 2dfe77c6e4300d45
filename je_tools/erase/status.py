"""Status of the eraser: its record in the log, unfinished entries, and control files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.erase.completion import find_unfinished
from je_tools.erase.control import protected_names, working_names
from je_tools.erase.cycle import stored_state
from je_tools.erase.statistics import state_statistics
from je_tools.recovery.opening import held_snapshot
from je_tools.writing.lock import LockMode, find_holders

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
        state: the eraser's record; None if there is none.
        is_over: True if the end of its cycle has passed.
        statistics: what the record says, under the engine's names.
        unfinished: entries that are marked and still have their bytes.
        protected: names of the files that stay as they are.
        working: name of the file that an erasure works on; None if none runs.
        writer: the process that has the environment open for writing; None for none.
    """

    home: str
    state: EraserState | None
    is_over: bool
    statistics: EraserStatistics
    unfinished: Completion
    protected: tuple[str, ...]
    working: str | None
    writer: str | None


def read_status(environment: Environment, scanner: Scanner, now_ms: int) -> EraserStatus:
    """Return the status of the eraser; the whole log is read.

    Raises:
        InputError: nothing in the log leads to records, or a file cannot be read.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        RefusedError: the control files cannot be read.
    """
    home = Path(environment.name)
    with held_snapshot(environment, scanner, now_ms=now_ms, as_member=True) as snapshot:
        state = stored_state(snapshot)
    writers = [each.text for each in find_holders(home) if each.mode is LockMode.READ_WRITE]
    working = working_names(home) if writers else frozenset()
    return EraserStatus(
        home=environment.name,
        state=state,
        is_over=state is not None and state.end_ms <= now_ms,
        statistics=state_statistics(state, frozenset(file.file_no for file in environment.files)),
        unfinished=find_unfinished(environment, scanner.staged("reading", environment.size)),
        protected=tuple(sorted(protected_names(home))),
        working=min(working, default=None),
        writer=writers[0] if writers else None,
    )
