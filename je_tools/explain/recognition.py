"""Recognition of messages in a text of any size, with the LSNs, VLSNs and files that it names.

A text is read in blocks and cut into log entries, which begin with a date. What is kept grows with
the number of different messages and places, not with the text.
"""

from __future__ import annotations

import io
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from copy import copy
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from msgspec import Struct, field

from je_tools.explain.message_places import MessagePlace, places_in, vlsns_in
from je_tools.explain.messages import MESSAGES

if TYPE_CHECKING:
    from je_tools.explain.message_case import Case

BLOCK = 1 << 20
"""Bytes that are read at once."""

PLACES_MAX = 1000
"""Largest number of places that are kept; the others are counted."""

_ENTRY_MAX = 4 * BLOCK
_TAIL = 1 << 16
_SAMPLE_MAX = 1 << 16
_BEFORE, _AFTER = 80, 160

_ENTRY = re.compile(
    rb"^(?=\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d|\[\d\d/[A-Z][a-z][a-z]/\d{4}:|\d\d-\d\d-\d\d \d\d:\d\d"
    rb"|\d\d? [A-Z][a-z][a-z] \d{4} \d\d:\d\d)",
    re.MULTILINE,
)
_TIME = re.compile(rb"\[?(\d[\d/.,:A-Za-z -]{8,24}\d)")
_UNKNOWN = re.compile(rb"[^\n]{0,500}\bcom\.sleepycat\.je\.[\w.]*(?:Exception|Error)\b[^\n]{0,500}")
_WORD_END = re.compile(rb"\w")
_HINTS = (b"Exception", b"LOG_")
_WORD = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}")


class Occurrences(Struct):
    """Occurrences of a message or a place: lines from 1 on, and times as the text has them."""

    first_line: int
    last_line: int
    first_time: str | None
    last_time: str | None
    count: int = 1

    def add(self, other: Occurrences) -> None:
        """Add a later occurrence."""
        self.last_line, self.last_time = other.last_line, other.last_time
        self.count += 1


class Sighting(Struct):
    """A recognised message.

    Attributes:
        case: its case.
        seen: the log entries that hold it.
        excerpt: the words around its first phrase, whitespace as single spaces; bytes that are not
            UTF-8 are surrogates.
        lsn, vlsn, pointer, page: the first that its log entries name.
    """

    case: Case
    seen: Occurrences
    excerpt: str
    lsn: int | None = None
    vlsn: int | None = None
    pointer: str | None = None
    page: str | None = None


class SeenPlace(Struct):
    """A place that the text names, and its occurrences."""

    place: MessagePlace
    seen: Occurrences


class Recognition(Struct):
    """Messages and places recognised in a text.

    Attributes:
        sightings: recognised messages, the cause first.
        places: LSNs and files, in the order of their first occurrence.
        more_places: number of further occurrences of places that are not listed.
        nearest: if nothing was recognised, the case with the most words in common; None if no
            word is.
    """

    sightings: list[Sighting]
    places: list[SeenPlace]
    more_places: int = 0
    nearest: Case | None = None


class _Phrase(Struct, frozen=True):
    """A phrase as it is searched for.

    Attributes:
        text: the phrase.
        hint: a part of it that other phrases share; a block without it has none of these phrases.
        marker: its longest word, whose search is faster than that of the pattern.
        pattern: its words, and what separates them; not what must be before it, since a search
            for a pattern that begins with literal bytes is many times as fast.
    """

    text: str
    hint: bytes
    marker: bytes
    pattern: re.Pattern[bytes]


class _Hit(NamedTuple):
    """A phrase in a block, at `start` up to `end`."""

    start: int
    end: int
    text: str


class _RunState(Struct):
    """The state of one run over a text.

    Attributes:
        line: number of lines before the block.
        open_phrases, open_cases: phrases and cases of the log entry at the end of the last block.
        sample: text for the search of the nearest case.
    """

    line: int = 0
    sightings: dict[str, Sighting] = field(default_factory=dict)
    places: dict[str, SeenPlace] = field(default_factory=dict)
    more_places: int = 0
    open_phrases: set[str] = field(default_factory=set)
    open_cases: set[str] = field(default_factory=set)
    sample: bytes = b""


def recognise_text(text: str) -> Recognition:
    """Recognise the messages in a text; see `recognise`."""
    return recognise(io.BytesIO(text.encode("utf-8", "surrogateescape")))


def recognise(stream: BinaryIO) -> Recognition:
    """Recognise the messages in a stream, which is read to its end.

    The text may hold any bytes. A message counts once in each log entry; in a text without dates
    all of it is one entry. If nothing is recognised, the result names the nearest case.
    """
    state = _RunState()
    for block, goes_on in _blocks(stream):
        _read_block(state, block, goes_on)
    order = {case.name: i for i, case in enumerate(MESSAGES)}
    sightings = sorted(state.sightings.values(), key=lambda one: order[one.case.name])
    nearest = None
    if not sightings:
        nearest = nearest_case(state.sample.decode("utf-8", "replace"))
        _add_places(state, state.sample, Occurrences(1, 1, None, None))
    return Recognition(sightings, list(state.places.values()), state.more_places, nearest)


def _blocks(stream: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yield blocks of whole log entries, each with whether it continues the last entry before it.

    An entry of more than `_ENTRY_MAX` bytes is cut between two lines or words.
    """
    rest, goes_on = b"", False
    while data := stream.read(BLOCK):
        rest += data
        cut = _last_entry(rest)
        if cut:
            yield rest[:cut], goes_on
            rest, goes_on = rest[cut:], False
        elif len(rest) >= _ENTRY_MAX:
            cut = rest.rfind(b"\n") + 1 or rest.rfind(b" ") + 1 or len(rest)
            yield rest[:cut], goes_on
            rest, goes_on = rest[cut:], True
    if rest:
        yield rest, goes_on


def _last_entry(block: bytes) -> int:
    """Return the offset at which the last log entry of a block begins; 0 if none does."""
    for start in (max(0, len(block) - _TAIL), 0):
        last = max((found.start() for found in _ENTRY.finditer(block, start)), default=0)
        if last:
            return last
    return 0


def _read_block(state: _RunState, block: bytes, goes_on: bool) -> None:
    if not goes_on:
        state.open_phrases, state.open_cases = set(), set()
    if not state.sightings and len(state.sample) < _SAMPLE_MAX:
        _sample(state, block)
    by_entry: dict[int, list[_Hit]] = {}
    starts, ends = [0], [len(block)]
    for hit in sorted(_hits(block)):
        if not by_entry:
            # Most blocks hold no hit, and are not cut into entries.
            starts += [found.start() for found in _ENTRY.finditer(block) if found.start()]
            ends = [*starts[1:], len(block)]
        by_entry.setdefault(bisect_right(starts, hit.start) - 1, []).append(hit)
    counted, line = 0, state.line + 1
    for number, hits in by_entry.items():
        start = starts[number]
        line += block.count(b"\n", counted, start)
        counted = start
        if number:
            state.open_phrases, state.open_cases = set(), set()
        _read_entry(state, block[start : ends[number]], start, hits, line)
    state.line += block.count(b"\n")


def _hits(block: bytes) -> Iterator[_Hit]:
    """Yield every phrase in a block."""
    hinted: dict[bytes, bool] = {}
    for phrase in _PHRASES:
        if phrase.hint not in hinted:
            hinted[phrase.hint] = phrase.hint in block
        if hinted[phrase.hint] and phrase.marker in block:
            for found in phrase.pattern.finditer(block):
                start = found.start()
                if not (phrase.text[0].isalnum() and _WORD_END.match(block[start - 1 : start])):
                    yield _Hit(start, found.end(), phrase.text)


def _read_entry(state: _RunState, entry: bytes, start: int, hits: list[_Hit], line: int) -> None:
    """Add the messages and places of one log entry, which begins at `start` in its block."""
    state.open_phrases |= {hit.text for hit in hits}
    cases = _cases_of(state.open_phrases)
    time = _TIME.match(entry)
    text = time[1].decode("ascii") if time and _ENTRY.match(entry) else None
    added = _add_places(state, entry, Occurrences(line, line, text, text))
    vlsns = vlsns_in(entry)
    for case in cases:
        if case.name in state.open_cases:
            continue
        state.open_cases.add(case.name)
        seen = Occurrences(line, line, text, text)
        sighting = state.sightings.get(case.name)
        if sighting is None:
            hit = next((hit for hit in hits if hit.text in case.phrases), hits[0])
            excerpt = _excerpt(entry, hit.start - start, hit.end - start)
            sighting = state.sightings[case.name] = Sighting(case, seen, excerpt)
        else:
            sighting.seen.add(seen)
        if sighting.lsn is None:
            sighting.lsn = next((place.lsn for place in added if place.lsn is not None), None)
        sighting.pointer = sighting.pointer or next((p.pointer for p in added if p.pointer), None)
        sighting.page = sighting.page or next((p.page for p in added if p.page), None)
        if sighting.vlsn is None:
            sighting.vlsn = next(iter(vlsns), None)


def _cases_of(phrases: set[str]) -> list[Case]:
    """Return the cases of one log entry, without those that a more specific one replaces."""
    found = [
        case
        for case in MESSAGES
        if not phrases.isdisjoint(case.phrases) and phrases.issuperset(case.also)
    ]
    replaced = {name for case in found for name in case.replaces}
    return [case for case in found if case.name not in replaced]


def _add_places(state: _RunState, entry: bytes, seen: Occurrences) -> list[MessagePlace]:
    """Add the places that an entry names, and return them."""
    found: dict[str, MessagePlace] = {}
    for place in places_in(entry):
        found.setdefault(place.text, place)
    for text, place in found.items():
        if text in state.places:
            state.places[text].seen.add(seen)
        elif len(state.places) < PLACES_MAX:
            state.places[text] = SeenPlace(place, copy(seen))
        else:
            state.more_places += 1
    return list(found.values())


def _excerpt(entry: bytes, start: int, end: int) -> str:
    first, last = max(0, start - _BEFORE), min(len(entry), end + _AFTER)
    words = entry[first:last].decode("utf-8", "surrogateescape").split()
    before, after = "..." * (first > 0), "..." * (last < len(entry))
    return f"{before}{' '.join(words)}{after}"


def _sample(state: _RunState, block: bytes) -> None:
    """Keep the beginning of the text, and lines with exceptions of the engine."""
    if not state.sample:
        state.sample = block[: _SAMPLE_MAX // 4]
    if b"com.sleepycat.je" in block:
        for found in _UNKNOWN.finditer(block):
            if len(state.sample) >= _SAMPLE_MAX:
                return
            state.sample += b"\n" + found[0]


def nearest_case(text: str) -> Case | None:
    """Return the case whose sample has the most words in common with a text; rare words count more.

    Returns None if there is no such word.
    """
    words = _words(text)
    best = max(MESSAGES, key=lambda case: _likeness(words, case))
    return best if _likeness(words, best) else None


def _likeness(words: set[str], case: Case) -> float:
    own = _words_of(case)
    common = own & words
    return sum(_WEIGHTS[word] for word in common) / math.sqrt(len(own))


def _words_of(case: Case) -> set[str]:
    return _words(" ".join((case.sample, case.title, *case.phrases)))


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _phrases(cases: Iterable[Case]) -> Iterator[_Phrase]:
    """Yield each phrase of some cases once."""
    texts = dict.fromkeys(text for case in cases for text in (*case.phrases, *case.also))
    for text in texts:
        words = text.encode("ascii").split()
        pattern = rb"\s+".join(re.escape(word) for word in words)
        tail = rb"(?!\w)" if text[-1].isalnum() else b""
        marker = max(words, key=len)
        hint = next((hint for hint in _HINTS if hint in marker), marker)
        yield _Phrase(text, hint, marker, re.compile(pattern + tail))


def _weights() -> dict[str, float]:
    """Return the weight of each word: the inverse of the number of cases that have it."""
    counts: dict[str, int] = {}
    for case in MESSAGES:
        for word in _words_of(case):
            counts[word] = counts.get(word, 0) + 1
    return {word: 1 / count for word, count in counts.items()}


_PHRASES = tuple(_phrases(MESSAGES))
_WEIGHTS = _weights()
