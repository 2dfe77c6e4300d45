"""Findings that are known and allowed until a day, from a file of the user.

The file is TOML:

    [[allow]]
    env = "/backups/fe1/*"
    code = "old-delta-in-v8"
    until = 2027-01-31
    reason = "the upgrade is planned"
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from je_tools.audit.environment_list import severity_rank
from je_tools.errors import InputError, UsageError
from je_tools.findings import CODES, Severity
from je_tools.ignite.store_codes import STORE_CODES

if TYPE_CHECKING:
    from je_tools.audit.environment_list import CodeCount, EnvironmentRow


class Allowed(Struct, frozen=True, forbid_unknown_fields=True):
    """A finding that is allowed.

    Attributes:
        code: code of the finding.
        until: last day on which it is allowed, UTC.
        env: pattern of names of environments, as shells have them.
        reason: why it is allowed; for people only.
    """

    code: str
    until: date
    env: str = "*"
    reason: str = ""

    def covers(self, env: str, code: str, today: date) -> bool:
        """Return True if a finding is allowed today."""
        return self.code == code and today <= self.until and fnmatchcase(env, self.env)


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of the file."""

    allow: tuple[Allowed, ...] = ()


def read_allowed(path: Path) -> tuple[Allowed, ...]:
    """Read the findings that are allowed.

    Raises:
        InputError: the file cannot be read.
        UsageError: its content is not valid, or names a code that does not exist.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: it is not UTF-8") from error
    try:
        read = msgspec.convert(tomllib.loads(text), _File)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{path}: {error}") from error
    for each in read.allow:
        check_code(each.code, str(path))
    return read.allow


def check_code(code: str, where: str) -> None:
    """Refuse a code that no finding has.

    Raises:
        UsageError: it does not exist; the text names similar ones.
    """
    known = {**STORE_CODES, **CODES}
    if code not in known:
        from difflib import get_close_matches

        close = get_close_matches(code, known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"{where}: there is no finding {code}{hint}")


class FailureRules(Struct, frozen=True):
    """Rules that decide whether an audit fails.

    Attributes:
        fail_on: severities and codes of findings that make it fail.
        allowed: findings that do not.
        today: the day, UTC.
    """

    fail_on: Sequence[str]
    allowed: Sequence[Allowed]
    today: date

    def failing(self, row: EnvironmentRow) -> list[CodeCount]:
        """Return the findings of an environment that make the audit fail, by code."""
        return [
            each for each in row.findings if self._fails(each) and not self._is_allowed(row, each)
        ]

    def allowed_count(self, rows: Iterable[EnvironmentRow]) -> int:
        """Return the number of findings that do not make it fail because they are allowed."""
        return sum(
            each.count
            for row in rows
            for each in row.findings
            if self._fails(each) and self._is_allowed(row, each)
        )

    @property
    def expired(self) -> list[Allowed]:
        """Entries whose last day is over."""
        return [each for each in self.allowed if each.until < self.today]

    def _fails(self, found: CodeCount) -> bool:
        if found.code in self.fail_on:
            return True
        severities = [each for each in self.fail_on if each in list(Severity)]
        return any(severity_rank(found.severity) <= severity_rank(each) for each in severities)

    def _is_allowed(self, row: EnvironmentRow, found: CodeCount) -> bool:
        return any(each.covers(row.env, found.code, self.today) for each in self.allowed)
