"""Overwriting in kind: write what a redo journal says, make it durable, and read it back.

Doing this twice changes nothing more, so the same steps complete an interruption at any byte. An
entry is written only if its new bytes have the checksum in the journal. So a journal cannot change
a file other than the one that it was made for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from je_tools.erase.file_access import EntryRun, OverwrittenFile
from je_tools.erase.in_kind.redo_journal import remove_redo
from je_tools.formats.je.write.blanking import blank_checksums
from je_tools.formats.spans import Spans, fill_spans

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.erase.file_access import OverwriteCounts
    from je_tools.erase.in_kind.blanks import Blanks
    from je_tools.erase.in_kind.redo_journal import RecordedRedo
    from je_tools.erase.results import ErasureHooks
    from je_tools.writing.disk import Disk

_CHECKSUM_BYTES = np.arange(4)


def apply_redo(
    home: Path,
    redo: RecordedRedo,
    disk: Disk,
    counts: OverwriteCounts,
    hooks: ErasureHooks,
) -> None:
    """Overwrite the entries of a redo journal durably, check them, and remove the journal.

    Args:
        home: home of the environment, whose lock is held.
        redo: the journal.
        disk: disk to write to.
        counts: counts to add to.
        hooks: functions that are called meanwhile.

    Raises:
        RefusedError: an entry is not the one that the journal was made for, or bytes read back
            differ from those written; the journal stays.
        OSError: the system refuses a step.
    """
    with OverwrittenFile(redo.log_path, disk, counts, hooks) as file:
        for blanks in redo.batches():
            for run in file.read_entries(blanks.entries, blanks.entries.type):
                _fill(run, blanks)
                _check(file, run, blanks, redo.log_version)
                file.write(run.first, run.data)
        file.sync(0)
        for blanks in redo.batches():
            for run in file.read_entries(blanks.entries, blanks.entries.type):
                written = run.data.copy()
                _fill(run, blanks)
                if (run.data != written).any():
                    raise file.change_error(
                        run.first, "bytes that were overwritten have other values"
                    )
            counts.entry_count += len(blanks)
            counts.entry_size += int(blanks.entries.size.sum())
            hooks.on_blanks(redo.log_path, blanks)
    remove_redo(home, disk)


def _fill(run: EntryRun, blanks: Blanks) -> None:
    """Set the bytes of a run to their new values."""
    ranges = slice(int(blanks.first[run.rows.start]), int(blanks.first[run.rows.stop]))
    starts = blanks.start[ranges] - run.first
    fill_spans(run.data, starts, blanks.size[ranges], 0)
    checksums = blanks.checksum[run.rows].astype("<u4").view(np.uint8).reshape(-1, 4)
    run.data[run.at[:, None] + _CHECKSUM_BYTES] = checksums


def _check(file: OverwrittenFile, run: EntryRun, blanks: Blanks, version: int) -> None:
    """Check that the checksums of a run are those in the journal.

    Raises:
        RefusedError: a checksum differs.
    """
    sizes = blanks.entries.size[run.rows]
    found = blank_checksums(Spans(run.data, run.at, sizes), version)
    wrong = np.flatnonzero(found != blanks.checksum[run.rows])
    if len(wrong):
        place = run.first + int(run.at[wrong[0]])
        raise file.change_error(
            place, "the entry is not the one that the redo journal was made for"
        )
