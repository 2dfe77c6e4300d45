"""`dump --follow`: a log that grows entry by entry, across files, and causes that stop it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from je_tools.dump import tail as following
from je_tools.dump.entries import Dump, Encoded, read_names_and_times
from je_tools.dump.tail import FollowedLog, follow
from je_tools.errors import StoppedError
from je_tools.findings import Finding
from je_tools.log.entry_table import EntryTable
from je_tools.log.opening import open_environment
from je_tools.log.parsing import parse_types
from je_tools.log.scan import Scanner
from je_tools.log.selection import Selection
from je_tools.log.time_filter import Window
from je_tools.verify.totals import FIRST, Totals
from tests.builders.logs import CREATED_MS, LogFile, packed, random_log, write_log
from tests.builders.trees import rooted
from tests.je_tools.dumped import dump_rows, je_tools, rows_of

LSNS = list[int]


class Grower:
    """Writer of a growing log, one more piece each time that the follower sleeps."""

    def __init__(self, home: Path, files: list[LogFile], cuts: Iterator[int]) -> None:
        self.home = home
        home.mkdir()
        self.left = [(home / file.name, bytes(file.data)) for file in files]
        self.cuts = cuts
        self.sleeps_at_end = 0
        self.grow()

    def grow(self, _seconds: float = 0) -> None:
        """Append some bytes, perhaps into the next files; interrupt at the end of the log."""
        if not self.left:
            self.sleeps_at_end += 1
            if self.sleeps_at_end > 2:
                raise KeyboardInterrupt
            return
        count = next(self.cuts)
        while count > 0 and self.left:
            path, data = self.left.pop(0)
            with path.open("ab") as out:
                out.write(data[:count])
            if data[count:]:
                self.left.insert(0, (path, data[count:]))
            count -= len(data)


def cuts_of(rng: random.Random) -> Iterator[int]:
    # At least a file header, so that there is a log.
    yield rng.randrange(38, 500)
    while True:
        yield rng.choice([1, 13, 14, 40, rng.randrange(1, 2000), rng.randrange(1, 9000)])


def lsns_in(files: list[LogFile]) -> LSNS:
    return [file.no << 32 | place.start for file in files for place in file.placed]


def lsns_of(table: EntryTable) -> LSNS:
    return table.rows.lsn.tolist()


def followed(
    home: Path, selection: Selection, limit: int | None = None
) -> tuple[FollowedLog, Iterator[Encoded[LSNS]]]:
    """Return the reading and all pieces of a dump that follows the log from its beginning."""
    environment = open_environment([home])
    scanner = Scanner()
    reading = FollowedLog([home], environment)
    selection = read_names_and_times(environment, selection, scanner).selection
    dump = Dump(selection, lsns_of, scanner, limit=limit)

    def pieces() -> Iterator[Encoded[LSNS]]:
        left = limit
        for piece in dump.run(environment, reading.on_file_end):
            left = None if left is None else left - piece.count
            yield piece
        if left != 0:
            yield from follow(dump, reading, left)

    return reading, pieces()


def collect(pieces: Iterator[Encoded[LSNS]]) -> LSNS:
    """Return the LSNs of the pieces up to the interrupt at the end of the log."""
    found: LSNS = []
    try:
        for piece in pieces:
            assert piece.count == len(piece.content)
            found += piece.content
    except KeyboardInterrupt:
        return found
    return found


@pytest.mark.parametrize("seed", range(25))
def test_each_entry_once_however_the_log_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Growth stops inside entries and headers, adds several files at once, or empty ones."""
    rng = random.Random(seed)
    files = random_log(rng, rng.randrange(1, 6), rng.choice([0, 3, 40]))
    grower = Grower(tmp_path / "env", files, cuts_of(rng))
    monkeypatch.setattr(following, "sleep", grower.grow)
    reading, pieces = followed(grower.home, Selection())
    assert collect(pieces) == lsns_in(files)
    assert not any(state.gaps for state in reading.states.values())
    assert [state.tail for state in reading.states.values()] == [len(f.data) for f in files]


@pytest.mark.parametrize("limit", [1, 7, 60])
def test_a_limit_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    rng = random.Random(limit)
    files = random_log(rng, 3, 30)
    grower = Grower(tmp_path / "env", files, cuts_of(rng))
    monkeypatch.setattr(following, "sleep", grower.grow)
    _, pieces = followed(grower.home, Selection(), limit)
    found = [lsn for piece in pieces for lsn in piece.content]
    assert found == lsns_in(files)[:limit]


def test_a_limit_counts_what_is_selected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    files = random_log(rng, 4, 20)
    grower = Grower(tmp_path / "env", files, cuts_of(rng))
    monkeypatch.setattr(following, "sleep", grower.grow)
    _, pieces = followed(grower.home, Selection(types=parse_types(["FileHeader"])), 3)
    found = [lsn for piece in pieces for lsn in piece.content]
    assert found == [file.no << 32 for file in files[:3]]


def test_times_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record has the time of its commit if both come in one poll, else the last time before."""
    file = LogFile(0, 17)
    late = CREATED_MS + 60_000

    def commit(txn: int, time_ms: int) -> None:
        file.add(17, packed(-1) + packed(txn) + packed(time_ms) + packed(-1) + packed(0))

    def record(txn: int) -> int:
        head = bytes(2) + packed(9) + packed(txn) + packed(-1)
        return file.add(33, head + packed(1) + b"vk").start

    wanted = []
    record(1)
    commit(1, CREATED_MS + 1)
    first = len(file.data)
    record(2)
    commit(2, late - 1)
    second = len(file.data) - first
    wanted.append(record(3))  # its commit comes within the same poll
    wanted.append(file.last + len(file.data) - file.placed[-1].start)
    commit(3, late)
    third = len(file.data) - first - second
    wanted.append(record(4))  # unfinished: the last time before it comes from an earlier poll
    grower = Grower(tmp_path / "env", [file], iter([first, second, third, 1 << 20]))
    monkeypatch.setattr(following, "sleep", grower.grow)
    _, pieces = followed(grower.home, Selection(window=Window(late, None)))
    assert collect(pieces) == wanted


def test_a_log_that_is_cut_back_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback of the engine does this; later bytes belong to another log."""
    (file,) = random_log(random.Random(1), 1, 30)
    grower = Grower(tmp_path / "env", [file], iter([1 << 20]))
    path = grower.home / file.name
    monkeypatch.setattr(
        following, "sleep", lambda _: path.write_bytes(file.data[: file.placed[9].stop])
    )
    _, pieces = followed(grower.home, Selection())
    with pytest.raises(StoppedError, match=r"cut back from \d+ to \d+ bytes.*start again"):
        list(pieces)


def test_a_log_that_is_gone_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = random_log(random.Random(1), 2, 5)
    grower = Grower(tmp_path / "env", files, iter([1 << 20]))
    monkeypatch.setattr(following, "sleep", lambda _: (grower.home / files[1].name).unlink())
    _, pieces = followed(grower.home, Selection())
    with pytest.raises(StoppedError, match="vanished while it was followed"):
        list(pieces)


def test_old_files_may_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's cleaner deletes files, even between a listing and the opening of its files."""
    rng = random.Random(3)
    files = random_log(rng, 5, 10)
    grower = Grower(tmp_path / "env", files, cuts_of(rng))
    real = following.open_environment

    def opened(paths: Any, known: Any, **options: Any) -> Any:
        environment = real(paths, known, **options)
        if len(environment.files) > 2:
            environment.files[0].path.unlink()
            raise StoppedError("vanished while the directory was read")
        return environment

    monkeypatch.setattr(following, "open_environment", opened)
    monkeypatch.setattr(following, "sleep", grower.grow)
    _, pieces = followed(grower.home, Selection())
    assert collect(pieces) == lsns_in(files)


# The command


def follow_by_command(
    home: Path, files: list[LogFile], monkeypatch: pytest.MonkeyPatch, *options: str
) -> Any:
    grower = Grower(home, files, cuts_of(random.Random(8)))
    monkeypatch.setattr(following, "sleep", grower.grow)
    return je_tools("dump", home, "--follow", *options)


def test_interrupted_it_has_shown_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = random_log(random.Random(2), 3, 30)
    rooted(files[-1])
    home = tmp_path / "env"
    done = follow_by_command(home, files, monkeypatch, "--format", "jsonl")
    assert (done.code, done.err.strip()) == (130, "interrupted")
    assert rows_of(done.out) == dump_rows(home)


def with_a_new_database() -> list[LogFile]:
    """Build a log in which database 77 gets the name `news` before its only record."""
    file = LogFile(0, 17)
    name_ln = bytes(2) + packed(1) + packed(0) + packed(77) + b"\0" + packed(4) + b"news" + b"\0"
    file.trace(3000)
    file.add(6, name_ln)
    file.trace(3000)
    file.add(34, bytes(2) + packed(77) + packed(1) + b"vk")
    return [file]


def test_names_of_databases_that_are_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = with_a_new_database()
    done = follow_by_command(tmp_path / "env", files, monkeypatch, "--format", "jsonl")
    assert rows_of(done.out)[-1]["db"] == "news"


def test_a_database_may_be_made_while_its_entries_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--format", "jsonl", "--db", "news"]
    done = follow_by_command(tmp_path / "env", with_a_new_database(), monkeypatch, *options)
    assert [(row["db_id"], row["db"]) for row in rows_of(done.out)] == [(77, "news")]


def test_behind_the_last_lsn_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = random_log(random.Random(2), 3, 30)
    last = files[1].placed[4]
    options = ["--format", "jsonl", "--to-lsn", f"0x{files[1].no:x}/0x{last.start:x}"]
    done = follow_by_command(tmp_path / "env", files, monkeypatch, *options)
    assert done.code == 0
    assert len(rows_of(done.out)) == len(files[0].placed) + 5


@pytest.mark.parametrize("what", ["replaced", "vanished"])
def test_another_file_in_its_place_or_none_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    (file,) = random_log(random.Random(1), 1, 30)
    home = tmp_path / "env"
    home.mkdir()
    path = home / file.name
    path.write_bytes(file.data)

    def change(_: float) -> None:
        path.rename(tmp_path / "kept")
        if what == "replaced":
            path.write_bytes(file.data + file.data)

    monkeypatch.setattr(following, "sleep", change)
    done = je_tools("dump", home, "--follow", "--format", "jsonl")
    assert done.code == 5
    assert f"{what} while it was followed" in done.err


@pytest.mark.parametrize("limit", ["1", "5", "50"])
def test_a_limit_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    files = random_log(random.Random(2), 3, 30)
    home = tmp_path / "env"
    options = ["--limit", limit, "--format", "csv"]
    done = follow_by_command(home, files, monkeypatch, *options)
    assert (done.code, done.err) == (0, "")
    assert done.out.count(b"\n") == 1 + int(limit)


def test_damage_that_came_meanwhile_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = random_log(random.Random(2), 2, 30)
    hurt = files[0].placed[20]
    files[0].data[hurt.start + 5 : hurt.start + 14] = b"\xff" * 9
    done = follow_by_command(tmp_path / "env", files, monkeypatch, "--format", "jsonl")
    assert done.code == 130
    assert done.err.count(f"0x{files[0].no:x}/0x{hurt.start:x}") == 1
    assert len(rows_of(done.out)) == len(lsns_in(files)) - 1


class Told:
    """Codes of findings reported while a log grew, with the bytes not yet written at each."""

    def __init__(self, grower: Grower) -> None:
        self.grower = grower
        self.codes: list[str] = []
        self.left: list[int] = []

    def __call__(self, found: list[Finding]) -> None:
        self.codes += [each.code for each in found]
        self.left += [sum(len(data) for _, data in self.grower.left)] * len(found)


def told_while_growing(
    home: Path, files: list[LogFile], cuts: Iterator[int], monkeypatch: pytest.MonkeyPatch
) -> tuple[Told, Totals]:
    """Follow a log to its end; return what was reported meanwhile, and the totals."""
    grower = Grower(home, files, cuts)
    told = Told(grower)
    monkeypatch.setattr(following, "sleep", grower.grow)
    environment = open_environment([home])
    reading = FollowedLog([home], environment)
    dump = Dump(Selection(), lsns_of, Scanner())

    def pieces() -> Iterator[Encoded[LSNS]]:
        yield from dump.run(environment, reading.on_file_end)
        yield from follow(dump, reading, report=told)

    collect(pieces())
    return told, reading.totals()


@pytest.mark.parametrize("seed", range(10))
def test_damage_is_told_once_when_it_is_certain(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged entry is reported once the next has come, a short file once the next file has."""
    files = random_log(random.Random(seed), 4, 30)
    hurt = files[1].placed[10]
    files[1].data[hurt.stop - 1] ^= 1
    del files[2].data[-5:]
    cuts = cuts_of(random.Random(seed))
    told, totals = told_while_growing(tmp_path / "env", files, cuts, monkeypatch)
    assert told.codes == ["damaged-entry", "truncated-file"]
    assert totals.errors == 2
    rest = sum(len(file.data) for file in files[2:])
    # The next poll may come 9,000 bytes later.
    assert rest < told.left[0] + 9000
    assert len(files[3].data) < told.left[1] + 9000 + 38


def test_what_grows_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds at every length, from an empty file on."""
    files = random_log(random.Random(4), 2, 2)
    home = tmp_path / "env"
    told, totals = told_while_growing(home, files, iter([38, *[1] * 20_000]), monkeypatch)
    assert (told.codes, totals.errors) == ([], 0)


def test_damage_in_front_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many findings are counted, and reported ones count even if the cleaner deletes the file."""
    files = random_log(random.Random(2), 2, 60)
    for place in files[0].placed[1:55:2]:
        files[0].data[place.stop - 1] ^= 1
    home = write_log(tmp_path / "env", files)
    files.append(files[1].follower())

    def clean(_: float) -> None:
        (home / files[0].name).unlink(missing_ok=True)
        write_log(home, files[2:])

    monkeypatch.setattr(following, "sleep", clean)
    count = len(lsns_in(files[:2])) + 1
    done = je_tools("dump", home, "--follow", "--format", "jsonl", "--limit", str(count))
    assert (done.code, len(rows_of(done.out))) == (3, count)
    assert done.err.count("error: damaged-entry") == FIRST
    assert done.err.splitlines()[FIRST:] == [
        f"je-tools: {27 - FIRST} more; `je-tools verify` reports all damage, and what to do",
        "je-tools: `je-tools verify` reports all damage, and what to do",
    ]
