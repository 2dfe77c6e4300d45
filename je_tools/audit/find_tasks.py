"""Tasks of a search for a person's data in a fleet, in any process of any machine."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.audit.discover import EnvironmentKind
from je_tools.audit.find_data import EnvironmentHits, FindTask, FoundTrace, PartHits
from je_tools.audit.reasons import why_unread
from je_tools.core.escaping import clean_text, printable
from je_tools.erase.options import ErasureOptions
from je_tools.erase.proof.file_tree import list_tree
from je_tools.erase.proof.hit_places import Where
from je_tools.erase.proof.needles import Needle, NeedleSearch
from je_tools.erase.proof.run import (
    ProofOptions,
    SearchedTree,
    located_hits,
    name_hits,
    search_files,
    search_tree,
)
from je_tools.ignite.pages.files import partition_of
from je_tools.ignite.segment_files import segment_name
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.opening import held_snapshot

if TYPE_CHECKING:
    from je_tools.audit.discover import FoundEnvironment
    from je_tools.core.masking import Masking
    from je_tools.erase.proof.search_results import Hit
    from je_tools.erase.subject.traces import SubjectReport

LISTED_MAX = 1_000
"""Largest number of traces of one environment that are listed; all are counted."""

NOT_JUDGED = "not judged"
"""State of a trace in a store of Ignite, or in an environment that cannot be opened."""

UNSEEN_IN_STORES = (
    "a store of Ignite: only its bytes were searched. This misses data in rows longer than a page, "
    "in values cut off in indexes, and in compressed or encrypted pages. Keys given as long:, int: "
    "or str: were searched as JE writes them"
)
"""Gap of every store of Ignite: without a hit, it is not proven to have no trace."""

WAL, PAGES = "WAL", "pages"
"""Places of traces in a store of Ignite: a segment of the log, a file of pages."""

_NO_STATES = "live and old records of a store of Ignite are not distinguished"


class FindWork(Struct, frozen=True):
    """Search for needles, and its tasks.

    Attributes:
        needles: literals and patterns.
        masking: names the needles in reports.
        find: `erase.subject.run.find_subject`, which judges each trace in a log that opens.
    """

    needles: tuple[Needle, ...]
    masking: Masking
    find: Callable[..., SubjectReport]

    def needle_search(self) -> NeedleSearch:
        """Return the search, which cannot be sent to another process."""
        return NeedleSearch(self.needles)

    def shown(self, name: str) -> str:
        """Return a name for reports; its hash if a needle is in it."""
        return _shown(self.needle_search(), name)

    def search(self, tasks: Iterable[FindTask]) -> list[PartHits]:
        """Search the files of some environments."""
        search, options = self.needle_search(), ProofOptions(self.masking, 1)
        return [_searched(task, search, options) for task in tasks]

    def judge(self, found: FoundEnvironment) -> EnvironmentHits:
        """Search an environment with hits again, and judge each trace."""
        search, options = self.needle_search(), ProofOptions(self.masking, 1)
        if found.kind is EnvironmentKind.IGNITE:
            return _not_judged(found, search, options, _NO_STATES, UNSEEN_IN_STORES)
        now_ms = time.time_ns() // 1_000_000
        try:
            environment = open_environment(found.paths, keep_going=True)
            scanner = Scanner(threads=1, wide=True)
            with held_snapshot(environment, scanner, now_ms=now_ms, as_member=True) as snapshot:
                report = self.find(snapshot, search, None, options, ErasureOptions())
            return _of_report(report, found.name, _shown(search, found.name))
        except Exception as error:
            return _not_judged(found, search, options, "see the gaps", why_unread(error))


def _searched(task: FindTask, search: NeedleSearch, options: ProofOptions) -> PartHits:
    home, name = task.found.paths[0], task.found.name
    try:
        if task.files is None:
            tree = search_tree(home, search, options)
        else:
            files = search_files(home, task.files, search, options)
            tree = SearchedTree(list_tree(home), search, files, set(), [])
    except Exception as error:
        return PartHits(name, 0, 0, [(_shown(search, name), why_unread(error))])
    hits = sum(each.hit_count for each in tree.files)
    gaps = _gaps(tree, is_first=task.number == 0)
    if task.number == 0:
        if task.found.kind is EnvironmentKind.IGNITE:
            gaps.insert(0, ("", UNSEEN_IN_STORES))
        hits += len(name_hits(tree))
    return PartHits(name, hits, sum(each.raw.read_size for each in tree.files), gaps)


def _gaps(tree: SearchedTree, *, is_first: bool) -> list[tuple[str, str]]:
    gaps = [(tree.shown(each.file.name), text) for each in tree.files for text in each.problems]
    if is_first:
        unread = (each for each in tree.tree.not_read if each.may_hold)
        gaps += [(tree.shown(each.name), each.reason) for each in unread]
    return gaps


def _of_report(report: SubjectReport, env: str, shown: str) -> EnvironmentHits:
    names = {each.number: each.name for each in report.needles}
    traces = [
        FoundTrace(
            shown,
            *(each.file, each.offset, each.size, each.lsn, each.type, each.db),
            *(each.where.value, each.state.value, each.can_erase, each.reason, names[each.needle]),
        )
        for each in report.traces[:LISTED_MAX]
    ]
    obstacles = [each.kind.value for each in report.obstacles]
    return EnvironmentHits(env, shown, report.hit_count, traces, list(report.gaps), obstacles)


def _not_judged(
    found: FoundEnvironment, search: NeedleSearch, options: ProofOptions, reason: str, gap: str
) -> EnvironmentHits:
    """Search an environment whose traces are not judged.

    It may have gone since the first search: then it has one more gap, and no traces.

    Args:
        found: the environment.
        search: the needles.
        options: masking of their names.
        reason: says why no state of a trace is known.
        gap: what is not searched in all of it.
    """
    env, shown = found.name, _shown(search, found.name)
    try:
        tree = search_tree(found.paths[0], search, options)
    except Exception as error:
        return EnvironmentHits(env, shown, gaps=[("", gap), ("", why_unread(error))])
    names = [each.name(options.masking) for each in search.needles]
    traces = [
        FoundTrace(
            shown,
            *(each.file, each.offset, each.size, each.lsn, each.type, None),
            *(_where(each, found.kind), NOT_JUDGED, None, reason, names[each.needle - 1]),
        )
        for each in located_hits(tree, LISTED_MAX)
    ]
    gaps = [("", gap), *_gaps(tree, is_first=True)]
    return EnvironmentHits(env, shown, int(tree.counts().sum()), traces, gaps)


def _where(hit: Hit, kind: EnvironmentKind) -> str:
    """Return the kind of place of a hit, in a store by the name of its file."""
    if kind is EnvironmentKind.IGNITE and hit.where is Where.OTHER_FILE:
        name = hit.file.rpartition("/")[2]
        if segment_name(name) is not None:
            return WAL
        if partition_of(name) is not None:
            return PAGES
    return hit.where.value


def _shown(search: NeedleSearch, name: str) -> str:
    data = os.fsencode(name)
    if search.is_in(data):
        return f"(masked {hashlib.sha256(data).hexdigest()[:16]})"
    return printable(clean_text(name))
