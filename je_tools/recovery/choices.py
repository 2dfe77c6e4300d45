"""Choices of a user about a snapshot: where the log ends, which time counts, which databases.

Commands and the Python API share them. Nothing that loads slowly is imported before it is needed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.errors import DamageError, UsageError

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot


class ChosenEnd(Struct, frozen=True):
    """The entry at which a log is taken to end; without one, the end that recovery finds.

    Attributes:
        to_lsn: LSN of that entry, as text.
        to_vlsn: the last VLSN that counts.
        to_time: time of the last Commit that counts, as text.
    """

    to_lsn: str | None = None
    to_vlsn: int | None = None
    to_time: str | None = None

    def named(self) -> list[str]:
        """Return the options that are given, as they are written on the command line."""
        named = {"--to-lsn": self.to_lsn, "--to-vlsn": self.to_vlsn, "--to-time": self.to_time}
        return [name for name, value in named.items() if value is not None]

    def lsn(self, environment: Environment, scanner: Scanner) -> int | None:
        """Return the LSN of the last entry that counts; None for the end of the log.

        Raises:
            UsageError: more than one end is given, or one that the log does not have.
        """
        named = self.named()
        if not named:
            return None
        from je_tools.log.parsing import parse_lsn
        from je_tools.log.time_filter import parse_time
        from je_tools.recovery.earlier_ends import lsn_of_time, lsn_of_vlsn

        if len(named) > 1:
            raise UsageError(f"{' and '.join(named)}: a log has one end: give one of them")
        if self.to_lsn is not None:
            return _inside(environment, parse_lsn(self.to_lsn))
        if self.to_vlsn is not None:
            return lsn_of_vlsn(environment, scanner, self.to_vlsn)
        if self.to_time is not None:
            return lsn_of_time(environment, scanner, parse_time(self.to_time))
        return None


def _inside(environment: Environment, lsn: int) -> int:
    """Return an LSN after checking that it is before the end of the log.

    Raises:
        UsageError: the log ends before it.
    """
    from je_tools.formats.je.header import lsn_of, lsn_text

    last = environment.files[-1]
    if lsn >= lsn_of(last.file_no, last.size):
        end = lsn_text(lsn_of(last.file_no, last.size))
        raise UsageError(f"--to-lsn {lsn_text(lsn)}: {environment.name} ends at {end}")
    return lsn


def chosen_now(text: str | None) -> int:
    """Return a time in ms since 1970; the current time for None.

    Raises:
        UsageError: the text is not a time.
    """
    if text is None:
        return time.time_ns() // 1_000_000
    from je_tools.log.time_filter import parse_time

    return parse_time(text)


@contextmanager
def chosen_snapshot(
    environment: Environment, scanner: Scanner, end: ChosenEnd, now: str | None
) -> Iterator[Snapshot]:
    """Open the snapshot at the chosen end and time; see `held_snapshot`.

    Raises:
        UsageError: more than one end is given, or one that the log does not have; or the text is
            not a time.
        InputError: nothing in the log leads to records.
        StoppedError: a file shrank, vanished or was replaced, which may show only at the end.
    """
    from je_tools.recovery.opening import held_snapshot

    now_ms = chosen_now(now)
    to_lsn = end.lsn(environment, scanner)
    with held_snapshot(environment, scanner, now_ms=now_ms, to_lsn=to_lsn) as snapshot:
        yield snapshot


def _not_found(
    snapshot: Snapshot, name: str, existing: Iterable[Database]
) -> UsageError | DamageError:
    """Return the error for a database that is not found: damage or a closed file may hide it."""
    from je_tools.recovery.database import ID_DB, NAME_DB
    from je_tools.recovery.end import Refusal

    listed = ", ".join(f"{each.name} (id:{each.db_id})" for each in existing)
    text = f"--db {name}: there is no such database. The log has: {listed or 'none'}"
    closed = [file.path.name for file in snapshot.environment.unreadable]
    if closed:
        return DamageError(
            f"{text}. But the log was read without {', '.join(closed)}, which may hold its name: "
            "`je-tools verify` says why"
        )
    is_hidden = any(fault.db_id in (ID_DB, NAME_DB) for fault in snapshot.faults.damage)
    if not is_hidden and Refusal.OWN_DATABASE_LOST not in snapshot.refusals:
        return UsageError(text)
    return DamageError(
        f"{text}. But damage of {snapshot.environment.name} has cost names of databases: "
        "`je-tools verify --tree` reports it, and `je-tools salvage` may find the records"
    )


def choose_databases(
    snapshot: Snapshot, names: Iterable[str], *, internal: bool = False
) -> list[Database]:
    """Return the databases with these names or ids, each once; without names, the applications'.

    Args:
        snapshot: the snapshot.
        names: names, or `id:7`; a number that is not a name is an id too, as in `dump`.
        internal: without names, include internal databases.

    Raises:
        UsageError: there is no such database; the message lists the existing ones.
        DamageError: there is none, and damage or a file that was not read may hide it.
    """
    names = list(names)
    named = [each for each in snapshot.databases.values() if each.name is not None]
    named.sort(key=lambda each: each.name or "")
    if not names:
        return [each for each in named if internal or not each.is_internal]
    chosen = []
    for name in names:
        found = [each for each in named if each.name == name]
        if not found:
            by_id = name.removeprefix("id:")
            found = [each for each in snapshot.databases.values() if str(each.db_id) == by_id]
        if not found:
            raise _not_found(snapshot, name, [each for each in named if not each.is_internal])
        chosen += found
    return list({each.db_id: each for each in chosen}.values())
