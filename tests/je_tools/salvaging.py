"""An oracle for salvages: the meaning of a log's entries, one by one in plain Python."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from je_tools.formats.je.btree.keys import join_two_part, split_two_part
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.types import ENTRY_TYPES, Family, type_name
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.salvage.choice import Confidence, LnOutcome, Mode
from je_tools.salvage.run import salvage
from je_tools.salvage.salvaged import LostPiece, Salvage

DELETES = ("DEL_LN_TX", "DEL_LN", "DEL_LN_TX_WITH_BEFORE_IMAGE", "DelDupLN_TX", "DelDupLN")
Identity = tuple[int, bytes]


@dataclass(frozen=True)
class Version:
    """A record as one entry wrote it; `identity` distinguishes it from other records."""

    lsn: int
    size: int
    identity: Identity
    txn: int | None
    deleted: bool
    key: bytes
    data: bytes


@dataclass
class Log:
    """The entries of an intact log that matter.

    Attributes:
        versions: Versions of records, in log order.
        commits: LSN, size and transaction id of each Commit.
        duplicates: Ids of the databases that have duplicates.
    """

    versions: list[Version] = field(default_factory=list)
    commits: list[tuple[int, int, int]] = field(default_factory=list)
    duplicates: set[int] = field(default_factory=set)

    def newest(self, damage: Iterable[range] = ()) -> dict[Identity, Version]:
        """Return the newest version of each record that counts, from entries that damage spares."""
        spots = list(damage)
        done = {txn for lsn, size, txn in self.commits if spared(lsn, size, spots)}
        found: dict[Identity, Version] = {}
        for version in self.versions:
            counts = version.txn is None or version.txn in done
            if counts and spared(version.lsn, version.size, spots):
                found[version.identity] = version
        return found


def spared(lsn: int, size: int, damage: list[range]) -> bool:
    """Return True if no damaged byte lies in an entry."""
    return not any(spot.start < lsn + size and lsn < spot.stop for spot in damage)


@functools.cache
def read_intact(home: Path) -> Log:
    """Return the entries of an intact log, each decoded by itself."""
    environment = open_environment([home])
    pieces: list[list[tuple[int, int, int, bool, int, dict[str, object]]]] = []

    def look(rows: Rows) -> list[tuple[int, int, int, bool, int, dict[str, object]]]:
        return [
            (
                int(rows.lsn[i]),
                rows.size_of(i),
                int(rows.type[i]),
                bool(rows.invisible[i]),
                rows.version,
                dict(rows.fields(i)),
            )
            for i in range(len(rows))
            if ENTRY_TYPES[int(rows.type[i])].family
            in (Family.LN, Family.DEL_DUP_LN, Family.MAP_LN, Family.TXN_END)
        ]

    for part in Scanner().scan(environment, look):
        pieces += part.results
    log = Log()
    entries = [entry for piece in pieces for entry in piece]
    for *_, fields in entries:
        database = fields.get("database")
        if isinstance(database, dict) and fields["data"] is not None and database["db_flags"] & 1:
            log.duplicates.add(database["id"])
    for entry in entries:
        _add(log, *entry)
    return log


def _add(
    log: Log, lsn: int, size: int, no: int, invisible: bool, version: int, fields: dict[str, object]
) -> None:
    name = type_name(no)
    if name == "Commit" and not invisible:
        log.commits.append((lsn, size, fields["txn_id"]))  # type: ignore[arg-type]
    if not ENTRY_TYPES[no].user_ln or invisible:
        return
    db_id, key, data = fields["db_id"], fields["key"], fields.get("data")
    assert isinstance(db_id, int)
    assert isinstance(key, bytes)
    deleted = name in DELETES or data is None
    if ENTRY_TYPES[no].family is Family.DEL_DUP_LN:
        data = fields["data_as_key"]
    assert data is None or isinstance(data, bytes)
    txn = fields.get("txn_id")
    assert txn is None or isinstance(txn, int)
    identity = key
    if db_id in log.duplicates:
        if version < 8:
            identity = key if data is None else join_two_part(key, data)
        else:
            key, data = split_two_part(key)
    found = Version(lsn, size, (db_id, identity), txn, deleted, key, data or b"")
    log.versions.append(found)


@dataclass(frozen=True)
class Back:
    """A record that came back."""

    key: bytes
    data: bytes | None
    lsn: int
    confidence: Confidence


def salvaged(home: Path, mode: Mode = Mode.COMMITTED) -> Salvage:
    return salvage(open_environment([home]), Scanner(wide=True), mode)


def records_back(done: Salvage) -> dict[int, list[Back]]:
    """Return the records that came back, by database id."""
    found: dict[int, list[Back]] = {}
    for one in done.databases():
        rows = found.setdefault(one.database.db_id, [])
        batches = [batch.read() for batch in done.batches(one, LnOutcome.TAKEN)]
        for batch in [*batches, *done.dangling_batches(one)]:
            for i in range(len(batch)):
                data = batch.data[i]
                grade = Confidence(int(batch.confidence[i]))
                rows.append(Back(batch.key[i] or b"", data, int(batch.lsn[i]), grade))
    return found


def lost_pieces(done: Salvage) -> Iterator[LostPiece]:
    """Yield the lost records of all databases."""
    for db_id in sorted(done.decision.lost.groups()):
        yield from done.lost_records(db_id)
