"""`erase prove`: search everything below a directory, and return the answer."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from je_tools.core.escaping import clean_text, printable
from je_tools.core.ordered import map_in_order
from je_tools.erase.proof.compressed_files import compressed_problem
from je_tools.erase.proof.file_manifest import FileManifest, compare_manifests, make_manifest
from je_tools.erase.proof.file_tree import FileTree, FoundFile, SearchedKind, list_tree
from je_tools.erase.proof.hit_places import EntryFields, Where
from je_tools.erase.proof.log_search import LogSearch, open_logs, search_log
from je_tools.erase.proof.raw_search import RawHits, RawSearch
from je_tools.erase.proof.reported_run import ZEROS
from je_tools.erase.proof.scope import find_scope
from je_tools.erase.proof.search_results import Hit, NeedleFacts, Proof, SearchedFile, Unread
from je_tools.erase.proof.undo_journals import journal_problem
from je_tools.formats.files.source import Source, SourceError
from je_tools.formats.je.log.walk import NO_OFFSET
from je_tools.formats.je.types import type_name

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.core.pace import Pace
    from je_tools.erase.proof.needles import NeedleSearch
    from je_tools.erase.proof.reported_run import ReportedRun
    from je_tools.formats.arrays import Ints

LISTED_MAX = 20_000
"""Largest number of hits that are located and listed; all are counted."""


class ProofOptions(Struct, frozen=True):
    """Options of a search.

    Attributes:
        masking: its mode is `hash` or `salted-hash`; it names the needles.
        threads: number of threads.
        pace: limit of bytes per second; None for none.
        stage: called at the beginning of a part, with its name and the number of bytes; None for
            nothing.
        progress: called with the number of bytes done since its last call; None for nothing.
    """

    masking: Masking
    threads: int
    pace: Pace | None = None
    stage: Callable[[str, int], None] | None = None
    progress: Callable[[int], None] | None = None


class FileSearch(Struct):
    """A file that was searched.

    Attributes:
        file: the file.
        raw: hits in its bytes.
        log: the same file searched entry by entry; None if it is no log file.
        problems: reasons why needles in it may not have been found.
    """

    file: FoundFile
    raw: RawHits
    log: LogSearch | None
    problems: list[str] = field(default_factory=list)

    @property
    def hit_count(self) -> int:
        """Number of all hits."""
        joined = 0 if self.log is None else int(self.log.joined.counts.sum())
        return int(self.raw.counts.sum()) + joined


class SearchedTree(Struct):
    """Everything below a directory, searched.

    Attributes:
        tree: everything below the directory.
        search: the needles.
        files: the files, in the order of the tree.
        duplicates: databases with duplicates.
        late: names of files that appeared during the search.
    """

    tree: FileTree
    search: NeedleSearch
    files: list[FileSearch]
    duplicates: set[int]
    late: list[str]

    def counts(self) -> Ints:
        """Return the number of hits of each needle, int64, names of files included."""
        counts = np.zeros(len(self.search), np.int64)
        for each in self.files:
            counts += each.raw.counts
            counts += each.log.joined.counts if each.log is not None else 0
        for hit in name_hits(self):
            counts[hit.needle - 1] += 1
        return counts

    def shown(self, name: str) -> str:
        """Return a name as reports show it: its hash if a needle occurs in it."""
        data = os.fsencode(name)
        if self.search.is_in(data):
            return f"(masked {hashlib.sha256(data).hexdigest()[:16]})"
        return printable(clean_text(name))


def search_tree(home: Path, search: NeedleSearch, options: ProofOptions) -> SearchedTree:
    """Search everything below a directory; errors of reading become problems of files.

    Raises:
        UsageError: the directory is a file.
        InputError: it does not exist or cannot be listed.
    """
    tree = list_tree(home)
    files = search_files(home, tree.files, search, options)
    duplicates = {db_id for each in files if each.log for db_id in each.log.duplicates}
    return SearchedTree(tree, search, files, duplicates, _note_changes(home, files))


def search_files(
    home: Path, listed: Sequence[FoundFile], search: NeedleSearch, options: ProofOptions
) -> list[FileSearch]:
    """Search some of the files below a directory; errors of reading become problems of files."""
    logs, refused = open_logs(listed)
    _begin(options, "search of bytes", sum(file.size for file in listed))
    raw = RawSearch(search, options.threads, options.pace, options.progress)
    found = list(raw.hits_in(listed))
    _begin(options, "search of nodes", sum(log.size for log in logs.values()))

    def search_entries(pair: tuple[FoundFile, RawHits]) -> LogSearch | None:
        file, hits = pair
        log = logs.get(file.name)
        if log is None:
            return None
        if options.pace is not None:
            options.pace.wait(log.size)
        return search_log(search, log, hits)

    files = []
    pairs = list(zip(listed, found, strict=True))
    for (file, hits), log_search in zip(
        pairs, map_in_order(search_entries, pairs, options.threads), strict=True
    ):
        each = FileSearch(file, hits, log_search, [*hits.problems])
        if log_search is not None:
            each.problems += log_search.problems
            if options.progress is not None:
                options.progress(file.size)
        if file.name in refused:
            each.problems.append(f"{refused[file.name]}: only its bytes were searched")
        if file.kind is SearchedKind.JOURNAL and (problem := journal_problem(home, file)):
            each.problems.append(problem)
        if file.kind is SearchedKind.OTHER and (problem := compressed_problem(file.path)):
            each.problems.append(problem)
        files.append(each)
    return files


def _begin(options: ProofOptions, name: str, size: int) -> None:
    if options.stage is not None:
        options.stage(name, size)


def _note_changes(home: Path, files: Sequence[FileSearch]) -> list[str]:
    """Add a problem to each file that changed during the search; return names that are new."""
    now = {file.name: file for file in list_tree(home).files}
    for each in files:
        other = now.pop(each.file.name, None)
        if other is None:
            each.problems.append("it vanished during the search")
        elif (other.size, other.mtime_ns, other.inode) != (
            each.file.size,
            each.file.mtime_ns,
            each.file.inode,
        ):
            each.problems.append("it changed during the search: stop the application, and repeat")
    return list(now)


def located_hits(found: SearchedTree, most: int = LISTED_MAX) -> Iterator[Hit]:
    """Yield the hits with their places, at most `most`, in the order of the files.

    Hits in names of files come first.
    """
    for hit in _all_hits(found):
        if most <= 0:
            return
        most -= 1
        yield hit


def _all_hits(found: SearchedTree) -> Iterator[Hit]:
    yield from name_hits(found)
    for each in found.files:
        if each.log is None:
            yield from _hits_of_other(found, each)
        else:
            yield from _hits_of_log(found, each, each.log)


def name_hits(found: SearchedTree) -> list[Hit]:
    """Return the hits in names of files and directories, and in targets of links."""
    hits = []
    for name in found.tree.names:
        data = np.frombuffer(os.fsencode(name), np.uint8)
        inside = found.search.search(data, 0, len(data), len(data) + 1)
        for size, needle in zip(inside.size.tolist(), inside.needle.tolist(), strict=True):
            hits.append(Hit(found.shown(name), None, size, None, None, Where.FILE_NAME, needle + 1))
    return hits


def _hits_of_other(found: SearchedTree, each: FileSearch) -> Iterator[Hit]:
    where = Where.JOURNAL if each.file.kind is SearchedKind.JOURNAL else Where.OTHER_FILE
    name, raw = found.shown(each.file.name), each.raw
    rows = zip(raw.start.tolist(), raw.size.tolist(), raw.needle.tolist(), strict=True)
    for start, size, needle in rows:
        yield Hit(name, start, size, None, None, where, needle + 1)


def _hits_of_log(found: SearchedTree, each: FileSearch, log: LogSearch) -> Iterator[Hit]:
    name, raw, file_no = found.shown(each.file.name), each.raw, log.log.file_no
    fields = EntryFields(log.log, found.duplicates)
    try:
        columns = (raw.start, raw.size, raw.needle, log.hit_entry, log.hit_type)
        for start, size, needle, entry, type_no in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            where = fields.place(entry, type_no, start, start + size)
            if entry == NO_OFFSET:
                yield Hit(name, start, size, None, None, where, needle + 1)
            else:
                lsn = file_no << 32 | entry
                yield Hit(name, start, size, lsn, type_name(type_no), where, needle + 1, entry)
        joined = log.joined
        places = (joined.entry_offset, joined.offset, joined.size, joined.needle)
        for entry, start, size, needle in zip(*(column.tolist() for column in places), strict=True):
            lsn, name_of_type = file_no << 32 | entry, type_name(fields.type_no_at(entry))
            where = Where.PREFIXED_KEY
            yield Hit(name, start, size, lsn, name_of_type, where, needle + 1, entry)
    finally:
        fields.close()


def prove(home: Path, search: NeedleSearch, options: ProofOptions) -> tuple[Proof, SearchedTree]:
    """Search everything below a directory for needles, and return the answer.

    Nothing is written. Damage, and files that cannot be read, are part of the answer.

    Raises:
        UsageError: the directory is a file.
        InputError: it does not exist or cannot be listed.
    """
    started_ms = time.time_ns() // 1_000_000
    found = search_tree(home, search, options)
    counts = found.counts()
    hits = list(located_hits(found))
    proof = Proof(
        env=found.shown(str(home)),
        started_ms=started_ms,
        ended_ms=time.time_ns() // 1_000_000,
        needles=_needle_facts(search, options.masking, counts.tolist()),
        files=[_searched(found, each) for each in found.files],
        hits=hits,
        hit_count=int(counts.sum()),
        unread=list(_unread(found)),
        scope=find_scope(home, found.tree.files),
    )
    return proof, found


def _needle_facts(
    search: NeedleSearch, masking: Masking, counts: Sequence[int]
) -> list[NeedleFacts]:
    return [
        NeedleFacts(number, each.name(masking), each.origin, each.kind.value, each.size, count)
        for number, (each, count) in enumerate(zip(search.needles, counts, strict=True), 1)
    ]


def _searched(found: SearchedTree, each: FileSearch) -> SearchedFile:
    return SearchedFile(
        name=found.shown(each.file.name),
        kind=each.file.kind.value,
        size=each.file.size,
        read_size=each.raw.read_size,
        hit_count=each.hit_count,
        problems=each.problems,
        marked_count=0 if each.log is None else each.log.marked_count,
        link_count=each.file.link_count,
    )


def _unread(found: SearchedTree) -> Iterator[Unread]:
    if not any(each.log or (each.file.is_log and each.file.size) for each in found.files):
        reason = "no log file with a byte in it was found here: name the directory of the log"
        yield Unread(found.shown(str(found.tree.home)), reason, True)
    for each in found.tree.not_read:
        yield Unread(found.shown(each.name), each.reason, each.may_hold)
    for name in found.late:
        yield Unread(found.shown(name), "it appeared during the search", True)


def manifest_of(found: SearchedTree, options: ProofOptions) -> FileManifest:
    """Read the files once more, and return their manifest."""
    files = found.tree.files
    _begin(options, "manifest", sum(file.size for file in files))
    made_ms = time.time_ns() // 1_000_000
    return make_manifest(files, found.shown, options.threads, made_ms)


def check_ranges(proof: Proof, found: SearchedTree, run: ReportedRun) -> None:
    """Add the report of a run to a proof, and check that the ranges of zeros in it are zeros.

    Files that are gone are not checked, since a run deletes reserved files.
    """
    proof.run = run
    ranges: dict[str, list[tuple[int, int]]] = {}
    for batch in run.changed:
        if batch.what == ZEROS:
            ranges.setdefault(batch.file, []).extend(batch.ranges)
    for facts, each in zip(proof.files, found.files, strict=True):
        wrong = _not_zero(each.file.path, ranges.get(each.file.path.name, []))
        if wrong and each.file.kind is SearchedKind.LOG:
            facts.problems.append(
                f"{wrong:,} byte ranges that the run reports as zeros are not zeros: "
                "something wrote to them, or the report is of another log"
            )


def _not_zero(path: Path, ranges: Sequence[tuple[int, int]]) -> int:
    """Return the number of byte ranges that are not all zeros, or that the file does not have."""
    wrong = 0
    try:
        with Source(path) as source:
            for start, size in ranges:
                inside = start + size <= source.size
                wrong += not inside or bool(source.read(start, start + size).any())
    except SourceError:
        return len(ranges)
    return wrong


def add_changes(proof: Proof, before: FileManifest, after: FileManifest) -> None:
    """Add to a proof the change of each file since a manifest was made."""
    found = compare_manifests(before, after)
    known = {file.name for file in proof.files}
    for file in proof.files:
        file.change = found.get(file.name)
    proof.gone = [name for name in found if name not in known]
