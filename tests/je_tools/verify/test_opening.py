"""Logs that lack what the engine needs to open them: a root, or files; and logs that do not."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from je_tools.formats.je.header import lsn_of
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.verify.judge import verify
from je_tools.verify.totals import Totals
from tests.builders.logs import LogFile, write_log
from tests.builders.trees import NULL, TreeLog, rooted
from tests.corpus import Environment, corpus, environment, environments, log_files
from tests.damage.running import je_tools
from tests.je_tools.audit.auditing import audit_fleet, find_fleet

OPENING = {"bad-file-header", "missing-file", "recovery-refused"}
"""Codes of findings that tell why an engine would not open a log."""

Told = list[tuple[str, str, int | None]]
"""Code, severity and file of findings."""


def copied(name: str, folder: Path) -> Path:
    return shutil.copytree(environment(name).home, folder / "env")


def told(home: Path, *options: str) -> Told:
    """Return the findings of `verify` that tell why an engine would not open a log."""
    rows = je_tools("verify", home, "--format", "jsonl", *options).rows
    return [
        (row["code"], row["severity"], row["file_no"]) for row in rows if row["code"] in OPENING
    ]


def audited(home: Path, folder: Path) -> Told:
    """Return the same findings of an audit."""
    rows = audit_fleet(find_fleet([home]), folder)["findings"]
    return [
        (row["code"], row["severity"], row["file_no"]) for row in rows if row["code"] in OPENING
    ]


def assert_damaged_everywhere(home: Path) -> None:
    for command in ("verify", "summary", "files", "dump"):
        assert je_tools(command, home).code == 3


def test_a_log_without_its_newest_file(tmp_path: Path) -> None:
    """The root was in it."""
    home = copied("v8-cleaned", tmp_path)
    log_files(home)[-1].unlink()
    expected: Told = [("missing-file", "warning", 0), ("recovery-refused", "error", None)]
    assert told(home) == told(home, "--tree") == audited(home, tmp_path / "out") == expected
    assert_damaged_everywhere(home)
    assert je_tools("recover", home).code == 4


def test_a_log_without_a_file_that_recovery_reads(tmp_path: Path) -> None:
    log = TreeLog([rooted(LogFile(0))])
    log.ckpt_end(log.here, log.file.last)
    for _ in range(2):
        log.next_file()
        log.file.trace(20)
    home = log.write(tmp_path / "env")
    assert told(home) == []
    log_files(home)[1].unlink()
    expected: Told = [("missing-file", "error", 1)]
    assert told(home) == audited(home, tmp_path / "out") == expected
    assert told(home, "--tree") == [*expected, ("recovery-refused", "error", None)]
    assert_damaged_everywhere(home)
    assert je_tools("recover", home).code == 3


def test_a_file_that_is_needed_and_in_use_is_told_once(tmp_path: Path) -> None:
    home = copied("v8-cleaned", tmp_path)
    log_files(home)[0].unlink()
    numbers = [number for code, _, number in told(home) if code == "missing-file"]
    assert len(numbers) == len(set(numbers))
    assert je_tools("verify", home).code == 3


def test_an_empty_file_of_which_nothing_is_in_use(tmp_path: Path) -> None:
    home = copied("v8-cleaned", tmp_path)
    (home / "00000000.jdb").touch()
    assert ("bad-file-header", "warning", 0) in told(home)
    for command in ("verify", "summary", "files", "recover", "count", "missing"):
        assert je_tools(command, home).code == 0
    assert b"opens it" in je_tools("recover", home).out


def test_an_empty_file_that_is_in_use(tmp_path: Path) -> None:
    home = copied("v8-cleaned", tmp_path)
    os.truncate(log_files(home)[0], 0)
    assert ("bad-file-header", "error", 2) in told(home)
    assert_damaged_everywhere(home)


@pytest.mark.parametrize("size", [1, 13, 37])
def test_a_last_file_cut_inside_its_header(size: int, tmp_path: Path) -> None:
    home = copied("v8-cleaned", tmp_path)
    os.truncate(log_files(home)[-1], size)
    rows = je_tools("verify", home, "--format", "jsonl").rows
    errors = {row["code"]: row["found"] for row in rows if row["severity"] == "error"}
    assert errors.keys() == {"torn-tail", "recovery-refused"}
    assert "engines write headers whole" in errors["torn-tail"]
    assert_damaged_everywhere(home)


def test_a_root_in_a_file_that_is_missing(tmp_path: Path) -> None:
    log = TreeLog([LogFile(1)])
    log.ckpt_end(log.here, NULL)
    assert told(log.write(tmp_path / "none"))[-1] == ("recovery-refused", "error", None)
    log = TreeLog([rooted(LogFile(0))])
    root = log.file.last
    log.next_file()
    log.ckpt_end(log.here, root)
    home = log.write(tmp_path / "env")
    assert told(home) == []
    (home / "00000000.jdb").unlink()
    assert ("recovery-refused", "error", None) in told(home)


def test_a_root_that_only_an_earlier_end_has(tmp_path: Path) -> None:
    """The trees of the earlier end are whole, and still the engine would refuse the log."""
    log = TreeLog([rooted(LogFile(0))])
    earlier = f"0x0/{log.ckpt_end(log.here, log.file.last):#x}"
    log.next_file()
    rooted(log.file)
    root = lsn_of(log.file.no, log.file.last)
    log.next_file()
    log.ckpt_end(log.here, root)
    home = log.write(tmp_path / "env")
    (home / "00000001.jdb").unlink()
    refused = ("recovery-refused", "error", None)
    assert told(home).count(refused) == 1
    assert told(home, "--tree").count(refused) == 1
    assert told(home, "--tree", "--to-lsn", earlier).count(refused) == 1


def test_a_log_without_a_checkpoint_needs_every_file(tmp_path: Path) -> None:
    """Recovery reads all of it; files before the first one are no part of it."""
    files = [rooted(LogFile(2))]
    for _ in range(2):
        files.append(files[-1].follower())
        rooted(files[-1])
    home = write_log(tmp_path / "env", files)
    assert "error" not in {severity for _, severity, _ in told(home)}
    (home / "00000003.jdb").unlink()
    assert ("missing-file", "error", 3) in told(home)


def test_files_named_one_by_one_need_no_root(tmp_path: Path) -> None:
    file = LogFile(4)
    file.trace(20)
    home = write_log(tmp_path / "env", [file])
    assert ("recovery-refused", "error", None) in told(home)
    assert je_tools("verify", home / file.name).code == 0


def with_gaps() -> list[Environment]:
    """Return the logs of which the cleaner has removed files."""
    return [each for each in environments() if open_environment([each.home]).absent]


@pytest.mark.parametrize("cleaned", with_gaps(), ids=lambda each: each.name)
def test_cleaned_logs_are_whole(cleaned: Environment) -> None:
    found = list(verify(open_environment([cleaned.home]), Scanner(), Totals("")))
    assert not [each for each in found if each.code in OPENING and each.severity == "error"]


def test_logs_of_engines_have_a_root(environment: Environment) -> None:
    found = verify(open_environment([environment.home]), Scanner(), Totals(""))
    assert "recovery-refused" not in {each.code for each in found}


CUT = {"v8-removal-c147"}
"""Cases that the engine opens after it has cut off damage with Commits in it."""

OPENED = {
    "v17-closed-cleaner-active",
    "v17-root-split-four",
    "v17-root-split-in-checkpoint",
    "v17-root-split-three",
    "v17-root-split-two",
    "v8-root-split-in-checkpoint",
}
"""Cases that the engine opens as they are; it refuses the others."""


def cases() -> list[Path]:
    """Return the logs on which a verdict was wrong once, which lie beside the corpus."""
    whole = corpus()
    folder = whole.parent / "cases" if whole else None
    return sorted(each for each in folder.iterdir() if each.is_dir()) if folder else []


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
@pytest.mark.parametrize("command", ["verify", "verify --tree", "recover", "count", "missing"])
def test_commands_say_what_the_engine_says(command: str, case: Path) -> None:
    name, *options = command.split()
    outcome = je_tools(name, case, *options)
    assert outcome.code == (0 if case.name in OPENED else 3), outcome.err
    if name == "recover":
        says_so = (
            re.search(rb"^the engine +(.*\s)?opens (it|the\s+log),", outcome.out, re.MULTILINE)
            is not None
        )
        assert says_so == (case.name in OPENED | CUT)
    if outcome.code == 3:
        assert "intact" not in outcome.err
        missing = [line for line in outcome.err.splitlines() if "missing-file at" in line]
        assert len(missing) == len(set(missing)) <= 1
