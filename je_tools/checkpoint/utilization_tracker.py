"""Utilization tracker of a checkpoint: the contents of files, and the ids given so far.

One walk covers the files that recovery reads and those that lack an internal database record.

Source: je-log.md "Checkpoints" and "Utilization"; RecoveryManager.readINs, UtilizationTracker,
ExpirationTracker.track, JE 18.3.12.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.btree.children import NODES_AT_ONCE
from je_tools.checkpoint.obsolete import (
    Counting,
    Gone,
    Versions,
    joined_gone,
    joined_versions,
)
from je_tools.checkpoint.sequences import Sequences
from je_tools.core.memory import give_back_memory
from je_tools.formats.je.columns import MAX_ROWS, decode
from je_tools.formats.je.expirations import HOUR_MS, NEVER, expiration_ms
from je_tools.formats.je.fetch import fetch
from je_tools.formats.je.internal_cleaner import DatabaseExtinction, RecordExtinction
from je_tools.formats.je.internal_names import EXTINCT_SCANS_DB
from je_tools.formats.je.nodes import BIN_NO, DELTA_NO, Nodes, read_nodes
from je_tools.formats.je.types import ENTRY_TYPES, FILE_HEADER_NO, Family, Group, mask_of
from je_tools.recovery.utilization import FileSummary, internal_records

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.entry_rows import Rows
    from je_tools.recovery.snapshot import Snapshot

_IS_LN = mask_of(each.no for each in ENTRY_TYPES.values() if Group.LN in each.groups)
_IS_USER_LN = mask_of(each.no for each in ENTRY_TYPES.values() if each.user_ln)
_IS_NODE = mask_of(each.no for each in ENTRY_TYPES.values() if each.family is Family.NODE)
_IS_BIN = mask_of((BIN_NO, DELTA_NO))


class Stream(Struct, frozen=True):
    """Entries of the replication stream that are not marked invisible, in log order.

    Attributes:
        lsn, vlsn: int64.
        type: uint8.
    """

    lsn: Ints
    vlsn: Ints
    type: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.lsn)

    @classmethod
    def of(cls, entries: Iterable[tuple[int, int, int]]) -> Stream:
        """Build a stream from the LSN, VLSN and type of each entry."""
        columns = np.array(list(entries), np.int64).reshape(-1, 3).T
        return cls(columns[0], columns[1], columns[2].astype(np.uint8))

    @classmethod
    def joined(cls, parts: Sequence[Stream]) -> Stream:
        """Concatenate parts of a stream."""
        parts = [cls.of(()), *parts]
        names = ("lsn", "vlsn", "type")
        return cls(*(np.concatenate([getattr(each, name) for each in parts]) for name in names))

    def select(self, keep: npt.NDArray[Any]) -> Stream:
        """Return the rows of a mask or of an index array, in its order."""
        return Stream(self.lsn[keep], self.vlsn[keep], self.type[keep])


class Survey(Struct):
    """Result of the walk.

    Attributes:
        sequences: the last ids given.
        stream: replication stream since the last checkpoint began.
        summaries: totals of each requested file, without obsolete entries.
        since: the same for entries that no file summary has counted, by file.
        expiring: bytes of each requested file, by the hour since 1970 in which they expire.
        gone: obsolete entries that no file summary has counted.
    """

    sequences: Sequences
    stream: Stream
    summaries: dict[int, FileSummary] = field(default_factory=dict)
    since: dict[int, FileSummary] = field(default_factory=dict)
    expiring: dict[int, Counter[int]] = field(default_factory=dict)
    gone: list[Gone] = field(default_factory=list)


class _Piece(Struct, frozen=True):
    """Result for some rows of one file.

    Attributes:
        node_ids: int64; highest and lowest ids of nodes, provisional nodes included.
        totals, since: as `summaries` and `since` of `Survey`.
        expiring: bytes of records, by the hour in which they expire.
        bins: int64; LSNs of BINs with a slot that expires.
        gone: obsolete records.
        versions: versions of nodes.
    """

    file_no: int
    node_ids: Ints
    stream: Stream
    totals: FileSummary
    since: FileSummary
    expiring: Counter[int]
    bins: Ints
    gone: Gone
    versions: list[Versions]


class _Look(Struct, frozen=True):
    """Inspector of the rows of a scan.

    Attributes:
        from_lsn: LSN from which ids, the stream and node versions are collected.
        next_lsn: LSN at which the log ends.
        file_nos: files whose expirations are collected.
        counting: finder of obsolete entries.
    """

    from_lsn: int
    next_lsn: int
    file_nos: frozenset[int]
    counting: Counting

    def __call__(self, rows: Rows) -> _Piece:
        rows = rows.select(rows.good & (rows.type != FILE_HEADER_NO) & (rows.lsn < self.next_lsn))
        ids = self._node_ids(rows.select(_IS_NODE[rows.type] & (rows.lsn >= self.from_lsn)))
        shown = rows.replicated & ~rows.invisible & (rows.lsn >= self.from_lsn)
        stream = Stream(rows.lsn[shown], rows.vlsn[shown], rows.type[shown])
        wanted = rows.file_no in self.file_nos
        bins = self._expiring_bins(rows) if wanted else _NONE
        recent = rows.select(
            self.counting.uncounted(rows.lsn, rows.lsn) & (rows.lsn >= self.from_lsn)
        )
        lns = _in_parts(rows.select(_IS_LN[rows.type]))
        nodes = _in_parts(rows.select(_IS_NODE[rows.type] & (rows.lsn >= self.from_lsn)))
        return _Piece(
            rows.file_no,
            ids,
            stream,
            FileSummary.of_entries(rows.type, rows.size),
            FileSummary.of_entries(recent.type, recent.size),
            self._expiring(rows) if wanted else Counter(),
            bins,
            joined_gone(gone for some in lns for gone in self.counting.records(some)),
            [some for some in map(self.counting.versions, nodes) if some is not None],
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


def by_hour(expires_ms: Ints, sizes: Ints) -> Counter[int]:
    """Sum bytes by the hour since 1970 in which they expire.

    Args:
        expires_ms: int64; time of expiration, 0 for never.
        sizes: int64; bytes of each.
    """
    some = np.flatnonzero(expires_ms != NEVER)
    hours, place = np.unique(expires_ms[some] // HOUR_MS, return_inverse=True)
    sums = np.bincount(place, weights=sizes[some], minlength=len(hours)).astype(np.int64)
    return Counter(dict(zip(hours.tolist(), sums.tolist(), strict=True)))


def share_of_slots(nodes: Nodes, sizes: Ints) -> Counter[int]:
    """Sum bytes of BINs by the hour in which their slots expire, each slot with an equal share.

    Args:
        nodes: BINs or deltas.
        sizes: int64; bytes of each node's entry.
    """
    counts = np.diff(nodes.first)
    return by_hour(nodes.slots.expires_ms, np.repeat(sizes // np.maximum(counts, 1), counts))


def look_at_log(snapshot: Snapshot, file_nos: frozenset[int]) -> Survey:
    """Collect the ids given since the last checkpoint began, and the contents of some files.

    Args:
        snapshot: the log as recovery leaves it.
        file_nos: numbers of the files.
    """
    first_no = min([max(snapshot.first_lsn, 0) >> 32, *file_nos])
    files = tuple(file for file in snapshot.end.files if file.file_no >= first_no)
    # Undo and redo have freed memory that malloc keeps.
    give_back_memory()
    counting = Counting.of(snapshot)
    counting.prepare()
    work = _Look(counting.since, snapshot.end.next_lsn, file_nos, counting)
    survey = Survey(given_numbers(snapshot), Stream.of(()))
    streams = []
    survey.summaries = dict.fromkeys(file_nos, FileSummary())
    survey.expiring = {file_no: Counter() for file_no in file_nos}
    since: dict[int, FileSummary] = defaultdict(FileSummary)
    versions: list[Versions] = []
    size = sum(file.size for file in files)
    scanner = snapshot.scanner.staged("what files hold", size).stepping()
    for part in scanner.scan(replace(snapshot.environment, files=files), work):
        for piece in part.results:
            survey.sequences.saw_all("node", piece.node_ids)
            streams.append(piece.stream)
            since[piece.file_no] += piece.since
            survey.gone.append(piece.gone)
            versions += piece.versions
            if piece.file_no in file_nos:
                survey.summaries[piece.file_no] += piece.totals
                survey.expiring[piece.file_no] += piece.expiring
                survey.expiring[piece.file_no] += _of_bins(snapshot, piece.bins)
    # The threads have freed their buffers, which malloc keeps.
    give_back_memory()
    survey.stream = Stream.joined(streams)
    survey.since = since
    survey.gone += [*counting.replaced_unsaid(), *counting.nodes(joined_versions(versions))]
    return survey


def _of_bins(snapshot: Snapshot, lsns: Ints) -> Counter[int]:
    found: Counter[int] = Counter()
    for first in range(0, len(lsns), NODES_AT_ONCE):
        some = lsns[first : first + NODES_AT_ONCE]
        entries = fetch(snapshot.image, some, check=False)
        found += share_of_slots(read_nodes(entries), entries.size)
    return found


def given_numbers(snapshot: Snapshot) -> Sequences:
    """Return the last ids found in the checkpoint, the DbTree and what recovery replays."""
    sequences = Sequences()
    sequences.saw_fields(snapshot.checkpoint.fields)
    root = snapshot.entry(snapshot.checkpoint.root_lsn)
    sequences.saw_fields(root.fields if root is not None else {})
    sequences.saw_all("txn", snapshot.interval.lns.txn_id)
    sequences.saw_all("txn", snapshot.interval.ends.txn_id)
    sequences.saw_all("db", np.array(list(snapshot.databases), np.int64))
    sequences.saw_all("db", snapshot.interval.lns.db_id)
    for typed in internal_records(snapshot, EXTINCT_SCANS_DB):
        if isinstance(typed, DatabaseExtinction | RecordExtinction):
            sequences.saw("extinction", typed.scan_id)
    return sequences
