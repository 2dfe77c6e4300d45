"""Completion of interrupted erasures: entries that are marked as erased and still have their bytes.

The engine's own eraser leaves such entries too, when its environment is closed or a backup begins.
Their type is durable, so their bytes may be overwritten whatever the rest of the log is like.

Source: je-log.md "Data eraser"; DataEraser.eraseEntry, ErasedLogEntry, JE 25.3.17.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from je_tools.core.escaping import quoted
from je_tools.erase.control_files import ErasureControl, interrupted_names, protected_names
from je_tools.erase.entries_to_erase import EntriesToErase
from je_tools.erase.file_access import OverwriteCounts
from je_tools.erase.file_protection import keep_reason, reason_while_erasing
from je_tools.erase.in_kind.resuming import (
    UnfinishedInKind,
    complete_in_kind,
    find_unfinished_in_kind,
)
from je_tools.erase.judging import rows_to_finish
from je_tools.erase.overwriting import Overwriter
from je_tools.erase.results import ErasureHooks
from je_tools.erase.unread_places import UnreadPlaces, bad_spans, unread_places
from je_tools.errors import RefusedError
from je_tools.log.opening import open_environment
from je_tools.writing.disk import Disk
from je_tools.writing.lock import EnvironmentLock
from je_tools.writing.refusing import refusing, reporting_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from je_tools.erase.reasons import KeepReason
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner


class MarkedFile(Struct):
    """A file with marked entries that still have their bytes.

    Attributes:
        file: the file.
        entries: these entries.
        kept: reason to leave the file as it is; None if its entries may be overwritten.
        done_count: number of entries that were overwritten.
    """

    file: LogFile
    entries: EntriesToErase
    kept: KeepReason | None
    done_count: int = 0

    @property
    def left_count(self) -> int:
        """Number of entries that have not been overwritten."""
        return len(self.entries) - self.done_count


class Completion(Struct):
    """Completion of interrupted erasures.

    Attributes:
        marked: files with marked entries that still have their bytes, in log order.
        unread: places in which there may be more of them.
        in_kind: an erasure in kind that was interrupted; None for none.
        counts: what was done to files.
    """

    marked: list[MarkedFile] = field(default_factory=list)
    unread: list[UnreadPlaces] = field(default_factory=list)
    in_kind: UnfinishedInKind | None = None
    counts: OverwriteCounts = field(default_factory=OverwriteCounts)

    @property
    def entry_count(self) -> int:
        """Number of marked entries that were found."""
        return sum(len(each.entries) for each in self.marked)

    @property
    def kept(self) -> list[tuple[MarkedFile, KeepReason]]:
        """Files with marked entries that stay as they are, with the reasons."""
        return [(each, each.kept) for each in self.marked if each.kept is not None]

    @property
    def has_rest(self) -> bool:
        """True if something is left that repeating the command would not overwrite."""
        is_kept = self.in_kind is not None and self.in_kind.kept is not None
        return bool(self.unread or self.kept) or is_kept


def find_unfinished(environment: Environment, scanner: Scanner) -> Completion:
    """Return the entries that interrupted erasures have left in a log, in kind or not.

    Raises:
        RefusedError: a redo journal cannot be used, or control files cannot be read.
        StoppedError, InputError: as `find_marked`.
    """
    with refusing():
        in_kind = find_unfinished_in_kind(Path(environment.name))
    found = find_marked(environment, scanner)
    found.in_kind = in_kind
    return found


def find_marked(environment: Environment, scanner: Scanner) -> Completion:
    """Return the entries of a log that are marked as erased and still have their bytes.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
        RefusedError: the control files of erasures cannot be read.
    """
    found = Completion()
    protected = protected_names(Path(environment.name))
    interrupted = interrupted_names(Path(environment.name))

    def work(rows: Rows) -> tuple[EntriesToErase, Ints]:
        again = rows.file_no in repeated
        return EntriesToErase.of(rows.select(rows_to_finish(rows, again=again))), bad_spans(rows)

    repeated = {each.file_no for each in environment.files if each.path.name in interrupted}
    parts: list[EntriesToErase] = []
    spans: list[tuple[int, int]] = []
    for part in scanner.scan(environment, work):
        parts += [marked for marked, _ in part.results if len(marked)]
        spans += [(gap.start, gap.stop) for gap in part.gaps]
        spans += [(start, stop) for _, bad in part.results for start, stop in bad.tolist()]
        if part.end is None:
            continue
        if parts:
            with refusing():
                kept = keep_reason(part.file.path, protected)
            found.marked.append(MarkedFile(part.file, EntriesToErase.joined(parts), kept))
        unread = unread_places(part.end, spans)
        found.unread += [] if unread is None else [unread]
        parts, spans = [], []
    found.unread += [UnreadPlaces(each.path, 1, None) for each in environment.unreadable]
    return found


def complete_erasure(
    home: Path,
    scanner: Scanner,
    hooks: ErasureHooks | None = None,
    *,
    disk: Disk | None = None,
) -> Completion:
    """Overwrite the entries that interrupted erasures have left, with the engine's lock held.

    Files that have a second name (a hard link) or that `erase abort` protects stay as they are.

    Args:
        home: directory of the environment.
        scanner: scanner for reading the log.
        hooks: functions that are called meanwhile.
        disk: disk to write to.

    Raises:
        RefusedError: the environment is in use, or a step failed.
        InputError: there is no environment.
        StoppedError: a file shrank meanwhile.
    """
    hooks, disk = hooks or ErasureHooks(), disk or Disk()
    with EnvironmentLock(home, disk, instead="stop that first") as lock:
        for reader in lock.readers:
            hooks.on_reader(reader)
        control, counts = ErasureControl(home, disk), OverwriteCounts()
        with _failing(home), control:
            environment = open_environment([home])
            in_kind = complete_in_kind(environment, disk, counts, hooks, control)
            found = find_marked(environment, scanner)
            found.in_kind, found.counts = in_kind, counts
            for each in found.marked:
                _overwrite(each, counts, control, hooks, disk)
            control.clear(each.file.path.name for each in found.marked if each.left_count)
        return found


@contextmanager
def _failing(home: Path) -> Iterator[None]:
    """Append to errors the command to run again.

    A refusal is left as it is: running the command again would not help.
    """
    command = f"je-tools erase resume {quoted(str(home))} --apply"
    try:
        yield
    except RefusedError:
        raise
    except BaseException:
        with reporting_state(lambda: f"; run `{command}` again to continue"):
            raise


def _overwrite(
    each: MarkedFile,
    counts: OverwriteCounts,
    control: ErasureControl,
    hooks: ErasureHooks,
    disk: Disk,
) -> None:
    """Overwrite the marked entries of a file, unless it has to stay as it is.

    Raises:
        RefusedError: an entry is not what it was when the log was read.
        OSError: the system refuses a step.
    """
    if each.kept is not None:
        return
    with Overwriter(each.file, disk, counts, hooks) as overwriter:
        for batch in each.entries.batches():
            if hooks.should_stop():
                return
            # Its links and its protection may have changed since the last batch.
            each.kept = reason_while_erasing(each.file, control.is_protected, overwriter.number)
            if each.kept is not None:
                return
            overwriter.erase(batch)
            each.done_count += len(batch)
            hooks.on_batch(each.file, batch)
