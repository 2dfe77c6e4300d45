"""Last ids that a log has given to nodes, databases, transactions and scans; the next ids follow.

Source: je-log.md "Checkpoints"; RecoveryManager.recover (useMaxNodeId and its like), CheckpointEnd,
JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field

from je_tools.formats.je.internal.cleaner import DatabaseExtinction, RecordExtinction
from je_tools.formats.je.internal.names import EXTINCT_SCANS_DB
from je_tools.recovery.utilization import internal_records

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.recovery.snapshot import Snapshot

FRESH = {"node": (0, -9), "db": (1, -256), "txn": (0, -10), "extinction": (0, 0)}
"""Values before the first id, local and replicated. Source: CheckpointEnd, JE 18.3.12."""


class LastIds(Struct):
    """The last id that a log has given, of each kind.

    Local ids count up; replicated ids are negative and count down.

    Attributes:
        local, replicated: last ids, by kind.
    """

    local: dict[str, int] = field(default_factory=lambda: {k: v for k, (v, _) in FRESH.items()})
    replicated: dict[str, int] = field(
        default_factory=lambda: {k: v for k, (_, v) in FRESH.items()}
    )

    def note(self, kind: str, number: int) -> None:
        """Note an id that the log has given."""
        if number > 0:
            self.local[kind] = max(self.local[kind], number)
        else:
            self.replicated[kind] = min(self.replicated[kind], number)

    def next_local(self, kind: str) -> int:
        """Allocate the next local id."""
        self.local[kind] += 1
        return self.local[kind]

    def next_replicated(self, kind: str) -> int:
        """Allocate the next id of the group."""
        self.replicated[kind] -= 1
        return self.replicated[kind]

    def note_all(self, kind: str, numbers: Ints) -> None:
        """Note ids that the log has given."""
        if len(numbers):
            self.note(kind, int(numbers.max()))
            self.note(kind, int(numbers.min()))

    def note_fields(self, fields: Mapping[str, Any]) -> None:
        """Note the last ids in the fields of a CkptEnd or a DbTree."""
        for kind in FRESH:
            for name in (f"last_local_{kind}_id", f"last_replicated_{kind}_id"):
                if name in fields:
                    self.note(kind, int(fields[name]))

    def node_ids(self, count: int) -> Ints:
        """Allocate ids for new nodes."""
        first = self.local["node"] + 1
        self.local["node"] += count
        return np.arange(first, first + count, dtype=np.int64)

    @property
    def fields(self) -> dict[str, int]:
        """The last ids as fields of a CkptEnd."""
        of_local = {f"last_local_{kind}_id": number for kind, number in self.local.items()}
        of_group = {f"last_replicated_{kind}_id": n for kind, n in self.replicated.items()}
        return of_local | of_group


def find_last_ids(snapshot: Snapshot) -> LastIds:
    """Return the last ids found in the checkpoint, the DbTree and what recovery replays.

    Ids of nodes that were logged since the checkpoint are not included.
    """
    last_ids = LastIds()
    last_ids.note_fields(snapshot.checkpoint.fields)
    root = snapshot.entry(snapshot.checkpoint.root_lsn)
    last_ids.note_fields(root.fields if root is not None else {})
    last_ids.note_all("txn", snapshot.interval.lns.txn_id)
    last_ids.note_all("txn", snapshot.interval.ends.txn_id)
    last_ids.note_all("db", np.array(list(snapshot.databases), np.int64))
    last_ids.note_all("db", snapshot.interval.lns.db_id)
    for record in internal_records(snapshot, EXTINCT_SCANS_DB):
        if isinstance(record, DatabaseExtinction | RecordExtinction):
            last_ids.note("extinction", record.scan_id)
    return last_ids
