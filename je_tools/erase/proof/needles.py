"""Needles: the keys, texts and patterns that are searched for; reports name them only by hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from je_tools.errors import UsageError
from je_tools.formats import _native
from je_tools.formats.needles import HashedColumns, Hits

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.spans import Spans

SHORT_SIZE = 4
"""Shorter needles are found by chance: a gigabyte has any three bytes about 60 times."""

NEEDLE_SIZE_MAX = 1 << 20
"""Largest size of a needle; as many bytes are read twice where two ranges meet."""


class NeedleKind(StrEnum):
    """Kind of a needle."""

    LITERAL = "literal"
    PATTERN = "pattern"
    HASHED = "hashed"


class HashedNeedle(Struct, frozen=True):
    """A needle that is known by its size and hashes only.

    Attributes:
        size: bytes.
        sha256: hexadecimal SHA-256 of the salt of its file and its bytes.
        first, whole: its short hashes; see `formats.needles`.
    """

    size: int
    sha256: str
    first: int
    whole: int


class HashedNeedles(Struct, frozen=True):
    """Hashed needles, as a file has them.

    Attributes:
        seed: seed of the short hashes.
        salt: salt of the digests.
        width: number of first bytes that are hashed.
        needles: the needles.
    """

    seed: int
    salt: bytes
    width: int
    needles: tuple[HashedNeedle, ...] = ()

    def columns(self) -> HashedColumns:
        """Return the needles as columns."""
        return HashedColumns(
            seed=self.seed,
            width=self.width,
            sizes=np.array([each.size for each in self.needles], np.int64),
            firsts=np.array([each.first for each in self.needles], np.uint32),
            wholes=np.array([each.whole for each in self.needles], np.uint32),
        )

    def digest(self, value: bytes) -> str:
        """Return the digest of some bytes as the needles have it."""
        return hashlib.sha256(self.salt + value).hexdigest()


NO_HASHED = HashedNeedles(0, b"", 0)


class Needle(Struct, frozen=True):
    """Something that is searched for; its text never appears in an output.

    Attributes:
        kind: its kind.
        origin: option that named it.
        value: bytes of a literal, or text of a pattern in UTF-8; empty for a hashed needle.
        size: bytes of a hit; None for a pattern.
        sha256: digest of a hashed needle; empty for others.
        is_key: True for a key of a record.
        is_prefix: True for a prefix of keys.
    """

    kind: NeedleKind
    origin: str
    value: bytes
    size: int | None
    sha256: str = ""
    is_key: bool = False
    is_prefix: bool = False

    def __repr__(self) -> str:
        # Tracebacks show locals.
        return f"Needle({self.kind.value}, {self.origin})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("kind", self.kind.value), ("origin", self.origin)]

    def name(self, masking: Masking) -> str:
        """Return its name in reports: a hash, even if the mode of the masking shows values."""
        if self.kind is NeedleKind.HASHED:
            return f"needle:{self.sha256}"
        return masking.text_of(self.value) or "(hidden)"


class NeedleSearch:
    """Search for some needles in any bytes, in any thread.

    Attributes:
        needles: literals, then patterns, then hashed needles.
        reach: largest number of bytes of a hit.
    """

    def __init__(self, needles: Iterable[Needle], hashed: HashedNeedles = NO_HASHED) -> None:
        """Prepare a search.

        Args:
            needles: literals and patterns; of equal ones the first counts.
            hashed: hashed needles.

        Raises:
            UsageError: a pattern is refused, or there is nothing to search for.
        """
        distinct: dict[tuple[NeedleKind, bytes], Needle] = {}
        for each in needles:
            distinct.setdefault((each.kind, each.value), each)
        given = list(distinct.values())
        literals = [each for each in given if each.kind is NeedleKind.LITERAL]
        patterns = [each for each in given if each.kind is NeedleKind.PATTERN]
        unknown = [
            Needle(NeedleKind.HASHED, "--needles", b"", each.size, each.sha256)
            for each in hashed.needles
        ]
        self.needles: Sequence[Needle] = (*literals, *patterns, *unknown)
        if not self.needles:
            raise UsageError("nothing to search for: give --key, --key-file or --match")
        self._hashed = hashed
        self._first_hashed = len(literals) + len(patterns)
        _check_patterns(patterns)
        self._search = _native.Needles(
            [each.value for each in literals],
            [each.value.decode() for each in patterns],
            hashed.columns() if unknown else None,
        )
        self.reach = self._search.reach

    def __len__(self) -> int:
        return len(self.needles)

    @property
    def short_count(self) -> int:
        """Number of needles that are shorter than SHORT_SIZE."""
        return sum(each.size is not None and each.size < SHORT_SIZE for each in self.needles)

    def search(self, data: Bytes, first: int, stop: int, most: int) -> Hits:
        """Return the hits that begin in [first, stop); keep at most `most` of them."""
        hits = Hits(*self._search.search(data, first, stop, most))

        def value_of(i: int) -> bytes:
            at = int(hits.start[i])
            return data[at : at + int(hits.size[i])].tobytes()

        confirmed = self._confirmed(hits, value_of)
        return hits if confirmed is None else hits.select(confirmed)

    def is_in(self, value: bytes) -> bool:
        """Return True if any needle is somewhere in `value`."""
        data = np.frombuffer(value, np.uint8)
        return bool(self.search(data, 0, len(data), len(value) + 1).counts.any())

    def search_joined(
        self, first: Ints, prefixes: Spans, rests: Spans, most: int
    ) -> tuple[Ints, Hits]:
        """Search keys that are a prefix and a rest, for hits that lie in both parts.

        See `_native.Needles.search_joined`.
        """
        rows, columns = self._search.search_joined(first, prefixes, rests, most)
        hits = Hits(*columns)
        owner = np.searchsorted(first, rows, side="right") - 1

        def value_of(i: int) -> bytes:
            key = (prefixes[int(owner[i])] or b"") + (rests[int(rows[i])] or b"")
            return key[int(hits.start[i]) :][: int(hits.size[i])]

        confirmed = self._confirmed(hits, value_of)
        return (rows, hits) if confirmed is None else (rows[confirmed], hits.select(confirmed))

    def _confirmed(
        self, hits: Hits, value_of: Callable[[int], bytes]
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
        """Return a mask of hits without those of hashed needles whose digest differs.

        Return None if all hits stay.
        """
        doubtful = np.flatnonzero(hits.needle >= self._first_hashed)
        if not len(doubtful):
            return None
        keep = np.ones(len(hits), np.bool_)
        for i in doubtful.tolist():
            needle = self.needles[int(hits.needle[i])]
            keep[i] = self._hashed.digest(value_of(i)) == needle.sha256
        return None if keep.all() else keep


def loose_count(needles: Iterable[Needle]) -> int:
    """Return the number of needles that may occur by chance in records of other people.

    These are not whole keys, and fewer than SHORT_SIZE bytes are the same in all their hits, apart
    from the case of letters.
    """
    loose = [each for each in needles if not each.is_key or each.is_prefix]
    patterns = [each for each in loose if each.kind is NeedleKind.PATTERN]
    _check_patterns(patterns)
    prepared = _native.Needles([], [each.value.decode() for each in patterns], None)
    sizes = [each.size for each in loose if each.size is not None]
    return sum(size < SHORT_SIZE for size in (*sizes, *prepared.fixed_lens))


def _check_patterns(patterns: Sequence[Needle]) -> None:
    """Refuse patterns that cannot be searched for.

    Raises:
        UsageError: there is such a pattern; the message does not quote it.
    """
    for number, pattern in enumerate(patterns, 1):
        try:
            _native.Needles([], [pattern.value.decode()], None)
        except ValueError as error:
            raise UsageError(
                f"{pattern.origin}: regular expression {number} is refused: {error}"
            ) from None
