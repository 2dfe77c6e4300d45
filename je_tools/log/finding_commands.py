"""Commands that show more about a finding."""

from __future__ import annotations

from je_tools.core.escaping import quoted
from je_tools.formats.je.header import lsn_text

_OF_VERSIONS = ("version-step", "unsupported-version", "old-delta-in-v8", "old-form-to-replay")
_OF_VLSNS = (
    "vlsn-gap",
    "vlsn-duplicate",
    "vlsn-backward",
    "vlsn-index-lost",
    "vlsn-index-bucket",
    "vlsn-index-gap",
    "vlsn-index-mapping",
    "vlsn-index-range",
    "vlsn-index-short",
    "vlsn-index-refused",
    "vlsn-rollback",
    "vlsn-unmarked",
    "group-unreadable",
)
_OF_JOURNALS = ("journal-hole", "journal-record", "journal-order", "front-end-mismatch")
_OF_ENTRIES = (
    "damaged-entry",
    "damaged-gap",
    "unknown-type",
    "torn-tail",
    "truncated-file",
    "prev-offset-mismatch",
    "bad-file-header",
)


def next_command(code: str, env: str, lsn: int | None) -> str:
    """Return the command that shows more about a finding, on one line, quoted for a shell."""
    home = quoted(env)
    if code in _OF_VERSIONS:
        return f"je-tools files {home}"
    if code in _OF_VLSNS:
        return f"je-tools vlsn check {home}"
    if code in _OF_JOURNALS:
        return f"je-tools journal {home}"
    if code == "group-record":
        return f"je-tools group show {home}"
    if code in ("erased-not-zero", "erasure-unfinished"):
        return f"je-tools erase resume {home}"
    if code in _OF_ENTRIES and lsn is not None:
        return f"je-tools explain {lsn_text(lsn)} --env {home}"
    if code == "unreadable-file":
        return f"je-tools missing {home}"
    return f"je-tools verify {home}"
