"""Authors of group transactions: the master that the log names last.

Source: TxnCommit, TxnEnd, MasterTxn, JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.entry.columns import decode
from je_tools.formats.je.types import ABORT_NO, COMMIT_NO, Family
from je_tools.formats.je.write.transactions import GroupAuthor

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.recovery.snapshot import Snapshot

_FIELDS = ("master_node_id", "master_term", "dtvlsn")


def last_author(snapshot: Snapshot) -> GroupAuthor | None:
    """Return the master that wrote the newest Commit or Abort of the group, with its dtvlsn.

    Files are read from the newest back until one has such an entry.

    Returns:
        The author; None if the log has no such entry.
    """
    find_author = _LastAuthor(snapshot.end.next_lsn)
    scanner = replace(snapshot.scanner, progress=None)
    for file in reversed(snapshot.end.files):
        found: GroupAuthor | None = None
        for part in scanner.scan(replace(snapshot.environment, files=(file,)), find_author):
            for author in part.results:
                found = author or found
        if found is not None:
            return found
    return None


class _LastAuthor(Struct, frozen=True):
    """Work for a scan: return the author of the last visible Commit or Abort of the group."""

    next_lsn: int

    def __call__(self, rows: Rows) -> GroupAuthor | None:
        ends = rows.good & rows.replicated & ~rows.invisible & (rows.lsn < self.next_lsn)
        own = np.flatnonzero(ends & np.isin(rows.type, (COMMIT_NO, ABORT_NO)))
        if not len(own):
            return None
        fields = decode(rows.select(own[-1:]), Family.TXN_END).fields
        return GroupAuthor(*(int(fields.known(name)[0]) for name in _FIELDS))
