"""Records of internal databases: round trips of those that engines wrote, and damaged bytes."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from je_tools.formats.je.entry.columns import decode
from je_tools.formats.je.entry.entries import decode_entry
from je_tools.formats.je.internal.cleaner import (
    DatabaseExtinction,
    EraserState,
    Expirations,
    FileSummaryKey,
    RecordExtinction,
    ReservedFile,
)
from je_tools.formats.je.internal.names import (
    EXPIRATION_DB,
    EXTINCT_SCANS_DB,
    METADATA_DB,
    REP_GROUP_DB,
    RESERVED_FILES_DB,
    VLSN_MAP_DB,
)
from je_tools.formats.je.internal.records import (
    RECORD_DATABASES,
    InternalRecord,
    Unreadable,
    database_key,
    read_record,
)
from je_tools.formats.je.internal.replication import (
    GhostBucket,
    RepGroup,
    RepNode,
    VlsnBucket,
    VlsnRange,
)
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.tuples import TupleError, long_key, string_key
from je_tools.formats.je.types import ENTRY_TYPES, Family
from tests.corpus import FIXTURES, Environment, environments_in, log_files
from tests.formats.logs import log_rows

LN_TYPES = [each.no for each in ENTRY_TYPES.values() if each.family is Family.LN]
NAME_TYPES = [each.no for each in ENTRY_TYPES.values() if each.family is Family.NAME_LN]
SUMMARY_TYPES = [e.no for e in ENTRY_TYPES.values() if e.family is Family.FILE_SUMMARY_LN]
MAP_TYPES = [each.no for each in ENTRY_TYPES.values() if each.family is Family.MAP_LN]


class Logged(NamedTuple):
    """A record of an internal database as an LN holds it; `data` is empty for a deletion."""

    lsn: int
    database: str
    key: bytes
    data: bytes


def _rows_of(rows: Rows, types: list[int]) -> list[int]:
    found: list[int] = np.flatnonzero(np.isin(rows.type, types)).tolist()
    return found


def _of_databases(rows: Rows, ids: dict[int, str]) -> Iterator[tuple[int, str]]:
    """Yield the row of each LN of the given databases, and the database's name."""
    lns = np.flatnonzero(np.isin(rows.type, LN_TYPES))
    wanted = frozenset({"db_id"})
    fields = decode(rows.select(lns), Family.LN, wanted=wanted).fields
    db_ids = fields.number("db_id")
    for row in np.flatnonzero(np.isin(db_ids, list(ids))).tolist():
        yield int(lns[row]), ids[int(db_ids[row])]


def logged(environment: Environment) -> Iterator[Logged]:
    """Yield every record that a log holds of the databases with typed records."""
    ids: dict[int, str] = {}
    for path in log_files(environment.home):
        for rows in log_rows(path):
            for row in _rows_of(rows, NAME_TYPES):
                fields = decode_entry(rows.entry_bytes(row), rows.version).fields
                name = (fields["key"] or b"").decode()
                if name in RECORD_DATABASES:
                    ids[fields["name_db_id"]] = name
            for row, database in _of_databases(rows, ids):
                fields = decode_entry(rows.entry_bytes(row), rows.version).fields
                data = fields["data"]
                yield Logged(int(rows.lsn[row]), database, fields["key"], data or b"")


def test_logged_records_there_and_back(environment: Environment) -> None:
    for each in logged(environment):
        if not each.data:
            continue
        record = read_record(each.database, each.key, each.data)
        assert not isinstance(record, Unreadable), each
        assert record.encode() == (each.key, each.data), each


def test_keys_of_summaries_and_databases(environment: Environment) -> None:
    for path in log_files(environment.home):
        for rows in log_rows(path):
            for row in _rows_of(rows, SUMMARY_TYPES):
                fields = decode_entry(rows.entry_bytes(row), rows.version).fields
                key = FileSummaryKey.decode(fields["key"])
                assert key.encode() == fields["key"]
                if fields.get("summary"):
                    names = ("total_count", "obsolete_ln_count", "obsolete_in_count")
                    # The counts may grow after the engine makes the key, before it makes the data.
                    assert key.sequence <= sum(fields["summary"][name] for name in names)
            for row in _rows_of(rows, MAP_TYPES):
                fields = decode_entry(rows.entry_bytes(row), rows.version).fields
                key_of_map = fields["key"]
                assert database_key(int(key_of_map)) == key_of_map
                if fields.get("database"):
                    assert database_key(fields["database"]["id"]) == key_of_map


def _as_shown(lsn: int, record: InternalRecord | Unreadable) -> str:
    """Format a record of the VLSN index as the engine's tool does."""
    where = f"LSN=0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:x}"
    if isinstance(record, VlsnRange):
        shown = (record.first, record.last, record.last_sync, record.last_txn_end)
        return "{} range: first={} last={} sync={} txnEnd={}".format(where, *shown)
    assert isinstance(record, VlsnBucket)
    end = f"0x{record.last_lsn >> 32:x}/0x{record.last_lsn & 0xFFFFFFFF:x}"
    return (
        f"{where} key={record.first} <VLSNBucket fileNum={record.file_no}(0x{record.file_no:x}) "
        f"numOffsets={len(record.offsets)} stride={record.stride} firstVLSN={record.first} "
        f"lastVLSN={record.last} lastLsn={end}/>"
    )


def test_the_vlsn_index_as_the_engine_shows_it(environment: Environment) -> None:
    records = [
        _as_shown(each.lsn, read_record(VLSN_MAP_DB, each.key, each.data))
        for each in logged(environment)
        if each.database == VLSN_MAP_DB and each.data
    ]
    truth = environment.truth and environment.truth / "vlsnindex.txt"
    if truth and truth.is_file():
        lines = truth.read_text().replace(",", "").splitlines()
        assert sorted(records) == sorted(line for line in lines if line.startswith("LSN="))


def test_fixtures_hold_such_records() -> None:
    every = environments_in(FIXTURES)
    counts = Counter(one.database for each in every for one in logged(each) if one.data)
    assert counts.keys() >= {VLSN_MAP_DB, REP_GROUP_DB, METADATA_DB, EXTINCT_SCANS_DB}


GROUP_ID = uuid.UUID("12345678-9abc-def0-8123-456789abcdef")


def test_the_examples_of_the_format_page() -> None:
    data = bytes.fromhex("80ffff0400010206")
    record = read_record(RESERVED_FILES_DB, long_key(9), data)
    assert record == ReservedFile(9, 0, -1, -1, (0, 1, 2, 6))
    record = read_record(RESERVED_FILES_DB, long_key(9), bytes.fromhex("800179790e00"))
    assert record == ReservedFile(9, 0, 1, 3824, ())
    record = read_record(EXTINCT_SCANS_DB, b"\x80", bytes.fromhex("010006"))
    assert record == DatabaseExtinction(1, 0, 6)
    data = bytes.fromhex("800001a1fb415af4800001a1fb4199747ad88a5b01000101")
    state = read_record(METADATA_DB, b"eraser", data)
    assert isinstance(state, EraserState)
    assert (state.completed, state.pending, state.version) == ((0,), (1,), None)
    data = bytes.fromhex("01ffffffff")
    assert read_record(VLSN_MAP_DB, long_key(-1), data) == VlsnRange(1, -1, -1, -1, -1)


WRITTEN: list[tuple[str, InternalRecord]] = [
    (EXPIRATION_DB, Expirations(3, False, ())),
    (EXPIRATION_DB, Expirations(3, True, ((499_000, 7), (499_001, 120)))),
    (EXTINCT_SCANS_DB, DatabaseExtinction(-5, 0, -300)),
    (
        EXTINCT_SCANS_DB,
        RecordExtinction(200, 0, True, (5, 7, 300), b"a", b"", b"\0filter", "old", 7, b"k"),
    ),
    (EXTINCT_SCANS_DB, RecordExtinction(1, 0, False, (), b"", b"", b"", None, 0, b"")),
    (REP_GROUP_DB, RepGroup("group", GROUP_ID, 3, 4, 5, "7.5.11")),
    (REP_GROUP_DB, RepGroup("group", GROUP_ID, 2, 4, 5, None)),
    (REP_GROUP_DB, RepNode("n1", 4, 3, 1, True, False, "host", 5001, -1, 0, 2, "18.3.12")),
    (REP_GROUP_DB, RepNode("n1", 4, None, 1, True, True, None, 5001, -1, 0, 2, None)),
    (VLSN_MAP_DB, VlsnBucket(1, 0, 10, 1, 25, 0x2196, (0x695, 0, 0xFFFFFFFF))),
    (VLSN_MAP_DB, GhostBucket(1, 77, 0x100, 0x200)),
    (METADATA_DB, EraserState(1, 2, 3, (0, 4), (5,), 1, 0x1234)),
]


@pytest.mark.parametrize(("database", "record"), WRITTEN)
def test_there_and_back(database: str, record: InternalRecord) -> None:
    key, data = record.encode()
    assert read_record(database, key, data) == record


@pytest.mark.parametrize(("database", "record"), WRITTEN)
def test_cut_short_or_with_bytes_over(database: str, record: InternalRecord) -> None:
    key, data = record.encode()
    for size in range(1, len(data)):
        cut = read_record(database, key, data[:size])
        # Expirations and older records of the eraser may validly end earlier.
        assert isinstance(cut, Unreadable) or cut.encode() == (key, data[:size])
    if not isinstance(record, Expirations):
        assert isinstance(read_record(database, key, data + b"\1"), Unreadable)
    assert isinstance(read_record(database, key + b"x", data), Unreadable)


@given(st.sampled_from(RECORD_DATABASES), st.binary(max_size=9), st.binary(max_size=60))
def test_any_bytes(database: str, key: bytes, data: bytes) -> None:
    keys = (key, long_key(1), long_key(-1), b"eraser", b"\x80", string_key("$$GROUP_KEY$$"))
    for each in keys:
        read_record(database, each, data)


def test_a_count_that_does_not_fit_sizes_nothing() -> None:
    data = b"\x80\x01\x02" + bytes.fromhex("7effffffffffff7f")
    record = read_record(RESERVED_FILES_DB, long_key(0), data)
    assert isinstance(record, Unreadable)
    assert "do not fit" in record.reason


def test_expired_bytes_by_hours_and_by_days() -> None:
    hour = 3_600_000
    hours = Expirations(0, True, ((100, 7), (101, 20)))
    assert [hours.expired_size(hour * n + 1) for n in (99, 100, 101)] == [0, 7, 27]
    days = Expirations(0, False, ((4, 7), (5, 20)))
    assert [days.expired_size(hour * n) for n in (95, 96, 119, 120)] == [0, 7, 7, 27]


def test_not_the_key_of_a_summary() -> None:
    with pytest.raises(TupleError):
        FileSummaryKey.decode(b"00000001x")
