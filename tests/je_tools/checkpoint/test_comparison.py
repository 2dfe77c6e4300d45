"""A written checkpoint is compared with the log before it, and refused if they differ."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from je_tools.checkpoint import trees
from je_tools.checkpoint.apply import apply_checkpoint
from je_tools.checkpoint.changes import SlotChanges
from je_tools.checkpoint.comparison import Compared, compare_records
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.errors import RefusedError
from je_tools.formats.arrays import Mask
from je_tools.formats.je.btree.slots import Slots
from je_tools.log.scan import Scanner
from tests.corpus import FIXTURES
from tests.je_tools.snapshots import NOW_MS, contents_of, snapshot_of

CRASHED = FIXTURES / "v17-crash-txn" / "env"


def applied(folder: Path) -> Compared:
    """Write a checkpoint to a copy of a crashed log, and return the comparison."""
    home = Path(shutil.copytree(CRASHED, folder / "env"))
    _, outcome = apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(cuts=True), NOW_MS)
    assert outcome.compared is not None
    return outcome.compared


def test_equal(tmp_path: Path) -> None:
    compared = applied(tmp_path)
    records = sum(map(len, contents_of(snapshot_of(CRASHED)).values()))
    assert compared.different == ()
    assert 0 < compared.record_count <= records
    assert compared.shared_node_count > 0


def test_a_lost_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that mistakes a record for a deleted one is detected."""
    is_dead = trees.is_dead

    def loses_one(slots: Slots) -> Mask:
        dead = is_dead(slots)
        dead[np.flatnonzero(~dead)[:1]] = True
        return dead

    monkeypatch.setattr(trees, "is_dead", loses_one)
    with pytest.raises(RefusedError, match="have changed"):
        applied(tmp_path)


def test_another_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that gives a slot the LSN of another record is detected."""
    slots_of = SlotChanges.slots

    def swapped(self: SlotChanges, *arguments: object) -> Slots:
        slots = slots_of(self, *arguments)  # type: ignore[arg-type]
        slots.lsn[:] = np.roll(slots.lsn, 1)
        return slots

    monkeypatch.setattr(SlotChanges, "slots", swapped)
    with pytest.raises(RefusedError, match="have changed"):
        applied(tmp_path)


def test_a_database_that_one_side_lacks() -> None:
    one, other = (snapshot_of(CRASHED) for _ in range(2))
    gone = next(each for each in other.databases.values() if not each.is_internal)
    del other.databases[gone.db_id]
    assert compare_records(one, other, ()).different == (f"{gone.name} (id:{gone.db_id})",)
