"""`je-tools undo`: messages, and the undo is done even if nobody can read them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from je_tools.log.opening import open_environment
from je_tools.writing.lock import EnvironmentLock
from je_tools.writing.session import Session
from tests.builders.forked import CLOSED, Forked
from tests.je_tools.dumped import je_tools
from tests.je_tools.writing.operations import (
    digests,
    journal_of,
    operate,
    small_log,
    spoil,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return small_log(tmp_path / "an env")


def append(home: Path) -> None:
    environment = open_environment([home])
    last = environment.files[-1]
    with Session(environment, "later", None) as session:
        session.append(last.file_no, last.size, b"x" * 100)
        session.finish()


def test_each_run_puts_back_one_and_tells_of_the_one_before(home: Path) -> None:
    before = digests(home)
    operate(home, "earlier-end")
    append(home)
    done = je_tools("undo", home)
    again = f"`je-tools undo '{home}' --apply`"
    assert done.err == f"je-tools: nothing was changed; {again} reverts undo 2\n"
    assert b"To revert undo 2\n" in done.out
    done = je_tools("undo", home, "--apply")
    assert done.err.splitlines() == [
        "je-tools: undo 2 (later) is reverted: the log is as it was before",
        f"je-tools: the earlier undo 1 (earlier-end) remains; {again} reverts that too",
    ]
    assert b"How undo 2 was reverted\n" in done.out
    done = je_tools("undo", home, "--apply", "--format", "jsonl")
    assert done.err.count("\n") == 1
    journal, *steps = map(json.loads, done.out.splitlines())
    assert (journal["number"], journal["state"], journal["saved_size"]) == (1, "put-back", 4122)
    assert len(steps) == 7
    assert digests(home) == before
    assert je_tools("undo", home, "--apply").err.endswith("nothing was changed\n")


@pytest.mark.parametrize("more", [(), ("--drop", "all")])
def test_nothing_is_created_if_there_is_nothing_to_undo(more: tuple[str, ...], home: Path) -> None:
    (home / "je.lck").unlink(missing_ok=True)
    before = sorted(home.iterdir())
    for words in ((), ("--apply",)):
        done = je_tools("undo", home, *words, *more)
        assert done.code == 0
        assert sorted(home.iterdir()) == before
    assert je_tools("undo", home, "--apply", "--drop", "1").code == 2


@pytest.mark.parametrize(("output", "code"), [("pipe", 0), ("full", 6), ("closed", 6)])
def test_it_is_done_whoever_reads_of_it(output: str, code: int, home: Path, forked: Forked) -> None:
    before = digests(home)
    operate(home, "checkpoint")
    reader, writer = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    number = {"pipe": writer, "full": full, "closed": CLOSED}[output]
    done = forked.run("je-tools", "undo", home, "--apply", stdout=number)
    os.close(writer)
    os.close(full)
    first = done.stderr.splitlines()[0]
    assert first == b"je-tools: undo 1 (checkpoint) is reverted: the log is as it was before"
    assert done.returncode == code, done.stderr
    assert digests(home) == before


def test_an_output_that_cannot_be_is_refused_before(home: Path) -> None:
    operate(home, "checkpoint")
    before = digests(home)
    done = je_tools("undo", home, "--apply", "--output", home / "told")
    assert done.code == 6
    assert digests(home) == before


def test_a_damaged_journal_is_dropped_by_its_number_alone(home: Path) -> None:
    operate(home, "earlier-end")
    append(home)
    spoil(journal_of(home), journal_of(home).read_bytes().index(b"saved"))
    done = je_tools("undo", home, "--drop", "all")
    text = (
        "undo 1: its journal is damaged, and is only removed by its number; `je-tools undo "
        f"'{home}'"
    )
    assert done.code == 6
    assert f"{text} --drop 1 --apply` removes the journal and all bytes that it keeps" in done.err
    assert b"To revert" not in done.out
    assert je_tools("undo", home, "--drop", "all", "--apply").code == 6
    assert sorted(path.name for path in journal_of(home).parent.iterdir()) == [
        "00000002.jdb.removed",
        "00000003.jdb.removed",
        "journal",
    ]
    assert not journal_of(home).parent.with_name("000002").exists()
    done = je_tools("undo", home, "--apply")
    assert (done.code, done.out) == (6, b"")
    assert "the undo journal is damaged: the bytes from" in done.err
    done = je_tools("undo", home, "--drop", "1", "--apply", "--format", "jsonl")
    assert done.code == 0
    assert json.loads(done.out)["state"] == "removed"
    assert not (home / ".je-tools-undo").exists()


def test_who_has_it_open_is_told_in_a_dry_run(home: Path) -> None:
    operate(home, "checkpoint")
    with EnvironmentLock(home):
        done = je_tools("undo", home)
        assert done.code == 0
        assert f"undo 1, after you stop process {os.getpid()} (" in done.err
        assert done.err.endswith("which has the environment open for writing\n")
        done = je_tools("undo", home, "--apply")
    assert done.code == 6
    assert done.err.endswith(
        f"stop that first. `je-tools lock '{home}'` shows who holds the lock\n"
    ), done.err
