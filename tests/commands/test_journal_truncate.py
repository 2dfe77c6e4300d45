"""`journal truncate`: the plan, the written log, and what is refused."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from je_tools.append.authors import last_author
from je_tools.append.operation import AppendLog, AppendOperation
from je_tools.formats.je.tuples import long_key
from je_tools.journal.records_above import RecordsAbove, torn_journal
from je_tools.journal.series import journals_among
from je_tools.recovery.snapshot import Snapshot
from je_tools.writing.lock import EnvironmentLock
from tests.builders.trees import DUPLICATES, TreeLog, slot
from tests.corpus import FIXTURES
from tests.damage.running import Outcome, je_tools
from tests.je_tools.append.appending import apply
from tests.je_tools.journal.front_ends import front_end_log, json_value, values_of
from tests.je_tools.snapshots import contents_of, snapshot_of
from tests.je_tools.writing.operations import digests

FRONT_END = FIXTURES / "starrocks-fe-hole" / "node1"


def copied(target: Path) -> Path:
    """Return a writable copy of the log of a front end."""
    home = Path(shutil.copytree(FRONT_END, target))
    for path in (home, *home.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return home


def truncate(home: Path, above: object, *words: object) -> Outcome:
    return je_tools("journal", "truncate", home, "--above", above, *words)


def ends_of(home: Path) -> dict[str, tuple[int, int, int]]:
    """Return first id, last id and number of records of each journal."""
    document = json.loads(je_tools("journal", home, "--format", "json", "--exit-zero").out)
    return {
        each["db"]: (each["first_id"], each["last_id"], each["records"])
        for each in document["journals"]
    }


def test_a_plan_writes_nothing(tmp_path: Path) -> None:
    home = copied(tmp_path / "bdb")
    before = digests(home)
    done = truncate(home, 700, "--format", "csv")
    assert (done.code, digests(home)) == (0, before)
    assert f"je-tools journal truncate {home} --above 700 --apply` writes it" in done.err
    rows = list(csv.DictReader(done.out.decode().splitlines()))
    changes = [(row["change"], row["db"], row["old"]) for row in rows[1:]]
    assert changes == [
        (
            "delete records",
            "640",
            "ids 701 to 795: 95 records, 8,616 bytes (50 OP_UPSERT_TRANSACTION_STATE, "
            "8 OP_CREATE_USER, 6 OP_SAVE_NEXTID, 31 others)",
        ),
        (
            "remove database",
            "796",
            "ids 796 to 892: 96 records, 10,414 bytes (49 OP_UPSERT_TRANSACTION_STATE, "
            "11 OP_CREATE_TABLE, 7 OP_HEARTBEAT, 29 others)",
        ),
        ("commit", "", ""),
    ]


@pytest.mark.parametrize(
    ("above", "words", "changed"),
    [
        (700, (), {"640": (640, 700, 61), "796": None}),
        (795, (), {"796": None}),
        (796, (), {"796": (796, 796, 1)}),
        (519, (), {"519": (519, 519, 1), "640": None, "796": None}),
        (892, (), {}),
        (80, ("--series", "starmgr_"), {"starmgr_75": (75, 80, 6), "starmgr_89": None}),
    ],
)
def test_only_higher_ids_go(
    above: int,
    words: tuple[str, ...],
    changed: dict[str, tuple[int, int, int] | None],
    tmp_path: Path,
) -> None:
    home = copied(tmp_path / "bdb")
    expected = ends_of(home) | changed
    done = truncate(home, above, *words, "--apply")
    assert done.code == 0, done.err
    assert ends_of(home) == {name: ends for name, ends in expected.items() if ends is not None}
    assert je_tools("verify", home, "--tree").code == 0
    again = truncate(home, above, *words)
    assert (again.code, b"nothing to write" in again.out) == (0, True)


def test_undo_brings_all_back(tmp_path: Path) -> None:
    home = copied(tmp_path / "bdb")
    before = digests(home)
    assert truncate(home, 700, "--apply").code == 0
    assert digests(home) != before
    assert je_tools("undo", home, "--apply").code == 0
    assert digests(home) == before


def test_a_copy_leaves_the_log_as_it_is(tmp_path: Path) -> None:
    home, target = copied(tmp_path / "bdb"), tmp_path / "copy"
    before = digests(home)
    assert truncate(home, 700, "--apply", "--output", target).code == 0
    assert digests(home) == before
    assert ends_of(target)["640"] == (640, 700, 61)
    old, new = (contents_of(snapshot_of(each)) for each in (home, target))
    del old["796"]
    old["640"] = old["640"][:61]
    assert new == old


@pytest.mark.parametrize("above", [5, 518, 813, 893, 5485])
def test_an_id_that_no_journal_has(above: int, tmp_path: Path) -> None:
    home = copied(tmp_path / "bdb")
    before = digests(home)
    for words in ((), ("--apply",)):
        done = truncate(home, above, *words)
        assert (done.code, done.out) == (2, b"")
        assert f"--above {above}: no journal has this id" in done.err
    assert digests(home) == before


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "Missing option '--above'"),
        (("--above", "x"), "not a valid integer"),
        (("--above", "-1"), "not in the range"),
        (("--above", "700", "--series", "other_"), "prefix, or --series starmgr_"),
        (("--above", "700", "--apply", "--format", "parquet"), "exclude each other"),
    ],
)
def test_wrong_words(words: tuple[str, ...], text: str, tmp_path: Path) -> None:
    home = copied(tmp_path / "bdb")
    before = digests(home)
    done = je_tools("journal", "truncate", home, *words)
    assert done.code == 2
    assert text in done.err
    assert digests(home) == before


def test_what_is_no_front_end() -> None:
    for name in ("v17-basic/env", "v17-rep-uncommitted-before/node2"):
        done = truncate(FIXTURES / name, 1)
        assert (done.code, done.out) == (4, b"")
        assert "not the environment of a StarRocks or Doris front end" in done.err


def test_a_log_without_a_group(tmp_path: Path) -> None:
    home = front_end_log({"1": values_of(range(1, 5))}).log.write(tmp_path / "env")
    done = truncate(home, 2, "--apply")
    assert done.code == 6
    assert "the log has no Commit of a replication group" in done.err


def test_a_running_front_end_is_left_alone(tmp_path: Path) -> None:
    home = copied(tmp_path / "bdb")
    with EnvironmentLock(home):
        before = digests(home)
        done = truncate(home, 700, "--apply")
        assert done.code == 6
        assert "has the environment open" in done.err
        assert digests(home) == before


def test_an_image_that_is_newer_than_the_id(tmp_path: Path) -> None:
    meta = tmp_path / "meta"
    home = copied(meta / "bdb")
    (meta / "image").mkdir()
    (meta / "image" / "image.701").write_bytes(b"")
    before = digests(home)
    done = truncate(meta, 700, "--apply")
    assert done.code == 6
    assert "the newest image has the changes up to id 701" in done.err
    assert digests(home) == before
    assert truncate(meta, 701, "--apply").code == 0


class _Adding(AppendOperation):
    """An operation that adds a record to a journal."""

    name = "adding"

    def __init__(self, journal: str, key: bytes) -> None:
        self.journal = journal
        self.key = key

    def write(self, log: AppendLog) -> None:
        database = log.database(self.journal)
        author = last_author(log.snapshot)
        assert author is not None
        transaction = log.group_transaction(replace(author, dtvlsn=None))
        transaction.write(database.db_id, self.key, json_value(100, {}), None)
        transaction.commit()

    def difference(self, before: Snapshot, after: Snapshot) -> str:
        return ""


@pytest.mark.parametrize("key", [long_key(650), long_key(750), long_key(650) + b"x"])
def test_a_later_journal_with_lower_ids(key: bytes, tmp_path: Path) -> None:
    """Id 650 should stay, and 750 is not among those that the plan counts."""
    home = copied(tmp_path / "bdb")
    apply(home, _Adding("796", key))
    before = digests(home)
    done = truncate(home, 700, "--apply")
    assert done.code == 6
    assert "journal 796 has 1 record below id 796, where its ids begin" in done.err
    assert digests(home) == before


def test_a_log_that_recovery_would_cut(tmp_path: Path) -> None:
    home = copied(tmp_path / "bdb")
    rows = je_tools("journal", home, "--show", 850, "--format", "jsonl").rows
    data = bytearray((home / "00000000.jdb").read_bytes())
    data[int(rows[0]["lsn"].split("/")[1], 16) + 40] ^= 1
    (home / "00000000.jdb").write_bytes(data)
    before = digests(home)
    assert truncate(home, 700, "--apply").code == 6
    assert digests(home) == before


def test_records_with_lost_values_can_be_deleted_but_lost_nodes_hide_some(tmp_path: Path) -> None:
    made = front_end_log({"1": values_of(range(1, 9))})
    made.log.files[0].data[made.lsns["1"][6] + 30] ^= 1
    snapshot = snapshot_of(made.log.write(tmp_path / "value"))
    (journal,) = journals_among(snapshot.databases.values())
    above = RecordsAbove.read(snapshot, journal, 4)
    assert (above.record_count, above.first_id, above.last_id) == (4, 5, 8)
    assert above.op_counts == {100: 3}
    assert snapshot.faults.damage
    assert torn_journal(snapshot, [journal]) is None
    made = front_end_log({"1": values_of(range(1, 9))})
    # The bottom node follows the records.
    made.log.files[0].data[made.lsns["1"][8] + 80] ^= 1
    snapshot = snapshot_of(made.log.write(tmp_path / "node"))
    RecordsAbove.read(snapshot, journal, 4)
    assert torn_journal(snapshot, [journal]) == journal


def test_a_database_with_duplicates_is_no_journal(tmp_path: Path) -> None:
    log = TreeLog()
    key = long_key(3)
    log.database(b"1", log.tree([slot(key, log.ln(key, b"x"))]), db_flags=DUPLICATES)
    log.next_file()
    log.checkpoint()
    done = truncate(log.write(tmp_path / "env"), 3)
    assert done.code == 6
    assert "database 1 has duplicates" in done.err
