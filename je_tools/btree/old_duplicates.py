"""Duplicates in log versions before 8: a separate tree under the slot of each key.

Such a slot names a DIN instead of a record. The bottom nodes of this tree (DBIN) name the records
of the key in the order of their data.

Source: je-log.md "Nodes"; DIN, DBIN, JE 3.3.98.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import asdict

from je_tools.btree.children import LEVELS_MAX
from je_tools.btree.fault_kinds import Fault, FaultKind
from je_tools.btree.number_set import NumberSet
from je_tools.formats.je.btree.keysort import equal_keys
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import Found, fetch
from je_tools.formats.je.types import BY_NAME, Family, mask_of
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.btree.nodes import Nodes
    from je_tools.formats.je.btree.slots import Slots

_OF_DUPLICATES = mask_of(BY_NAME[name].no for name in ("DIN", "DBIN"))


def expand_duplicates(tree: Tree, slots: Slots) -> tuple[Slots, list[Fault]]:
    """Replace the slot of each key that has a tree of duplicates by one slot for each duplicate.

    Args:
        tree: tree of the database.
        slots: slots of its BINs.

    Returns:
        The slots, and the faults of nodes of duplicates. A node that cannot be read gives no slots.
        Nor does a node that was read before, since damaged trees may contain cycles.
    """
    descent = _DuplicateDescent(tree)
    for _ in range(LEVELS_MAX):
        rows = _rows_of_nodes(tree, slots)
        if not len(rows):
            break
        slots = descent.one_level_down(slots, rows)
    return slots, descent.faults


def _rows_of_nodes(tree: Tree, slots: Slots) -> Ints:
    entries = fetch(tree.image, slots.lsn, check=False)
    return np.flatnonzero(entries.good & _OF_DUPLICATES[entries.type] & ~slots.deleted)


class _DuplicateDescent(Struct):
    """Descent from slots of a main tree into the duplicate trees below them.

    Attributes:
        tree: tree of the database.
        faults: faults found so far.
        read: LSNs of the nodes read so far.
    """

    tree: Tree
    faults: list[Fault] = field(default_factory=list)
    read: NumberSet = field(default_factory=NumberSet)

    def one_level_down(self, slots: Slots, rows: Ints) -> Slots:
        """Replace the slots at `rows`, which name nodes, by the slots of these nodes."""
        nodes, found, no_full = self.tree.newest_whole(slots.lsn[rows])
        keys = slots.key.select(rows)
        wrong_db = nodes.good & (nodes.db_id != self.tree.db_id)
        # Accept a node only for its own key, or every slot that names it would read its tree again.
        other_key = nodes.good & ~wrong_db & ~self._are_of(nodes, keys)
        again = nodes.good & ~self.read.first_times(nodes.lsn)
        kinds = np.select(
            [
                found < Found.BAD,
                found == Found.BAD,
                ~nodes.good,
                wrong_db,
                other_key,
                again,
                no_full,
            ],
            np.arange(len(_KINDS) - 1),
            len(_KINDS) - 1,
        )
        self._note(nodes, keys, kinds)
        return _with_duplicates(slots, rows, nodes.without(wrong_db | other_key | again))

    def _are_of(self, nodes: Nodes, keys: Spans) -> Mask:
        """Return a mask of the nodes whose duplicates belong to the given keys."""
        if not self.tree.ordered:
            # A comparator may treat keys with different bytes as equal.
            return np.ones(len(nodes), np.bool_)
        image = self.tree.image
        lsns = np.where(nodes.is_delta, nodes.last_full_lsn, nodes.lsn)
        entries = fetch(image, lsns, check=False)
        same = np.zeros(len(nodes), np.bool_)
        rows = np.flatnonzero(_OF_DUPLICATES[entries.type] & entries.good & nodes.good)
        for some, decoded in entries.decode(Family.NODE, rows):
            if not decoded.fields.has("dup_key"):
                continue
            own = Spans(decoded.fields.data, *decoded.fields.span("dup_key"))
            same[some] = equal_keys(own, keys.select(some)) & ~decoded.bad
        return same

    def _note(self, nodes: Nodes, keys: Spans, kinds: npt.NDArray[np.int64]) -> None:
        for row in np.flatnonzero(kinds < len(_KINDS) - 1).tolist():
            kind, key = _KINDS[kinds[row]], keys[row]
            assert kind is not None
            lsn = int(nodes.lsn[row])
            self.faults.append(Fault(kind, self.tree.db_id, lsn, NULL_LSN, key, key))


_KINDS = (
    FaultKind.MISSING,
    FaultKind.DAMAGED,
    FaultKind.NOT_A_NODE,
    FaultKind.WRONG_DATABASE,
    FaultKind.OTHER_KEY,
    FaultKind.SHARED,
    FaultKind.NO_FULL_VERSION,
    None,
)
"""Kinds of faults of a node, the first that applies; None for no fault."""


def _with_duplicates(slots: Slots, rows: Ints, nodes: Nodes) -> Slots:
    """Replace the slots at `rows` by the slots of the nodes that they name, with the old keys."""
    counts = np.ones(len(slots), np.int64)
    counts[rows] = np.diff(nodes.first)
    owner = np.repeat(np.arange(len(slots)), counts)
    is_node = np.zeros(len(slots), np.bool_)
    is_node[rows] = True
    below = is_node[owner]
    down = slots.select(owner)
    for name, column in asdict(nodes.slots).items():
        # The keys of duplicate trees are the data of records.
        if name != "key":
            getattr(down, name)[below] = column
    return down
