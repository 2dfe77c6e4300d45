"""The extension that formats/native builds: loops over bytes, compiled ahead.

Arrays are contiguous. Those that a function fills are writable and were allocated by the caller.
The interpreter lock is released. A wrong dtype or length is a TypeError or a ValueError; bytes of
a log never raise.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from je_tools.formats.je.reader import ReadOptions, Rows
from je_tools.formats.je.walk import HeaderColumns, HeaderRules
from je_tools.formats.source import Source

_Bytes = npt.NDArray[np.uint8]
_Ints = npt.NDArray[np.int64]

def declared() -> dict[str, int]:
    """Return the numbers that a Python module declares as well, by their names below `formats`."""

def encode_packed(value: int) -> bytes:
    """Return the shortest packed form of a signed 64-bit `value`."""

def read_packed(data: bytes) -> tuple[int, int] | None:
    """Return the packed integer at the start of `data` and its size, or None if there is none."""

# Reading logs.

_Survey = tuple[_Ints, int, int, int, int]
_Lines = tuple[_Ints, _Ints]
_Programs = tuple[_Ints, _Ints, _Ints]

class File:
    """A file that is open for reading; threads that read it keep it open until they are done."""

    def __new__(cls, path: Path) -> File: ...
    def fileno(self) -> int:
        """Return the descriptor; a ValueError after `close`."""

    def close(self) -> None:
        """Close the file as soon as nobody reads it any more."""

class RangeReader:
    """Reads the entries that begin in a range of one file.

    Args:
        source: asked by `read_bytes` for what cannot be read here.
        file: the same; None to ask `source` for all.
        rules: how the headers of the file are read.
        options: which range, and how.
    """

    def __new__(
        cls, source: Source, file: File | None, rules: HeaderRules, options: ReadOptions
    ) -> RangeReader: ...
    def step(self, buffer: _Bytes, columns: HeaderColumns) -> tuple[int, int]:
        """Read on until rows have to be taken, a longer buffer is needed, or the range ends.

        Args:
            buffer: what is read; it must stay as it is from call to call, until it is too short.
            columns: filled from the front.

        Returns:
            An `Event`; how many rows are filled, or how long the buffer must be.

        Raises:
            SourceError: what `source.read_bytes` says.
        """

    def window(self) -> tuple[int, int]:
        """Return the offset in the file of the first byte in the buffer, and how many are there."""

    def survey(self) -> _Survey:
        """Return the fields of a `Survey` of the rows that were returned last."""

    def take_quiet(self) -> tuple[_Survey, _Lines]:
        """Return the same of rows that were not wanted, since the last call, and their tally."""

    def first(self) -> tuple[int, int]:
        """Return the offset of the first entry and its prevOffset; NO_OFFSET if there is none."""

    def place(self) -> tuple[int, int, int, int, bool]:
        """Return the fields of the `Place` where reading goes on."""

    def gaps(self) -> _Ints:
        """Return the gaps that were closed, three numbers each."""

    def chain_breaks(self) -> _Ints:
        """Return the breaks of the chain, four numbers each."""

    def bad(self) -> list[tuple[int, int]]:
        """Return half-open ranges of damaged entries, the first `reader.KEPT` of them."""

    def is_blank(self) -> bool:
        """Return whether nothing but zeros was seen from the start of the range."""

def tally(rows: Rows, programs: _Programs | None) -> _Lines:
    """Return the lines of a `Tally`, five numbers each; no sizes without `steps.programs`."""

# Memory maps.

class Maps:
    """Files mapped behind each other in one stretch of address space: a buffer, read-only.

    A page that cannot be read any more becomes zeros, with all that its file has after it.

    Args:
        stops: where the pages of each file end, ascending; all but what `map` maps is not to be
            read.

    Raises:
        OSError: there is no room.
    """

    def __new__(cls, stops: Sequence[int]) -> Maps: ...
    def map(self, file: File, path: str, at: int, size: int) -> None:
        """Map the first bytes of a file at `at`, before there is any view.

        Raises:
            OSError: the system refuses; `path` is in it.
        """

    @property
    def torn_at(self) -> int:
        """How far into the stretch a page was that could not be read; -1 where all could."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
