"""Codes of all findings on stores of Ignite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.core.escaping import quoted
from je_tools.ignite import node_findings
from je_tools.ignite.page_check import page_findings

if TYPE_CHECKING:
    from je_tools.findings import Code

STORE_CODES: dict[str, Code] = {**node_findings.CODES, **page_findings.CODES}
"""Every code by name, in the order of the documentation."""

_VERBS = {
    "wal-": "wal verify",
    "marker-": "checkpoints",
    "checkpoint-": "checkpoints",
    "page-": "pages verify",
    "cache-": "pages verify",
    "recovery-": "recover",
}


def verb_of(code: str) -> str:
    """Return the verb of `je-tools ignite` that shows more of a finding."""
    return next((verb for prefix, verb in _VERBS.items() if code.startswith(prefix)), "info")


def store_command(code: str, store: str) -> str:
    """Return the command that shows more of a finding, on one line for any name of a store."""
    return f"je-tools ignite {verb_of(code)} {quoted(store)}"
