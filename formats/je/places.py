"""Places of damage in one file, held in few bytes each: a file can be made of nothing else."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from typing import ClassVar, TypeVar, overload

import numpy as np
from msgspec import Struct

from je_tools.formats.arrays import Ints

SINGLE, INSERTED = 1, 2
"""Bits of the third number of a gap."""

T = TypeVar("T")


class Gap(Struct, frozen=True):
    """Bytes [start, stop) that hold no entry that can be trusted.

    `start` is where an entry should begin. `single` says that the gap is exactly one entry: the
    entry behind names `start` as the one before it. `inserted` says that it never was an entry:
    the entry behind names the one in front of the gap.
    """

    start: int
    stop: int
    single: bool = False
    inserted: bool = False


class ChainBreak(Struct, frozen=True):
    """A good entry at `offset` whose prevOffset is `found` and not `expected`.

    The entries behind it name places `shift` bytes before the real ones: so many bytes were
    inserted, or are missing where it is negative.
    """

    offset: int
    expected: int
    found: int
    shift: int


class Places(Sequence[T]):
    """A list that only grows, of things that are `width` whole numbers of 64 bits each."""

    width: ClassVar[int]

    def __init__(self) -> None:
        self._numbers = array("q")

    def __len__(self) -> int:
        return len(self._numbers) // self.width

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index] * self.width
        return self._made(*self._numbers[i : i + self.width])

    def __iter__(self) -> Iterator[T]:
        return (self[i] for i in range(len(self)))

    @property
    def numbers(self) -> Ints:
        """A copy of all, int64 (len, width)."""
        return np.array(self._numbers, np.int64).reshape(-1, self.width)

    def extend(self, numbers: Ints) -> None:
        """Append what a kernel has found, int64 (n, width)."""
        self._numbers.frombytes(numbers.tobytes())

    @abstractmethod
    def _made(self, *numbers: int) -> T:
        """One of them."""


class Gaps(Places[Gap]):
    """Gaps; of each start, stop, and what is said of it."""

    width = 3

    def append(self, gap: Gap) -> None:
        """Append one."""
        said = gap.single * SINGLE | gap.inserted * INSERTED
        self._numbers.extend((gap.start, gap.stop, said))

    def _made(self, *numbers: int) -> Gap:
        start, stop, said = numbers
        return Gap(start, stop, bool(said & SINGLE), bool(said & INSERTED))


class ChainBreaks(Places[ChainBreak]):
    """Breaks of the chain; of each offset, expected, found, shift."""

    width = 4

    def append(self, found: ChainBreak) -> None:
        """Append one."""
        self._numbers.extend((found.offset, found.expected, found.found, found.shift))

    def _made(self, *numbers: int) -> ChainBreak:
        return ChainBreak(*numbers)
