"""Holes: journal ids that are missing inside of journals, between them, or after the image.

The ids of a series have no gaps: the first journal begins after an image, and each further one with
the id after the last one of the journal before. A front end replays them one by one, and stops at a
missing one.

Source: je-log.md "Journals of front ends"; BDBJournalCursor, BDBJEJournal.rollJournal,
StarRocks 3.x and Apache Doris 2.x.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.journal.reading import JournalSummary


class HolePlace(StrEnum):
    """Place of a hole."""

    HEAD = "before the first id"
    """Between the number in a journal's name and its first id."""
    INSIDE = "inside"
    AFTER = "after the last id"
    """Between the last id of a journal and the next journal."""
    IMAGE = "after the image"
    """Between the newest image and the first journal."""


class Hole(Struct, frozen=True):
    """A range of missing ids.

    Attributes:
        journal: the journal that should hold them; after an image, the first one.
        first_id, last_id: the range.
        place: its place.
    """

    journal: JournalSummary
    first_id: int
    last_id: int
    place: HolePlace

    @property
    def missing_count(self) -> int:
        """Number of missing ids."""
        return self.last_id - self.first_id + 1


class Overlap(Struct, frozen=True):
    """A journal with ids that belong to the next one.

    Attributes:
        journal, following: the two journals.
    """

    journal: JournalSummary
    following: JournalSummary


class Continuity(Struct, frozen=True):
    """Holes and overlaps of all journals.

    Attributes:
        holes: the holes that are kept; see `GAPS_MAX`.
        hole_count, missing_count: number of all holes, and of the ids in them.
        overlaps: journals whose ids reach into the next one.
    """

    holes: list[Hole]
    hole_count: int
    missing_count: int
    overlaps: list[Overlap]


def check_continuity(journals: list[JournalSummary], image_ids: Mapping[str, int]) -> Continuity:
    """Return the holes and overlaps of journals.

    Args:
        journals: by series and first id.
        image_ids: journal id of the newest image of each series that has one.
    """
    holes: list[Hole] = []
    overlaps = []
    unkept_holes = unkept_ids = 0
    for series, members in groupby(journals, key=lambda each: each.journal.series):
        chain = list(members)
        holes += _after_image(chain[0], image_ids.get(series))
        for each in chain:
            holes += _inside(each)
            unkept_holes += each.gap_count - len(each.gaps)
            unkept_ids += each.missing_count - sum(last - first + 1 for first, last in each.gaps)
        for each, following in pairwise(chain):
            last_id, next_id = each.end_id, following.journal.named_id
            if last_id >= next_id:
                overlaps.append(Overlap(each, following))
            elif last_id < next_id - 1:
                holes.append(Hole(each, last_id + 1, next_id - 1, HolePlace.AFTER))
    holes.sort(key=lambda hole: (hole.journal.journal.series, hole.first_id))
    missing = sum(hole.missing_count for hole in holes)
    return Continuity(holes, len(holes) + unkept_holes, missing + unkept_ids, overlaps)


def _inside(journal: JournalSummary) -> Iterator[Hole]:
    for first_id, last_id in journal.gaps:
        is_head = first_id == journal.journal.named_id
        yield Hole(journal, first_id, last_id, HolePlace.HEAD if is_head else HolePlace.INSIDE)


def _after_image(journal: JournalSummary, image_id: int | None) -> Iterator[Hole]:
    first_id = journal.journal.named_id
    if image_id is not None and image_id + 1 < first_id:
        yield Hole(journal, image_id + 1, first_id - 1, HolePlace.IMAGE)
