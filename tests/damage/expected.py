"""Findings expected of a log whose entries are known, after bytes of it have changed.

They follow from the old places of the entries and the new bytes: one error for each damaged entry
if its header still leads to an entry that fits; otherwise one error for each gap, with the LSN at
which entries resume. The finding for a torn end depends on the files after it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.builders.logs import ERASED, FILE_HEADER, INVISIBLE, Placed

HEADER_SIZE, LONG_HEADER_SIZE, FILE_HEADER_SIZE = 14, 22, 38


class Said(NamedTuple):
    """Code, severity and place of a finding, and the offset at which entries resume."""

    code: str
    severity: str
    offset: int
    length: int | None
    resume: int | None


def said(row: dict[str, Any]) -> Said:
    """Return the same fields of a line of `verify --format jsonl`."""
    resume = row["resume_lsn"]
    at = None if resume is None else int(resume.split("/")[1], 16)
    return Said(row["code"], row["severity"], row["offset"], row["length"], at)


@dataclass(frozen=True)
class Damaged:
    """A file with changed bytes, of the same size as before.

    Attributes:
        before, after: its bytes before and after the change.
        placed: its entries before the change, the file header first.
        version: its log version.
        is_last: True if no file follows it in the log.
    """

    before: bytes
    after: bytes
    placed: Sequence[Placed]
    version: int
    is_last: bool

    def is_damaged(self, place: Placed) -> bool:
        """Return True if an entry has changed; since v7 the invisible bit may change in place.

        The checksum of a file header covers this bit.
        """
        before = bytearray(self.before[place.start : place.stop])
        after = bytearray(self.after[place.start : place.stop])
        if self.version >= 7 and place.start:
            before[5] &= ~INVISIBLE
            after[5] &= ~INVISIBLE
        return before != after

    def is_invisible(self, start: int) -> bool:
        """Return True if the entry at `start` is now marked as rolled back."""
        return self.version >= 7 and bool(self.after[start + 5] & INVISIBLE)

    def becomes_erased(self, place: Placed) -> bool:
        """Return True if it now has the type without checksum, which hides the damage."""
        return self.version >= 17 and self.after[place.start + 4] == ERASED and self._fits(place)

    def _fits(self, place: Placed) -> bool:
        """Return True if its header leads to its old end."""
        return self._end(place) == place.stop

    def _end(self, place: Placed) -> int | None:
        """Return the end that its header claims; None if no entry has such a header."""
        type_no, _, _, size = self._header(place)
        end = place.start + self._header_size(place) + size
        return end if type_no != 0 and size >= 0 else None

    def _header_size(self, place: Placed) -> int:
        type_no, flags, _, _ = self._header(place)
        mask = 0x28 if self.version >= 8 else 0x20
        return LONG_HEADER_SIZE if flags & mask and type_no != FILE_HEADER else HEADER_SIZE

    def _header(self, place: Placed) -> tuple[int, int, int, int]:
        return struct.unpack_from("<BBIi", self.after, place.start + 4)

    def _is_named_by(self, place: Placed, behind: Placed) -> bool:
        type_no, _, prev, size = self._header(behind)
        return prev == place.start and type_no != 0 and size >= 0

    def _chained(self, i: int) -> bool:
        """Return True if entry `i` names the one before it, as all that fit must."""
        return self._header(self.placed[i])[2] == self.placed[i - 1].start

    def _believed_end(self, place: Placed) -> int | None:
        """Return the wrong end that its header claims, if bytes there happen to point back."""
        end = self._end(place)
        if end is None or end == place.stop or end + HEADER_SIZE > len(self.after):
            return None
        return end if self._is_named_by(place, Placed(end, end)) else None

    def intact(self) -> list[Placed]:
        """Return the entries that must still be listed as good, without the file header."""
        return [place for place in self.placed[1:] if not self.is_damaged(place)]

    def taken_for_erased(self) -> list[Placed]:
        """Return the damaged entries that must pass for erased ones."""
        return self._read()[1]

    def findings(self) -> list[Said]:
        """Return the findings of the damage, in the order of the file."""
        return self._read()[0]

    def _read(self) -> tuple[list[Said], list[Placed]]:
        """Return the findings, and the damaged entries that pass for erased ones."""
        found: list[Said] = []
        erased: list[Placed] = []
        if self.is_damaged(self.placed[0]):
            found.append(Said("bad-file-header", "error", 0, FILE_HEADER_SIZE, None))
        i = 1
        while i < len(self.placed):
            place = self.placed[i]
            if not self.is_damaged(place):
                i += 1
                continue
            behind = self.placed[i + 1] if i + 1 < len(self.placed) else None
            chained = self._chained(i)
            if self.becomes_erased(place):
                self._report_erased(found, place, chained=chained)
                erased.append(place)
                i += 1
                continue
            if chained and behind and self._fits(place) and self._is_named_by(place, behind):
                found.append(_damage("entry", place, place.stop))
                i += 1
                continue
            believed = self._believed_end(place) if chained else None
            if believed is not None:
                found.append(_damage("entry", place, believed))
                place = Placed(believed, place.stop)
            good = (j for j in range(i + 1, len(self.placed)) if self._is_good(j))
            j = next(good, None)
            if j is None:
                found.append(self._tail(place))
                break
            # No entry points back to a place that only a wrong size names.
            is_single = j == i + 1 and believed is None
            found.append(_damage("entry" if is_single else "gap", place, self.placed[j].start))
            i = j
        return found, erased

    def _is_good(self, i: int) -> bool:
        """Return True if reading resumes at an entry; damage of an erased one does not show."""
        if not self.is_damaged(self.placed[i]):
            return True
        if not self._chained(i) or not self.becomes_erased(self.placed[i]):
            return False
        behind = self.placed[i + 1] if i + 1 < len(self.placed) else None
        return behind is not None and not self.is_damaged(behind)

    def _report_erased(self, found: list[Said], place: Placed, *, chained: bool) -> None:
        """Report a damaged entry that passes for an erased one: no checksum covers it."""
        if not chained:
            found.append(Said("prev-offset-mismatch", "error", place.start, HEADER_SIZE, None))
        header = self._header_size(place)
        if any(self.after[place.start + header : place.stop]):
            size = place.stop - place.start
            _join(found, Said("erased-not-zero", "warning", place.start, size, None))

    def _tail(self, place: Placed) -> Said:
        size = len(self.after) - place.start
        if not any(self.after[place.start :]):
            severity = "note" if self.is_last else "error"
            return Said("zero-tail", severity, place.start, size, None)
        if self.is_last:
            return Said("torn-tail", "note", place.start, size, None)
        if self._fits(place) and place.stop == len(self.after):
            return Said("damaged-entry", "error", place.start, size, None)
        return Said("truncated-file", "error", place.start, size, None)


def _join(found: list[Said], said: Said) -> None:
    """Add a finding; bytes of adjacent erased entries are one finding."""
    last = found[-1] if found and found[-1].code == "erased-not-zero" else None
    if last and said.code == last.code and last.offset + (last.length or 0) == said.offset:
        found[-1] = last._replace(length=said.offset + (said.length or 0) - last.offset)
    else:
        found.append(said)


def _damage(what: str, place: Placed, resume: int) -> Said:
    return Said(f"damaged-{what}", "error", place.start, resume - place.start, resume)
