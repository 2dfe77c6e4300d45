"""Damage in files that recovery does not read: named as not checked, and found with --verify."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.corpus import environment, log_files
from tests.damage.running import Outcome, je_tools, states
from tests.truth.headers import walk_file


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Copy a log of three files that ends inside its last checkpoint."""
    copy = shutil.copytree(environment("v17-erase-after").home, tmp_path / "env")
    last = log_files(copy)[-1]
    last.write_bytes(last.read_bytes()[:-20])
    return copy


def flip(home: Path, number: int = 0) -> str:
    """Change a bit of a record in an older file, and return the LSN of its entry."""
    path = log_files(home)[number]
    entry = next(each for each in walk_file(path) if each.type_no == 33)
    data = bytearray(path.read_bytes())
    data[(entry.lsn & 0xFFFFFFFF) + entry.header_size + 3] ^= 4
    path.write_bytes(data)
    return f"{number:#x}/{entry.lsn & 0xFFFFFFFF:#x}"


def row(outcome: Outcome, name: str) -> dict[str, object]:
    """Return the row of facts of a command."""
    return next(each for each in outcome.rows if each.get("section", name) == name)


def found(outcome: Outcome) -> list[tuple[str, str]]:
    rows = [each for each in outcome.rows if each.get("section") == "findings"]
    return [(each["code"], each["lsn"]) for each in rows if each["severity"] == "error"]


def test_recover_names_the_files_that_it_does_not_check(home: Path) -> None:
    flip(home)
    size = sum(path.stat().st_size for path in log_files(home)[:-1])
    told = je_tools("recover", home)
    assert told.code == 0
    line = f"files not checked          2 older files, {size:,} bytes: --verify checks their"
    assert line in told.out.decode()
    facts = row(je_tools("recover", home, "--format", "jsonl"), "recovery")
    assert facts["unchecked_file_count"] == 2
    assert facts["unchecked_size"] == size
    assert facts["is_verified"] is False


def test_verify_finds_their_damage(home: Path) -> None:
    clean = je_tools("recover", home, "--verify")
    assert clean.code == 0
    assert "files checked" in clean.out.decode()
    lsn = flip(home)
    outcome = je_tools("recover", home, "--verify", "--format", "jsonl")
    assert (outcome.code, found(outcome)) == (3, [("damaged-entry", lsn)])
    facts = row(outcome, "recovery")
    assert (facts["is_verified"], facts["unchecked_file_count"]) == (True, 0)


def test_a_damaged_log_is_not_written(home: Path, tmp_path: Path) -> None:
    """Writing would not change the damage; still, no log is written after a check that failed."""
    lsn = flip(home)
    before = states(home)
    refused = je_tools("recover", home, "--apply", "--verify")
    assert refused.code == 6
    assert f"--verify found damaged-entry at {lsn}" in refused.err
    target = tmp_path / "copy"
    assert je_tools("recover", home, "--apply", "--verify", "--output", target).code == 6
    assert not target.exists()
    log = {name: state for name, state in before.items() if name.endswith(".jdb")}
    assert log.items() <= states(home).items()
    words = ("--apply", "--verify", "--accept-loss", "--format", "jsonl")
    outcome = je_tools("recover", home, *words)
    assert (outcome.code, found(outcome)) == (3, [("damaged-entry", lsn)])
    again = je_tools("recover", home, "--verify", "--format", "jsonl")
    assert (again.code, found(again)) == (3, [("damaged-entry", lsn)])


def test_a_sound_log_is_written(home: Path) -> None:
    outcome = je_tools("recover", home, "--apply", "--verify")
    assert outcome.code == 0
    assert "files checked" in outcome.out.decode()


def test_what_is_cut_off_may_be_damaged(home: Path) -> None:
    """Recovery removes the end of the log from the first damaged entry on."""
    last = log_files(home)[-1]
    data = last.read_bytes()
    place = [each for each in walk_file(last) if each.type_no == 24][-1].lsn & 0xFFFFFFFF
    changed = bytearray(data)
    changed[place + 20] ^= 1
    last.write_bytes(changed)
    outcome = je_tools("recover", home, "--apply", "--verify")
    assert outcome.code == 3
    assert "--verify found" not in outcome.err
    assert "the log is written" in outcome.err


def test_checkpoint_says_the_same(home: Path) -> None:
    assert je_tools("recover", home, "--apply").code == 0
    lsn = flip(home)
    told = je_tools("checkpoint", home)
    assert told.code == 0
    assert "2 older files" in told.out.decode()
    for words in ((), ("--apply", "--accept-loss")):
        outcome = je_tools("checkpoint", home, "--verify", "--format", "jsonl", *words)
        assert (outcome.code, found(outcome)) == (3, [("damaged-entry", lsn)])
        assert row(outcome, "checkpoint")["is_verified"] is True
    assert je_tools("checkpoint", home, "--verify", "--apply").code == 6
