"""Contents of databases by their log alone: the newest committed record of every key, no tree.

This second opinion on recovery shares only the bytes with it. It is valid for logs that are
complete from their first file on; for others it reports doubts (`Replayed.doubts`,
`Replayed.unsure`) instead of guessing.

It shares no code with the project: its knowledge is below, in `lns` and `log_end`, and in
je-log.md "Recovery".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.truth.contents import Contents, Refusal
from tests.truth.headers import ERASED, TRANSACTIONAL_TYPES, Header
from tests.truth.lns import (
    MAP,
    NAME,
    NAME_TX,
    NEWEST,
    OLDEST,
    Ln,
    Mapped,
    Rollback,
    read_ln,
    read_map,
    read_rollback,
    read_txn_end,
    split_two_part,
)
from tests.truth.log_end import Log, read_log

_NAME_DATABASE = 1
_COMMIT, _DB_TREE, _ROLLBACK_START = 17, 16, 28
_TXN_ENDS = frozenset({17, 18})
_RECORDS = frozenset({31, 32, 33, 34, 35, 36, 44, 45})
_LOGGED_NAMES = frozenset({NAME, NAME_TX})


@dataclass
class Replayed:
    """The records of the user's databases.

    Attributes:
        contents: records by database name; a Refusal if no engine can open the log.
        doubts: reasons why all may be wrong; empty if recovery must find these records.
        unsure: databases in which recovery may find other records, with the reason.
    """

    contents: Contents | Refusal
    doubts: list[str] = field(default_factory=list)
    unsure: dict[str, str] = field(default_factory=dict)


@dataclass
class _Facts:
    """Facts about transactions and databases from anywhere in the log."""

    committed: set[int] = field(default_factory=set)
    rollbacks: list[tuple[int, Rollback]] = field(default_factory=list)
    mapped: dict[int, Mapped] = field(default_factory=dict)
    has_tree: bool = False


def replay(home: Path, now_ms: int) -> Replayed:
    """Return the records of a log after recovery.

    Args:
        home: the directory of the log.
        now_ms: records that expired before this time are excluded.
    """
    log = read_log(home)
    if log.refusal:
        return Replayed(Refusal("open", "file header", log.refusal))
    if log.last is None:
        return Replayed(Refusal("open", "no log"))
    headers = [header for header, _ in log.entries()]
    doubts = list(_doubts(log, headers))
    if any(not OLDEST <= header.version <= NEWEST for header in headers):
        return Replayed({}, doubts)
    entries = [(header, item) for header, item in log.entries() if not header.invisible]
    facts = _facts(entries)
    if not facts.has_tree:
        return Replayed(Refusal("open", "no root"))
    newest, outside = _newest(entries, facts)
    return _by_name(facts, newest, outside, now_ms, doubts)


def newest_time_ms(home: Path) -> int:
    """Return the end time of the log's newest transaction, or 0."""
    ends = (each for each in read_log(home).entries() if each[0].type_no in _TXN_ENDS)
    return max((read_txn_end(item, header.version).time_ms for header, item in ends), default=0)


def _doubts(log: Log, headers: list[Header]) -> Iterable[str]:
    if sorted(log.files) != list(range(len(log.files))):
        yield "files are missing"
    if log.damaged:
        yield f"damage in file {log.damaged[0]}"
    if any(header.type_no == ERASED for header in headers):
        yield "entries are erased"
    if any(not OLDEST <= header.version <= NEWEST for header in headers):
        yield "a log version that is not read here"
    before: Header | None = None
    for header in headers:
        first = before is None or before.lsn >> 32 != header.lsn >> 32
        if before and not first and header.prev_offset != before.lsn & 0xFFFFFFFF:
            yield f"foreign bytes at {header.lsn:#x}"
            return
        before = header


def _facts(entries: Iterable[tuple[Header, bytes]]) -> _Facts:
    facts = _Facts()
    for header, item in entries:
        if header.type_no == _COMMIT:
            facts.committed.add(read_txn_end(item, header.version).txn_id)
        elif header.type_no == _ROLLBACK_START:
            facts.rollbacks.append((header.lsn, read_rollback(item)))
        elif header.type_no == MAP:
            mapped = read_map(item, header.version)
            facts.mapped[mapped.db_id] = mapped
        elif header.type_no == _DB_TREE:
            facts.has_tree = True
    return facts


def _newest(
    entries: Iterable[tuple[Header, bytes]], facts: _Facts
) -> tuple[dict[int, dict[bytes, Ln]], set[int]]:
    """Return the newest record of each key by database, and databases changed outside transactions.

    A record that the cleaner moved is also logged outside a transaction, with the same data.
    """
    newest: dict[int, dict[bytes, Ln]] = {}
    outside: set[int] = set()
    for header, item in entries:
        if header.type_no not in _RECORDS and header.type_no not in _LOGGED_NAMES:
            continue
        transactional = header.type_no in TRANSACTIONAL_TYPES
        ln = read_ln(item, header.type_no, header.version, transactional)
        if transactional and not _counts(header.lsn, ln, facts):
            continue
        records = newest.setdefault(ln.db_id, {})
        known = records.get(ln.key)
        if not transactional and (known is None or known.data != ln.data):
            outside.add(ln.db_id)
        records[ln.key] = ln
    return newest, outside


def _counts(lsn: int, ln: Ln, facts: _Facts) -> bool:
    """Return whether a transaction's change at this LSN is committed and not rolled back."""
    if ln.txn_id not in facts.committed:
        return False
    return not any(
        rollback.matchpoint_lsn < lsn < start and ln.txn_id in rollback.txn_ids
        for start, rollback in facts.rollbacks
    )


def _by_name(
    facts: _Facts,
    newest: dict[int, dict[bytes, Ln]],
    outside: set[int],
    now_ms: int,
    doubts: list[str],
) -> Replayed:
    contents: Contents = {}
    unsure: dict[str, str] = {}
    for key, named in newest.get(_NAME_DATABASE, {}).items():
        name = key.decode()
        db_id = named.names_db_id
        if named.data is None or name.startswith("_je"):
            continue
        assert db_id is not None
        mapped = facts.mapped.get(db_id)
        if mapped is None or mapped.deleted:
            unsure[name] = "named and not there"
        elif db_id in outside:
            unsure[name] = "written outside of transactions"
        lns = newest.get(db_id, {}).values()
        records = [
            split_two_part(ln.key) if mapped and mapped.dups else (ln.key, ln.data)
            for ln in lns
            if ln.data is not None and not 0 < ln.expires_ms < now_ms
        ]
        contents[name] = sorted(records)
    return Replayed(contents, doubts, unsure)
