"""The end of a log to which a checkpoint is appended: entries are encoded, written and counted.

Source: Checkpointer.logSiblings, IN.log, JE 18.3.12.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.checkpoint.expiring_bytes import share_of_slots
from je_tools.formats.je.btree.nodes import BIN_NO, DELTA_NO, IN_NO, Nodes
from je_tools.formats.je.expirations import NEVER
from je_tools.formats.je.flags import LEVEL_MASK, HeaderFlag
from je_tools.formats.je.header import MIN_HEADER_SIZE
from je_tools.formats.je.types import BY_NAME, type_name
from je_tools.formats.je.write.node_writer import FullVersions, encode_deltas, encode_nodes
from je_tools.formats.je.write.transactions import WrittenEntry
from je_tools.recovery.utilization import FileSummary

if TYPE_CHECKING:
    from je_tools.checkpoint.last_ids import LastIds
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.je.write.writer import Appender
    from je_tools.formats.spans import Spans


class CheckpointLog(Struct):
    """A log to which a checkpoint is appended.

    Attributes:
        appender: appends entries to the files.
        data: buffer that holds embedded records.
        last_ids: source of new ids.
        node_counts, node_sizes: nodes written and their bytes, by database, level and entry type.
        expiring: written bytes that expire, by file and by hour since 1970.
        totals: totals of the entries written, by file.
        replaced_nodes, replaced_lns: LSNs of the nodes and LNs that are replaced.
    """

    appender: Appender
    data: Bytes
    last_ids: LastIds
    node_counts: Counter[tuple[int, int, str]] = field(default_factory=Counter)
    node_sizes: Counter[tuple[int, int, str]] = field(default_factory=Counter)
    expiring: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    totals: dict[int, FileSummary] = field(default_factory=lambda: defaultdict(FileSummary))
    replaced_nodes: list[Ints] = field(default_factory=list)
    replaced_lns: list[int] = field(default_factory=list)

    @property
    def version(self) -> int:
        """Log version of the appended entries."""
        return self.appender.tail.version

    def nodes(
        self, nodes: Nodes, *, prefixing: bool, two_part: bool, is_root: bool = False
    ) -> tuple[Ints, Ints]:
        """Append full nodes of one database and level; return the LSN and size of each.

        All nodes except roots are provisional: a crash before the end of the checkpoint leaves
        all of a split or pruning in the tree, or none of it.
        """
        items = encode_nodes(nodes, self.data, self.version, prefixing=prefixing, two_part=two_part)
        type_no = BIN_NO if int(nodes.level[0]) & LEVEL_MASK == 1 else IN_NO
        return self._append(nodes, type_no, items, 0 if is_root else HeaderFlag.PROVISIONAL_YES)

    def deltas(
        self, nodes: Nodes, fulls: FullVersions, *, prefixing: bool, two_part: bool
    ) -> tuple[Ints, Ints]:
        """Append BIN-deltas of one database, provisional; return the LSN and size of each."""
        items = encode_deltas(
            nodes, fulls, self.data, self.version, prefixing=prefixing, two_part=two_part
        )
        return self._append(nodes, DELTA_NO, items, HeaderFlag.PROVISIONAL_YES)

    def _append(self, nodes: Nodes, type_no: int, items: Spans, flags: int) -> tuple[Ints, Ints]:
        lsns = self.appender.append_items(type_no, items, flags=flags)
        sizes = items.sizes + MIN_HEADER_SIZE
        key = int(nodes.db_id[0]), int(nodes.level[0]) & LEVEL_MASK, type_name(type_no)
        self.node_counts[key] += len(nodes)
        self.node_sizes[key] += int(sizes.sum())
        self._count(type_no, lsns, sizes)
        if nodes.slots.expires_ms.any():
            self._count_expiring(nodes, lsns, sizes)
        return lsns, sizes

    def _count_expiring(self, nodes: Nodes, lsns: Ints, sizes: Ints) -> None:
        file_nos = lsns >> 32
        of_slot = np.repeat(file_nos, np.diff(nodes.first))
        for file_no in np.unique(file_nos).tolist():
            own = np.where(of_slot == file_no, nodes.slots.expires_ms, NEVER)
            of_file = replace(nodes, slots=replace(nodes.slots, expires_ms=own))
            self.expiring[file_no] += share_of_slots(of_file, sizes)

    def entry(
        self, name: str, fields: Mapping[str, Any], *, flags: int = 0, vlsn: int | None = None
    ) -> WrittenEntry:
        """Append one entry, by its type name and fields.

        Args:
            name: name of the entry type.
            fields: fields of the entry.
            flags: flags of its header.
            vlsn: its VLSN, if the flags announce one.
        """
        lsn = self.appender.append(name, fields, flags=flags, vlsn=vlsn)
        written = WrittenEntry(lsn, self.appender.tail.next_offset - (lsn & 0xFFFFFFFF))
        self._count(BY_NAME[name].no, np.array([lsn]), np.array([written.size]))
        return written

    def _count(self, type_no: int, lsns: Ints, sizes: Ints) -> None:
        file_nos = lsns >> 32
        for file_no in np.unique(file_nos).tolist():
            own = sizes[file_nos == file_no]
            types = np.full(len(own), type_no, np.uint8)
            self.totals[file_no] += FileSummary.of_entries(types, own)

    def note_replaced(self, logged: Nodes, some: Mask, as_deltas: Ints | None) -> None:
        """Note the versions of nodes that are no longer in use because newer ones are written.

        Args:
            logged: nodes as the log has them, deltas not merged.
            some: mask of the nodes that are written anew.
            as_deltas: int64; nodes written as deltas, so that their full version stays in use.
        """
        deltas = some & logged.is_delta
        whole = some.copy()
        if as_deltas is not None:
            whole[as_deltas] = False
        replaced = whole | deltas
        self.replaced_nodes += [logged.lsn[replaced], logged.last_full_lsn[whole & deltas]]
