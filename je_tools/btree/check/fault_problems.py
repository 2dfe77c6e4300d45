"""Faults of nodes, found while the nodes were read, as problems of a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from je_tools.btree.check.problems import TreeProblem
from je_tools.btree.fault_kinds import FAULT_TEXTS, Fault, FaultKind
from je_tools.formats.je.header import lsn_text

if TYPE_CHECKING:
    from je_tools.btree.check.checked_nodes import CheckedNodes

_CODES = {
    FaultKind.WRONG_LEVEL: "tree-level",
    FaultKind.NO_FULL_VERSION: "tree-delta",
    FaultKind.NOT_A_RECORD: "tree-record",
}

_FOUND = FAULT_TEXTS | {
    FaultKind.NOT_A_NODE: "an entry that is not a node, or is erased",
    FaultKind.NO_FULL_VERSION: "no readable full version, or that of another BIN",
}


def of_duplicates(fault: Fault) -> TreeProblem:
    """Convert a fault in the tree of a key's duplicates into a problem."""
    return _problem(fault, -1, "a node with the duplicates of the key")


def of_fault(part: CheckedNodes, fault: Fault) -> TreeProblem:
    """Convert a fault of one of some nodes into a problem."""
    rows = np.flatnonzero(
        (part.nodes.lsn == fault.lsn) & (part.children.parent_lsn == fault.parent_lsn)
    )
    slot = int(part.slot[rows[0]]) if len(rows) else -1
    expected = f"a node of level {part.children.level}"
    if fault.kind is FaultKind.NO_FULL_VERSION:
        full_lsn = int(part.nodes.last_full_lsn[rows[0]])
        expected = f"the full version of a delta at {lsn_text(full_lsn)}"
    return _problem(fault, slot, expected)


def _problem(fault: Fault, slot: int, expected: str) -> TreeProblem:
    return TreeProblem(
        code=_CODES.get(fault.kind, "tree-node"),
        db_id=fault.db_id,
        lsn=fault.lsn,
        parent_lsn=fault.parent_lsn,
        slot=slot,
        expected=expected,
        found=_FOUND[fault.kind],
        low=fault.low,
        high=fault.high,
    )
