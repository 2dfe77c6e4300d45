"""Earlier ends of a log, chosen by a VLSN or by a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.errors import UsageError
from je_tools.formats.je.entry.columns import MAX_ROWS, decode
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.types import COMMIT_NO, ROLLBACK_START_NO, Family
from je_tools.log.field_texts import time_text
from je_tools.recovery.rollbacks import Periods

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner


class _Best(Struct, frozen=True):
    """The best match among some entries.

    Attributes:
        value: VLSN of the match, -1 if no entry fits; 0 in a search by time.
        lsn: LSN of the match; NULL_LSN if no entry fits.
        least, most: range of the VLSNs or times of all the entries.
    """

    value: int
    lsn: int
    least: int
    most: int


def lsn_of_vlsn(environment: Environment, scanner: Scanner, vlsn: int) -> int:
    """Return the LSN of the last entry of the replication stream up to a VLSN.

    Entries that a rollback undid do not count.

    Raises:
        UsageError: all VLSNs of the log are higher, or all are lower, or it has none.
    """
    taken_back = _taken_back(environment, scanner)
    best = _best(_scan(environment, scanner, _ByVlsn(vlsn, taken_back)))
    if best is None or best.lsn == NULL_LSN:
        held = "no VLSNs" if best is None else f"VLSNs from {best.least} on"
        raise UsageError(f"--to-vlsn {vlsn}: {environment.name} holds {held}")
    if vlsn > best.most:
        raise UsageError(f"--to-vlsn {vlsn}: {environment.name} holds VLSNs up to {best.most}")
    return best.lsn


def lsn_of_time(environment: Environment, scanner: Scanner, time_ms: int) -> int | None:
    """Return the LSN of the last Commit at or before a time; None if no Commit is later.

    Raises:
        UsageError: the log has no Commit at or before that time.
    """
    found = _scan(environment, scanner, _ByTime(time_ms))
    fitting = [each for each in found if each.lsn != NULL_LSN]
    if not fitting:
        least = min((each.least for each in found), default=None)
        held = "no Commits" if least is None else f"Commits from {time_text(least)} on"
        raise UsageError(f"--to-time {time_text(time_ms)}: {environment.name} holds {held}")
    if max(each.most for each in found) <= time_ms:
        return None
    return max(each.lsn for each in fitting)


class _ByVlsn(Struct, frozen=True):
    """Work for a scan: find the highest VLSN up to a limit.

    Attributes:
        vlsn: the limit.
        taken_back: rollback periods, all of owner 0, whose entries do not count.
    """

    vlsn: int
    taken_back: Periods

    def __call__(self, rows: Rows) -> _Best | None:
        counts = rows.good & rows.has_vlsn & rows.replicated & ~rows.invisible
        counts &= ~self.taken_back.contain(np.zeros(len(rows), np.int64), rows.lsn)
        own = np.flatnonzero(counts)
        if not len(own):
            return None
        vlsns, lsns = rows.vlsn[own], rows.lsn[own]
        least, most = int(vlsns.min()), int(vlsns.max())
        fitting = vlsns <= self.vlsn
        if not fitting.any():
            return _Best(-1, NULL_LSN, least, most)
        highest = int(vlsns[fitting].max())
        return _Best(highest, int(lsns[vlsns == highest].max()), least, most)


class _ByTime(Struct, frozen=True):
    """Work for a scan: find the last Commit up to a time."""

    time_ms: int

    def __call__(self, rows: Rows) -> _Best | None:
        wanted = np.flatnonzero(rows.good & (rows.type == COMMIT_NO) & ~rows.invisible)
        best: _Best | None = None
        for first in range(0, len(wanted), MAX_ROWS):
            some = rows.select(wanted[first : first + MAX_ROWS])
            decoded = decode(some, Family.TXN_END)
            if not decoded.fields.has("time_ms") or decoded.bad.all():
                continue
            times, lsns = decoded.fields.number("time_ms")[~decoded.bad], some.lsn[~decoded.bad]
            fitting = np.flatnonzero(times <= self.time_ms)
            lsn = int(lsns[fitting[-1]]) if len(fitting) else NULL_LSN
            own = _Best(0, lsn, int(times.min()), int(times.max()))
            best = own if best is None else _joined(best, own)
        return best


def _taken_back(environment: Environment, scanner: Scanner) -> Periods:
    """Return the periods from the matchpoint to the RollbackStart of each rollback."""
    parts = replace(scanner, progress=None).scan(environment, _find_rollbacks)
    found = [each for part in parts for some in part.results for each in some]
    return Periods.of((0, matchpoint_lsn, start_lsn) for matchpoint_lsn, start_lsn in found)


def _find_rollbacks(rows: Rows) -> list[tuple[int, int]]:
    """Return (matchpoint LSN, start LSN) of each RollbackStart; work for a scan."""
    own = np.flatnonzero(rows.good & (rows.type == ROLLBACK_START_NO)).tolist()
    starts = ((int(rows.lsn[row]), rows.fields(row)) for row in own)
    return [(int(f["matchpoint_lsn"]), lsn) for lsn, f in starts if "matchpoint_lsn" in f]


def _scan(
    environment: Environment, scanner: Scanner, work: Callable[[Rows], _Best | None]
) -> list[_Best]:
    parts = scanner.scan(environment, work)
    return [found for part in parts for found in part.results if found is not None]


def _best(found: list[_Best]) -> _Best | None:
    if not found:
        return None
    return reduce(_joined, found)


def _joined(one: _Best, other: _Best) -> _Best:
    value, lsn = max((one.value, one.lsn), (other.value, other.lsn))
    return _Best(value, lsn, min(one.least, other.least), max(one.most, other.most))
