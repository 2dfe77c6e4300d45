"""Choices of a user about a snapshot."""

from __future__ import annotations

import pytest

from je_tools.btree.fault_kinds import Fault, FaultKind
from je_tools.btree.faults import Faults
from je_tools.errors import DamageError, UsageError
from je_tools.recovery.choices import choose_databases
from je_tools.recovery.database import NAME_DB
from tests.corpus import FIXTURES
from tests.je_tools.snapshots import snapshot_of


def test_damage_may_hide_a_database() -> None:
    """A log whose names are lost does not say that there is no such database."""
    snapshot = snapshot_of(FIXTURES / "v17-basic" / "env")
    with pytest.raises(UsageError, match="no such database"):
        choose_databases(snapshot, ["nobody"])
    assert isinstance(snapshot.faults, Faults)
    snapshot.faults.append(Fault(FaultKind.DAMAGED, NAME_DB, 1 << 32, -1, None, None))
    with pytest.raises(DamageError, match=r"has cost names of databases.*`je-tools salvage`"):
        choose_databases(snapshot, ["nobody"])
    assert [each.name for each in choose_databases(snapshot, ["people"])] == ["people"]
