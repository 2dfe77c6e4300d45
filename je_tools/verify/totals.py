"""Totals of a verification: counts, and the verdict that follows from them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec import Struct, field

from je_tools.core.escaping import counted
from je_tools.findings import CODES, Finding, Severity

FIRST = 20
"""Largest number of errors that are kept, for commands that report some of them."""


class Damage(Struct):
    """Number of errors of a log, for commands that do not list them.

    Attributes:
        codes: number of errors of each code.
    """

    codes: Counter[str] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        return bool(self.codes)

    def text(self) -> str:
        """Return the errors in words."""
        codes = ", ".join(f"{count:,} {code}" for code, count in sorted(self.codes.items()))
        return f"damaged, {counted(self.codes.total(), 'error')}: {codes}"


class Totals(Struct):
    """Counts of a verification.

    Attributes:
        env: name of the environment.
        files, size: number of log files, and their bytes.
        entries: number of good entries.
        damaged_size: bytes in damaged entries, gaps and ends of files, without a tail after the
            end of an intact log.
        findings: number of findings of each severity.
        codes: number of findings of each code.
        damage: errors by code.
        first: the first FIRST errors.
        has_trees: True if the B-trees were checked too.
        listed: filled with all findings that are reported one by one; None to keep none of them.
    """

    env: str
    files: int = 0
    size: int = 0
    entries: int = 0
    damaged_size: int = 0
    findings: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    damage: Damage = field(default_factory=Damage)
    first: list[Finding] = field(default_factory=list)
    has_trees: bool = False
    listed: list[Finding] | None = None

    @property
    def errors(self) -> int:
        """Number of findings that are errors."""
        return self.findings[Severity.ERROR]

    def count(self, found: Finding) -> None:
        """Count a finding."""
        self.findings[found.severity] += 1
        self.codes[found.code] += 1
        if self.listed is not None:
            self.listed.append(found)
        if found.severity is Severity.ERROR:
            self.damage.codes[found.code] += 1
            if len(self.first) < FIRST:
                self.first.append(found)

    def count_unlisted(self, codes: Counter[str]) -> None:
        """Count findings of which only the codes are known."""
        self.codes += codes
        for code, count in codes.items():
            severity = CODES[code].severity
            self.findings[severity] += count
            if severity is Severity.ERROR:
                self.damage.codes[code] += count

    def row(self) -> dict[str, Any]:
        """Return the totals as plain values, for JSON."""
        return {
            "env": self.env,
            "files": self.files,
            "bytes": self.size,
            "entries": self.entries,
            "damaged_bytes": self.damaged_size,
            **{f"{severity}s": self.findings[severity] for severity in Severity},
            "codes": dict(sorted(self.codes.items())),
        }

    def verdict(self) -> str:
        """Return the outcome in one line, which says so if the B-trees were not checked."""
        read = ", ".join(
            (
                counted(self.files, "file"),
                counted(self.size, "byte"),
                f"{self.entries:,} good {'entry' if self.entries == 1 else 'entries'}",
            )
        )
        kinds = [
            counted(self.findings[severity], severity)
            for severity in reversed(Severity)
            if self.findings[severity]
        ]
        verdict = "intact" if self.has_trees else "no damage found"
        if self.errors:
            verdict = "DAMAGED"
        unread = "" if self.has_trees else "; B-trees not checked"
        return f"{self.env}: {verdict}{': ' * bool(kinds)}{', '.join(kinds)} ({read}{unread})"
