"""An audit that takes over results of earlier ones has the tables of one that reads all logs."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from je_tools.audit import judging, known_codec, known_environments, known_files, part_scan
from je_tools.audit.known_codec import decoded, encoded, with_header, without_header
from je_tools.audit.known_files import ROWS_NAME, SUMMED_SIZE, FileMark
from je_tools.formats.je.header import HeaderFlag
from tests.builders.logs import placed_in, write_log
from tests.corpus import FIXTURES, Environment, environments_in
from tests.damage.planted_findings import log
from tests.damage.test_findings import HOLD_LOCK
from tests.je_tools.audit.auditing import (
    WHOLE,
    age,
    audit_here,
    cut,
    sources,
    without_sources,
)
from tests.je_tools.dumped import dump, rows_of

LOG = FIXTURES / "v17-erase-after" / "env"
"""A log of three files."""

FIRST, SECOND, LAST = (f"{no:08x}.jdb" for no in range(3))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a copy of a log of three files, none of which has just changed."""
    folder = tmp_path / "env"
    shutil.copytree(LOG, folder)
    age(folder, 600)
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a log of three small files."""
    return small_log(tmp_path / "env")


@pytest.fixture
def audits(tmp_path: Path) -> Path:
    return tmp_path / "audits"


def small_log(folder: Path, counts: tuple[int, ...] = (10, 60)) -> Path:
    files = [log()]
    for count in counts:
        files.append(files[-1].follower())
        for size in range(20, 20 + count):
            files[-1].trace(size)
    write_log(folder, files)
    age(folder, 600)
    return folder


def audited(home: Path, audits: Path, **known: bool) -> list[str | None]:
    """Audit an environment, compare all tables with a first audit, and return their sources."""
    tables = audit_here([home], audits, **known)
    fresh = audit_here([home], audits.with_name(f"fresh-{len(list(audits.parent.iterdir()))}"))
    assert without_sources(tables) == without_sources(fresh)
    assert set(sources(fresh)) <= {"read", None}
    return sources(tables)


def rows_path(audits: Path) -> Path:
    """Return the file with the rows of the only environment that is known."""
    (path,) = (audits / "known").glob(f"*/{ROWS_NAME}")
    return path


def file_paths(audits: Path) -> list[Path]:
    """Return the files with results of log files."""
    found = sorted((audits / "known").glob("*/*"))
    return [path for path in found if path.name != ROWS_NAME]


def change(path: Path, offset: int, seconds: float = 300) -> None:
    """Change a byte of a file in place; its time of change becomes `seconds` ago."""
    with path.open("r+b") as file:
        file.seek(offset)
        (value,) = file.read(1)
        file.seek(offset)
        file.write(bytes([value ^ 0x55]))
    age(path.parent, seconds)


def age_file(path: Path, seconds: float) -> None:
    known = path.stat()
    os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns - int(seconds * 1e9)))


# Unchanged


def test_what_is_unchanged_is_taken_over(home: Path, audits: Path) -> None:
    first = audit_here([home], audits)
    assert sources(first) == ["read"] * 3
    again = audit_here([home], audits)
    assert sources(again) == ["known"] * 3
    assert without_sources(again) == without_sources(first)


def test_files_are_taken_over_without_the_rows_of_the_environment(
    small: Path, audits: Path
) -> None:
    audit_here([small], audits)
    rows_path(audits).unlink()
    assert audited(small, audits) == ["known"] * 3


def test_nothing_is_read_of_unchanged_logs_but_their_ends(
    home: Path, audits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit_here([home], audits)

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError

    for name in ("scanner_of", "read_cut"):
        monkeypatch.setattr(f"je_tools.audit.part_scan.{name}", refused)
    rows_path(audits).unlink()
    assert sources(audit_here([home], audits)) == ["known"] * 3
    assert rows_path(audits).exists()
    monkeypatch.setattr("je_tools.audit.opening.open_environment", refused)
    assert sources(audit_here([home], audits)) == ["known"] * 3


def test_an_environment_under_another_name(
    home: Path, audits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its results have the name under which it is found now."""
    audit_here([home], audits)
    monkeypatch.chdir(home.parent)
    assert audited(Path(home.name), audits) == ["known"] * 3


def test_files_that_are_roots(home: Path, audits: Path) -> None:
    roots = [home / FIRST, home / SECOND]
    first = audit_here(roots, audits)
    assert sources(first) == ["read"] * 2
    again = audit_here(roots, audits)
    assert sources(again) == ["known"] * 2
    assert without_sources(again) == without_sources(first)


def test_a_large_environment(home: Path, audits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were cut are known too, and are not cut again."""
    cut(monkeypatch, 100_000)
    assert audited(home, audits) == ["read"] * 3
    assert audited(home, audits) == ["known"] * 3
    change(home / FIRST, 500_000)
    assert audited(home, audits) == ["read", "known", "known"]
    cut(monkeypatch, WHOLE)
    assert audited(home, audits) == ["known"] * 3


def links(audits: Path) -> list[Path]:
    """Return the kept files with transactions of a large environment."""
    return sorted((audits / "known").glob("*/*.parquet"))


def test_a_large_environment_is_taken_over_as_a_whole(
    home: Path, audits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No task scans or judges it, and its transactions are the files of the run before."""
    cut(monkeypatch, 100_000)
    first = audit_here([home], audits)
    kept = links(audits)
    assert kept
    monkeypatch.setattr("je_tools.audit.tasks.AuditTasks.scan_slice", None)
    monkeypatch.setattr("je_tools.audit.opening.open_environment", None)
    again = audit_here([home], audits)
    assert sources(again) == ["known"] * 3
    assert without_sources(again) == without_sources(first)
    assert links(audits) == kept
    # The file of each run, and what is kept.
    assert {path.stat().st_nlink for path in kept} == {3}
    cut(monkeypatch, WHOLE)
    assert without_sources(audit_here([home], audits)) == without_sources(first)


@pytest.mark.parametrize("what", ["gone", "shorter", "other bytes"])
def test_kept_transactions_that_are_not_as_they_were(
    what: str, home: Path, audits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut(monkeypatch, 100_000)
    audit_here([home], audits)
    changed = links(audits)[-1]
    data = changed.read_bytes()
    changed.unlink()
    if what == "shorter":
        changed.write_bytes(data[:-1])
    elif what == "other bytes":
        changed.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    # Those of each file are known, too.
    assert audited(home, audits) == ["known"] * 3
    assert changed not in links(audits)
    assert audited(home, audits) == ["known"] * 3


def test_a_file_system_without_links(
    home: Path, audits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    cut(monkeypatch, 100_000)
    monkeypatch.setattr(os, "link", refused)
    assert audited(home, audits) == ["read"] * 3
    assert audited(home, audits) == ["known"] * 3
    assert not links(audits)
    assert not list((audits / "known").glob(f"*/{ROWS_NAME}"))


def test_links_of_a_large_environment_that_changes(
    home: Path, audits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of its former content are removed, also once it is no large one any more."""
    cut(monkeypatch, 100_000)
    audit_here([home], audits)
    first = links(audits)
    change(home / FIRST, 500_000)
    assert audited(home, audits) == ["read", "known", "known"]
    assert not set(first) & set(links(audits))
    cut(monkeypatch, WHOLE)
    change(home / FIRST, 500_000, 200)
    audit_here([home], audits)
    assert not links(audits)


def test_a_large_environment_that_changes_while_it_is_read(
    home: Path, audits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut(monkeypatch, 100_000)
    judge = judging.judge

    def judge_and_change(*arguments: Any) -> Any:
        rows = judge(*arguments)
        age_file(home / SECOND, 100)
        return rows

    with monkeypatch.context() as patched:
        patched.setattr(judging, "judge", judge_and_change)
        audit_here([home], audits)
    assert not links(audits)
    assert audited(home, audits) == ["known", "read", "known"]


def test_what_changes_while_ranges_are_read_is_not_known(
    home: Path, audits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut(monkeypatch, 100_000)
    read_cut, changed = part_scan.read_cut, []

    def read_and_change(file: Any, *rest: Any) -> Any:
        outcome = read_cut(file, *rest)
        if file.path.name == SECOND and not changed:
            changed.append(file)
            age_file(file.path, 100)
        return outcome

    with monkeypatch.context() as patched:
        patched.setattr(part_scan, "read_cut", read_and_change)
        audit_here([home], audits)
    assert changed
    assert audited(home, audits) == ["known", "read", "known"]


def test_environments_of_an_audit_do_not_mix(tmp_path: Path, audits: Path) -> None:
    root = tmp_path / "root"
    for name, counts in (("a", (10, 60)), ("b", (3, 4)), ("c", (5,))):
        small_log(root / name, counts)
    first = audit_here([root], audits)
    shutil.rmtree(root / "b")
    change(root / "c" / FIRST, 60)
    tables, fresh = audit_here([root], audits), audit_here([root], tmp_path / "fresh")
    assert without_sources(tables) == without_sources(fresh)
    assert sources(tables) == ["known", "known", "known", "read", "known"]
    assert len(first["files"]) == 8


# Grown


@pytest.mark.parametrize(
    "name",
    [
        "v17-basic/env",
        "v26-crash-txn-ckpt/env",
        "v8-basic/env",
        "v15-rep-uncommitted/node1",
        "v26-rep-committed/node1",
        "starrocks-fe-hole/node1",
    ],
)
def test_a_log_that_grows(name: str, tmp_path: Path, audits: Path) -> None:
    """Each prefix is audited after the one before it, into one folder."""
    grown = grow(FIXTURES / name / FIRST, tmp_path / "env", audits, seed=1, count=8)
    assert {"grown", "known"} <= set(grown)
    assert grown.count("grown") > 5


def grow(path: Path, home: Path, audits: Path, *, seed: int, count: int) -> list[str | None]:
    """Audit prefixes of a log, at borders of entries, inside entries, and in their headers."""
    data = path.read_bytes()
    rng = random.Random(seed)
    version = data[34] if data[34] else data[37]
    placed = placed_in(data, version)
    sizes = {len(data)}
    for each in rng.sample(placed[5:], count):
        sizes.add(rng.choice([each.start, each.start + 3, rng.randrange(each.start, each.stop)]))
    home.mkdir()
    found: list[str | None] = []
    for number, size in enumerate(sorted(sizes)):
        (home / path.name).write_bytes(data[:size])
        age(home, 600)
        found += audited(home, audits)
        if number % 5 == 0:
            # Unchanged once.
            found += audited(home, audits)
    return found


@pytest.mark.exhaustive
def test_every_log_that_grows(environment: Environment, tmp_path: Path, audits: Path) -> None:
    path = max(environment.home.rglob("*.jdb"))
    assert "grown" in grow(path, tmp_path / "env", audits, seed=2, count=40)


def test_a_torn_tail_that_is_completed(tmp_path: Path, audits: Path) -> None:
    data = (FIXTURES / "v17-basic" / "env" / FIRST).read_bytes()
    placed = placed_in(data, 17)
    home = tmp_path / "env"
    home.mkdir()
    found = []
    for stop in (placed[200].stop, placed[300].stop - 5, placed[300].stop - 2, placed[301].stop):
        (home / FIRST).write_bytes(data[:stop])
        age(home, 600)
        found += audited(home, audits)
    assert found == ["read", "grown", "grown", "grown"]


def test_a_tail_that_is_written_anew(tmp_path: Path, audits: Path) -> None:
    """A recovery cuts a torn tail off, and other entries follow."""
    short, other = log(), log()
    for size in (200, 300, 400):
        short.trace(size)
        other.trace(size)
    other.trace(111)
    other.trace(50)
    home = tmp_path / "env"
    home.mkdir()
    (home / FIRST).write_bytes(short.data[:-100])
    age(home, 600)
    assert audited(home, audits) == ["read"]
    (home / FIRST).write_bytes(short.data[:-400] + other.data[len(short.data) - 400 :])
    age(home, 500)
    audited(home, audits)


def test_a_damaged_file_that_grows_is_read_again(tmp_path: Path, audits: Path) -> None:
    data = bytearray((FIXTURES / "v17-basic" / "env" / FIRST).read_bytes())
    data[500:502] = b"XX"
    home = tmp_path / "env"
    home.mkdir()
    for size in (200_000, 250_000):
        (home / FIRST).write_bytes(data[:size])
        age(home, 600)
        assert audited(home, audits) == ["read"]


def test_a_file_that_grows_by_zeros_and_garbage(tmp_path: Path, audits: Path) -> None:
    home = small_log(tmp_path / "env")
    assert audited(home, audits) == ["read"] * 3
    for more in (bytes(100), b"garbage " * 30, bytes(5000)):
        with (home / LAST).open("ab") as file:
            file.write(more)
        age(home, 500)
        audited(home, audits)


def test_a_change_of_the_end_that_an_earlier_audit_has_read(home: Path, audits: Path) -> None:
    """A file that has grown, but not from the end that it had, is read again."""
    audit_here([home], audits)
    size = (home / LAST).stat().st_size
    with (home / LAST).open("ab") as file:
        file.write(bytes(50))
    change(home / LAST, size - 10)
    assert audited(home, audits) == ["known", "known", "read"]


def test_a_rollback_in_what_was_written_since(tmp_path: Path, audits: Path) -> None:
    """It has made entries invisible that an earlier audit has read."""
    node = FIXTURES / "v15-rep-uncommitted"
    for each in sorted(node.glob("node*")):
        rows = rows_of(dump(each, "--format", "jsonl"))
        starts = [row["offset"] for row in rows if row["type"] == "RollbackStart"]
        if starts:
            break
    data = (each / FIRST).read_bytes()
    before = bytearray(data[: starts[0]])
    hidden = [row["offset"] for row in rows if row["invisible"] and row["offset"] < starts[0]]
    assert hidden
    for offset in hidden:
        before[offset + 5] &= ~HeaderFlag.INVISIBLE
    home = tmp_path / "env"
    home.mkdir()
    (home / FIRST).write_bytes(before)
    age(home, 600)
    first = audit_here([home], audits)
    assert first["environments"][0]["error_count"] == 0
    (home / FIRST).write_bytes(data)
    age(home, 500)
    assert audited(home, audits) == ["read"]


# Changed


def test_a_file_that_changes_in_place(home: Path, audits: Path) -> None:
    """Only the time tells: the first and the last bytes are the same."""
    audit_here([home], audits)
    change(home / SECOND, 500_000)
    assert audited(home, audits) == ["known", "read", "known"]
    assert audit_here([home], audits)["environments"][0]["error_count"] == 1


def test_a_file_that_has_just_changed_may_change_again(
    home: Path, audits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another change could have the same time, so it is not known."""
    now = (home / SECOND).stat().st_mtime_ns + known_files.SETTLED_NS // 2
    with monkeypatch.context() as patched:
        patched.setattr("time.time_ns", lambda: now)
        for _ in range(2):
            audit_here([home], audits)
    assert not list((audits / "known").glob(f"*/{ROWS_NAME}"))
    assert sources(audit_here([home], audits)) == ["read"] * 3
    assert sources(audit_here([home], audits)) == ["known"] * 3


def test_a_file_that_changes_while_it_is_read(
    home: Path, audits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split_off_txns, calls = part_scan.split_off_txns, []

    def changed(*given: Any) -> Any:
        if not calls:
            age_file(home / FIRST, 100)
        calls.append(1)
        return split_off_txns(*given)

    with monkeypatch.context() as patched:
        patched.setattr(part_scan, "split_off_txns", changed)
        audit_here([home], audits)
    assert not list((audits / "known").glob(f"*/{ROWS_NAME}"))
    assert sources(audit_here([home], audits)) == ["read", "known", "known"]


def test_files_that_a_cleaner_has_removed(home: Path, audits: Path) -> None:
    audit_here([home], audits)
    (home / FIRST).unlink()
    assert audited(home, audits) == ["known"] * 2
    assert len(file_paths(audits)) == 2


@pytest.mark.parametrize("torn", [0, 7])
def test_a_new_last_file(torn: int, home: Path, audits: Path) -> None:
    """The same torn tail is a note in the last file, and damage in one before it."""
    kept = (home / LAST).read_bytes()
    (home / LAST).unlink()
    os.truncate(home / SECOND, (home / SECOND).stat().st_size - torn)
    age(home, 600)
    audit_here([home], audits)
    (home / LAST).write_bytes(kept)
    age(home, 500)
    assert audited(home, audits) == ["known", "known", "read"]


def test_a_file_that_becomes_the_last_is_read(home: Path, audits: Path) -> None:
    """Marks for recovery are kept of the last file only."""
    audit_here([home], audits)
    (home / LAST).unlink()
    assert audited(home, audits) == ["known", "read"]


def test_a_file_that_another_replaces(home: Path, audits: Path, tmp_path: Path) -> None:
    """Its size and time are those of the file before."""
    audit_here([home], audits)
    status = (home / FIRST).stat()
    other = bytearray((home / FIRST).read_bytes())
    other[500:600] = bytes(100)
    (tmp_path / "other").write_bytes(other)
    (tmp_path / "other").replace(home / FIRST)
    os.utime(home / FIRST, ns=(status.st_atime_ns, status.st_mtime_ns))
    age(home, 500)
    assert audited(home, audits) == ["read", "known", "known"]


def test_a_file_that_becomes_shorter(home: Path, audits: Path) -> None:
    audit_here([home], audits)
    status = (home / LAST).stat()
    os.truncate(home / LAST, status.st_size - 100)
    os.utime(home / LAST, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert audited(home, audits) == ["known", "known", "read"]


BESIDE: dict[str, Callable[[Path], object]] = {
    "properties": lambda home: (home / "je.properties").write_text("je.log.fileMax=500000"),
    "marker": lambda home: (home / "7fffffff.jdb").write_bytes(b""),
    "other": lambda home: (home / "00000000.del").write_bytes(b"x"),
    "undo journal": lambda home: (home / ".je-tools-undo").mkdir(),
}


@pytest.mark.parametrize("beside", BESIDE)
def test_what_lies_beside_the_log_counts(beside: str, small: Path, audits: Path) -> None:
    (small / "je.properties").write_text("je.log.fileMax=1000000")
    age(small, 600)
    audit_here([small], audits)
    kept = rows_path(audits).read_bytes()
    assert audited(small, audits) == ["known"] * 3
    assert rows_path(audits).read_bytes() == kept
    BESIDE[beside](small)
    age(small, 500)
    audited(small, audits)
    assert rows_path(audits).read_bytes() != kept


def test_a_log_that_an_engine_has_open_is_judged_each_time(home: Path, audits: Path) -> None:
    """Rows that are kept lack the entries that a running engine has not yet written."""
    (home / "je.lck").touch()
    age(home, 600)
    audit_here([home], audits)
    assert rows_path(audits).exists()
    status = (home / "je.lck").stat()
    command = [sys.executable, "-c", HOLD_LOCK, str(home / "je.lck")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        os.utime(home / "je.lck", ns=(status.st_atime_ns, status.st_mtime_ns))
        tables = audit_here([home], audits)
        assert [row["code"] for row in tables["findings"]] == ["live-writer"]
        assert not list((audits / "known").glob(f"*/{ROWS_NAME}"))
        assert sources(tables) == ["known"] * 3
        holder.communicate(b"")
    assert audited(home, audits) == ["known"] * 3
    assert audit_here([home], audits)["findings"] == []


# Options


def test_full_reads_everything_and_keeps_it(home: Path, audits: Path) -> None:
    audit_here([home], audits)
    hide_change(home / SECOND)
    assert sources(audit_here([home], audits)) == ["known"] * 3
    full = audit_here([home], audits, is_used=False)
    assert sources(full) == ["read"] * 3
    assert [row["file_no"] for row in full["findings"]] == [1]
    again = audit_here([home], audits)
    assert sources(again) == ["known"] * 3
    assert without_sources(again) == without_sources(full)


def hide_change(path: Path) -> None:
    """Change a byte in the middle of a file: its size, time, first and last bytes stay."""
    status = path.stat()
    assert SUMMED_SIZE < 500_000 < status.st_size - SUMMED_SIZE
    change(path, 500_000)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("are_rows_kept", [False, True])
def test_paranoid_finds_what_changed_without_a_trace(
    home: Path, audits: Path, *, are_rows_kept: bool
) -> None:
    audit_here([home], audits, is_whole=True)
    assert sources(audit_here([home], audits, is_whole=True)) == ["known"] * 3
    hide_change(home / SECOND)
    if not are_rows_kept:
        rows_path(audits).unlink()
    assert sources(audit_here([home], audits)) == ["known"] * 3
    found = audit_here([home], audits, is_whole=True)
    assert sources(found) == ["known", "read", "known"]
    assert [row["file_no"] for row in found["findings"]] == [1]


def test_paranoid_takes_over_only_what_was_summed(home: Path, audits: Path) -> None:
    audit_here([home], audits)
    assert sources(audit_here([home], audits, is_whole=True)) == ["read"] * 3
    assert sources(audit_here([home], audits, is_whole=True)) == ["known"] * 3


def test_paranoid_sees_a_change_in_what_a_grown_file_had(tmp_path: Path, audits: Path) -> None:
    data = bytearray((FIXTURES / "v17-basic" / "env" / FIRST).read_bytes())
    stop = placed_in(bytes(data), 17)[1200].stop
    home = tmp_path / "env"
    home.mkdir()
    (home / FIRST).write_bytes(data[:stop])
    age(home, 600)
    audit_here([home], audits, is_whole=True)
    data[stop // 2] ^= 0x55
    (home / FIRST).write_bytes(data)
    age(home, 500)
    assert audited(home, audits, is_whole=True) == ["read"]


# Planted files


def planted(folder: Path) -> bytes:
    """Return a pickle that creates a file when it is loaded."""

    class Planted:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {folder / 'hit'}",)

    data = pickle.dumps(Planted())
    pickle.loads(data)
    (folder / "hit").unlink()
    return data


def changed_class() -> bytes:
    """Return a pickle that sets an attribute of a class."""
    name = b"cje_tools.audit.known_files\nFileMark\n"
    return name + b"(N}Vsize\nI7\nstb."


HOSTILE: dict[str, Callable[[bytes, Path], bytes]] = {
    "empty": lambda _data, _folder: b"",
    "garbage": lambda _data, _folder: b"\x80\x05garbage",
    "cut": lambda data, _folder: data[: len(data) // 2],
    "flipped": lambda data, _folder: data[:-100] + b"XX" + data[-98:],
    "code": lambda _data, folder: planted(folder),
    "code in an envelope": lambda _data, folder: with_header(planted(folder)),
    "class": lambda _data, _folder: with_header(changed_class()),
    "text": lambda _data, _folder: with_header(pickle.dumps("text")),
    "another structure": lambda _data, _folder: encoded(FileMark(1, 2, 3, 4)),
    "a folder": lambda _data, _folder: b"",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_not_from_an_audit_is_ignored(
    kind: str, small: Path, audits: Path, tmp_path: Path
) -> None:
    audit_here([small], audits)
    size = FileMark.size  # a descriptor
    for path in (*file_paths(audits), rows_path(audits)):
        data = path.read_bytes()
        path.write_bytes(HOSTILE[kind](data, tmp_path))
        if kind == "a folder" and path.name != ROWS_NAME:
            path.unlink()
            path.mkdir()
    assert audited(small, audits) == ["read"] * 3
    assert not (tmp_path / "hit").exists()
    assert FileMark.size is size
    if kind != "a folder":
        assert audited(small, audits) == ["known"] * 3


def test_a_planted_name_is_not_loaded() -> None:
    """Only plain data and structures of je-tools are."""
    for name in (
        "os\nsystem",
        "builtins\neval",
        "je_tools.audit.known_files\nos",
        "je_tools.audit.known_files\nmark_of",
        "je_tools.audit.known_files\nos.system",
        "je_tools.commands.start\nmain",
        "je_tools.audit.known_files\nPath",
    ):
        assert decoded(with_header(f"c{name}\n.".encode())) is None
    mark = FileMark(1, None, 3, 4)
    assert decoded(encoded(mark)) == mark


def test_rows_that_lack_a_table_or_have_another(small: Path, audits: Path) -> None:
    audit_here([small], audits)
    path = rows_path(audits)
    data = without_header(path.read_bytes())
    assert data is not None
    kept = msgspec.msgpack.decode(data)
    tables = kept["tables"]
    for name, changed in {
        "none": {},
        "no files": {name: rows for name, rows in tables.items() if name != "files"},
        "unknown": {**tables, "other": tables["files"]},
        "swapped": {**tables, "files": tables["environments"]},
        "no stream": {**tables, "files": b"text"},
        "no bytes": {**tables, "files": 7},
    }.items():
        path.write_bytes(with_header(msgspec.msgpack.encode({**kept, "tables": changed})))
        assert audited(small, audits) == ["known"] * 3, name
    for text in (b"", b"text", msgspec.msgpack.encode([1, 2])):
        path.write_bytes(with_header(text))
        assert audited(small, audits) == ["known"] * 3, text


def test_results_of_another_version_do_not_count(
    small: Path, audits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit_here([small], audits)
    monkeypatch.setattr(known_codec, "_HEAD", b"je-tools known 1 0.0.0\n")
    monkeypatch.setattr(known_environments, "__version__", "0.0.0")
    assert audited(small, audits) == ["read"] * 3
    assert audited(small, audits) == ["known"] * 3


def test_what_is_known_of_environments_that_have_gone(tmp_path: Path, audits: Path) -> None:
    for name in ("a", "b"):
        small_log(tmp_path / name)
    audit_here([tmp_path / "a", tmp_path / "b"], audits)
    assert len(list((audits / "known").iterdir())) == 2
    known = known_files.KnownFiles(audits / "known")
    known.remove_others([tmp_path / "a"])
    assert len(list((audits / "known").iterdir())) == 1
    assert audited(tmp_path / "a", audits) == ["known"] * 3


# All logs


@pytest.mark.parametrize("size", [WHOLE, pytest.param(50_000, marks=pytest.mark.exhaustive)])
def test_all_fixtures_unchanged(
    size: Any, tmp_path: Path, audits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut(monkeypatch, size)
    check_unchanged(FIXTURES, audits)


@pytest.mark.exhaustive
def test_every_log_unchanged(environment: Environment, audits: Path) -> None:
    check_unchanged(environment.home, audits)


def check_unchanged(root: Path, audits: Path) -> None:
    first = audit_here([root], audits)
    again = audit_here([root], audits)
    assert set(sources(again)) <= {"known", None}
    assert without_sources(again) == without_sources(first)
    assert len(environments_in(FIXTURES)) >= 1
