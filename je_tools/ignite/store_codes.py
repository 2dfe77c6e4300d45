"""Codes of all findings on stores of Ignite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.ignite import findings, page_findings

if TYPE_CHECKING:
    from je_tools.findings import Code

STORE_CODES: dict[str, Code] = {**findings.CODES, **page_findings.CODES}
"""Every code by name, in the order of the documentation."""
