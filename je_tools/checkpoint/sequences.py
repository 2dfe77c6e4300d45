"""Sequences of the engine: the last id given of each kind, which a checkpoint carries on.

Source: je-log.md "Checkpoints"; RecoveryManager.recover (useMaxNodeId and its like), CheckpointEnd,
JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints

FRESH = {"node": (0, -9), "db": (1, -256), "txn": (0, -10), "extinction": (0, 0)}
"""Values before the first id, local and replicated. Source: CheckpointEnd, JE 18.3.12."""


class Sequences(Struct):
    """The last id given of each kind.

    Local ids count up; replicated ids are negative and count down.

    Attributes:
        local, replicated: last ids, by kind.
    """

    local: dict[str, int] = field(default_factory=lambda: {k: v for k, (v, _) in FRESH.items()})
    replicated: dict[str, int] = field(
        default_factory=lambda: {k: v for k, (_, v) in FRESH.items()}
    )

    def saw(self, kind: str, number: int) -> None:
        """Record an id that was given."""
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

    def saw_all(self, kind: str, numbers: Ints) -> None:
        """Record ids that were given."""
        if len(numbers):
            self.saw(kind, int(numbers.max()))
            self.saw(kind, int(numbers.min()))

    def saw_fields(self, fields: Mapping[str, Any]) -> None:
        """Record the last ids in the fields of a CkptEnd or a DbTree."""
        for kind in FRESH:
            for name in (f"last_local_{kind}_id", f"last_replicated_{kind}_id"):
                if name in fields:
                    self.saw(kind, int(fields[name]))

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
