"""Places of damage in one file, in few bytes each: a file can consist of nothing else."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar, overload

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints

SINGLE, INSERTED = 1, 2
"""Bits of the third number of a gap."""

T = TypeVar("T")


class Gap(Struct, frozen=True):
    """Bytes [start, stop) without an entry that can be trusted.

    An entry should begin at `start`. If `single`, the gap is exactly one entry: the entry after it
    names `start` as its predecessor. If `inserted`, the gap never was an entry: the entry after it
    names the entry before it.
    """

    start: int
    stop: int
    single: bool = False
    inserted: bool = False


class ChainBreak(Struct, frozen=True):
    """A good entry at `offset` whose prevOffset is `found` instead of `expected`.

    The prevOffsets of the entries after it are too low by `shift`: so many bytes were inserted, or
    are missing if `shift` is negative.
    """

    offset: int
    expected: int
    found: int
    shift: int


class Places(Sequence[T]):
    """An append-only list of items that are `width` 64-bit integers each."""

    width: ClassVar[int]

    def __init__(self, numbers: array[int] | None = None) -> None:
        self._numbers = array("q") if numbers is None else numbers

    def __reduce__(self) -> tuple[type[Places[T]], tuple[array[int]]]:
        return type(self), (self._numbers,)

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
        """Copy of all items, int64 (len, width)."""
        return np.array(self._numbers, np.int64).reshape(-1, self.width)

    def extend(self, numbers: Ints) -> None:
        """Append items from the extension, int64 (n, width)."""
        self._numbers.frombytes(numbers.tobytes())

    @abstractmethod
    def _made(self, *numbers: int) -> T:
        """Build an item from its numbers."""


class Gaps(Places[Gap]):
    """Gaps; start, stop, and bits SINGLE and INSERTED of each."""

    width = 3

    def append(self, gap: Gap) -> None:
        """Append a gap."""
        said = gap.single * SINGLE | gap.inserted * INSERTED
        self._numbers.extend((gap.start, gap.stop, said))

    def _made(self, *numbers: int) -> Gap:
        start, stop, said = numbers
        return Gap(start, stop, bool(said & SINGLE), bool(said & INSERTED))


class ChainBreaks(Places[ChainBreak]):
    """Breaks of the chain; offset, expected, found and shift of each."""

    width = 4

    def append(self, found: ChainBreak) -> None:
        """Append a break."""
        self._numbers.extend((found.offset, found.expected, found.found, found.shift))

    def _made(self, *numbers: int) -> ChainBreak:
        return ChainBreak(*numbers)
