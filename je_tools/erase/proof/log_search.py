"""Search of one log file entry by entry: its nodes, and the entries in which raw hits begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from je_tools.core.escaping import counted
from je_tools.erase.proof.damaged_bytes import (
    DamagedBytes,
    entries_problem,
    gaps_problem,
    tail_problem,
)
from je_tools.erase.proof.node_search import JOINED_MAX, NodeInspector, RangeNodes, wanted_entries
from je_tools.errors import JeToolsError
from je_tools.formats.files.open_source import open_source
from je_tools.formats.files.source import SourceError
from je_tools.formats.je.log.walk import NO_OFFSET
from je_tools.log.file_headers import read_file_header
from je_tools.log.file_scan import FilePiece, FileState
from je_tools.log.file_versions import with_versions
from je_tools.log.opening import open_log_file
from je_tools.log.scan import Scanner
from je_tools.log.sources import reopened

if TYPE_CHECKING:
    from je_tools.erase.proof.file_tree import FoundFile
    from je_tools.erase.proof.needles import NeedleSearch
    from je_tools.erase.proof.raw_search import RawHits
    from je_tools.formats.arrays import Ints
    from je_tools.log.log_files import LogFile


class JoinedHits(Struct):
    """Hits in keys that a prefix cuts in two.

    Attributes:
        entry_offset, offset, size, needle: int64; as in `RangeNodes`.
        counts: int64 (needles,); number of all hits.
    """

    entry_offset: Ints
    offset: Ints
    size: Ints
    needle: Ints
    counts: Ints

    @property
    def not_kept(self) -> int:
        """Number of hits whose places were not kept."""
        return int(self.counts.sum()) - len(self.offset)


class LogSearch(Struct):
    """A log file that was searched entry by entry.

    Attributes:
        log: the file.
        joined: hits in keys that a prefix cuts in two.
        hit_entry, hit_type: int64; offset and type of the entry in which each raw hit begins;
            NO_OFFSET for none.
        duplicates: databases that have duplicates according to this file.
        marked_count: number of entries of type 43 (Erased) that still have bytes, which an
            interrupted erasure has left.
        problems: reasons why keys in it may not have been found.
    """

    log: LogFile
    joined: JoinedHits
    hit_entry: Ints
    hit_type: Ints
    duplicates: set[int] = field(default_factory=set)
    marked_count: int = 0
    problems: list[str] = field(default_factory=list)


def open_logs(files: Sequence[FoundFile]) -> tuple[dict[str, LogFile], dict[str, str]]:
    """Open the log files among some files, by their names or their headers.

    Returns:
        The log files, and the reasons why others cannot be read, by name.
    """
    opened: dict[str, LogFile] = {}
    refused: dict[str, str] = {}
    for file in files:
        if not file.size:
            continue
        try:
            if not file.is_log and not _has_header(file):
                continue
            log = open_log_file(file.path)
        except JeToolsError:
            refused[file.name] = "it cannot be read as a log file"
            continue
        if log.header.is_unsupported:
            refused[file.name] = f"its log version {log.header.version} is not known"
        else:
            opened[file.name] = log
    versions = with_versions(list(opened.values()))
    return dict(zip(opened, versions, strict=True)), refused


def _has_header(file: FoundFile) -> bool:
    """Return True if a file of any name begins like a log file."""
    with reopened(file.path) as source:
        return read_file_header(source).good


def search_log(search: NeedleSearch, log: LogFile, raw: RawHits) -> LogSearch:
    """Search one log file entry by entry; errors of reading become problems of the file.

    Args:
        search: the needles.
        log: the file.
        raw: hits in its bytes.
    """
    hits = raw.start
    none = np.empty(0, np.int64)
    result = LogSearch(
        log,
        JoinedHits(none, none, none, none, np.zeros(len(search), np.int64)),
        np.full(len(hits), NO_OFFSET, np.int64),
        np.zeros(len(hits), np.int64),
    )
    scanner = Scanner(threads=1, wide=True, asked=None if len(hits) else wanted_entries)
    found: list[RangeNodes] = []
    gaps: list[tuple[int, int]] = []
    try:
        for part in scanner.scan_piece(FilePiece(log), NodeInspector(search, hits)):
            found += part.results
            gaps += [(gap.start, gap.stop) for gap in part.gaps]
            if part.end is not None:
                result.problems += _unread(log, gaps, part.end)
    except JeToolsError as error:
        result.problems.append(str(error).removeprefix(f"{log.path}: ") or "it cannot be read")
    _add_all(result, found)
    return result


def _add_all(result: LogSearch, found: Sequence[RangeNodes]) -> None:
    undecoded = unknown = opaque = 0
    damaged = DamagedBytes()
    for part in found:
        last = part.first_hit + len(part.hit_entry)
        result.hit_entry[part.first_hit : last] = part.hit_entry
        result.hit_type[part.first_hit : last] = part.hit_type
        result.duplicates |= part.duplicates
        result.marked_count += part.marked_count
        damaged.merge(part.damaged)
        undecoded += part.undecoded_count
        unknown += part.unknown_count
        opaque += part.opaque_count
        result.joined.counts = result.joined.counts + part.counts
    parts = [part for part in found if len(part.offset)]
    if parts:
        for name in ("entry_offset", "offset", "size", "needle"):
            column = np.concatenate([getattr(part, name) for part in parts])
            setattr(result.joined, name, column[:JOINED_MAX])
    if damaged.count:
        result.problems.append(entries_problem(damaged))
    if undecoded:
        result.problems.append(f"{counted(undecoded, 'B-tree node')} cannot be decoded")
    if unknown:
        result.problems.append(
            f"entries whose type is not known, {unknown:,}: there may be nodes of a later engine"
        )
    if opaque:
        result.problems.append(f"{opaque:,} of type 43 (erased) have bytes that cannot be decoded")


def _unread(log: LogFile, gaps: Sequence[tuple[int, int]], end: FileState) -> list[str]:
    """Return the problems of byte ranges without an entry, unless the bytes are zeros."""
    try:
        with open_source(log.path) as source:
            source.limit(end.size)
            inside = DamagedBytes.of(each for each in gaps if not source.is_blank(*each))
            tail = [] if source.is_blank(end.tail, end.size) else [(end.tail, end.size)]
    except SourceError as error:
        return [f"it cannot be read: {error.reason}"]
    problems = [gaps_problem(inside)] if inside.count else []
    return problems + [tail_problem(DamagedBytes.of(tail))] * len(tail)
