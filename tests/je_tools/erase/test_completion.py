"""Interrupted erasures: what `resume`, `status`, `audit` and `doctor` do and say about them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from je_tools.audit.discover import find_fleet
from je_tools.erase.completion import complete_erasure
from je_tools.erase.control_files import protect_files, working_names
from je_tools.erase.reasons import KeepReason
from je_tools.erase.results import ErasureHooks
from je_tools.log.scan import Scanner
from je_tools.writing.disk import Disk
from je_tools.writing.lock import EnvironmentLock
from je_tools.writing.redo_folder import FOLDER, is_unfinished
from tests.damage.running import Outcome, je_tools
from tests.je_tools.audit.auditing import audit_fleet
from tests.je_tools.erase.erasing import copy_of, log_bytes, marked_copy, stopped_in_kind
from tests.truth.headers import walk_bytes

FIRST = "00000000.jdb"
Change = Callable[[Path], object]


class Interrupted(NamedTuple):
    """A log whose erasure was interrupted, and the number of unfinished entries of its files."""

    home: Path
    counts: dict[str, int]


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """Return a log with entries that are marked and have their bytes."""
    home, entries, _ = marked_copy(tmp_path_factory.mktemp("marked"))
    names = [f"{each.lsn >> 32:08x}.jdb" for each in entries if each.item_size]
    return Interrupted(home, {name: names.count(name) for name in sorted(set(names))})


@pytest.fixture(scope="module")
def in_kind(tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """Return a log with a redo journal, of which nothing is overwritten yet."""
    home = stopped_in_kind(copy_of("v8-dbops", tmp_path_factory.mktemp("in_kind") / "env"))
    found = complete_erasure(shutil.copytree(home, home.parent / "done"), Scanner(threads=1))
    assert found.in_kind is not None
    return Interrupted(home, {found.in_kind.log_path.name: found.in_kind.entry_count})


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of a log that a test names."""
    whole: Interrupted = request.getfixturevalue(request.param)
    return shutil.copytree(whole.home, tmp_path / "env")


@pytest.fixture
def counts(request: pytest.FixtureRequest, home: Path) -> dict[str, int]:
    """Return the number of unfinished entries of each file of that log."""
    name = "in_kind" if is_unfinished(home) else "marked"
    found: Interrupted = request.getfixturevalue(name)
    return found.counts


of_both = pytest.mark.parametrize("home", ["marked", "in_kind"], indirect=True)
of_marked = pytest.mark.parametrize("home", ["marked"], indirect=True)
of_in_kind = pytest.mark.parametrize("home", ["in_kind"], indirect=True)


def resume(home: Path) -> Outcome:
    return je_tools("erase", "resume", home, "--apply")


def words_of(done: Outcome) -> str:
    """Return the output without line breaks."""
    return " ".join(done.out.decode().split())


def status_of(home: Path) -> tuple[int, dict[str, object]]:
    """Return the exit code and the JSON of `erase status`."""
    done = je_tools("erase", "status", home, "--format", "json")
    return done.code, json.loads(done.out)


def protect(path: Path) -> None:
    assert je_tools("erase", "abort", path.parent, path.name).code == 0


def release(path: Path) -> None:
    assert je_tools("erase", "abort", path.parent, "--release").code == 0


def symlink(path: Path) -> None:
    path.rename(path.parent.parent / "outside")
    path.symlink_to(path.parent.parent / "outside")


def unlink(path: Path) -> None:
    path.unlink()
    (path.parent.parent / "outside").rename(path)


LEFT: dict[str, tuple[KeepReason, Change, Change]] = {
    "protected": (KeepReason.PROTECTED, protect, release),
    "hard link": (
        KeepReason.HARD_LINK,
        lambda path: (path.parent.parent / "backup").hardlink_to(path),
        lambda path: (path.parent.parent / "backup").unlink(),
    ),
    "symbolic link": (KeepReason.SYMBOLIC_LINK, symlink, unlink),
}


@of_both
@pytest.mark.parametrize("name", LEFT)
def test_resume_leaves_files(name: str, home: Path, counts: dict[str, int]) -> None:
    reason, begin, end = LEFT[name]
    old = log_bytes(home)
    begin(home / FIRST)
    for dry in (je_tools("erase", "resume", home), resume(home)):
        assert dry.code == 3, dry.err
        assert f"{counts[FIRST]:,} entries" in dry.err
        assert reason.text in dry.err
    assert log_bytes(home)[FIRST] == old[FIRST]
    others = {file for file, data in log_bytes(home).items() if data != old[file]}
    assert others == counts.keys() - {FIRST}
    assert reason.text in words_of(je_tools("erase", "status", home))
    end(home / FIRST)
    done = resume(home)
    assert done.code == 0, done.err
    assert log_bytes(home)[FIRST] != old[FIRST]
    assert status_of(home)[1]["unfinished_count"] == 0
    assert not (home / FOLDER).exists()


@of_marked
def test_a_file_that_becomes_protected_is_left(home: Path, counts: dict[str, int]) -> None:
    working: list[frozenset[str]] = []

    def protect_first(_file: object, _batch: object) -> None:
        working.append(working_names(home))
        protect_files(home, [FIRST], Disk())

    found = complete_erasure(home, Scanner(threads=1), ErasureHooks(on_batch=protect_first))
    assert working[0] == {FIRST}
    first = found.marked[0]
    assert (first.kept, first.done_count) == (KeepReason.PROTECTED, 5120)
    assert first.left_count == counts[FIRST] - 5120 > 0
    assert working_names(home) == frozenset()


@of_in_kind
def test_an_erasure_in_kind_is_in_every_report(
    home: Path, counts: dict[str, int], tmp_path: Path
) -> None:
    code, found = status_of(home)
    assert code == 3
    assert found["unfinished_count"] == counts[FIRST]
    assert found["in_kind"] == {
        "state": "unfinished",
        "file": FIRST,
        "entry_count": counts[FIRST],
    }
    done = je_tools("erase", "status", home)
    assert done.code == 3
    assert f"{counts[FIRST]:,} entries of {FIRST}" in done.out.decode()
    metrics = je_tools("erase", "status", home, "--format", "prometheus").out.decode()
    assert f'je_tools_eraser_unfinished_entries{{env="{home}"}} {counts[FIRST]}\n' in metrics
    assert f'je_tools_eraser_in_kind_unfinished{{env="{home}"}} 1\n' in metrics
    tables = audit_fleet(find_fleet([home]), tmp_path / "audit")
    warned = [(row["code"], row["severity"]) for row in tables["findings"]]
    assert ("erasure-unfinished", "warning") in warned
    assert [row["severity"] for row in tables["environments"]] == ["warning"]
    verified = je_tools("verify", home, "--format", "jsonl")
    assert "erasure-unfinished" in [row["code"] for row in verified.rows]
    assert je_tools("erase", "status", home, "--exit-zero").code == 0
    assert resume(home).code == 0
    verified = je_tools("verify", home, "--format", "jsonl")
    assert "erasure-unfinished" not in [row["code"] for row in verified.rows]
    assert status_of(home)[0] == 0


@of_both
def test_doctor_names_the_command_that_completes_it(home: Path) -> None:
    rows = je_tools("doctor", home, "--format", "jsonl").rows
    steps = [row["command"] for row in rows if row["section"] == "step"]
    begin = steps.index(f"je-tools erase resume {home}")
    assert steps[begin : begin + 2] == [steps[begin], f"{steps[begin]} --apply"]
    assert not [step for step in steps if "undo" in step]
    texts = json.dumps(rows)
    assert "nothing was changed" not in texts
    if is_unfinished(home):
        assert rows[0]["outcome"] == "unsafe"
        assert len(steps) == 2, "no copy, which would keep the bytes that are to go"


@of_in_kind
@pytest.mark.parametrize("kind", ["truncated", "empty", "another log"])
def test_a_redo_journal_that_cannot_be_used(kind: str, home: Path, tmp_path: Path) -> None:
    path = home / FOLDER / "redo"
    if kind == "another log":
        other = stopped_in_kind(copy_of("v15-embedded", tmp_path / "other"))
        shutil.copyfile(other / FOLDER / "redo", path)
        os.truncate(home / FIRST, (other / FIRST).stat().st_size)
    else:
        path.write_bytes(path.read_bytes()[:-9] if kind == "truncated" else b"")
    done = resume(home)
    assert done.code == 6
    assert "again to continue" not in done.err
    assert "move the journal away" in done.err or "move it away" in done.err
    code, found = status_of(home)
    assert code == 3
    if kind != "another log":
        assert found["in_kind"]["state"] == "unusable"  # type: ignore[index]
        assert "cannot be used" in je_tools("erase", "status", home).out.decode()


@of_in_kind
def test_a_link_that_leads_nowhere_keeps_the_journal(home: Path) -> None:
    (home / FIRST).rename(home.parent / "elsewhere")
    (home / FIRST).symlink_to(home.parent / "nothing")
    assert resume(home).code != 0
    assert is_unfinished(home)


def hide_headers(home: Path) -> None:
    """Damage the sizes of all entries of the first file, so that none can be found."""
    path = home / FIRST
    data = bytearray(path.read_bytes())
    for entry in list(walk_bytes(bytes(data), 0)):
        at = entry.lsn
        data[at + 6 : at + 14] = b"\xff" * 8
    path.write_bytes(data)


def make_a_gap(home: Path) -> None:
    """Damage some headers in the middle of the first file, so that entries follow."""
    path = home / FIRST
    data = bytearray(path.read_bytes())
    entries = list(walk_bytes(bytes(data), 0))
    for entry in entries[2000:2010]:
        data[entry.lsn + 6 : entry.lsn + 14] = b"\xff" * 8
    path.write_bytes(data)


def damage_an_entry(home: Path) -> None:
    """Change a byte of an entry whose checksum counts."""
    path = home / FIRST
    data = bytearray(path.read_bytes())
    entry = next(each for each in walk_bytes(bytes(data), 0) if each.type_no not in (0, 1, 43))
    data[entry.lsn + entry.size - 1] ^= 1
    path.write_bytes(data)


def add_bytes(home: Path) -> None:
    """Add bytes that are no entry to the last file."""
    path = max(home.glob("*.jdb"))
    path.write_bytes(path.read_bytes() + b"\x55" * 99)


@pytest.mark.parametrize("change", [hide_headers, make_a_gap, damage_an_entry, add_bytes])
def test_places_that_cannot_be_searched_are_reported(change: Change, tmp_path: Path) -> None:
    home, _, whole = marked_copy(tmp_path)
    for name, data in whole.items():
        (home / name).write_bytes(data)
    assert je_tools("erase", "resume", home).code == 0
    change(home)
    for words in ([], ["--apply"]):
        done = je_tools("erase", "resume", home, *words)
        assert done.code == 3, done.err
        assert "could not be searched" in done.err
        assert "all erased entries are overwritten" not in done.err
    assert je_tools("erase", "resume", home, "--exit-zero").code == 0
    code, found = status_of(home)
    assert code == 3
    assert found["unread"]
    assert "unfinished entries may lie there" in words_of(je_tools("erase", "status", home))


@of_marked
def test_zeros_after_the_last_entry_need_no_search(home: Path) -> None:
    path = max(home.glob("*.jdb"))
    path.write_bytes(path.read_bytes() + bytes(4096))
    assert resume(home).code == 0
    assert status_of(home)[0] == 0


@of_marked
def test_status_counts_entries_of_a_log_without_a_root(home: Path, counts: dict[str, int]) -> None:
    path = max(home.glob("*.jdb"))
    data = bytearray(path.read_bytes())
    data[:38] = b"\x99" * 38
    path.write_bytes(data)
    code, found = status_of(home)
    assert code == 3
    assert found["cycle"] is None
    assert found["cycle_problem"]
    others = sum(count for name, count in counts.items() if name != path.name)
    assert others <= found["unfinished_count"] <= sum(counts.values())  # type: ignore[operator]
    done = je_tools("erase", "status", home)
    assert "not known" in done.out.decode()


@of_marked
def test_status_does_not_deny_an_erasure_that_works_on_no_file(home: Path) -> None:
    with EnvironmentLock(home):
        text = je_tools("erase", "status", home).out.decode()
    assert "running             on no file now; process" in text


@of_marked
def test_the_note_of_an_erasure_that_died_is_removed(home: Path) -> None:
    (home / FOLDER).mkdir()
    (home / FOLDER / "00000009.jdb.working").touch()
    assert resume(home).code == 0
    assert not (home / FOLDER).exists()
