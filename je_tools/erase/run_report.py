"""Report of a run: the byte ranges that changed, and the fsyncs, as JSON lines without data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from je_tools.core.escaping import clean_text
from je_tools.erase.file_access import TYPE_OFFSET
from je_tools.output.files.outputs import open_output

if TYPE_CHECKING:
    from je_tools.erase.entries_to_erase import EntriesToErase
    from je_tools.erase.in_kind.blanks import Blanks
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile

CHECKSUM_SIZE = 4


class RunReport:
    """The report of a run.

    A line `ranges` has a file and the ranges of one batch, each as offset and size: first the bytes
    that hold types, or checksums before log version 17, then those that became zeros. A line
    `fsync` has a file and a time. A line `stopped` has the reason why the run has stopped early.

    Attributes:
        is_begun: True if the report has a line.
    """

    def __init__(self, out: BinaryIO | None) -> None:
        self._out = out
        self.is_begun = False

    @classmethod
    @contextmanager
    def opened(cls, path: Path | None, environment: Environment) -> Iterator[RunReport]:
        """Open a report that gets its name at the end; None for no report.

        An erasure cannot be undone, so the report stays if an error ends the run, and ends with a
        line `stopped`. If nothing was noted, there is no report.

        Raises:
            RefusedError: it exists, lies inside the environment, or cannot be written.
        """
        if path is None:
            yield cls(None)
            return
        stopped: Exception | None = None
        with open_output(path, environment) as out:
            report = cls(out)
            try:
                yield report
            except Exception as error:
                if not report.is_begun:
                    raise
                report.note_stop(error)
                stopped = error
        if stopped is not None:
            raise stopped

    def note_batch(self, file: LogFile, batch: EntriesToErase) -> None:
        """Note the entries of a batch."""
        if self._out is None:
            return
        types = np.stack((batch.offset + TYPE_OFFSET, np.ones(len(batch), np.int64)), axis=1)
        items = np.stack((batch.item_offset, batch.item_size), axis=1)
        for what, ranges in (("type", types), ("zeros", items[batch.item_size > 0])):
            self._write(record="ranges", file=file.path.name, what=what, ranges=ranges.tolist())

    def note_blanks(self, path: Path, blanks: Blanks) -> None:
        """Note entries that were overwritten in kind."""
        if self._out is None:
            return
        sums = np.stack((blanks.entries.offset, np.full(len(blanks), CHECKSUM_SIZE)), axis=1)
        zeros = np.stack((blanks.start, blanks.size), axis=1)
        for what, ranges in (("checksum", sums), ("zeros", zeros)):
            self._write(record="ranges", file=path.name, what=what, ranges=ranges.tolist())

    def note_fsync(self, path: Path, time_ms: int) -> None:
        """Note an fsync."""
        self._write(record="fsync", file=path.name, time_ms=time_ms)

    def note_stop(self, error: Exception) -> None:
        """Note the error that has stopped the run."""
        self._write(record="stopped", reason=clean_text(str(error)))

    def _write(self, **fields: object) -> None:
        self.is_begun = True
        if self._out is not None:
            self._out.write(json.dumps(fields, separators=(",", ":")).encode() + b"\n")
