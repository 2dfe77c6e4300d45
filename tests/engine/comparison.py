"""Differences between two opinions on the records of databases, and a third one's side."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from tests.truth.contents import Contents, Refusal
from tests.truth.replay import Replayed

Records = list[tuple[bytes, bytes]]

_REASON = re.compile(r"\b[A-Z]+(_[A-Z]+)+\b")


REASONS = {
    "missing-file": ("LOG_FILE_NOT_FOUND", "Cannot read backward over cleaned file"),
    # Engines may believe any size in a header.
    "damaged-interval": ("LOG_CHECKSUM", "Java heap space"),
    # The engine's search for a root ends at a file that is missing.
    "no-root": ("LOG_INTEGRITY", "LOG_FILE_NOT_FOUND"),
    "no-file": ("LOG_CHECKSUM", "Java heap space"),
    "header-alone": ("LOG_INTEGRITY",),
}
"""Texts of the engine for each of our reasons, of which one must be in its message."""

UNCHECKED = "snapshot alone: open damaged-interval"
"""Difference at a log that is damaged in a file that recovery reads, and that an engine opens."""


class Found(NamedTuple):
    """A difference: its kind, a description, and the database, if records differ."""

    group: str
    text: str
    database: str | None = None


def compare(told: Contents | Refusal, engine: Contents | Refusal) -> Found | None:
    """Return the first difference, or None."""
    if isinstance(engine, Refusal):
        if not isinstance(told, Refusal) or engine.stage != "open":
            return Found(f"engine alone: {engine.stage} {_kind_of(engine)}", engine.message)
        expected = REASONS.get(told.reason)
        if expected is None or any(text in engine.message for text in expected):
            return None
        return Found(f"another refusal: {told.reason} {_kind_of(engine)}", engine.message)
    if isinstance(told, Refusal):
        return Found(f"snapshot alone: {told.stage} {told.reason}", told.message)
    if told.keys() != engine.keys():
        ours, theirs = told.keys() - engine.keys(), engine.keys() - told.keys()
        return Found("databases", f"snapshot alone {ours}, engine alone {theirs}")
    for name, records in engine.items():
        if told[name] != records:
            return Found(*_compare_records(name, told[name], records), name)
    return None


def _kind_of(refusal: Refusal) -> str:
    """Return the exception, and the reason that the engine gives in capitals."""
    reason = _REASON.search(refusal.message)
    return refusal.reason.rsplit(".", 1)[-1] + (f" {reason[0]}" if reason else "")


def _compare_records(name: str, told: Records, engine: Records) -> tuple[str, str]:
    ours, theirs = Counter(told), Counter(engine)
    more, less = ours - theirs, theirs - ours
    where = f"{name!r}: {len(told)} and {len(engine)} records"
    if not more and not less:
        at = next(i for i, pair in enumerate(zip(told, engine, strict=True)) if pair[0] != pair[1])
        return "order", f"{where}, at {at}: {told[at]} and {engine[at]}"
    where += f", snapshot alone {list(more)[:2]!r:.300}, engine alone {list(less)[:2]!r:.300}"
    if {key for key, _ in more} == {key for key, _ in less}:
        return "other data", where
    if more and less:
        return "other records", where
    longer, surplus = (theirs, less) if less else (ours, more)
    twice = " (twice)" if all(longer[pair] > 1 for pair in surplus) else ""
    return f"{'fewer' if less else 'more'} records than the engine{twice}", where


def side_of(replayed: Replayed, told: Contents | Refusal, engine: Contents | Refusal) -> str:
    """Return the side that the replay of the whole log takes, or why it takes none.

    Only records on which the two disagree count: the replay may have another opinion on others,
    such as records that an engine keeps although they have expired.
    """
    if replayed.doubts:
        return f"not asked, {replayed.doubts[0].split(' at ')[0]}"
    unsure = sorted(set(replayed.unsure.values()))
    told, engine, own = (_without(each, replayed) for each in (told, engine, replayed.contents))
    if unsure and compare(told, engine) is None:
        return f"not sure, {unsure[0]}"
    sides = {"snapshot": _agree(own, told, engine), "engine": _agree(own, engine, told)}
    return next((side for side, agrees in sides.items() if agrees), "neither")


def _agree(own: Contents | Refusal, one: Contents | Refusal, other: Contents | Refusal) -> bool:
    """Return whether `own` is like `one` wherever `one` and `other` differ."""
    if isinstance(own, Refusal) or isinstance(one, Refusal) or isinstance(other, Refusal):
        return compare(one, own) is None
    for name in one.keys() | other.keys():
        if name not in one or name not in other:
            if (name in own) != (name in one):
                return False
            continue
        if one[name] != other[name] and not _agree_on(own.get(name), one[name], other[name]):
            return False
    return True


def _agree_on(own: Records | None, one: Records, other: Records) -> bool:
    if own is None:
        return False
    counts, expected = Counter(own), Counter(one)
    differing = (expected - Counter(other)) | (Counter(other) - expected)
    if not differing:
        return own == one
    return all(counts[pair] == expected[pair] for pair in differing)


def _without(contents: Contents | Refusal, replayed: Replayed) -> Contents | Refusal:
    if isinstance(contents, Refusal):
        return contents
    return {name: each for name, each in contents.items() if name not in replayed.unsure}
