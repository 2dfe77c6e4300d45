"""Report on a node: what a comparison of nodes needs, also if they are on several hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct

from je_tools.errors import InputError
from je_tools.findings import Severity
from je_tools.formats.je.types import COMMIT_NO, type_name
from je_tools.vlsn.sync_points import ABSENT, SyncPoints

if TYPE_CHECKING:
    from je_tools.vlsn.node import NodeState
    from je_tools.vlsn.tail import Tail, TxnWrites

REPORT, REPORT_VERSION = "je-tools vlsn show", 1
"""Name and version of the form of a report."""


class SyncPoint(Struct, frozen=True):
    """A Commit, Abort or Matchpoint.

    Attributes:
        vlsn, type, txn_id, master_node_id, master_term: fields that two nodes have in common;
            None if the log version does not have them.
        time_ms: time; of a Commit or an Abort it may differ between nodes.
        dtvlsn: last durable VLSN that the master knew; None if unknown.
        written: number of records between the sync point before and this one, by transaction.
    """

    vlsn: int
    type: str
    txn_id: int | None
    master_node_id: int
    master_term: int | None
    time_ms: int
    dtvlsn: int | None
    written: dict[int, int] = {}

    @property
    def is_commit(self) -> bool:
        """True for a Commit."""
        return self.type == _COMMIT


_COMMIT = type_name(COMMIT_NO)


class NodeReport(Struct, frozen=True):
    """A node, as far as a comparison needs it.

    Attributes:
        report, report_version: REPORT and REPORT_VERSION.
        env: name of the environment.
        state_id: text that differs between two nodes, and between two states of one node.
        group_name, group_id: its group; None if unknown.
        node_names: names of the members by id.
        log_version: log version of the last file.
        first_vlsn: first VLSN that its index covers after recovery; None if that is unknown.
        last_vlsn: last VLSN in the log; None without one.
        sync_first_vlsn: VLSN from which on `sync_points` has all of them.
        sync_is_whole: True if they are all sync points of the log.
        open_written: number of records after the last sync point, by transaction.
        sync_points: sync points at the end of the log, in VLSN order.
        checkpoint_vlsn: last VLSN of the log before its last checkpoint began; None if unknown.
        journal_id: last journal id of a StarRocks or Doris front end; None without a journal.
        problems: codes of the errors found.
    """

    report: str
    report_version: int
    env: str
    state_id: str
    group_name: str | None
    group_id: str | None
    node_names: dict[int, str]
    log_version: int
    first_vlsn: int | None
    last_vlsn: int | None
    sync_first_vlsn: int | None
    sync_is_whole: bool
    checkpoint_vlsn: int | None
    journal_id: int | None
    problems: list[str]
    open_written: dict[int, int]
    sync_points: tuple[SyncPoint, ...]

    @property
    def last_commit(self) -> SyncPoint | None:
        """The last Commit that was read; None without one."""
        return next((each for each in self.sync_points[::-1] if each.is_commit), None)

    @property
    def durable_vlsn(self) -> int | None:
        """Last VLSN that the master knew to be durable, when it wrote the last sync point."""
        known = (each.dtvlsn for each in self.sync_points[::-1] if each.dtvlsn is not None)
        return next(known, None)

    def document(self) -> dict[str, Any]:
        """Return the report as an object for JSON, with the last Commit and durable VLSN."""
        found: dict[str, Any] = msgspec.to_builtins(self, str_keys=True)
        commit = self.last_commit
        found["last_commit"] = None if commit is None else msgspec.to_builtins(commit)
        found["durable_vlsn"] = self.durable_vlsn
        return found


def report_of(state: NodeState) -> NodeReport:
    """Return the report on a node."""
    covered = state.index.usable.range
    return NodeReport(
        REPORT,
        REPORT_VERSION,
        state.env,
        state.state_id,
        state.group.name,
        state.group.group_id,
        dict(state.group.nodes),
        state.log_version,
        covered.first if covered.first > 0 else None,
        state.tail.last_vlsn,
        state.tail.first_vlsn,
        state.tail.is_whole,
        state.checkpoint_vlsn,
        state.journal_id,
        sorted({each.code for each in state.findings if each.severity is Severity.ERROR}),
        _written(state.tail.writes, len(state.tail.sync)),
        _sync_points(state.tail),
    )


def _sync_points(tail: Tail) -> tuple[SyncPoint, ...]:
    return tuple(
        SyncPoint(
            int(vlsn),
            type_name(int(number)),
            _known(txn_id),
            int(master),
            _known(term),
            int(time_ms),
            _known(dtvlsn),
            _written(tail.writes, place),
        )
        for place, (vlsn, number, txn_id, master, term, time_ms, dtvlsn) in enumerate(
            _columns(tail.sync)
        )
    )


def _columns(sync: SyncPoints) -> Sequence[tuple[int, ...]]:
    columns = (
        sync.vlsn,
        sync.type,
        sync.txn_id,
        sync.master_node_id,
        sync.master_term,
        sync.time_ms,
        sync.dtvlsn,
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _known(number: int) -> int | None:
    return None if number == ABSENT else number


def _written(writes: TxnWrites, place: int) -> dict[int, int]:
    first, stop = np.searchsorted(writes.place, [place, place + 1]).tolist()
    ids, counts = writes.txn_id[first:stop].tolist(), writes.count[first:stop].tolist()
    return dict(zip(ids, counts, strict=True))


def read_report(name: str, data: bytes) -> NodeReport:
    """Decode a report that `je-tools vlsn show --format json` has written.

    Args:
        name: name of the file, for errors.
        data: its content.

    Raises:
        InputError: it is no such report, or one of another form.
    """
    try:
        found = msgspec.json.decode(data, type=NodeReport)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{name}: not a report of `je-tools vlsn show --format json` ({error}): make one on "
            "the host of the node"
        ) from error
    if (found.report, found.report_version) != (REPORT, REPORT_VERSION):
        raise InputError(
            f"{name}: expected a report of form {REPORT_VERSION}, found {found.report} "
            f"{found.report_version}: use the same release of je-tools on all hosts"
        )
    return found
