"""Two opinions on what databases hold: where they differ, and whose side a third one takes."""

from __future__ import annotations

import re
from collections import Counter

from tests.truth.contents import Contents, Refusal
from tests.truth.replay import Replayed

_REASON = re.compile(r"\b[A-Z]+(_[A-Z]+)+\b")


def compare(told: Contents | Refusal, engine: Contents | Refusal) -> tuple[str, str] | None:
    """The kind of the first difference, and where it is; None where there is none."""
    if isinstance(engine, Refusal):
        if isinstance(told, Refusal) and engine.stage == "open":
            return None
        return f"engine alone: {engine.stage} {_kind_of(engine)}", engine.message
    if isinstance(told, Refusal):
        return f"snapshot alone: {told.stage} {told.reason}", told.message
    if told.keys() != engine.keys():
        return "databases", f"snapshot alone {told.keys() - engine.keys()}, engine alone " + (
            f"{engine.keys() - told.keys()}"
        )
    for name, records in engine.items():
        if told[name] != records:
            return _compare_records(name, told[name], records)
    return None


def _kind_of(refusal: Refusal) -> str:
    """The exception, and the reason that the engine gives in capitals."""
    reason = _REASON.search(refusal.message)
    return refusal.reason.rsplit(".", 1)[-1] + (f" {reason[0]}" if reason else "")


def _compare_records(
    name: str, told: list[tuple[bytes, bytes]], engine: list[tuple[bytes, bytes]]
) -> tuple[str, str]:
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
    """Whose side the replay of the whole log takes, or why it takes none."""
    if replayed.doubts:
        return f"not asked, {replayed.doubts[0].split(' at ')[0]}"
    unsure = sorted(set(replayed.unsure.values()))
    told, engine, own = (_without(each, replayed) for each in (told, engine, replayed.contents))
    if unsure and compare(told, engine) is None:
        return f"not sure, {unsure[0]}"
    if compare(told, own) is None:
        return "snapshot"
    return "engine" if compare(own, engine) is None else "neither"


def _without(contents: Contents | Refusal, replayed: Replayed) -> Contents | Refusal:
    if isinstance(contents, Refusal):
        return contents
    return {name: each for name, each in contents.items() if name not in replayed.unsure}
