"""Problems of B-tree nodes: contradictions within a node, and between a node and its parent.

Source: je-log.md "Nodes"; BtreeVerifier, JE 25.3.17.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from je_tools.btree.check.checked_nodes import CheckedNodes, checked_nodes, suspect_keys
from je_tools.btree.check.fault_problems import of_fault
from je_tools.btree.check.problems import TreeProblem, TreeProblems
from je_tools.btree.check.stray_slots import StraySlots, stray_slots
from je_tools.btree.fault_kinds import FaultKind
from je_tools.btree.faults import WARNING_KINDS
from je_tools.formats.je.btree.node_checks import holders
from je_tools.formats.je.btree.nodes import DELTA_NO
from je_tools.formats.je.expirations import DAYS_MAX
from je_tools.formats.je.flags import ID_DB_LEVELS, LEVEL_MASK, MAIN_LEVELS, NodeFlag, SlotState
from je_tools.formats.je.header import NULL_LSN

if TYPE_CHECKING:
    from je_tools.btree.check.expected_records import ExpectedRecords
    from je_tools.formats.arrays import Mask

_ONLY_IN_BINS = (
    SlotState.KNOWN_DELETED
    | SlotState.PENDING_DELETED
    | SlotState.EMBEDDED
    | SlotState.NO_DATA
    | SlotState.TOMBSTONE
)

_FOUND_BY_RULES = {FaultKind.WRONG_ROOT_MARK, FaultKind.OTHER_RANGE, *WARNING_KINDS}
"""Faults of nodes that the checks below find by themselves."""


def node_problems(
    part: CheckedNodes, expected: ExpectedRecords, *, has_identifiers: bool
) -> tuple[CheckedNodes, TreeProblems]:
    """Return the part without nodes that belong elsewhere, and the problems of its nodes.

    Args:
        part: nodes.
        expected: records that are expected in the database.
        has_identifiers: True if the identifier key of a BIN is always the key of one of its slots.
    """
    problems = TreeProblems()
    for fault in part.loaded.faults:
        if fault.kind not in _FOUND_BY_RULES:
            problems.listed.append(of_fault(part, fault))
    strays = stray_slots(part, expected)
    foreign = _foreign(part, strays)
    strays = strays.without(foreign)
    problems.add("tree-bounds", strays.lost, strays.lost_problem)
    problems.add("tree-stray", strays.stale, strays.stale_problem)
    problems.open_slots += strays.open_slots()
    if foreign.any():
        part = _without(part, foreign, problems)
    # A delta without its full version is already reported.
    half = {each.lsn for each in part.loaded.faults if each.kind is FaultKind.NO_FULL_VERSION}
    whole = part.nodes.good & ~np.isin(part.nodes.lsn, list(half))
    _order(part, problems)
    _identifiers(part, whole, problems, has_identifiers=has_identifiers)
    _levels(part, problems)
    _states(part, problems)
    _expiration_units(part, problems)
    return part, problems


def _foreign(part: CheckedNodes, strays: StraySlots) -> Mask:
    """Return a mask of the nodes to which a wrong slot leads.

    Their identifiers and keys are outside the range, and their right place has them as well. A
    crash can also leave nodes with keys outside the range, but those are in no other place.
    """
    nodes = part.nodes
    outside = np.bincount(nodes.slot_node[part.outside], minlength=len(nodes))
    # The first slot of an upper node counts as inside.
    count = np.diff(nodes.first) - int(part.is_upper)
    is_wrong = (count > 0) & (outside == count) & strays.is_twice
    foreign: Mask = is_wrong & part.tree.wrong_identifiers(part.loaded)
    return foreign


def _without(part: CheckedNodes, foreign: Mask, problems: TreeProblems) -> CheckedNodes:
    """Report some nodes and leave them out."""
    problems.add(
        "tree-node",
        np.flatnonzero(foreign),
        lambda row: part.of_node(
            "tree-node", row, "a node for these keys", "a node for other keys", loses=True
        ),
    )
    loaded = replace(part.loaded, nodes=part.nodes.without(foreign))
    return checked_nodes(part.tree, loaded, part.slot)


def _order(part: CheckedNodes, problems: TreeProblems) -> None:
    problems.add(
        "tree-order",
        np.flatnonzero(part.descents),
        lambda row: part.of_slot(
            "tree-order",
            row,
            "a key above that of the previous slot",
            "a key that is not above it",
            loses=True,
        ),
    )


def _identifiers(
    part: CheckedNodes, whole: Mask, problems: TreeProblems, *, has_identifiers: bool
) -> None:
    nodes = part.nodes
    keys = nodes.identifier_key
    suspect = np.zeros(len(nodes), np.bool_)
    suspect[nodes.slot_node[suspect_keys(part)]] = True
    asked = whole & ~suspect & (keys.sizes >= 0)
    wrong = part.tree.wrong_identifiers(part.loaded)
    if has_identifiers and not part.is_upper:
        filled = np.diff(nodes.first) > 0
        wrong |= filled & ~holders(nodes.slots.key, nodes.first, keys)
    expected = "an identifier key that leads to the node"
    problems.add(
        "tree-identifier",
        np.flatnonzero(wrong & asked),
        lambda row: part.of_node(
            "tree-identifier", row, expected, "a key that leads to another place", loses=False
        ),
    )


def _levels(part: CheckedNodes, problems: TreeProblems) -> None:
    nodes = part.nodes
    kind = ID_DB_LEVELS if part.tree.db_id == 0 else MAIN_LEVELS
    wrong = nodes.good & (nodes.level & ~LEVEL_MASK != kind)
    problems.add(
        "tree-level",
        np.flatnonzero(wrong),
        lambda row: part.of_node(
            "tree-level",
            row,
            f"level {kind | part.children.level:#x}",
            f"{int(nodes.level[row]):#x}",
            loses=False,
        ),
    )
    is_root = part.children.parent_lsn == NULL_LSN
    wrong = part.tree.wrong_root_marks(part.loaded)
    problems.add(
        "tree-level",
        np.flatnonzero(wrong),
        lambda row: part.of_node(
            "tree-level",
            row,
            "a root" if is_root[row] else "a node that is not a root",
            "a mark of a root" if not is_root[row] else "no mark of a root",
            loses=False,
        ),
    )


def _states(part: CheckedNodes, problems: TreeProblems) -> None:
    slots = part.nodes.slots
    if part.is_upper:
        rules = [
            (slots.lsn == NULL_LSN, "the LSN of a child", "none"),
            (slots.state & _ONLY_IN_BINS != 0, "a state of an upper node", "one of a BIN"),
        ]
    else:
        embedded, no_data = (
            slots.state & SlotState.EMBEDDED != 0,
            slots.state & SlotState.NO_DATA != 0,
        )
        rules = [
            (
                (slots.lsn == NULL_LSN) & (slots.state & SlotState.KNOWN_DELETED == 0),
                "an LSN, or a deleted slot",
                "neither",
            ),
            (no_data & ~embedded, "embedded data, or a slot without data", "empty data"),
            (embedded & (slots.data_size < 0), "a key that ends with the data", "other bytes"),
        ]
        if part.tree.two_part or part.tree.old_duplicates:
            rules.append((embedded, "a slot of a database with duplicates", "embedded data"))
    for wrong, expected, found in rules:
        problems.add(
            "tree-state",
            np.flatnonzero(wrong),
            partial(part.of_slot, "tree-state", expected=expected, found=found, loses=True),
        )
    _clean_slots_of_deltas(part, problems)


def _clean_slots_of_deltas(part: CheckedNodes, problems: TreeProblems) -> None:
    """Report deltas with slots that are not marked as changed."""
    logged = part.loaded.logged[0]
    owner = logged.slot_node
    wrong = (logged.type == DELTA_NO)[owner] & (logged.slots.state & SlotState.DIRTY == 0)
    for node in np.unique(owner[wrong]).tolist():
        problems.listed.append(
            part.of_node("tree-state", node, "slots of a delta", "unchanged slots", loses=False)
        )


def _expiration_units(part: CheckedNodes, problems: TreeProblems) -> None:
    """Report nodes whose expirations are hours by value but days by flag, or the reverse."""
    for nodes in part.loaded.logged:
        asked = nodes.good & (nodes.expiration_base > 0)
        wrong = asked & (
            (nodes.expiration_base > DAYS_MAX) != (nodes.booleans & NodeFlag.IN_HOURS != 0)
        )
        for row in np.flatnonzero(wrong).tolist():
            hours = bool(nodes.expiration_base[row] > DAYS_MAX)
            lsn = int(nodes.lsn[row])
            problems.listed.append(
                TreeProblem(
                    "tree-expiration",
                    part.tree.db_id,
                    lsn,
                    lsn,
                    -1,
                    f"expirations in {'hours' if hours else 'days'}",
                    f"a flag for {'days' if hours else 'hours'}",
                    loses=False,
                )
            )
