"""Fingerprints of records, compared with entries that are decoded one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from je_tools.formats.arrays import Ints
from je_tools.formats.files.image import Image, ImagePart
from je_tools.formats.je.btree.slots import Slots
from je_tools.formats.je.entry.entries import Entry
from je_tools.formats.je.expirations import DAY_MS, HOUR_MS
from je_tools.formats.je.flags import SlotState
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import fetch_entry
from je_tools.formats.je.log.fingerprints import (
    HOURS_MAX,
    KEY_SIZE_MAX,
    Fingerprints,
    Printing,
    SlotChecks,
)
from je_tools.formats.je.log.walk import Checksum
from je_tools.formats.je.types import BY_NAME, ENTRY_TYPES, Family
from je_tools.formats.spans import Spans
from je_tools.recovery.snapshot import Snapshot
from tests.builders.logs import write_log
from tests.builders.trees import FIRST_ID, TreeLog, simple
from tests.corpus import Environment, log_files
from tests.formats.je.log.test_fetch import image_of
from tests.formats.logs import log_rows
from tests.je_tools.snapshots import snapshot_of

SAMPLE = 200
NOTHING = np.empty(0, np.int64)


def printed(home: Path, *, most: int = 1 << 24) -> Fingerprints:
    """Return the fingerprints of all records of an undamaged log."""
    found = Fingerprints(Printing.at_random(), most)
    for path in log_files(home):
        for rows in log_rows(path):
            found.add(rows.file_no, found.printing.of_rows(rows))
    return found


def some_slots(snapshot: Snapshot) -> Iterator[tuple[int, Slots]]:
    """Yield the database id and a sample of slots of each batch of BINs."""
    for database in snapshot.databases.values():
        tree = snapshot.tree(database)
        for children in tree.unread_bins():
            slots = tree.read(children).nodes.slots
            rows = np.flatnonzero(slots.lsn != NULL_LSN)
            yield database.db_id, slots.select(rows[:: max(len(rows) // SAMPLE, 1)])


def is_record(image: Image, slots: Slots, row: int, db_id: int) -> bool:
    """Return True if the slot's LSN holds a record with its key, database, data and expiration."""
    entry = fetch_entry(image, int(slots.lsn[row]))
    if entry is None or ENTRY_TYPES[entry.header.type_no].family is not Family.LN:
        return False
    return (
        entry.fields["db_id"] == db_id
        and entry.fields["key"] == slots.key[row]
        and entry.fields["data"] is not None
        and expires_ms(entry) == slots.expires_ms[row]
    )


def expires_ms(entry: Entry) -> int:
    logged = int(entry.fields.get("expiration", 0))
    return -logged * HOUR_MS if logged < 0 else logged * DAY_MS


def test_slots_in_doubt_are_those_that_name_no_record(environment: Environment) -> None:
    snapshot = snapshot_of(environment.home)
    image = snapshot.image
    checks = SlotChecks(image, printed(environment.home), NOTHING, frozenset())
    for db_id, slots in some_slots(snapshot):
        rows = np.arange(len(slots))
        told = checks.doubtful(slots, rows, db_id, asks_noted=True)
        assert told.tolist() == [not is_record(image, slots, row, db_id) for row in rows.tolist()]
        assert checks.doubtful(slots, rows, db_id + 1, asks_noted=True).all()
        assert checks.doubtful(slots, rows[::-2], db_id, asks_noted=True).tolist() == (
            told[::-2].tolist()
        )


@pytest.fixture
def log() -> TreeLog:
    return simple({b"%04d" % i: b"v" for i in range(200)})


def slots_of(home: Path) -> tuple[Snapshot, Slots]:
    """Return the snapshot, and the slots of the database that `simple` builds."""
    snapshot = snapshot_of(home)
    (slots,) = (slots for db_id, slots in some_slots(snapshot) if db_id == FIRST_ID)
    return snapshot, slots


def test_what_was_noted_is_in_doubt(log: TreeLog, tmp_path: Path) -> None:
    snapshot, slots = slots_of(log.write(tmp_path / "env"))
    rows = np.arange(len(slots))
    noted = np.sort(np.concatenate((slots.lsn[::3], slots.lsn + 1)))
    checks = SlotChecks(snapshot.image, printed(tmp_path / "env"), noted, frozenset())
    told = checks.doubtful(slots, rows, FIRST_ID, asks_noted=True)
    assert np.flatnonzero(told).tolist() == list(range(0, len(slots), 3))
    assert not checks.doubtful(slots, rows, FIRST_ID, asks_noted=False).any()
    slots.state[:] |= SlotState.EMBEDDED
    assert not checks.doubtful(slots, rows, FIRST_ID, asks_noted=True).any()


def test_all_of_reserved_files_is_in_doubt(log: TreeLog, tmp_path: Path) -> None:
    snapshot, slots = slots_of(log.write(tmp_path / "env"))
    prints = printed(tmp_path / "env")
    checks = SlotChecks(snapshot.image, prints, NOTHING, frozenset({0}))
    assert checks.doubtful(slots, np.arange(len(slots)), FIRST_ID, asks_noted=True).all()


def test_records_that_were_not_kept_are_in_doubt(tmp_path: Path) -> None:
    """The second of two files has one record more than the limit."""
    log = TreeLog()
    lsns = [log.ln(b"a", b""), log.ln(b"b", b"")]
    log.next_file()
    lsns.append(log.ln(b"c", b""))
    home = write_log(tmp_path / "env", log.files)
    assert doubts(home, lsns, [b"a", b"b", b"c"], most=2) == [False, False, True]
    assert doubts(home, lsns, [b"a", b"b", b"c"], most=3) == [False, False, False]


def doubts(
    home: Path,
    lsns: list[int],
    keys: list[bytes],
    *,
    expires_ms: int = 0,
    db_id: int = FIRST_ID,
    most: int = 1 << 24,
) -> list[bool]:
    """Return True for each slot that is not certain to point to its record."""
    image = image_of(log_files(home))
    checks = SlotChecks(image, printed(home, most=most), NOTHING, frozenset())
    slots = made_slots(lsns, keys, expires_ms)
    told: list[bool] = checks.doubtful(slots, np.arange(len(lsns)), db_id, asks_noted=True).tolist()
    return told


def made_slots(lsns: list[int], keys: list[bytes], expires_ms: int) -> Slots:
    data = np.frombuffer(b"".join(keys), np.uint8)
    sizes = np.array([len(key) for key in keys], np.int64)
    n = len(lsns)
    zeros: Ints = np.zeros(n, np.int64)
    return Slots(
        key=Spans(data, np.cumsum(sizes) - sizes, sizes),
        lsn=np.array(lsns, np.int64),
        state=zeros,
        logged_size=zeros,
        vlsn=zeros,
        data_start=zeros,
        data_size=zeros - 1,
        expires_ms=np.full(n, expires_ms, np.int64),
        created_ms=zeros,
        modified_ms=zeros,
    )


@pytest.mark.parametrize("key_size", [0, 1, 2, 3, KEY_SIZE_MAX, KEY_SIZE_MAX + 1])
def test_long_keys_are_in_doubt(tmp_path: Path, key_size: int) -> None:
    log = TreeLog()
    key = bytes(range(256)) * 20
    lsn = log.ln(key[:key_size], b"v")
    home = write_log(tmp_path / "env", log.files)
    assert doubts(home, [lsn], [key[:key_size]]) == [key_size > KEY_SIZE_MAX]
    assert doubts(home, [lsn], [key[: key_size + 1]]) == [True]


@pytest.mark.parametrize("db_id", [1 << 24, -(1 << 24) - 1, (1 << 24) - 1, -(1 << 24)])
def test_ids_of_databases(tmp_path: Path, db_id: int) -> None:
    log = TreeLog()
    lsn = log.ln(b"k", b"v", db=db_id)
    home = write_log(tmp_path / "env", log.files)
    assert doubts(home, [lsn], [b"k"], db_id=db_id) == [not -(1 << 24) <= db_id < 1 << 24]


@pytest.mark.parametrize(
    ("logged", "at_ms", "is_sure"),
    [
        (-7, 7 * HOUR_MS, True),
        (7, 7 * DAY_MS, True),
        (7, 7 * HOUR_MS, False),
        (7, 7 * DAY_MS + 1, False),
        (7, 0, False),
        (-HOURS_MAX, HOURS_MAX * HOUR_MS, True),
        (-HOURS_MAX - 1, (HOURS_MAX + 1) * HOUR_MS, False),
        (HOURS_MAX, HOURS_MAX * DAY_MS, False),
        (1 << 62, (1 << 62) * DAY_MS % (1 << 63), False),
        (-(1 << 62), 0, False),
    ],
)
def test_expirations(tmp_path: Path, logged: int, at_ms: int, is_sure: bool) -> None:
    log = TreeLog()
    lsn = log.ln(b"k", b"v", flags=0x80, expiration=logged)
    home = write_log(tmp_path / "env", log.files)
    assert doubts(home, [lsn], [b"k"], expires_ms=at_ms) == [not is_sure]


def test_records_whose_sum_is_not_right_have_none(log: TreeLog, tmp_path: Path) -> None:
    (path,) = log_files(log.write(tmp_path / "env"))
    (rows,) = log_rows(path)
    printing = Printing.at_random()
    found = printing.of_rows(rows)
    lns = np.flatnonzero(rows.type == BY_NAME["UPD_LN"].no)
    assert len(found) == len(lns) == 200
    for state in (Checksum.BAD, Checksum.NONE, Checksum.UNCHECKED):
        states = rows.checksum.copy()
        states[lns[7]] = state
        left = printing.of_rows(replace(rows, checksum=states))
        assert left.prints.tolist() == np.delete(found.prints, 7).tolist()
        assert left.low.tolist() == np.delete(found.low, 7).tolist()
        assert left.counts.sum() == 199


def test_places_where_no_record_is(tmp_path: Path) -> None:
    """A deletion, a Commit, addresses beside a record, missing files, and invalid LSNs."""
    log = TreeLog()
    lsns = [log.ln(b"k", b"v"), log.ln(b"k", None), log.end(3)]
    home = write_log(tmp_path / "env", log.files)
    elsewhere = [lsns[0] + 1, lsns[0] - 1, lsns[0] | 1 << 32, lsns[0] | 0xFFFF0000, NULL_LSN, 0]
    asked = [*lsns, *elsewhere, -(1 << 63)]
    told = doubts(home, asked, [b"k"] * len(asked))
    assert told == [False, *[True] * (len(asked) - 1)]


def test_a_log_that_ends_in_front_of_what_was_scanned(tmp_path: Path) -> None:
    """The image has less of the first file than was scanned; the second file is still found."""
    log = TreeLog()
    lsns = [log.ln(b"%04d" % i, bytes(300)) for i in range(100)]
    log.next_file()
    lsns.append(log.ln(b"last", b"v"))
    home = write_log(tmp_path / "env", log.files)
    parts = [
        ImagePart(path, no, 17, path.stat().st_size) for no, path in enumerate(log_files(home))
    ]
    image = Image([replace(parts[0], stop=lsns[10]), parts[1]])
    checks = SlotChecks(image, printed(home), NOTHING, frozenset())
    slots = made_slots(lsns, [*(b"%04d" % i for i in range(100)), b"last"], 0)
    told = checks.doubtful(slots, np.arange(101), FIRST_ID, asks_noted=True)
    assert np.flatnonzero(~told).tolist() == [*range(10), 100]


def test_files_of_which_some_are_missing(tmp_path: Path) -> None:
    log = TreeLog()
    lsns = []
    for _ in range(6):
        lsns.append(log.ln(b"k", b"v"))
        log.next_file()
    home = write_log(tmp_path / "env", log.files)
    for missing in (1, 2, 4):
        (home / f"{missing:08x}.jdb").unlink()
    told = doubts(home, lsns, [b"k"] * 6)
    assert told == [False, True, True, False, True, False]
