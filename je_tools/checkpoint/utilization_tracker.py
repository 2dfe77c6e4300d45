"""Utilization tracker of a checkpoint: contents of files, obsolete entries, and last ids.

One scan reads the files that recovery replays, and those that lack an internal database record.

Source: je-log.md "Checkpoints" and "Utilization"; RecoveryManager.readINs, UtilizationTracker,
ExpirationTracker.track, JE 18.3.12.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.btree.children import NODES_AT_ONCE
from je_tools.checkpoint.expiring_bytes import by_hour, share_of_slots
from je_tools.checkpoint.last_ids import find_last_ids
from je_tools.checkpoint.newly_obsolete import ObsoleteFinder
from je_tools.checkpoint.node_versions import Versions, joined_versions
from je_tools.checkpoint.obsolete_entries import ObsoleteEntries, joined_obsolete
from je_tools.core.memory import give_back_memory
from je_tools.formats.je.btree.nodes import BIN_NO, DELTA_NO, read_nodes
from je_tools.formats.je.entry.columns import MAX_ROWS, decode
from je_tools.formats.je.expirations import expiration_ms
from je_tools.formats.je.log.fetch import fetch
from je_tools.formats.je.types import ENTRY_TYPES, FILE_HEADER_NO, IS_LN, Family, mask_of
from je_tools.recovery.utilization import FileSummary
from je_tools.vlsn.stream import ReplicationStream

if TYPE_CHECKING:
    from je_tools.checkpoint.last_ids import LastIds
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.recovery.snapshot import Snapshot


_IS_USER_LN = mask_of(each.no for each in ENTRY_TYPES.values() if each.user_ln)

_IS_NODE = mask_of(each.no for each in ENTRY_TYPES.values() if each.family is Family.NODE)

_IS_BIN = mask_of((BIN_NO, DELTA_NO))


class TrackedUtilization(Struct):
    """Result of the scan of a utilization tracker.

    Attributes:
        last_ids: the last ids given.
        stream: replication stream since the last checkpoint began.
        summaries: totals of each requested file, without obsolete entries.
        since: the same for entries that no file summary has counted, by file.
        expiring: bytes of each requested file, by the hour since 1970 in which they expire.
        obsolete: obsolete entries that no file summary has counted.
    """

    last_ids: LastIds
    stream: ReplicationStream
    summaries: dict[int, FileSummary] = field(default_factory=dict)
    since: dict[int, FileSummary] = field(default_factory=dict)
    expiring: dict[int, Counter[int]] = field(default_factory=dict)
    obsolete: list[ObsoleteEntries] = field(default_factory=list)


class _TrackedRows(Struct, frozen=True):
    """Result for some rows of one file.

    Attributes:
        node_ids: int64; highest and lowest ids of nodes, provisional nodes included.
        totals, since: as `summaries` and `since` of `TrackedUtilization`.
        expiring: bytes of records, by the hour in which they expire.
        bins: int64; LSNs of BINs with a slot that expires.
        obsolete: obsolete records.
        versions: versions of nodes.
    """

    file_no: int
    node_ids: Ints
    stream: ReplicationStream
    totals: FileSummary
    since: FileSummary
    expiring: Counter[int]
    bins: Ints
    obsolete: ObsoleteEntries
    versions: list[Versions]


class _Inspector(Struct, frozen=True):
    """Work for a scan: collect the values of `_TrackedRows`.

    Attributes:
        from_lsn: LSN from which node ids, the stream and node versions are collected.
        next_lsn: LSN at which the log ends.
        file_nos: files whose expirations are collected.
        finder: finder of obsolete entries.
    """

    from_lsn: int
    next_lsn: int
    file_nos: frozenset[int]
    finder: ObsoleteFinder

    def __call__(self, rows: Rows) -> _TrackedRows:
        rows = rows.select(rows.good & (rows.type != FILE_HEADER_NO) & (rows.lsn < self.next_lsn))
        ids = self._node_ids(rows.select(_IS_NODE[rows.type] & (rows.lsn >= self.from_lsn)))
        stream = ReplicationStream.of_rows(rows, self.from_lsn, self.next_lsn)
        wanted = rows.file_no in self.file_nos
        bins = self._expiring_bins(rows) if wanted else _NONE
        recent = rows.select(
            self.finder.uncounted(rows.lsn, rows.lsn) & (rows.lsn >= self.from_lsn)
        )
        lns = _in_parts(rows.select(IS_LN[rows.type]))
        nodes = _in_parts(rows.select(_IS_NODE[rows.type] & (rows.lsn >= self.from_lsn)))
        return _TrackedRows(
            file_no=rows.file_no,
            node_ids=ids,
            stream=stream,
            totals=FileSummary.of_entries(rows.type, rows.size),
            since=FileSummary.of_entries(recent.type, recent.size),
            expiring=self._expiring(rows) if wanted else Counter(),
            bins=bins,
            obsolete=joined_obsolete(each for some in lns for each in self.finder.records(some)),
            versions=[some for some in map(self.finder.versions, nodes) if some is not None],
        )

    def _node_ids(self, rows: Rows) -> Ints:
        found = [_NONE]
        for some in _in_parts(rows):
            decoded = decode(some, Family.NODE, wanted=frozenset({"node_id"}))
            if decoded.fields.has("node_id"):
                ids = decoded.fields.number("node_id")[~decoded.bad]
                found += [ids.max(keepdims=True), ids.min(keepdims=True)] if len(ids) else []
        return np.concatenate(found)

    def _expiring_bins(self, rows: Rows) -> Ints:
        """Return the LSNs of BINs with a slot that expires."""
        found = [_NONE]
        for some in _in_parts(rows.select(_IS_BIN[rows.type])):
            wanted = frozenset({"expiration_base"})
            head = decode(some, Family.NODE, wanted=wanted).fields
            found.append(some.lsn[head.known("expiration_base") > 0])
        return np.concatenate(found)

    def _expiring(self, rows: Rows) -> Counter[int]:
        found: Counter[int] = Counter()
        for some in _in_parts(rows.select(_IS_USER_LN[rows.type])):
            wanted = frozenset({"expiration"})
            head = decode(some, Family.LN, wanted=wanted).fields
            if head.has("expiration") and not head.is_empty("expiration"):
                found += by_hour(expiration_ms(head.known("expiration")), some.size)
        return found


_NONE = np.empty(0, np.int64)


def _in_parts(rows: Rows) -> Iterator[Rows]:
    for first in range(0, len(rows), MAX_ROWS):
        yield rows.select(np.arange(first, min(first + MAX_ROWS, len(rows))))


def track_utilization(snapshot: Snapshot, file_nos: frozenset[int]) -> TrackedUtilization:
    """Scan a log for the utilization and the last ids that a checkpoint records.

    Args:
        snapshot: the log as recovery leaves it.
        file_nos: numbers of the files whose contents are wanted.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    first_no = min([max(snapshot.first_lsn, 0) >> 32, *file_nos])
    files = tuple(file for file in snapshot.end.files if file.file_no >= first_no)
    # Undo and redo have freed memory that malloc keeps.
    give_back_memory()
    finder = ObsoleteFinder.of(snapshot)
    finder.prepare()
    work = _Inspector(finder.since, snapshot.end.next_lsn, file_nos, finder)
    tracked = TrackedUtilization(find_last_ids(snapshot), ReplicationStream.of(()))
    streams = []
    tracked.summaries = dict.fromkeys(file_nos, FileSummary())
    tracked.expiring = {file_no: Counter() for file_no in file_nos}
    since: dict[int, FileSummary] = defaultdict(FileSummary)
    versions: list[Versions] = []
    size = sum(file.size for file in files)
    scanner = snapshot.scanner.staged("read the files", size).stepping()
    for part in scanner.scan(replace(snapshot.environment, files=files), work):
        for piece in part.results:
            tracked.last_ids.note_all("node", piece.node_ids)
            streams.append(piece.stream)
            since[piece.file_no] += piece.since
            tracked.obsolete.append(piece.obsolete)
            versions += piece.versions
            if piece.file_no in file_nos:
                tracked.summaries[piece.file_no] += piece.totals
                tracked.expiring[piece.file_no] += piece.expiring
                tracked.expiring[piece.file_no] += _of_bins(snapshot, piece.bins)
    # The threads have freed their buffers, which malloc keeps.
    give_back_memory()
    tracked.stream = ReplicationStream.joined(streams)
    tracked.since = since
    tracked.obsolete += [*finder.silently_replaced(), *finder.nodes(joined_versions(versions))]
    return tracked


def _of_bins(snapshot: Snapshot, lsns: Ints) -> Counter[int]:
    found: Counter[int] = Counter()
    for first in range(0, len(lsns), NODES_AT_ONCE):
        some = lsns[first : first + NODES_AT_ONCE]
        entries = fetch(snapshot.image, some, check=False)
        found += share_of_slots(read_nodes(entries), entries.size)
    return found
