"""Growth of logs: how far each log is complete, and what lies between two such places.

An offset of a stream has, for each environment, the LSN of the next entry. In the file in which
the log ends, entries count up to the first bytes that are no whole good entry: an engine may be
writing them, or cuts them off after a crash. A file that another one follows is complete, and read
as `dump` reads it.

Source: LogManager.logInternal, FileManager.syncLogEndAndFinishFile, JE 7.5.11: all of a file is
written before the next one is created. LastFileReader.startAtLastGoodFile, JE 7.5.11: after a
crash, the file before a mere header is the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.errors import StoppedError
from je_tools.formats.je.header import lsn_of, lsn_text
from je_tools.formats.je.log.reader import ReadState
from je_tools.log.file_scan import FilePiece
from je_tools.log.parsing import parse_lsn
from je_tools.log.scan import Scanner

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile

Offset = Mapping[str, str]
"""LSN of the next entry, as text, by the name of the environment."""

BEGIN = "0x0/0x0"
"""The place before the first entry of any log."""


class LogEnds(Struct):
    """Ends of complete entries, found again and again; only what is new is read.

    Attributes:
        check: verify the checksum of every entry.
    """

    check: bool
    _known: dict[tuple[str, int], int] = {}

    def end_of(self, env: str, environment: Environment) -> int:
        """Return the LSN after the last complete entry of a log.

        Raises:
            StoppedError: the file shrank, vanished or was replaced meanwhile.
            InputError: it cannot be read.
        """
        file = environment.files[min(environment.ends, default=len(environment.files) - 1)]
        start = self._known.get((env, file.file_no), 0)
        if file.size < start:
            raise _cut_back(file)
        at = self._scanned(file, start) if file.size > start else start
        self._known = {key: value for key, value in self._known.items() if key[0] != env}
        self._known[env, file.file_no] = at
        return lsn_of(file.file_no, at)

    def _scanned(self, file: LogFile, start: int) -> int:
        """Return the offset of the first bytes from `start` on that are no whole good entry."""
        end = start
        piece = FilePiece(file, ReadState(start))
        for part in Scanner(check=self.check, threads=1).scan_piece(piece, lambda _: None):
            if part.end is not None:
                state = part.end
                breaks = [*(gap.start for gap in state.gaps), *(first for first, _ in state.bad)]
                end = min([state.tail, *breaks])
        return end


def pieces_between(
    environment: Environment, start: str, stop: str, *, skips: bool = False
) -> Iterator[FilePiece]:
    """Yield the pieces of files that hold the entries from one LSN up to another one.

    Args:
        environment: the log, which may have grown since.
        start, stop: LSNs as text; `stop` is that of the entry after the last one.
        skips: leave out files that are gone.

    Raises:
        StoppedError: a file of this range is gone, or the log was cut back.
    """
    first, end = parse_lsn(start), parse_lsn(stop)
    if not skips:
        _check_whole(environment, first, end)
    for file in environment.files:
        begin = first & 0xFFFFFFFF if file.file_no == first >> 32 else 0
        if not first >> 32 <= file.file_no <= end >> 32:
            continue
        size = end & 0xFFFFFFFF if file.file_no == end >> 32 else file.size
        if begin > file.size or size > file.size:
            raise _cut_back(file)
        if begin < size:
            # Entries written since are not read: the file ends here, at an entry's end.
            yield FilePiece(replace(file, size=size), ReadState(begin))


def _cut_back(file: LogFile) -> StoppedError:
    return StoppedError(
        f"{file.path}: cut back to {file.size} bytes while it was followed (a rollback or a "
        "truncation); begin a new stream, with a new checkpoint"
    )


def _check_whole(environment: Environment, first: int, end: int) -> None:
    """Check that no file is missing in a range; a range from LSN 0 may lack files."""
    if first == 0 or not environment.files:
        return
    numbers = set(environment.numbers)
    missing = [no for no in range(first >> 32, (end >> 32) + 1) if no not in numbers]
    if missing:
        raise StoppedError(
            f"{environment.name}: file {missing[0]:#x} is gone, and the stream has read it only up "
            f"to {lsn_text(first)}: the cleaner was faster, or it was moved away. Put it back, or "
            "give the option unreadable=skip to continue after it"
        )
