"""Faults planted in copies of logs: entries rewritten in place, with valid checksums."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from je_tools.formats.je.entry.entries import Entry, encode_entry
from je_tools.formats.je.header import lsn_of
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.database import Database
from je_tools.recovery.opening import take_snapshot
from je_tools.recovery.snapshot import Snapshot

Change = Callable[[dict[str, Any]], None]


class Slot(NamedTuple):
    """A slot of a node as the log has it, without merged deltas."""

    node_lsn: int
    no: int
    fields: dict[str, Any]


class Planting:
    """A copy of an environment in which entries can be changed."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home = folder
        shutil.copytree(home, folder, ignore=shutil.ignore_patterns("je.*"))
        for path in folder.glob("*.jdb"):
            path.chmod(0o644)

    def snapshot(self) -> Snapshot:
        return take_snapshot(open_environment([self.home]), Scanner(threads=1), now_ms=0)

    def database(self, name: str) -> Database:
        return next(each for each in self.snapshot().databases.values() if each.name == name)

    def entry(self, lsn: int) -> Entry:
        entry = self.snapshot().entry(lsn)
        assert entry is not None
        return entry

    def change(self, lsn: int, change: Change) -> None:
        """Change fields of an entry; its size must stay the same."""
        entry = self.entry(lsn)
        fields = dict(entry.fields)
        change(fields)
        self.write(lsn, replace(entry, fields=fields))

    def write(self, lsn: int, entry: Entry) -> None:
        """Replace the entry at an LSN by one of the same size."""
        size = entry.header.size + entry.header.item_size
        data = encode_entry(entry)
        assert len(data) == size, "the entry does not fit into its place"
        self.write_bytes(lsn, data)

    def write_bytes(self, lsn: int, data: bytes) -> None:
        with (self.home / f"{lsn >> 32:08x}.jdb").open("r+b") as file:
            file.seek(lsn & 0xFFFFFFFF)
            file.write(data)

    def bins(self, name: str, *, delta: bool = False) -> list[int]:
        """Return LSNs of a database's BINs in the order of keys: the full ones, or the deltas."""
        snapshot = self.snapshot()
        tree = snapshot.tree(self.database(name))
        found = []
        for children in tree.unread_bins():
            logged = tree.read(children).logged[0]
            found += logged.lsn[logged.is_delta == delta].tolist()
        return found

    def slots(self, node_lsn: int) -> Iterator[Slot]:
        """Yield the slots of a node as the log has them."""
        for no, fields in enumerate(self.entry(node_lsn).fields["slots"]):
            yield Slot(node_lsn, no, fields)

    def lsn_of_type(self, type_no: int) -> int:
        """Return the LSN of the first entry of a type, in a log of one file."""
        path = min(self.home.glob("*.jdb"))
        at = 0
        data = path.read_bytes()
        while data[at + 4] != type_no:
            head = data[at : at + 14]
            has_vlsn = head[4] != 25 and head[5] & 0x28
            at += 14 + 8 * bool(has_vlsn) + int.from_bytes(head[10:14], "little")
        return lsn_of(int(path.stem, 16), at)


def put_slot(no: int, **fields: Any) -> Change:
    """Return a change of one slot of a node."""

    def change(node: dict[str, Any]) -> None:
        slots = list(node["slots"])
        slots[no] = {**slots[no], **fields}
        node["slots"] = slots

    return change
