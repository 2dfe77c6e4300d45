"""The second opinion on recovery, on databases whose contents are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.logs import LogFile, packed, write_log
from tests.corpus import Environment, marked_if_another, recorded_environments
from tests.truth.contents import Contents, Refusal, parse_contents, read_contents
from tests.truth.lns import split_two_part
from tests.truth.replay import newest_time_ms, replay

DB_TREE, COMMIT, INS_LN_TX, DEL_LN_TX, UPD_LN, ROLLBACK_START = 16, 17, 33, 31, 36, 28
MAP_LN, NAME_LN_TX = 4, 5
USER_DB = 6

_CASES = [
    pytest.param(each, path, id=each.name, marks=marked_if_another(each))
    for each, path in recorded_environments()
]


@pytest.mark.parametrize(("environment", "path"), _CASES)
def test_recorded_contents(environment: Environment, path: Path) -> None:
    replayed = replay(environment.home, newest_time_ms(environment.home))
    if replayed.doubts:
        assert expected_doubt(environment.name), replayed.doubts
        return
    assert replayed.contents == read_contents(path)


def expected_doubt(name: str) -> bool:
    """Return whether an environment is no complete log of a supported version."""
    return name.startswith("v6-") or "-cleaned" in name or "-erase-" in name


def ln(key: bytes, data: bytes | None, txn: int | None, db: int = USER_DB) -> bytes:
    """Return a record of log version 17, without flags."""
    head = bytes([0, 0]) + packed(db) + (packed(txn) + b"\xff" if txn is not None else b"")
    return head + (b"\xff" if data is None else packed(len(data)) + data) + key


def named(name: bytes, db: int, txn: int) -> bytes:
    """Return the NameLN_TX of a database, without operation."""
    body = b"\0\0" + packed(1) + packed(txn) + b"\xff" + b"\0" + packed(db) + b"\0"
    return body + packed(len(name)) + name + b"\0"


def mapped(db: int, flags: int) -> bytes:
    """Return the MapLN of a database that has no root."""
    record = packed(db) + packed(1) + b"x" + b"\0" + bytes([flags]) + b"\0\0" + b"\x7f" + b"\x11\0"
    return b"\0\0\0\0" + record + b"\0" + str(db).encode()


def commit(txn: int) -> bytes:
    """Return a Commit."""
    return b"\xff" + packed(txn) + packed(1_700_000_000_000 + txn) + b"\0\0"


def log_with(folder: Path, *entries: tuple[int, bytes], dups: bool = False) -> Path:
    """Write a log with one database, `db`, and these entries after it."""
    file = LogFile(0)
    file.add(DB_TREE, b"root")
    file.add(NAME_LN_TX, named(b"db", USER_DB, 1))
    file.add(MAP_LN, mapped(USER_DB, int(dups)))
    file.add(COMMIT, commit(1))
    for type_no, item in entries:
        file.add(type_no, item)
    return write_log(folder, [file])


def contents(home: Path) -> Contents:
    """Return the contents of a log; the replay must have no doubts."""
    replayed = replay(home, 0)
    assert not replayed.doubts
    assert not replayed.unsure
    assert not isinstance(replayed.contents, Refusal)
    return replayed.contents


def test_only_committed_and_newest(tmp_path: Path) -> None:
    home = log_with(
        tmp_path / "log",
        (INS_LN_TX, ln(b"b", b"first", 2)),
        (INS_LN_TX, ln(b"a", b"kept", 2)),
        (INS_LN_TX, ln(b"gone", b"", 2)),
        (COMMIT, commit(2)),
        (INS_LN_TX, ln(b"a", b"open", 3)),
        (INS_LN_TX, ln(b"b", b"second", 4)),
        (DEL_LN_TX, ln(b"gone", None, 4)),
        (COMMIT, commit(4)),
    )
    assert contents(home) == {"db": [(b"a", b"kept"), (b"b", b"second")]}
    assert newest_time_ms(home) == 1_700_000_000_004


def test_rolled_back(tmp_path: Path) -> None:
    """Writes after the matchpoint are undone, although the transaction commits later."""
    before = log_with(tmp_path / "before", (INS_LN_TX, ln(b"a", b"1", -11)))
    matchpoint = len((before / "00000000.jdb").read_bytes())
    period = packed(5) + packed(matchpoint) + packed(0) + packed(1) + packed(-11)
    home = log_with(
        tmp_path / "log",
        (INS_LN_TX, ln(b"a", b"1", -11)),
        (INS_LN_TX, ln(b"matchpoint", b"", -12)),
        (INS_LN_TX, ln(b"a", b"2", -11)),
        (ROLLBACK_START, period),
        (COMMIT, commit(-11)),
    )
    assert contents(home) == {"db": [(b"a", b"1")]}


def test_duplicates(tmp_path: Path) -> None:
    one, other = b"key" + b"data" + b"\x03", b"key" + b"" + b"\x03"
    lns = [(INS_LN_TX, ln(each, b"", 2)) for each in (one, other)]
    home = log_with(tmp_path / "log", *lns, (COMMIT, commit(2)), dups=True)
    assert contents(home) == {"db": [(b"key", b""), (b"key", b"data")]}


def test_two_part_key_longer_than_a_byte_tells() -> None:
    for size in (0, 119, 120, 374, 375, 70_000):
        key = bytes(size)
        assert split_two_part(key + b"data" + packed(size)[::-1]) == (key, b"data")


def test_moved_record_and_one_outside_of_transactions(tmp_path: Path) -> None:
    written = [(INS_LN_TX, ln(b"a", b"1", 2)), (COMMIT, commit(2))]
    moved = log_with(tmp_path / "moved", *written, (UPD_LN, ln(b"a", b"1", None)))
    assert contents(moved) == {"db": [(b"a", b"1")]}
    other = log_with(tmp_path / "other", *written, (UPD_LN, ln(b"a", b"2", None)))
    assert replay(other, 0).unsure == {"db": "written outside of transactions"}


@pytest.mark.parametrize("logged", [20_000, -480_000, 480_000, 480_000 * 24, -480_000 * 576])
def test_expiration(logged: int, tmp_path: Path) -> None:
    """Expirations are in days, in hours, or multiplied by some engines."""
    item = b"\x80\0" + packed(USER_DB) + packed(2) + b"\xff" + packed(logged) + packed(1) + b"1a"
    home = log_with(tmp_path / "log", (INS_LN_TX, item), (COMMIT, commit(2)))
    expires_ms = 480_000 * 3_600_000
    assert replay(home, expires_ms).contents == {"db": [(b"a", b"1")]}
    assert replay(home, expires_ms + 1).contents == {"db": []}


def test_end_of_log(tmp_path: Path) -> None:
    """A damaged entry in the last file ends the log; so does a file that is no valid next one."""
    home = log_with(tmp_path / "log", (INS_LN_TX, ln(b"a", b"1", 2)), (COMMIT, commit(2)))
    path = home / "00000000.jdb"
    whole = path.read_bytes()
    (home / "00000001.jdb").write_bytes(b"short")
    assert contents(home) == {"db": [(b"a", b"1")]}
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert contents(home) == {"db": []}
    path.write_bytes(whole[:50])
    assert replay(home, 0).contents == Refusal("open", "no root")
    path.write_bytes(bytes(14) + whole[14:])
    assert replay(home, 0).contents == Refusal("open", "file header", "the header of 00000000.jdb")
    path.write_bytes(whole[:20])
    assert replay(home, 0).contents == Refusal("open", "no log")


def test_doubts(tmp_path: Path) -> None:
    home = log_with(tmp_path / "log", (INS_LN_TX, ln(b"a", b"1", 2)), (COMMIT, commit(2)))
    (home / "00000000.jdb").rename(home / "00000001.jdb")
    assert isinstance(replay(home, 0).contents, Refusal)
    later = LogFile(3)
    later.add(DB_TREE, b"root")
    assert replay(write_log(tmp_path / "later", [later]), 0).doubts == ["files are missing"]
    foreign = log_with(tmp_path / "foreign")
    path = foreign / "00000000.jdb"
    other = LogFile(0)
    place = other.add(COMMIT, commit(7))
    path.write_bytes(path.read_bytes() + other.data[place.start : place.stop] * 2)
    assert replay(foreign, 0).doubts[0].startswith("foreign bytes at")


def test_damage_in_an_earlier_file(tmp_path: Path) -> None:
    home = log_with(tmp_path / "log")
    next_file = LogFile(1)
    next_file.add(COMMIT, commit(9))
    (home / "00000001.jdb").write_bytes(next_file.data)
    assert replay(home, 0).doubts == []
    path = home / "00000000.jdb"
    path.write_bytes(path.read_bytes()[:-1])
    assert replay(home, 0).doubts == ["damage in file 0"]


@pytest.mark.parametrize("line", ["00\t00", "#db\ta\n00", "#db\ta\n0g\t00", "#db\ta\n#db\ta"])
def test_lines_that_are_no_contents(line: str) -> None:
    with pytest.raises(ValueError, match=r"not a record|fromhex"):
        parse_contents(line.split("\n"))


def test_lines_of_a_refusal() -> None:
    lines = ["#db\ta\n", "00\t\n", "#refused\tread\tSomeException\twhy\n"]
    assert parse_contents(lines) == Refusal("read", "SomeException", "why")
    assert parse_contents(lines[:2]) == {"a": [(b"\0", b"")]}
