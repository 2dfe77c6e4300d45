"""`--data`: masked values are on neither stream, even if findings name their keys."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.corpus import FIXTURES
from tests.je_tools.dumped import Done, je_tools, rows_of

WHOLE = FIXTURES / "v8-cleaned" / "env"
MODES = ["hide", "length", "hash", "salted-hash"]

COMMANDS = [
    ("export", "--db", "people"),
    ("export", "--db", "people", "--format", "jsonl"),
    ("count",),
    ("databases",),
    ("recover",),
    ("space", "--recount"),
    ("verify", "--tree"),
    ("verify", "--tree", "--format", "jsonl"),
    ("missing",),
    ("missing", "--format", "jsonl"),
    ("diff", WHOLE),
    ("diff", WHOLE, "--blocks", "5"),
    ("diff", WHOLE, "--show", "records", "--format", "csv"),
]
NAMING = [COMMANDS[0], *COMMANDS[6:]]
"""Commands that name keys of this log if nothing is masked."""


@pytest.fixture(scope="module")
def hurt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log without one of its files."""
    home = tmp_path_factory.mktemp("hurt") / "env"
    shutil.copytree(WHOLE, home)
    (home / "00000002.jdb").unlink()
    return home


def told(home: Path, words: tuple[str | Path, ...], mode: str) -> Done:
    verb, *others = words
    return je_tools(str(verb), home, *others, "--data", mode)


def leaks(done: Done) -> bool:
    """Return True if a key of `people` is in the output, in any form."""
    text = done.out + done.err.encode()
    return any(piece in text for piece in (b"user0", b"user1", b"757365723", b"7573657230"))


def _name(words: tuple[str | Path, ...]) -> str:
    return "-".join(str(word).strip("-") for word in words if not isinstance(word, Path))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("words", COMMANDS, ids=_name)
def test_no_key_is_told(hurt: Path, words: tuple[str | Path, ...], mode: str) -> None:
    done = told(hurt, words, mode)
    assert done.code in (0, 3), done.err
    assert not leaks(done)


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log with Commits after a damaged entry, which recovery would cut off."""
    home = tmp_path_factory.mktemp("cut") / "env"
    shutil.copytree(FIXTURES / "v17-crash-txn" / "env", home)
    with (home / "00000000.jdb").open("r+b") as file:
        file.seek(150_000)
        file.write(b"XX")
    return home


LOSING = [
    ("recover", "--format", "jsonl"),
    ("recover",),
    ("verify", "--tree", "--format", "jsonl"),
    ("dump", "--format", "jsonl"),
    ("dump", "--format", "csv"),
]
"""Commands that show what comes after the damage."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("words", LOSING, ids=_name)
def test_no_lost_key_is_told(cut: Path, words: tuple[str, ...], mode: str) -> None:
    done = told(cut, words, mode)
    assert done.code in (0, 3), done.err
    assert not leaks(done)


def test_lost_keys_are_told_where_they_are_shown(cut: Path) -> None:
    assert leaks(told(cut, LOSING[0], "show"))


@pytest.mark.parametrize("words", NAMING, ids=_name)
def test_keys_are_told_where_they_are_shown(hurt: Path, words: tuple[str | Path, ...]) -> None:
    assert leaks(told(hurt, words, "show"))


@pytest.mark.parametrize("mode", MODES)
def test_get_names_no_key(hurt: Path, mode: str) -> None:
    for words in (("user00000*",), ("hex:7573657230*", "--format", "jsonl")):
        assert not leaks(told(hurt, ("get", "--db", "people", *words), mode))


def test_a_salted_hash_is_the_same_on_both_streams(hurt: Path) -> None:
    """Messages about a record can thus be joined with the record."""
    words = ("diff", WHOLE, "--db", "people", "--show", "records", "--format", "jsonl")
    done = told(hurt, words, "salted-hash")
    keys = {row["key"] for row in rows_of(done.out)}
    named = {word for word in done.err.split() if word.startswith("salted:")}
    assert named & keys


def test_keys_of_findings_are_masked(hurt: Path) -> None:
    words = ("verify", "--tree", "--format", "jsonl")
    rows = [row for row in rows_of(told(hurt, words, "length").out) if row["code"] == "tree-record"]
    assert rows
    assert all(row["lost_from"].startswith("length:") for row in rows)
    hidden = rows_of(told(hurt, words, "hide").out)
    assert all(row.get("lost_from") is None for row in hidden)


@pytest.mark.parametrize("mode", MODES)
def test_masked_dump_text_says_so(mode: str) -> None:
    for words in ((), ("--print",)):
        done = told(WHOLE, ("export", "--db", "people", *words), mode)
        assert done.out.splitlines()[1] == f"format=masked-{mode}".encode()
