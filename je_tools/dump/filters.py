"""Filters of a dump as users write them, and the selection that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from je_tools.errors import UsageError
from je_tools.log.parsing import parse_bytes, parse_key, parse_lsn, parse_types
from je_tools.log.selection import Selection
from je_tools.log.time_filter import Window, parse_time


class Filters(Struct, frozen=True, kw_only=True):
    """Filters, all of which an entry must pass; None or empty filters nothing.

    Attributes:
        types: names of entry types and of groups.
        txns: transaction ids.
        keys: keys of LNs, as `parse_key` takes them.
        greps: bytes in keys or values, as `parse_bytes` takes them.
        from_lsn, to_lsn: inclusive bounds, as `0xFILE/0xOFFSET`.
        from_vlsn, to_vlsn: inclusive bounds.
        since, until: inclusive bounds, as `parse_time` takes them.
        replicated: only entries of the replication stream.
    """

    types: Sequence[str] = ()
    txns: Sequence[int] = ()
    keys: Sequence[str] = ()
    greps: Sequence[str] = ()
    from_lsn: str | None = None
    to_lsn: str | None = None
    from_vlsn: int | None = None
    to_vlsn: int | None = None
    since: str | None = None
    until: str | None = None
    replicated: bool = False

    def selection(self) -> Selection:
        """Return the selection that these filters make; databases and times are found later.

        Raises:
            UsageError: a filter cannot be parsed, or two bounds are in the wrong order.
        """
        from_lsn = _bound("--from-lsn", parse_lsn, self.from_lsn)
        to_lsn = _bound("--to-lsn", parse_lsn, self.to_lsn)
        since = _bound("--since", parse_time, self.since)
        until = _bound("--until", parse_time, self.until)
        _check_order("--from-lsn", from_lsn, "--to-lsn", to_lsn)
        _check_order("--from-vlsn", self.from_vlsn, "--to-vlsn", self.to_vlsn)
        _check_order("--since", since, "--until", until)
        return Selection(
            types=parse_types(self.types) if self.types else None,
            from_lsn=from_lsn,
            to_lsn=to_lsn,
            from_vlsn=self.from_vlsn,
            to_vlsn=self.to_vlsn,
            replicated=self.replicated,
            txn_ids=frozenset(self.txns) if self.txns else None,
            keys=tuple(map(parse_key, self.keys)),
            greps=tuple(map(parse_bytes, self.greps)),
            window=None if since is None and until is None else Window(since, until),
        )


def _bound(name: str, parse: Callable[[str], int], text: str | None) -> int | None:
    """Return the parsed value of an option; its errors name the option."""
    try:
        return None if text is None else parse(text)
    except UsageError as error:
        raise UsageError(f"{name} {error}") from None


def _check_order(first: str, low: int | None, last: str, high: int | None) -> None:
    if low is not None and high is not None and low > high:
        raise UsageError(f"{first} comes after {last}: nothing can match")
