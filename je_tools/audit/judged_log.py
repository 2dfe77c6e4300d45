"""A log as the judge has read it, and its stakes as rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.audit.member_reading import MemberReport
    from je_tools.files.listing import Listing
    from je_tools.findings import Finding
    from je_tools.log.environment import Environment
    from je_tools.verify.odd_flags import Period


class JudgedLog(Struct, frozen=True):
    """Log as the judge has read it.

    Attributes:
        environment: the log.
        env: its name in the tables.
        listing: its files.
        findings: findings of `verify`, in its order.
        periods: its rollback periods.
    """

    environment: Environment
    env: str
    listing: Listing
    findings: Sequence[Finding]
    periods: Sequence[Period]


class StakeRows(Struct, frozen=True):
    """Stakes of an environment as rows.

    Attributes:
        values: values of the table `environments` by column.
        findings: findings that the scan of the log does not have.
        files: rows of the table `space`.
        member: report on the node; None if the log is not replicated, or it could not be read.
    """

    values: dict[str, Any]
    findings: tuple[Finding, ...] = ()
    files: tuple[tuple[Any, ...], ...] = ()
    member: MemberReport | None = None


FindStakes = Callable[[JudgedLog], StakeRows]
"""Finds the stakes of an environment."""
