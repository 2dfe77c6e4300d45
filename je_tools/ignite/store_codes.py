"""Codes of all findings on stores of Ignite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.ignite.page_check import page_findings
from je_tools.ignite.wal import wal_findings

if TYPE_CHECKING:
    from je_tools.findings import Code

STORE_CODES: dict[str, Code] = {**wal_findings.CODES, **page_findings.CODES}
"""Every code by name, in the order of the documentation."""
