"""Completion of interrupted erasures: entries that are marked as erased and still have their bytes.

The engine's own eraser leaves such entries too, when its environment is closed or a backup begins.
Their type is durable, so their bytes may be overwritten whatever else the log holds.

Source: je-log.md "Data eraser"; DataEraser.eraseEntry, ErasedLogEntry, JE 25.3.17.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from je_tools.core.escaping import quoted
from je_tools.erase.erasures import Erasures
from je_tools.erase.file_access import OverwriteCounts
from je_tools.erase.in_kind.resuming import (
    UnfinishedInKind,
    complete_in_kind,
    find_unfinished_in_kind,
)
from je_tools.erase.overwriting import Overwriter
from je_tools.erase.results import ErasureHooks
from je_tools.formats.je.log.erased import unfinished_rows
from je_tools.log.opening import open_environment
from je_tools.writing.disk import Disk
from je_tools.writing.lock import EnvironmentLock
from je_tools.writing.refusing import refusing

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner


class Completion(Struct):
    """Completion of interrupted erasures.

    Attributes:
        unfinished: files with marked entries that still have their bytes, and these entries.
        in_kind: an erasure in kind that was interrupted; None for none.
        linked: files of these that stay as they are, since they have another name.
        counts: what was done to files.
    """

    unfinished: list[tuple[LogFile, Erasures]] = field(default_factory=list)
    linked: list[LogFile] = field(default_factory=list)
    in_kind: UnfinishedInKind | None = None
    counts: OverwriteCounts = field(default_factory=OverwriteCounts)

    @property
    def entry_count(self) -> int:
        """Number of entries that were found."""
        return sum(len(erasures) for _, erasures in self.unfinished)


def find_unfinished(environment: Environment, scanner: Scanner) -> Completion:
    """Return the entries of a log that are marked as erased and still have their bytes.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """

    def collect(rows: Rows) -> Erasures:
        return Erasures.of(rows.select(unfinished_rows(rows)))

    with refusing():
        found = Completion(in_kind=find_unfinished_in_kind(Path(environment.name)))
    parts: dict[int, list[Erasures]] = {}
    for part in scanner.scan(environment, collect):
        parts.setdefault(part.file.file_no, []).extend(each for each in part.results if len(each))
    for file in environment.files:
        if parts.get(file.file_no):
            found.unfinished.append((file, Erasures.joined(parts[file.file_no])))
            if file.path.is_symlink() or file.path.stat().st_nlink > 1:
                found.linked.append(file)
    return found


def complete_erasure(
    home: Path,
    scanner: Scanner,
    hooks: ErasureHooks | None = None,
    *,
    disk: Disk | None = None,
) -> Completion:
    """Overwrite what interrupted erasures have left, with the engine's lock held.

    Args:
        home: directory of the environment.
        scanner: scanner for reading the log.
        hooks: functions that are called meanwhile.
        disk: disk that is written to.

    Raises:
        RefusedError: the environment is in use, or a step failed.
        InputError: there is no environment.
        StoppedError: a file shrank meanwhile.
    """
    hooks, disk = hooks or ErasureHooks(), disk or Disk()
    with EnvironmentLock(home, disk, instead="stop that first") as lock:
        for reader in lock.readers:
            hooks.on_reader(reader)
        counts = OverwriteCounts()
        with refusing(
            lambda: f"; run `je-tools erase resume {quoted(str(home))} --apply` again to go on"
        ):
            in_kind = complete_in_kind(home, disk, counts, hooks)
            found = find_unfinished(open_environment([home]), scanner)
            found.in_kind, found.counts = in_kind, counts
            for file, erasures in found.unfinished:
                if file in found.linked:
                    continue
                with Overwriter(file, disk, found.counts, hooks) as overwriter:
                    for batch in erasures.batches():
                        if hooks.should_stop():
                            return found
                        overwriter.erase(batch)
                        hooks.on_batch(file, batch)
        return found
