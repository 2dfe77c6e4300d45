"""Damage: the same for every command, and in logs that change while they are read."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from je_tools.dump.tail import FollowedLog
from je_tools.errors import InputError, StoppedError
from je_tools.files.listing import list_files
from je_tools.formats import _native
from je_tools.formats.je.log import reader
from je_tools.log.file_scan import FileState
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.verify import damage
from je_tools.verify import judge as verify
from je_tools.verify.judge import UNKNOWN_PROCESS, lock_holder
from je_tools.verify.state_findings import file_findings
from je_tools.verify.totals import FIRST, Totals
from tests.builders.logs import ERASED, OLD_DELTA, TRACE, LogFile, random_log, write_log
from tests.builders.trees import PROVISIONAL, TreeLog, rooted
from tests.damage.planted_cases import CASES
from tests.damage.planted_findings import PLANTED, log
from tests.damage.running import je_tools

OTHERS = {"summary": (), "files": (), "dump": ("--format", "jsonl")}
"""Commands with another purpose than `verify`, and their options."""

POINTER = "`je-tools verify` reports"


def check(command: str, code: int, *paths: Path) -> None:
    """Check that a command reports damage by its exit code and in words."""
    outcome = je_tools(command, *OTHERS[command], *paths)
    assert outcome.code == code, outcome.err
    if code:
        assert POINTER in outcome.err
    assert je_tools(command, *OTHERS[command], "--exit-zero", *paths).code == 0


@pytest.mark.parametrize("command", OTHERS)
@pytest.mark.parametrize("code", sorted(PLANTED))
def test_what_verify_calls_damage_is_damage_everywhere(
    code: str, command: str, tmp_path: Path
) -> None:
    home, expected = PLANTED[code](tmp_path / "env")
    is_error = any(each.severity == "error" for each in expected)
    assert je_tools("verify", home).code == (3 if is_error else 0)
    check(command, 3 if is_error else 0, home)


@pytest.mark.parametrize("command", OTHERS)
@pytest.mark.parametrize("name", sorted(CASES))
def test_between_files_too(name: str, command: str, tmp_path: Path) -> None:
    make, code = CASES[name]
    paths = make(tmp_path / "env")
    assert je_tools("verify", *paths).code == code
    check(command, code, *paths)


def test_files_of_data_directories_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    make, _ = CASES["data-directories"]
    (home,) = make(tmp_path / "env")
    rows = je_tools("files", home, "--format", "jsonl").rows
    assert [row["file_no"] for row in rows] == [0, 1, 2, 3, 4]
    (home / "data002" / "00000001.jdb").rename(home / "data001" / "00000001.jdb")
    (row,) = je_tools("verify", home, "--format", "jsonl").rows
    assert (row["code"], row["file_no"], row["expected"]) == ("misplaced-file", 1, "data002")


def test_old_deltas_are_counted_over_ranges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file has one finding, at its first old delta; a file of another version has none."""
    monkeypatch.setattr("je_tools.formats.je.log.reader.RANGE_SIZE", 64)
    files = [rooted(LogFile(0, 7))]
    files[0].add(OLD_DELTA, bytes(5))
    files.append(LogFile(1, 8, files[0].last))
    files[1].trace(300)
    first = files[1].add(OLD_DELTA, bytes(5)).start
    files[1].trace(300)
    files[1].add(OLD_DELTA, bytes(5))
    files.append(files[1].follower())
    home = write_log(tmp_path / "env", files)
    step, told, older = je_tools("verify", home, "--format", "jsonl").rows
    assert (step["code"], older["code"]) == ("version-step", "old-form-to-replay")
    assert (told["code"], told["severity"]) == ("old-delta-in-v8", "warning")
    assert (told["file_no"], told["offset"], told["length"]) == (1, first, None)
    assert told["found"] == "2 old BIN-deltas, the first one here"


@pytest.mark.parametrize("name", sorted([*PLANTED, *CASES]))
def test_files_puts_each_finding_on_the_row_of_its_file(name: str, tmp_path: Path) -> None:
    home = tmp_path / "env"
    paths = CASES[name][0](home) if name in CASES else [PLANTED[name](home)[0]]
    rows = list_files(open_environment(paths), Scanner())
    of_files = [(row.file.file_no, found) for row in rows for found in row.findings]
    assert all(found.file_no == number for number, found in of_files)
    numbers = {row.file.file_no for row in rows}
    assert all(found.file_no not in numbers for row in rows for found in row.of_directory)


def test_files_of_one_number_are_told_apart(tmp_path: Path) -> None:
    home, _ = PLANTED["duplicate-file"](tmp_path / "env")
    rows = je_tools("files", home, "--format", "jsonl").rows
    files = [row for row in rows if "section" not in row]
    assert [(row["name"], row["findings"]) for row in files] == [
        ("00000000.jdb", ["misplaced-file"]),
        ("data001/00000000.jdb", ["duplicate-file"]),
    ]
    findings = [row["code"] for row in rows if row.get("section") == "findings"]
    assert findings == ["misplaced-file", "duplicate-file"]


# Logs that change, and inputs that cannot be read


def remove(path: Path) -> None:
    path.unlink()


def shorten(path: Path) -> None:
    os.truncate(path, 60)


def when_scanned(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> None:
    """Run a change between the scan of a file and the second reading of its damage."""
    real = damage.reopened

    def changed(path: Path, size: int = 0) -> Any:
        change()
        monkeypatch.setattr(damage, "reopened", real)
        return real(path, size)

    monkeypatch.setattr(damage, "reopened", changed)


@pytest.mark.parametrize("change", [remove, shorten])
@pytest.mark.parametrize("hurt", ["damaged-gap", "torn-tail"])
@pytest.mark.parametrize("command", ["verify", "summary", "files", "dump"])
def test_a_file_that_changes_behind_the_scan_stops_it(
    command: str,
    hurt: str,
    change: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home, _ = PLANTED[hurt](tmp_path / "env")
    path = home / "00000000.jdb"
    when_scanned(monkeypatch, lambda: change(path))
    outcome = je_tools(command, home)
    assert outcome.code == 5, outcome.err
    assert f"{path}: " in outcome.err
    assert "standard output" not in outcome.err


@pytest.mark.parametrize("command", ["verify", "summary", "files", "dump"])
def test_a_file_that_vanishes_when_it_is_opened(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It vanishes between the listing of the directory and the opening of the file."""
    home = write_log(tmp_path / "env", [log()])
    path = home / "00000000.jdb"
    real = _native.File

    def gone(name: Path) -> _native.File:
        if name == path:
            path.unlink(missing_ok=True)
        return real(name)

    monkeypatch.setattr(_native, "File", gone)
    outcome = je_tools(command, home)
    assert outcome.code == 5
    assert f"{path}: " in outcome.err


@pytest.mark.parametrize("command", ["verify", "summary", "files", "dump"])
@pytest.mark.parametrize("folder", ["", "data001"])
def test_a_directory_that_cannot_be_listed(
    command: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, _ = CASES["data-directories"]
    (home,) = make(tmp_path / "env")
    closed = home / folder if folder else home
    real = os.scandir

    def listed(path: Any) -> Any:
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", listed)
    outcome = je_tools(command, home)
    assert (outcome.code, outcome.out) == (4, b"")
    assert outcome.err == f"je-tools: {closed}: Permission denied\n"


# The writer


def held_by(monkeypatch: pytest.MonkeyPatch, kind: int, process: int) -> None:
    """Make the system answer that a process holds a lock."""
    flock = struct.Struct("hhqqi")

    def answer(_fd: int, command: int, asked: bytes) -> bytes:
        assert command == fcntl.F_GETLK
        assert len(asked) == flock.size
        return flock.pack(kind, os.SEEK_SET, 0, 1, process)

    monkeypatch.setattr(verify.fcntl, "fcntl", answer)


@pytest.mark.parametrize("process", [0, -1])
def test_a_writer_whose_number_is_not_known(
    process: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another pid namespace, as between containers, the system answers 0."""
    home = write_log(tmp_path / "env", [log()])
    (home / "je.lck").touch()
    held_by(monkeypatch, fcntl.F_WRLCK, process)
    assert lock_holder(home / "je.lck") == UNKNOWN_PROCESS
    (row,) = je_tools("verify", home, "--format", "jsonl").rows
    assert (row["code"], row["found"]) == ("live-writer", "a process holds je.lck")


def test_no_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = write_log(tmp_path / "env", [log()])
    assert lock_holder(home / "je.lck") is None
    (home / "je.lck").touch()
    assert lock_holder(home / "je.lck") is None
    held_by(monkeypatch, fcntl.F_UNLCK, 0)
    assert lock_holder(home / "je.lck") is None


def test_a_lock_file_that_is_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening it would wait for a writer forever, or read what was written for another reader."""
    home = write_log(tmp_path / "env", [log()])
    os.mkfifo(home / "je.lck")
    opened = []
    real, real_file = os.open, _native.File

    def noted(path: Any, *rest: Any, **named: Any) -> int:
        opened.append(Path(path).name)
        return real(path, *rest, **named)

    def noted_file(path: Path) -> _native.File:
        opened.append(path.name)
        return real_file(path)

    monkeypatch.setattr(os, "open", noted)
    monkeypatch.setattr(_native, "File", noted_file)
    assert je_tools("verify", home).code == 0
    assert "00000000.jdb" in opened
    assert "je.lck" not in opened


def test_a_last_file_that_went_when_all_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = write_log(tmp_path / "env", [log()])

    def gone(_path: Path) -> None:
        (home / "00000000.jdb").unlink()

    monkeypatch.setattr(verify, "lock_holder", gone)
    assert je_tools("verify", home).code == 0


# Many files


def test_many_files_do_not_cost_more_each(tmp_path: Path) -> None:
    """Finding the faults of one file does not examine all others."""

    def seconds(count: int) -> float:
        home = tmp_path / str(count)
        files = [LogFile(0)]
        for _ in range(count - 1):
            files.append(files[-1].follower())
        environment = open_environment([write_log(home, files)])
        reading = FollowedLog([home], environment)
        for file in environment.files:
            state = FileState(file, file.size, tail=file.size, last=0)
            reading.on_file_end(state)
        # Other work in the process only adds time, so the minimum of several runs counts.
        least = float("inf")
        for _ in range(5):
            started = time.process_time()
            for state in reading.states.values():
                assert file_findings(environment, state) == []
            least = min(least, time.process_time() - started)
        return least

    few, many = seconds(200), seconds(2000)
    assert many < 50 * few


@pytest.mark.parametrize("threads", [1, 4])
def test_totals_keep_the_first_findings(threads: int, tmp_path: Path) -> None:
    """Of a log full of damage a few findings are kept, and all are counted."""
    files = random_log(random.Random(threads), 2, 100)
    rooted(files[-1])
    for place in files[0].placed[1:-1:2]:
        files[0].data[place.stop - 1] ^= 1
    home = write_log(tmp_path / "env", files)
    totals = Totals("")
    scanner = Scanner(threads=threads)
    found = list(verify.verify(open_environment([home]), scanner, totals))
    assert totals.first == found[:FIRST]
    assert len(found) > FIRST
    assert totals.damage.codes == {"damaged-entry": len(found)}
    assert totals.damage.text() == f"damaged, {len(found)} errors: {len(found)} damaged-entry"


def test_reopened_files_say_why(tmp_path: Path) -> None:
    path = tmp_path / "00000000.jdb"
    with pytest.raises(StoppedError, match="removed"), damage.reopened(path):
        pass
    path.write_bytes(bytes(10))
    with pytest.raises(StoppedError, match="shrank from 11 to 10"), damage.reopened(path, 11):
        pass
    with pytest.raises(InputError), damage.reopened(tmp_path) as source:
        source.read_bytes(0, 10)


def test_erased_entries_that_touch_are_one_finding_over_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unrequested ranges are read one window at a time, and a run may be longer than a window."""
    file = log()
    starts = [file.add(ERASED, b"x" * 60).start for _ in range(50)]
    home = write_log(tmp_path / "env", [file])
    monkeypatch.setattr(reader, "SURVEY_WINDOW", 300)
    monkeypatch.setattr(reader, "_SLACK", 100)
    (found,) = je_tools("verify", home, "--format", "jsonl").rows
    assert (found["code"], found["offset"]) == ("erased-not-zero", starts[0])
    assert found["found"] == "50 entries with other bytes"
    assert found["length"] == len(file.data) - starts[0]


def test_vlsns_go_on_after_the_matchpoint_of_a_rollback(tmp_path: Path) -> None:
    """A crash can leave the entries that a rollback undoes without their mark."""
    for matchpoint in (1, 2):
        log = TreeLog()
        rooted(log.file)
        places = [log.file.trace(20, vlsn=vlsn).start for vlsn in (1, 2, 3)]
        fields = {"matchpoint_vlsn": matchpoint, "matchpoint_lsn": places[matchpoint - 1]}
        fields |= {"time_ms": 1, "active_txn_count": 0, "active_txns": []}
        log.put("RollbackStart", fields)
        log.file.trace(20, vlsn=2)
        home = log.write(tmp_path / str(matchpoint))
        codes = {row["code"] for row in je_tools("verify", home, "--format", "jsonl").rows}
        assert codes & {"vlsn-backward", "vlsn-duplicate"} == (
            {"vlsn-duplicate"} if matchpoint == 2 else set()
        )


def test_odd_flags_in_a_file_whose_lsns_are_negative(tmp_path: Path) -> None:
    file = LogFile(0x80000000, 17)
    odd = file.add(TRACE, bytes(30), flags=PROVISIONAL)
    log = open_environment([write_log(tmp_path / "env", [file])])
    found = [
        (each.file_no, each.offset)
        for each in verify.verify(log, Scanner(threads=1), Totals(""))
        if each.code == "impossible-flags"
    ]
    assert found == [(0x80000000, odd.start)]
