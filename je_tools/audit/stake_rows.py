"""Stakes of one environment as rows: its values, findings, files, and report on a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, astuple

from je_tools.audit.judged_log import StakeRows
from je_tools.audit.rows import signed, unread_finding
from je_tools.findings import CODES, Finding, Severity

if TYPE_CHECKING:
    from je_tools.audit.stakes import Stakes
    from je_tools.doctor.facts import LogFacts

_LSNS = ("lost_first_lsn", "lost_last_lsn")


def stake_rows(stakes: Stakes, env: str, log: LogFacts) -> StakeRows:
    """Return stakes as rows.

    Args:
        stakes: the stakes of an environment.
        env: its name in the tables.
        log: what was read of its log.
    """
    return StakeRows(
        _values(stakes),
        tuple(_findings(stakes, env, log)),
        tuple((env, *astuple(each)) for each in stakes.files),
        stakes.member,
    )


def _values(stakes: Stakes) -> dict[str, Any]:
    values: dict[str, Any] = {
        "outcome": stakes.outcome,
        "verdict": stakes.verdict,
        "last_commit_ms": stakes.last_commit_ms,
        "last_commit_vlsn": stakes.last_commit_vlsn,
    }
    for part in (stakes.loss, stakes.node, stakes.space):
        if part is not None:
            values |= asdict(part)
    return values | {name: signed(values.get(name)) for name in _LSNS}


def _findings(stakes: Stakes, env: str, log: LogFacts) -> Iterator[Finding]:
    """Yield the findings that the scan of the log does not have.

    What is not known, and what is wrong without being a finding, must not pass as intact.
    """
    yield from stakes.findings
    if stakes.problems:
        yield unread_finding(env, f"recovery is not fully known: {'; '.join(stakes.problems)}")
    found = (*log.findings, *stakes.findings)
    if stakes.is_damaged and not any(each.severity is Severity.ERROR for each in found):
        code = CODES["recovery-refused"]
        yield Finding(code.name, code.severity, env, found=stakes.verdict, hint=code.hint)
