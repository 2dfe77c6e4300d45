"""`je-tools erase subject --delete-live`: data are deleted, erased, and searched for again."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from je_tools.writing.lock import EnvironmentLock
from tests.builders.trees import simple
from tests.damage.running import je_tools
from tests.je_tools.erase.erasing import copy_of, log_bytes
from tests.je_tools.snapshots import codes_of, contents_of, snapshot_of

KEY, EMAIL = "user00000003", "user3@example.org"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a log with a person's record, and an older version of it."""
    return copy_of("v17-basic", tmp_path / "env")


def test_without_apply_nothing_is_written(home: Path) -> None:
    old, names = log_bytes(home), sorted(home.iterdir())
    done = je_tools("erase", "subject", home, "--key", KEY, "--delete-live")
    assert done.code == 3
    assert "nothing was written; --apply deletes 1 live record" in done.err
    assert (log_bytes(home), sorted(home.iterdir())) == (old, names)
    assert je_tools("erase", "subject", home, "--key", KEY, "--apply").code == 2


@pytest.mark.parametrize(
    "words", [("--key", KEY), ("--match", EMAIL), ("--match", "re:user3@ex[a-z]{1,9}[.]org")]
)
def test_no_trace_is_left(words: tuple[str, str], home: Path) -> None:
    before = contents_of(snapshot_of(home))
    people = dict(before["people"])
    note = json.loads(people[KEY.encode()])["note"].encode()
    before["people"] = [record for record in before["people"] if record[0] != KEY.encode()]
    done = je_tools("erase", "subject", home, *words, "--delete-live", "--apply")
    assert done.code == 0, done.err
    for needle in (KEY, EMAIL, note.decode()):
        assert needle not in done.out.decode() + done.err
    log = b"".join(log_bytes(home).values())
    assert not [each for each in (KEY.encode(), EMAIL.encode(), note) if each in log]
    assert contents_of(snapshot_of(home)) == before
    assert codes_of(snapshot_of(home)) == []
    assert je_tools("erase", "prove", home, "--key", KEY, "--match", EMAIL).code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--match", "r3@"),
        ("--match", "re:user0000000[0-9]|r3@"),
        # These delete most records, which takes a second.
        pytest.param(("--key", "hex:7573*"), marks=pytest.mark.exhaustive),
        pytest.param(("--match", "re:[a-z]{4}"), marks=pytest.mark.exhaustive),
        pytest.param(("--key", "u", "--match", "u"), marks=pytest.mark.exhaustive),
        ("--key", "r3@", "--match", "r3@"),
    ],
)
def test_short_needles_delete_only_when_that_is_allowed(words: tuple[str, ...], home: Path) -> None:
    old = log_bytes(home)
    asked = ("erase", "subject", home, *words, "--delete-live")
    done = je_tools(*asked)
    assert done.code == 3
    assert "--apply --allow-short deletes" in done.err
    done = je_tools(*asked, "--apply")
    assert done.code == 2
    assert "--allow-short" in done.err
    assert log_bytes(home) == old
    assert je_tools(*asked, "--apply", "--allow-short").code in (0, 3)
    assert log_bytes(home) != old


def test_a_short_key_deletes_one_record(home: Path) -> None:
    log = simple({b"a": b"1", b"ab": b"2"}).write(home / "env")
    done = je_tools("erase", "subject", log, "--key", "a", "--delete-live")
    assert "--apply deletes 1 live record" in done.err


def test_a_key_is_also_a_match_if_both_are_named(tmp_path: Path) -> None:
    log = simple({b"carol": b"1", b"dan": b"knows carol"}).write(tmp_path / "env")
    words = ("--key", "carol", "--match", "carol", "--delete-live")
    done = je_tools("erase", "subject", log, *words)
    assert "--apply deletes 2 live records" in done.err


def test_without_a_trace_nothing_is_written(home: Path) -> None:
    old = log_bytes(home)
    done = je_tools("erase", "subject", home, "--key", "nobody", "--delete-live", "--apply")
    assert done.code == 0
    assert "nothing was written: there is no trace to erase" in done.err
    assert log_bytes(home) == old


def test_a_node_of_a_group_is_refused(tmp_path: Path) -> None:
    home = copy_of("starrocks-rep-uncommitted/node1", tmp_path / "env")
    old = log_bytes(home)
    done = je_tools("erase", "subject", home, "--match", "user3@", "--delete-live", "--apply")
    assert done.code == 6
    assert "Delete them through the application" in done.err
    assert "`je-tools erase run --checkpoint-first --rewrite DB --apply` on every node" in done.err
    assert log_bytes(home) == old


@pytest.mark.parametrize("what", ["locked", "full", "linked"])
def test_a_refusal_names_no_copy(
    what: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `--output`, the report goes to a file: the command cannot write to a copy."""
    old = log_bytes(home)
    asked = ("erase", "subject", home, "--key", KEY, "--delete-live", "--apply")
    with ExitStack() as stack:
        if what == "locked":
            stack.enter_context(EnvironmentLock(home))
        elif what == "full":
            monkeypatch.setattr("je_tools.writing.log_files._free", lambda _: 10)
        else:
            (tmp_path / "link").hardlink_to(home / "00000000.jdb")
        done = je_tools(*asked)
    assert done.code == 6
    assert "--output" not in done.err
    assert {"locked": "stop that", "full": "free space", "linked": "cp -p"}[what] in done.err
    assert log_bytes(home) == old


def test_traces_in_nodes_go_with_the_records(tmp_path: Path) -> None:
    """In a database with duplicates every slot has the key, and so have nodes above."""
    home = copy_of("v17-dups", tmp_path / "env")
    before = contents_of(snapshot_of(home))
    key = b"city8"
    left = {db: [each for each in records if each[0] != key] for db, records in before.items()}
    assert left != before
    done = je_tools("erase", "subject", home, "--key", "city8", "--delete-live", "--apply")
    # Other records have the same values.
    assert done.code == 3
    assert b"slot in use" in done.out
    assert b"old node" not in done.out
    assert je_tools("erase", "prove", home, "--key", "city8").code == 0
    assert contents_of(snapshot_of(home)) == left
    assert codes_of(snapshot_of(home)) == []
