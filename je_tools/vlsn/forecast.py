"""Forecast of what the engine does with a damaged VLSN index.

Each outcome was observed on groups of three nodes of JE 7.5.11, 18.3.12, 25.3.17 and StarRocks'
fork, in which one or two nodes had a damaged index.

Source: je-log.md "The VLSN index"; VLSNIndex.init and merge, VLSNTracker, FeederReader, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.core.escaping import counted
from je_tools.formats.je.internal.replication import RANGE_KEY, VlsnBucket
from je_tools.vlsn.index import FIRST_VLSN, NO_VLSN

if TYPE_CHECKING:
    from je_tools.vlsn.index_state import IndexState
    from je_tools.vlsn.judged_buckets import StoredBuckets
    from je_tools.vlsn.stored_index import StoredIndex
    from je_tools.vlsn.stream_summary import StreamSummary

SILENT_VERSION = 19
"""First log version whose engine refuses some states that older ones accept silently."""


class Forecast(Struct, frozen=True):
    """The engine's answer to one kind of damage.

    Attributes:
        damage: the damage.
        outcome: what the engine does if it opens the node as it is.
    """

    damage: str
    outcome: str


def forecasts(
    state: IndexState, judged: StoredBuckets, summary: StreamSummary, log_version: int
) -> list[Forecast]:
    """Return what the engine would do with an index, in the order in which it would happen.

    Args:
        state: the index.
        judged: its buckets, compared with the stream.
        summary: summary of the stream, for the index as recovery leaves it.
        log_version: log version of the last file.
    """
    is_lost = state.stored.range is None and not state.stored.unreadable
    if state.refusal is not None and not is_lost:
        why = f"the VLSNs since the last checkpoint do not fit: {state.refusal}"
        outcome = (
            'The engine does not open the node. Recovery fails with "recoveryTracker should '
            'overlap or follow on disk last VLSN", or because a bucket overlaps the one before.'
        )
        rest = _of_records(state.stored, judged)
        return [Forecast(why, outcome), *(Forecast(*each) for each in rest)]
    found = [
        *_of_a_lost_range(state, log_version),
        *_of_ends(state, summary, log_version),
        *_of_records(state.stored, judged),
    ]
    return [Forecast(damage, outcome) for damage, outcome in found]


def _of_a_lost_range(state: IndexState, log_version: int) -> Iterator[tuple[str, str]]:
    stored = state.stored
    is_filled = stored.db_id is not None and not stored.records
    if stored.range is not None or (is_filled and state.tracked_vlsn == FIRST_VLSN):
        return
    if stored.db_id is None:
        damage = "the index has no database"
    else:
        damage = "the index has no records" if not stored.records else "the range is missing"
    if state.tracked_vlsn not in (None, FIRST_VLSN):
        yield (
            damage,
            (
                'The engine does not open the node: recovery fails with "recoveryTracker should '
                'overlap or follow on disk last VLSN of -1".'
            ),
        )
    elif log_version >= SILENT_VERSION:
        yield (
            damage,
            (
                "The engine begins a new index. As a replica, the node asks for the stream from "
                "VLSN 1 and stops when it replays it."
            ),
        )
    else:
        yield (
            damage,
            (
                "The engine opens the node as if it were new. As a replica, it gets the whole "
                "stream again: the log then has every VLSN twice, and no index can repair that."
            ),
        )


def _of_ends(
    state: IndexState, summary: StreamSummary, log_version: int
) -> Iterator[tuple[str, str]]:
    """Yield the forecasts that follow from the end of the range after recovery."""
    covered = state.usable.range
    last = summary.end.last_vlsn
    if state.stored.range is None or last is None:
        return
    if covered.last > last:
        if covered.last_sync > last or covered.last_txn_end > last:
            outcome = (
                "The engine does not open the node: it reads an entry after the end of the log."
            )
        else:
            outcome = (
                "The node is elected, since it claims the newest VLSN. It dies when it feeds a "
                f'replica: "Couldn\'t find bucket for GTE VLSN {last + 1}".'
            )
        yield f"the range ends at VLSN {covered.last}, and the log at {last}", outcome
        return
    if covered.last < last:
        yield (
            f"the index ends at VLSN {covered.last}, and the log at {last}",
            f"If the node leads, it gives the VLSNs from {covered.last + 1} on to other entries, "
            "without a message. If two nodes of three are short, nodes end up with different "
            "records under the same VLSNs. If another node is whole, this one is not elected, and "
            "loses its end: it cuts its log or needs a network restore.",
        )
    yield from _of_sync_points(state, summary, log_version)


def _of_sync_points(
    state: IndexState, summary: StreamSummary, log_version: int
) -> Iterator[tuple[str, str]]:
    covered = state.usable.range
    end = summary.end
    for name, vlsn, newest, is_one in (
        ("sync point", covered.last_sync, end.last_sync, summary.has_sync),
        ("end of a transaction", covered.last_txn_end, end.last_txn_end, summary.has_txn_end),
    ):
        if newest is None or vlsn == newest:
            continue
        if vlsn == NO_VLSN:
            outcome = "The node works as a master."
            if log_version >= SILENT_VERSION:
                outcome = "The node opens, and a replica that lags behind dies when it is fed."
        elif is_one or vlsn < (summary.first_vlsn or 0):
            outcome = (
                "The node counts as older than it is: it is not elected, and cuts the end of its "
                "log to follow another node."
            )
        else:
            outcome = (
                "The engine does not open the node: the entry does not end a transaction "
                '("LN cannot be cast to TxnEnd").'
            )
        yield f"the range has VLSN {vlsn} as its last {name}, and the log has {newest}", outcome


def _of_records(stored: StoredIndex, judged: StoredBuckets) -> Iterator[tuple[str, str]]:
    """Yield the forecasts that follow from missing, unreadable and wrong buckets."""
    for each in stored.unreadable[:1]:
        name = "the range" if each.key == RANGE_KEY else f"the bucket of VLSN {each.key}"
        yield (
            f"{name} cannot be read ({counted(len(stored.unreadable), 'record')})",
            "The engine finds persistent corruption when it needs the record. It then writes "
            "RestoreRequired, and the node does not open again.",
        )
    if stored.is_damaged:
        yield (
            "a node of the tree is damaged",
            "The engine finds persistent corruption when it reads the index. It then writes "
            "RestoreRequired, and the node does not open again.",
        )
    if stored.range is not None and not stored.is_damaged:
        yield from _of_missing_buckets(stored)
    wrong_count = sum(judged.wrong_counts.values())
    if wrong_count:
        yield (
            f"{counted(wrong_count, 'mapping')} to another entry, or to none",
            "The node works until it feeds a replica that lags as far. Then the master dies.",
        )
    if judged.broken_count:
        yield (
            f"{counted(judged.broken_count, 'bucket')} against a rule of the engine",
            "This was not observed on an engine. A master may die when it feeds a replica from "
            "such a bucket.",
        )
    if judged.wide_gap is not None:
        first, last = judged.wide_gap
        yield (
            f"no bucket covers VLSNs {first} to {last}",
            "The node works. A feeder reads more of the log to find these VLSNs.",
        )


def _of_missing_buckets(stored: StoredIndex) -> Iterator[tuple[str, str]]:
    covered = stored.range
    assert covered is not None
    records = [each for each in stored.records if each.key not in (RANGE_KEY, None)]
    if covered.first == NO_VLSN:
        return
    if not records or records[0].key != covered.first:
        yield (
            f"no bucket covers VLSN {covered.first}, the first of the range",
            f"The engine does not open the node: \"Couldn't find bucket for LTE VLSN "
            f'{covered.first}".',
        )
    last = records[-1].record if records else None
    if isinstance(last, VlsnBucket) and last.last < covered.last:
        yield (
            f"no bucket covers VLSN {covered.last}, the last of the range",
            "As a replica, the node works. As a master, it dies when the first replica joins: "
            f'"Couldn\'t find bucket for GTE VLSN {covered.last}".',
        )
