"""Damage that costs rows: it ends a query, unless the user leaves it out."""

from __future__ import annotations

from collections.abc import Iterable

from je_tools.errors import DamageError
from je_tools.findings import Finding, Severity

SKIP_HINT = (
    "To read the rest, give the option unreadable=skip; the format jefindings lists what is left "
    "out then"
)
"""Next step for what cannot be read."""


def check_damage(env: str, findings: Iterable[Finding]) -> None:
    """Check that nothing is lost.

    Raises:
        DamageError: there is an error among the findings.
    """
    errors = [found for found in findings if found.severity is Severity.ERROR]
    if errors:
        more = f" (and {len(errors) - 1:,} more)" if len(errors) > 1 else ""
        first = errors[0]
        place = "" if first.file_no is None else f" in file {first.file_no:#x}"
        raise DamageError(
            f"{env}: {first.code}{place}{more}, so rows may be missing: `je-tools verify` and "
            f"`verify --tree` report the damage. {SKIP_HINT}"
        )
