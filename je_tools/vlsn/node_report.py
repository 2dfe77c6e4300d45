"""Report on a node: what a comparison needs, as a file that can be taken to another host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct

from je_tools.errors import InputError
from je_tools.findings import Severity
from je_tools.formats.je.types import BY_NAME, COMMIT_NO, type_name
from je_tools.vlsn.sync_points import ABSENT, SYNC_FIELDS, SyncPoints
from je_tools.vlsn.txn_writes import TxnWrites

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.vlsn.node_state import NodeState

REPORT, REPORT_VERSION = "je-tools vlsn show", 1
"""Name and version of the format of a report."""


class SyncPoint(Struct, frozen=True):
    """A Commit, Abort or Matchpoint in a report.

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


class NodeFacts(Struct, frozen=True):
    """Facts of a report, apart from its columns.

    Attributes:
        report, report_version: REPORT and REPORT_VERSION.
        env: name of the environment.
        state_id: text that differs between two nodes, and between two states of one node.
        group_name, group_id: its group; None if unknown.
        node_names: names of the members by id.
        log_version: log version of the last file.
        first_vlsn: first VLSN that its index covers after recovery; None if that is unknown.
        last_vlsn: last VLSN in the log; None without one.
        sync_first_vlsn: VLSN from which the report has all sync points.
        sync_is_whole: True if they are all sync points of the log.
        checkpoint_vlsn: last VLSN of the log before its last checkpoint began; None if unknown.
        journal_id: last journal id of a StarRocks or Doris front end; None without a journal.
        problems: codes of the errors found.
        node_name: name of the node; None if no file in its directories has it.
        node_type: its type, one of `NODE_TYPES`; None if unknown.
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
    node_name: str | None = None
    node_type: str | None = None


class NodeReport(Struct, frozen=True):
    """A node, as far as a comparison needs it.

    Attributes:
        facts: facts without columns.
        sync: sync points at the end of the log, in VLSN order; their LSNs are ABSENT in a report
            that was read from a file.
        writes: records between them.
    """

    facts: NodeFacts
    sync: SyncPoints
    writes: TxnWrites

    @property
    def last_commit(self) -> SyncPoint | None:
        """The last Commit that was read; None without one."""
        rows = np.flatnonzero(self.sync.type == COMMIT_NO)
        return self._point(int(rows[-1])) if len(rows) else None

    @property
    def durable_vlsn(self) -> int | None:
        """Last VLSN that the master knew to be durable, when it wrote the last sync point."""
        rows = np.flatnonzero(self.sync.dtvlsn != ABSENT)
        return int(self.sync.dtvlsn[rows[-1]]) if len(rows) else None

    def document(self) -> dict[str, Any]:
        """Return the report as an object for JSON without its sync points."""
        found: dict[str, Any] = msgspec.to_builtins(self.facts, str_keys=True)
        found["open_written"] = msgspec.to_builtins(self._written(len(self.sync)), str_keys=True)
        commit = self.last_commit
        found["last_commit"] = (
            None if commit is None else msgspec.to_builtins(commit, str_keys=True)
        )
        found["durable_vlsn"] = self.durable_vlsn
        return found

    def sync_points(self) -> Iterator[dict[str, Any]]:
        """Yield the sync points as objects for JSON."""
        for row in range(len(self.sync)):
            yield msgspec.to_builtins(self._point(row), str_keys=True)

    def _point(self, row: int) -> SyncPoint:
        sync = self.sync
        return SyncPoint(
            int(sync.vlsn[row]),
            type_name(int(sync.type[row])),
            _known(sync.txn_id[row]),
            int(sync.master_node_id[row]),
            _known(sync.master_term[row]),
            int(sync.time_ms[row]),
            _known(sync.dtvlsn[row]),
            self._written(row),
        )

    def _written(self, place: int) -> dict[int, int]:
        writes = self.writes
        first, stop = np.searchsorted(writes.place, [place, place + 1]).tolist()
        ids, counts = writes.txn_id[first:stop].tolist(), writes.count[first:stop].tolist()
        return dict(zip(ids, counts, strict=True))


def _known(number: Any) -> int | None:
    return None if number == ABSENT else int(number)


def report_of(state: NodeState) -> NodeReport:
    """Return the report on a node."""
    covered = state.index.usable.range
    facts = NodeFacts(
        report=REPORT,
        report_version=REPORT_VERSION,
        env=state.env,
        state_id=state.state_id,
        group_name=state.group.name,
        group_id=state.group.group_id,
        node_names=dict(state.group.nodes),
        log_version=state.log_version,
        first_vlsn=covered.first if covered.first > 0 else None,
        last_vlsn=state.tail.last_vlsn,
        sync_first_vlsn=state.tail.first_vlsn,
        sync_is_whole=state.tail.is_whole,
        checkpoint_vlsn=state.checkpoint_vlsn,
        journal_id=state.journal_id,
        problems=sorted({each.code for each in state.findings if each.severity is Severity.ERROR}),
        node_name=state.own.name,
        node_type=state.own.node_type,
    )
    return NodeReport(facts, state.tail.sync, state.tail.writes)


class _ReportFile(NodeFacts, frozen=True, kw_only=True):
    """A report as JSON has it."""

    open_written: dict[int, int]
    sync_points: list[SyncPoint]


def read_report(name: str, data: bytes) -> NodeReport:
    """Decode a report that `je-tools vlsn show --format json` has written.

    Args:
        name: name of the file, for errors.
        data: its content.

    Raises:
        InputError: it is no such report, or has another version.
    """
    try:
        found = msgspec.json.decode(data, type=_ReportFile)
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
    facts = NodeFacts(**{field: getattr(found, field) for field in NodeFacts.__struct_fields__})
    try:
        sync, writes = columns_of(found.sync_points, found.open_written)
    except (OverflowError, KeyError) as error:
        raise InputError(
            f"{name}: a sync point of the report has a number or a type that no log has: make the "
            "report again on the host of the node"
        ) from error
    return NodeReport(facts, sync, writes)


def columns_of(
    points: Sequence[SyncPoint], open_written: Mapping[int, int]
) -> tuple[SyncPoints, TxnWrites]:
    """Return sync points as columns, and the records between them.

    Args:
        points: sync points, in any order.
        open_written: number of records after the last one, by transaction.

    Raises:
        OverflowError: a number has more than 64 bits.
        KeyError: a type is not one of a log.
    """
    points = sorted(points, key=lambda each: each.vlsn)

    def column(name: str) -> Ints:
        known = (getattr(each, name) for each in points)
        return np.array([ABSENT if each is None else each for each in known], np.int64)

    sync = SyncPoints(
        lsn=np.full(len(points), ABSENT, np.int64),
        vlsn=column("vlsn"),
        type=np.array([BY_NAME[each.type].no for each in points], np.uint8),
        **{name: column(name) for name in SYNC_FIELDS},
    )
    written = [*(each.written for each in points), open_written]
    rows = [
        (place, txn_id, count)
        for place, each in enumerate(written)
        for txn_id, count in each.items()
    ]
    return sync, TxnWrites.of(*np.array(rows, np.int64).reshape(-1, 3).T)
