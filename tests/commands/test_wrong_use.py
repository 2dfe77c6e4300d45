"""Command lines without a meaning: refused with a reason, before anything is read or printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools

HOME = FIXTURES / "v17-basic" / "env"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--from-lsn 3/4", "--from-lsn 3/4: an LSN is written"),
        ("--from-lsn 0x0/0x0 --to-lsn x", "--to-lsn x: an LSN is written"),
        ("--since noon", "--since noon: a time is written"),
        ("--until 1700000000", "--until 1700000000: as ms since 1970"),
        ("--from-lsn 0x5/0x0 --to-lsn 0x1/0x0", "--from-lsn comes after --to-lsn"),
        ("--from-vlsn 6 --to-vlsn 5", "--from-vlsn comes after --to-vlsn"),
        ("--since 2026-12-01 --until 2026-11-01", "--since comes after --until"),
        ("--type nix", "--type nix: no such entry type"),
        ("--key hex:0", "--key hex:0: '0' is not pairs"),
        ("--parts", "--parts needs --format parquet"),
        ("--parts --format parquet", "needs --output DIRECTORY"),
        ("--format parquet", "needs --output FILE"),
        ("--follow --format parquet", "--follow cannot write Parquet"),
        ("--follow --backward", "omit --output and --backward"),
    ],
)
@pytest.mark.parametrize("home", [HOME, Path("nothing")], ids=["log", "no log"])
def test_dump(options: str, told: str, home: Path) -> None:
    done = je_tools("dump", home, *options.split())
    assert (done.code, done.out) == (2, b"")
    assert done.err.startswith("je-tools: ")
    assert told in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("bound", ["--from-lsn 0x0/0x58 --to-lsn 0x0/0x58", "--since 2026-11-20"])
def test_bounds_that_are_equal_are_in_order(bound: str) -> None:
    assert je_tools("dump", HOME, *bound.split()).code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("0x0/0x26 nix", "'nix': neither an LSN"),
        ("type:BIN 0x0/0x26", "0x0/0x26: an LSN needs a log"),
        ("exit:3 --version 7", "--version needs type:NAME"),
    ],
)
def test_explain(words: str, told: str) -> None:
    done = je_tools("explain", *words.split())
    assert (done.code, done.out) == (2, b"")
    assert told in done.err


def test_salvage_to_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = je_tools("salvage", HOME, "--output", "-")
    assert (done.code, done.out) == (2, b"")
    assert "name a new directory" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("verfy env", "Did you mean 'verify'?"),
        ("check-point env", "Did you mean 'checkpoint'?"),
        ("audit rum dir", "Did you mean 'run'?"),
        ("count env --fromat csv", "Did you mean '--format'?"),
        ("verify env --al", "Did you mean one of: '--all'"),
    ],
)
def test_a_misspelled_name_gets_a_suggestion(words: str, meant: str) -> None:
    done = je_tools(*words.split())
    assert (done.code, done.out) == (2, b"")
    assert meant in done.err


def test_a_path_in_the_place_of_a_command_gets_none() -> None:
    done = je_tools("meta/bdb")
    assert done.code == 2
    assert "No such command 'meta/bdb'." in done.err
    assert "mean" not in done.err
