"""Files of another log among those of a log: which file is named, and what is no proof."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.verify.judge import verify
from je_tools.verify.totals import Totals
from tests.builders.logs import CREATED_MS, LogFile, write_log
from tests.builders.trees import TreeLog, rooted, slot
from tests.corpus import environment, log_files
from tests.damage.running import je_tools

DAY_MS = 86_400_000


def found(home: Path) -> list[tuple[str, int | None]]:
    """Return severity and file of the findings of foreign files."""
    return [(str(each.severity), each.file_no) for each in _findings(home)]


def _findings(home: Path) -> list[Any]:
    log = open_environment([home])
    findings = verify(log, Scanner(threads=1), Totals(""))
    return [each for each in findings if each.code == "foreign-file"]


def log(
    folder: Path, sizes: list[int], *, ids: list[int] | None = None, times: list[int] | None = None
) -> Path:
    """Write a log of a file for each size; the ids are those of a checkpoint in each file."""
    files: list[LogFile] = []
    for no, size in enumerate(sizes):
        created_ms = CREATED_MS + (times[no] if times else no) * DAY_MS
        last = files[-1].last if files else 0
        file = LogFile(no, 17, last, created_ms)
        files.append(file if no else rooted(file))
        file.trace(size)
        if ids is not None:
            tree = TreeLog([file])
            start = tree.put(
                "CkptStart", {"time_ms": CREATED_MS, "ckpt_id": ids[no], "invoker": "test"}
            )
            tree.ckpt_end(start, 38, ckpt_id=ids[no])
        file.trace(20)
    return write_log(folder, files)


def mixed(home: Path, other: Path, *numbers: int) -> Path:
    """Replace files of a log by those of another."""
    for no in numbers:
        shutil.copyfile(log_files(other)[no], log_files(home)[no])
    return home


def test_the_file_in_the_middle_is_named(tmp_path: Path) -> None:
    home, other = log(tmp_path / "one", [30] * 5), log(tmp_path / "two", [31, 90, 91, 92, 31])
    assert found(home) == found(other) == []
    mixed(home, other, 2)
    (finding,) = _findings(home)
    assert (finding.severity, finding.file_no) == ("error", 2)
    assert finding.expected == "a file of the same log as 00000001.jdb and 00000003.jdb"
    assert "may also be" not in finding.found
    assert "Never use a file of another node" in finding.hint


def test_two_of_them_are_two_findings(tmp_path: Path) -> None:
    home, other = log(tmp_path / "one", [30] * 7), log(tmp_path / "two", [90] * 7)
    assert found(mixed(home, other, 1, 4)) == [("error", 4), ("error", 1)]


def test_one_link_alone_has_its_own_finding(tmp_path: Path) -> None:
    """Nothing tells which of the two files is the wrong one."""
    home, other = log(tmp_path / "one", [30, 30]), log(tmp_path / "two", [20, 90])
    mixed(home, other, 1)
    assert found(home) == []
    codes = [each.code for each in verify(open_environment([home]), Scanner(), Totals(""))]
    assert "last-entry-mismatch" in codes


def test_checkpoints_go_back(tmp_path: Path) -> None:
    """Every offset is the same: only the ids of the checkpoints show it."""
    home = log(tmp_path / "one", [30] * 4, ids=[11, 12, 13, 14])
    other = log(tmp_path / "two", [30] * 4, ids=[1, 2, 3, 4])
    assert found(home) == found(other) == []
    mixed(home, other, 2)
    (finding,) = _findings(home)
    assert finding.file_no == 2
    assert "ckpt_id is 3 in the CkptEnd at 0x2/0x" in finding.found
    assert "it may also be 00000001.jdb" in finding.found


def test_a_time_alone_may_be_that_of_a_clock(tmp_path: Path) -> None:
    home = log(tmp_path / "one", [30] * 3, times=[5, 4, 6])
    assert found(home) == [("warning", 1)]
    older = log(tmp_path / "two", [30] * 3, times=[7, 8, 9])
    assert found(mixed(older, home, 1)) == [("warning", 1)]


def test_a_time_and_vlsns_are_proof(tmp_path: Path) -> None:
    first, second = rooted(LogFile(0)), LogFile(1, 17, 0, CREATED_MS - DAY_MS)
    first.trace(20, vlsn=7)
    second.last_before = first.last
    second = LogFile(1, 17, first.last, CREATED_MS - DAY_MS)
    second.trace(20, vlsn=7)
    (finding,) = _findings(write_log(tmp_path / "env", [first, second]))
    assert (finding.severity, finding.file_no) == ("error", 1)
    assert "VLSN 7 instead of VLSN 8" in finding.found
    assert "was created at" in finding.found


def test_files_named_one_by_one_need_not_fit(tmp_path: Path) -> None:
    home, other = log(tmp_path / "one", [30] * 5), log(tmp_path / "two", [90] * 5)
    mixed(home, other, 2)
    log_of_files = open_environment(log_files(home))
    assert all(each.code != "foreign-file" for each in verify(log_of_files, Scanner(), Totals("")))


def test_swapped_names_are_another_finding(tmp_path: Path) -> None:
    """Renaming the files is enough, so no backup is needed."""
    home = log(tmp_path / "env", [30, 40, 50, 60])
    files = log_files(home)
    first, second = files[1].read_bytes(), files[2].read_bytes()
    files[1].write_bytes(second)
    files[2].write_bytes(first)
    assert found(home) == []


@pytest.mark.parametrize("cut", [10, 100])
def test_truncated_files_are_no_foreign_ones(cut: int, tmp_path: Path) -> None:
    home = log(tmp_path / "env", [300] * 5)
    for no in (1, 3):
        path = log_files(home)[no]
        path.write_bytes(path.read_bytes()[:-cut])
    assert found(home) == []


def test_files_of_one_engine_that_lack_another_between(tmp_path: Path) -> None:
    """The cleaner leaves such gaps, and the cleaned log begins with file 2."""
    home = shutil.copytree(environment("v8-cleaned").home, tmp_path / "env")
    assert found(home) == []
    shutil.copyfile(log_files(environment("v17-erase-after").home)[0], home / "00000000.jdb")
    assert found(home) != []


def log_with_tree(folder: Path, before: int, after: int) -> Path:
    """Write a log of two files: a record between two Traces, and the tree that needs it."""
    tree = TreeLog([rooted(LogFile(0))])
    tree.file.trace(before)
    slots = [slot(b"key", tree.ln(b"key", b"value"))]
    tree.file.trace(after)
    tree.file.trace(20)
    tree.next_file()
    tree.database(b"db", tree.tree(slots))
    tree.checkpoint()
    return tree.write(folder)


def wrong_places(home: Path) -> list[tuple[str, int]]:
    """Return the findings of `verify --tree`, but those of the builder's node ids."""
    rows = je_tools("verify", home, "--tree", "--format", "jsonl").rows
    return [(row["code"], row["file_no"]) for row in rows if row["code"] != "tree-node-id"]


def test_trees_show_a_file_that_fits_at_its_borders(tmp_path: Path) -> None:
    """Both first files end alike; only the place of the record differs."""
    home, other = log_with_tree(tmp_path / "one", 30, 50), log_with_tree(tmp_path / "two", 50, 30)
    for each in (home, other):
        assert not wrong_places(each)
    mixed(home, other, 0)
    assert je_tools("verify", home).code == 0
    for command in (("verify", home, "--tree", "--format", "jsonl"), ("missing", home)):
        outcome = je_tools(*command)
        assert outcome.code == 3
    assert wrong_places(home) == [("tree-record", 0), ("foreign-file", 0)]
    assert "00000000  of another log" in je_tools("missing", home).out.decode()
    exported = je_tools("export", home, "--all", "--output", tmp_path / "out")
    assert exported.code == 3
    assert "foreign-file at 00000000.jdb" in exported.err
    assert "1 place of the trees" in exported.err


def test_damage_is_no_file_of_another_log(tmp_path: Path) -> None:
    home = log_with_tree(tmp_path / "env", 30, 50)
    path = log_files(home)[0]
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    rows = je_tools("verify", home, "--tree", "--format", "jsonl").rows
    assert all(row["code"] != "foreign-file" for row in rows)
    assert "another log" not in je_tools("missing", home).out.decode()
