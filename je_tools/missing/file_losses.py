"""Files of a report on losses: those with lost entries, each with its reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from je_tools.findings import CODES
from je_tools.formats.je.log.fetch import Found, fetch
from je_tools.log.wrong_places import foreign_findings
from je_tools.missing.losses import DatabaseLoss, FileLoss, LossReason
from je_tools.recovery.findings import missing_findings

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.formats.files.image import Image
    from je_tools.log.environment import Environment
    from je_tools.recovery.snapshot import Snapshot

_BY_FOUND = {
    Found.NO_FILE: LossReason.TOO_SHORT,
    Found.NO_ENTRY: LossReason.DAMAGED,
    Found.BAD: LossReason.DAMAGED,
    Found.ERASED: LossReason.ERASED,
    Found.GOOD: LossReason.OTHER,
}
"""Reason of a loss, by what was found at a lost place of the file."""


def found_at(image: Image, losses: Iterable[DatabaseLoss]) -> dict[int, list[Found]]:
    """Return what was found at each lost place, by file number."""
    lsns = np.unique(np.array([lsn for loss in losses for lsn in loss.lsns], np.int64))
    found = fetch(image, lsns).found
    places: dict[int, list[Found]] = {}
    for lsn, each in zip(lsns.tolist(), found.tolist(), strict=True):
        places.setdefault(lsn >> 32 & 0xFFFFFFFF, []).append(Found(each))
    return places


def foreign_files(environment: Environment, losses: Iterable[DatabaseLoss]) -> list[Finding]:
    """Return findings of files of another log, in which no entries are at lost places."""
    return list(foreign_findings(environment, (lsn for loss in losses for lsn in loss.lsns)))


def file_losses(
    environment: Environment,
    named: frozenset[int],
    places: Mapping[int, Sequence[Found]],
    foreign: Collection[int] = (),
) -> Iterator[FileLoss]:
    """Yield the files of a report, by number.

    Args:
        environment: the log.
        named: numbers of files that are treated as missing.
        places: what was found at each lost place, by file number.
        foreign: numbers of files of another log.
    """
    reasons = {file.file_no: file.reason for file in environment.unreadable}
    there = set(environment.numbers)
    for number in sorted({*named, *reasons, *places}):
        found = places.get(number, ())
        state = LossReason.MISSING
        if number in named:
            state = LossReason.NAMED
        elif number in reasons:
            state = LossReason.UNREADABLE
        elif number in foreign:
            state = LossReason.FOREIGN
        elif number in there:
            state = _BY_FOUND[min(found)]
        yield FileLoss(number, state, len(found), reasons.get(number))


def unnamed_files(snapshot: Snapshot, named: Collection[int]) -> list[Finding]:
    """Return findings of missing files that are in use although no lost place is in them.

    Args:
        snapshot: the log.
        named: numbers of the files with lost places.
    """
    # The usual hint of these findings is to run this search.
    hint = CODES["missing-file"].hint
    return [replace(each, hint=hint) for each in missing_findings(snapshot, named)]
