"""Our snapshot in the words of a campaign: records, a refusal, what is foretold of the engine.

`python -m tests.engine.snapshots [SEED [WORKLOADS [CRASHES]]] [COORDINATE]` holds it against the
engine, `... DIR NOW_MS [COORDINATE]` for one log that a campaign has kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

from je_tools.environment import open_environment
from je_tools.errors import InputError
from je_tools.recovery.findings import snapshot_findings
from je_tools.scan import Scanner
from je_tools.snapshot import Snapshot, take_snapshot
from tests.engine.campaign import Foretold, main
from tests.truth.contents import Contents, Refusal

FORETELLING = frozenset(
    {
        "expiration-unit",
        "more-tree-damage",
        "recovery-refused",
        "root-split-cut-short",
        "stray-slots",
        "tree-damage",
    }
)
"""Codes of findings that say that the engine will go wrong, or not open the environment."""


def recovered(home: Path, now_ms: int, *, fast: bool | None = None) -> Foretold:
    """What a snapshot says of a directory, and what it foretells.

    Args:
        home: the directory.
        now_ms: the time by which records expire.
        fast: with compiled kernels, with plain Python, or as the size of the log suggests.
    """
    try:
        environment = open_environment([home])
        snapshot = take_snapshot(environment, Scanner(threads=1, fast=fast), now_ms=now_ms)
    except InputError as error:
        return Foretold(Refusal("open", type(error).__name__, str(error)), frozenset())
    contents = contents_of(snapshot)
    findings = snapshot_findings(snapshot)
    warnings = FORETELLING & {each.code for each in findings}
    if snapshot.refusals:
        reasons = [str(each) for each in snapshot.refusals]
        return Foretold(Refusal("open", reasons[0], ", ".join(reasons)), warnings)
    return Foretold(contents, warnings)


def contents_of(snapshot: Snapshot) -> Contents:
    """The records of the user's databases."""
    found: Contents = {}
    for database in snapshot.databases.values():
        if database.name is None or database.is_internal:
            continue
        records = found[database.name] = []
        for batch in snapshot.records(database):
            for row in range(len(batch)):
                key, data = batch.key[row], batch.data[row]
                records.append((key or b"", b"<no data>" if data is None else data))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], recovered))
