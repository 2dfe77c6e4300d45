"""Random logs of transactions, checkpoints, rollbacks and nodes, in several small files."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from je_tools.formats.je.entry.entries import Entry, encode_entry
from je_tools.formats.je.header import Header
from je_tools.formats.je.layout import Coding, Field, layout
from je_tools.formats.je.types import ENTRY_TYPES
from tests.builders.logs import FILE_HEADER, LogFile, write_log
from tests.builders.planted import VARIANTS, Maker, made_fields

TRANSACTIONS, DATABASES = 5, 4
FREQUENT = {"Commit", "Abort", "CkptStart", "CkptEnd", "RollbackStart"}
NULL_LSN = -1
_LONGEST = 60


def busy_log(rng: random.Random, folder: Path, version: int, entries: int) -> Path:
    """Write a new folder with a log of this version; `rng` chooses its entries."""
    files = [LogFile(rng.choice([0, 1, 7]), version)]
    maker = _BusyMaker(rng)
    types = [
        no
        for no, known in ENTRY_TYPES.items()
        if known.first_version <= version <= known.last_version and no != FILE_HEADER
    ]
    types += [
        no
        for no in types
        if ENTRY_TYPES[no].transactional or ENTRY_TYPES[no].name in FREQUENT
        for _ in range(3)
    ]
    for _ in range(entries):
        if rng.random() < 1 / 25:
            files.append(files[-1].follower())
        _add(files[-1], rng.choice(types), maker)
    return write_log(folder, files)


def _add(file: LogFile, type_no: int, maker: _BusyMaker) -> None:
    rng, version = maker.rng, file.version
    maker.here = file.no << 32 | len(file.data)
    maker.variant = rng.choice(VARIANTS)
    maker.txn_id = rng.choice([1, -1]) * rng.randrange(1, TRANSACTIONS)
    if ENTRY_TYPES[type_no].name == "Prepare" and maker.txn_id not in maker.last:
        return
    fields = made_fields(layout(type_no, version), [], maker)
    flags = rng.choice([0, 0, 0, 0x40, 0x80])
    vlsn = None
    if version >= 8 and rng.random() < 0.4:
        maker.vlsn += 1
        flags |= 0x28 | rng.choice([0, 0, 0x10])
        vlsn = maker.vlsn
    data = encode_entry(Entry(Header(0, type_no, flags, 0, 0, vlsn), version, fields))
    size = Header(0, type_no, flags, 0, 0, vlsn).size
    if ENTRY_TYPES[type_no].name in ("Commit", "Abort"):
        maker.last.pop(maker.txn_id, None)
    elif "txn_id" in fields:
        maker.last[maker.txn_id] = maker.here
    maker.all.append(maker.here)
    file.add(type_no, data[size:], flags=flags, vlsn=vlsn)


class _BusyMaker(Maker):
    """A maker of values that link the entries of a transaction, or begin one."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(b"", VARIANTS[0], 1)
        self.rng = rng
        self.here = 0
        self.txn_id = 1
        self.vlsn = 0
        self.last: dict[int, int] = {}
        self.all = [0]

    def value(self, field: Field, scopes: Sequence[Mapping[str, Any]]) -> Any:
        self.secret = self.rng.randbytes(self.rng.choice([0, 1, 12, self.rng.randrange(_LONGEST)]))
        self.number = self.rng.randrange(1, 200)
        if field.name == "txn_id":
            return self.txn_id
        if field.name in ("txn_prev_lsn", "last_lsn"):
            return NULL_LSN if self.rng.random() < 0.3 else self.last.get(self.txn_id, NULL_LSN)
        if field.name in ("matchpoint_lsn", "first_active_lsn"):
            return self.rng.choice(self.all)
        if field.name == "db_id":
            return self.rng.randrange(-2, DATABASES)
        if field.coding is Coding.PACKED and field.name == "active_txns":
            return self.rng.choice([1, -1]) * self.rng.randrange(1, TRANSACTIONS)
        return super().value(field, scopes)
