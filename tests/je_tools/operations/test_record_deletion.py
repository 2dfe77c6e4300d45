"""A deletion is checked against its plan: other records, or more or fewer, are detected."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from je_tools.erase.live_records import delete_records
from je_tools.errors import RefusedError
from je_tools.log.scan import Scanner
from je_tools.operations import record_deletion
from je_tools.operations.record_deletion import RecordDeletion
from je_tools.recovery.database import Database
from je_tools.recovery.snapshot import Snapshot
from tests.corpus import FIXTURES
from tests.je_tools.erase.erasing import copy_of
from tests.je_tools.snapshots import NOW_MS, records_of, snapshot_of

Record = tuple[bytes, bytes | None]

NAMES = ["v17-basic", "v17-dups", "v17-crash-txn"]


def largest(snapshot: Snapshot) -> tuple[Database, list[Record]]:
    """Return the application's database with the most records, and these as a deletion has them."""
    found = [
        (each, records_of(snapshot, each))
        for each in snapshot.databases.values()
        if not each.is_internal
    ]
    database, records = max(found, key=lambda each: len(each[1]))
    return database, [(key, data if database.has_duplicates else None) for key, data in records]


BEFORE = {name: snapshot_of(FIXTURES / name / "env") for name in NAMES}
LARGEST = {name: largest(snapshot) for name, snapshot in BEFORE.items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_neighbour_that_is_deleted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many records as planned are deleted, but one of them is another one."""
    home = copy_of(name, tmp_path / "env")
    database, records = LARGEST[name]
    planned, neighbours = records[5:50:9], [records[6], *records[14:50:9]]
    places_of = record_deletion._places

    def of_neighbours(
        snapshot: Snapshot, database: Database, _: list[Record]
    ) -> list[tuple[bytes, int]]:
        return places_of(snapshot, database, neighbours)

    monkeypatch.setattr(record_deletion, "_places", of_neighbours)
    with pytest.raises(RefusedError, match=rf"records of .*\(id:{database.db_id}\) have changed"):
        delete_records(home, Scanner(threads=1), {database.db_id: planned}, NOW_MS)


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(NAMES), data=st.data())
def test_only_the_planned_records(name: str, data: st.DataObject) -> None:
    """A plan fits what was deleted only if both are the same records."""
    database, records = LARGEST[name]
    rows = st.integers(0, len(records) - 1)
    deleted = data.draw(st.sets(rows, min_size=1, max_size=5))
    planned = data.draw(
        st.just(deleted)
        | st.builds(lambda row: deleted ^ {row}, rows)
        | st.sampled_from(sorted(deleted)).map(
            lambda row: deleted - {row} | {(row + 1) % len(records)}
        )
    )
    with TemporaryDirectory() as folder:
        home = copy_of(name, Path(folder) / "env")
        doomed = {database.db_id: [records[row] for row in deleted]}
        delete_records(home, Scanner(threads=1), doomed, NOW_MS)
        plan = RecordDeletion({database.db_id: [records[row] for row in sorted(planned)]})
        wrong = plan.difference(BEFORE[name], snapshot_of(home))
    assert (wrong == "") is (planned == deleted)


def test_nothing_deleted_although_planned() -> None:
    """A log in which the trees of both sides are the same nodes is compared all the same."""
    snapshot, (database, records) = BEFORE["v17-basic"], LARGEST["v17-basic"]
    plan = RecordDeletion({database.db_id: records[3:4]})
    assert f"(id:{database.db_id}) have changed" in plan.difference(snapshot, snapshot)
