"""Entries of the old form that JE 5.0 and later cannot replay.

In log versions before 8, databases with duplicates and BIN-deltas have another form. When these
engines open such a log, they convert the databases, but they cannot replay entries of the old form.
The tool DbPreUpgrade_4_1 ends a log so that recovery replays none.

Source: INFileReader, RecoveryManager.checkLogVersion8UpgradeViolations, JE 7.5.11.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field

from je_tools.formats.je.flags import DatabaseFlag
from je_tools.formats.je.header import lsn_text
from je_tools.formats.je.types import (
    CKPT_END_NO,
    ENTRY_TYPES,
    PAYLOAD_VERSION_MIN,
    Family,
    Group,
    mask_of,
)
from je_tools.log.file_findings import finding

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment

NEW_FORM = 8
"""First log version in which duplicates are records like others."""

_LN_OR_IN = {Group.LN, Group.IN}
_NO_NODES = {Family.OLD_DELTA, Family.IN_DELETE, Family.IN_DUP_DELETE}
_NODES = mask_of(
    each.no
    for each in ENTRY_TYPES.values()
    if each.groups & _LN_OR_IN and each.family not in _NO_NODES
)
_DELTAS = mask_of(each.no for each in ENTRY_TYPES.values() if each.family is Family.OLD_DELTA)
_MAP_LNS = mask_of(each.no for each in ENTRY_TYPES.values() if each.family is Family.MAP_LN)

_DELETED = 1


class OldForm(Struct, frozen=True):
    """Old-form entries in some rows, and the facts that decide whether they matter.

    Attributes:
        nodes: LSN of the last record or node of each database, of a version before 8.
        delta: LSN of the last BIN-delta of such a version; None without one.
        duplicates: for each database described here, True if it has duplicates; False if it is
            removed.
        start: LSN at which recovery begins by the last checkpoint in these rows; None without one.
    """

    nodes: Mapping[int, int]
    delta: int | None
    duplicates: Mapping[int, bool]
    start: int | None


def collect_old_form(rows: Rows) -> OldForm | None:
    """Return the old-form entries of some rows, or None; the result holds no view of the rows.

    Damaged and undecodable entries are ignored, as are versions whose payloads are not decoded.
    """
    if rows.version < PAYLOAD_VERSION_MIN:
        return None
    nodes: dict[int, int] = {}
    delta = None
    if rows.version < NEW_FORM:
        from je_tools.log.references import read_references

        found = read_references(rows, _NODES, ("db_id",))
        with_db = np.flatnonzero(found.present["db_id"])[::-1]
        ids, last = np.unique(found.numbers["db_id"][with_db], return_index=True)
        nodes = dict(zip(ids.tolist(), rows.lsn[with_db[last]].tolist(), strict=True))
        deltas = np.flatnonzero(_DELTAS[rows.type] & rows.good)
        delta = int(rows.lsn[deltas[-1]]) if len(deltas) else None
    duplicates: dict[int, bool] = {}
    for row in np.flatnonzero(_MAP_LNS[rows.type] & rows.good).tolist():
        duplicates |= _described(rows.fields(row))
    ends = np.flatnonzero((rows.type == CKPT_END_NO) & rows.good).tolist()
    start = rows.fields(ends[-1]).get("ckpt_start_lsn") if ends else None
    if not (nodes or duplicates or start is not None or delta is not None):
        return None
    return OldForm(nodes, delta, duplicates, None if start is None else start & (1 << 64) - 1)


def _described(fields: Mapping[str, Any]) -> dict[int, bool]:
    """Return the id of the database of a MapLN, with True if the database has duplicates."""
    database = fields.get("database")
    if database is None:
        return {}
    gone = fields["data"] is None or fields["deleted"] & _DELETED
    return {
        database["id"]: not gone and bool(database.get("db_flags", 0) & DatabaseFlag.DUPLICATES)
    }


class UpgradeCheck(Struct, dict=True):
    """The check that JE 5.0 and later can open a log; merge its parts in log order.

    Attributes:
        environment: the log.
    """

    environment: Environment
    _nodes: dict[tuple[int, int], int] = field(default_factory=dict)
    _deltas: dict[int, int] = field(default_factory=dict)
    _duplicates: dict[int, bool] = field(default_factory=dict)
    _start: int = 0

    @cached_property
    def is_applicable(self) -> bool:
        """True if the log has files of an old version; single files of a log are not recovered."""
        environment = self.environment
        return environment.is_directory and any(
            PAYLOAD_VERSION_MIN <= file.version < NEW_FORM for file in environment.files
        )

    def merge(self, part: OldForm) -> None:
        """Add the facts of some rows."""
        for db_id, lsn in part.nodes.items():
            self._nodes[lsn >> 32, db_id] = lsn
        if part.delta is not None:
            self._deltas[part.delta >> 32] = part.delta
        self._duplicates |= part.duplicates
        self._start = self._start if part.start is None else part.start

    @property
    def files(self) -> frozenset[int]:
        """Numbers of the files in which recovery would find entries of the old form."""
        return frozenset(lsn >> 32 for lsn in (*self._replayed_nodes(), *self._replayed_deltas()))

    def _replayed_nodes(self) -> list[int]:
        """Return the LSN of the last node of each database with duplicates that is replayed."""
        return [
            lsn
            for (_, db_id), lsn in self._nodes.items()
            if lsn >= self._start and self._duplicates.get(db_id)
        ]

    def _replayed_deltas(self) -> list[int]:
        return [lsn for lsn in self._deltas.values() if lsn >= self._start]

    def findings(self) -> Iterator[Finding]:
        """Yield the finding of a log that such engines refuse, at the last of those entries."""
        nodes, deltas = self._replayed_nodes(), self._replayed_deltas()
        if not nodes and not deltas:
            return
        last = max((*nodes, *deltas))
        kinds = ["entries of databases with duplicates"] * bool(nodes)
        kinds += ["BIN-deltas"] * bool(deltas)
        yield finding(
            self.environment,
            "old-form-to-replay",
            file_no=last >> 32,
            offset=last & 0xFFFFFFFF,
            found=f"{' and '.join(kinds)} up to here, and recovery begins at "
            f"{lsn_text(self._start)}",
        )
