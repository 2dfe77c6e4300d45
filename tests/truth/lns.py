"""Records in single entries of log versions 8 to 26, decoded from bytes.

It shares no code with the project: its knowledge is below, and in je-log.md "Records".
"""

from __future__ import annotations

from typing import NamedTuple

OLDEST, NEWEST = 8, 26

MAP, NAME_TX, NAME = 4, 5, 6
_CREATED_IS_LOGGED = frozenset({31, 32, 35, 36, 44, 45})
_HOUR = 3_600_000

DAYS_MAX, HOURS_MAX = 100_000, 1_000_000
"""Larger expirations have lost their unit or were multiplied: 1 000 000 hours are the year 2084."""


class Ln(NamedTuple):
    """A record as an entry has it.

    `data` is None for a deletion, `txn_id` outside transactions; `expires_ms` is 0 for a record
    that does not expire; `names_db_id` is the database that a name belongs to.
    """

    db_id: int
    key: bytes
    data: bytes | None
    txn_id: int | None
    expires_ms: int
    names_db_id: int | None


class Mapped(NamedTuple):
    """A database as its MapLN has it."""

    db_id: int
    deleted: bool
    has_root: bool
    dups: bool


class Rollback(NamedTuple):
    """A RollbackStart: it undoes writes of these transactions after the matchpoint."""

    matchpoint_lsn: int
    txn_ids: frozenset[int]


class Cursor:
    """A position in the bytes of an entry's item."""

    def __init__(self, item: bytes) -> None:
        self.item = item
        self.at = 0

    def byte(self) -> int:
        """Return the next byte."""
        self.at += 1
        return self.item[self.at - 1]

    def number(self) -> int:
        """Return a packed number."""
        first = self.byte()
        if first <= 119:
            return first
        if first >= 137:
            return first - 256
        size = first - 119 if first < 128 else 137 - first
        rest = int.from_bytes(self.take(size), "little")
        return rest + 119 if first < 128 else -rest - 119

    def take(self, size: int) -> bytes:
        """Return the next bytes.

        Raises:
            ValueError: fewer are left.
        """
        self.at += size
        if size < 0 or self.at > len(self.item):
            raise ValueError(f"{size} bytes at {self.at - size} of {len(self.item)}")
        return self.item[self.at - size : self.at]

    def array(self) -> bytes | None:
        """Return bytes after their packed size; None if the size is -1."""
        size = self.number()
        return None if size == -1 else self.take(size)


def read_ln(item: bytes, type_no: int, version: int, transactional: bool) -> Ln:
    """Decode a record of a user database or of an internal one.

    Raises:
        ValueError, IndexError: the bytes are not such an entry.
    """
    reader = _read_new if version >= 19 else _read_flagged if version >= 11 else _read_old
    return reader(Cursor(item), type_no, version, transactional)


def _read_new(cursor: Cursor, type_no: int, version: int, transactional: bool) -> Ln:
    """Decode log versions 19 and later: the key before the data, each after its size."""
    flags, _flags2 = cursor.byte(), cursor.byte()
    flags3 = cursor.byte() if version >= 26 else 0
    db_id = cursor.number()
    expires_ms = _time_of(cursor.number()) if flags & 0x80 else 0
    cursor.number()
    if version >= 26 and (type_no in _CREATED_IS_LOGGED or flags3 & 1):
        cursor.number()
    key = cursor.array()
    data, names_db_id = _payload(cursor, type_no)
    txn_id = None
    if transactional:
        if flags & 0x20:
            cursor.number()
        txn_id = cursor.number()
    return Ln(db_id, key or b"", data, txn_id, expires_ms, names_db_id)


def _read_flagged(cursor: Cursor, type_no: int, version: int, transactional: bool) -> Ln:
    """Decode log versions 11 to 18: the key at the end."""
    flags = cursor.byte() if version >= 12 else 0
    flags2 = cursor.byte() if version >= 16 else 0
    db_id, txn_id = cursor.number(), None
    if version == 11 and not transactional:
        flags = cursor.byte()
    if transactional:
        if version == 11:
            cursor.number()
            flags = cursor.byte()
        elif flags & 0x20:
            cursor.number()
        txn_id = cursor.number()
        cursor.number()
    if flags & 0x04:
        cursor.array()
    if flags & 0x08:
        cursor.array()
    if flags & 0x10:
        cursor.number()
    if flags & 0x40:
        cursor.number()
    expires_ms = _time_of(cursor.number()) if flags & 0x80 else 0
    for bit in (0x01, 0x02):
        if flags2 & bit:
            cursor.number()
    data, names_db_id = _payload(cursor, type_no)
    return Ln(db_id, _last_key(cursor, type_no), data, txn_id, expires_ms, names_db_id)


def _read_old(cursor: Cursor, type_no: int, version: int, transactional: bool) -> Ln:
    """Decode log versions 8 to 10."""
    db_id, txn_id = cursor.number(), None
    if transactional:
        cursor.number()
        cursor.byte()
        txn_id = cursor.number()
        cursor.number()
    data, names_db_id = _payload(cursor, type_no)
    return Ln(db_id, _last_key(cursor, type_no), data, txn_id, 0, names_db_id)


def _payload(cursor: Cursor, type_no: int) -> tuple[bytes | None, int | None]:
    data = cursor.array()
    if type_no not in (NAME, NAME_TX):
        return data, None
    names_db_id = cursor.number()
    deleted = cursor.byte() & 1
    return None if deleted else data, names_db_id


def _last_key(cursor: Cursor, type_no: int) -> bytes:
    if type_no in (NAME, NAME_TX):
        return cursor.array() or b""
    return cursor.take(len(cursor.item) - cursor.at)


def _time_of(expiration: int) -> int:
    """Return the time in ms of an expiration: negative numbers are hours since 1970, others days.

    JE 7.5 and 18.3 lose the unit of some, later multiply these by 24, and log the result. So a
    number too large for days is one of hours, and one too large for hours was multiplied.
    """
    days = 0 <= expiration <= DAYS_MAX
    hours = expiration * 24 if days else abs(expiration)
    while hours > HOURS_MAX:
        hours //= 24
    return hours * _HOUR


def read_map(item: bytes, version: int) -> Mapped:
    """Decode the MapLN of a database.

    Raises:
        ValueError, IndexError: the bytes are not such an entry.
    """
    cursor = Cursor(item)
    flags = cursor.byte() if version >= 12 else 0
    flags2 = cursor.byte() if version >= 16 else 0
    if version >= 26:
        cursor.byte()
    cursor.number()
    if version == 11:
        cursor.byte()
    for bit in (0x01, 0x02):
        if version < 19 and flags2 & bit:
            cursor.number()
    if version >= 19:
        if flags & 0x80:
            cursor.number()
        cursor.number()
        cursor.array()
    deleted = cursor.array() is None
    db_id = cursor.number()
    if version >= 16 and db_id not in (0, 1):
        cursor.array()
    has_root = bool(cursor.byte() & 1)
    if has_root:
        cursor.array()
        cursor.number()
        cursor.byte()
    return Mapped(db_id, deleted, has_root, bool(cursor.byte() & 1))


class TxnEnd(NamedTuple):
    """A Commit or an Abort."""

    txn_id: int
    time_ms: int


def read_txn_end(item: bytes, version: int) -> TxnEnd:
    """Decode a Commit or an Abort."""
    cursor = Cursor(item)
    if version >= 12:
        cursor.number()
    return TxnEnd(cursor.number(), cursor.number())


def read_rollback(item: bytes) -> Rollback:
    """Decode a RollbackStart."""
    cursor = Cursor(item)
    cursor.number()
    matchpoint_lsn = cursor.number()
    cursor.number()
    return Rollback(matchpoint_lsn, frozenset(cursor.number() for _ in range(cursor.number())))


def split_two_part(array: bytes) -> tuple[bytes, bytes]:
    """Return key and data of a record with duplicates; the key's size, reversed, follows them."""
    tail = array[-9:][::-1]
    cursor = Cursor(tail)
    size = cursor.number()
    end = len(array) - cursor.at
    if not 0 <= size <= end:
        raise ValueError(f"a key of {size} in {len(array)} bytes")
    return array[:size], array[size:end]
