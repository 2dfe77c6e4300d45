"""Names of directories, files and databases: untrusted text."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from pathlib import Path

import pytest

from je_tools.core.escaping import clean_text, printable, safe_cell
from tests.builders.logs import write_log
from tests.corpus import FIXTURES
from tests.je_tools.dump.test_formats import HOSTILE, hostile_log
from tests.je_tools.dumped import je_tools
from tests.test_golden import damaged_log

EVIL = "ev\x1b[31mil\n\u202e" + os.fsdecode(b"\xff")
SPELLED = "ev\\x1b[31mil\\n\\u202e\\xff"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_log(tmp_path / EVIL, damaged_log())


def is_safe(text: str) -> bool:
    return all(character == "\n" or character.isprintable() for character in text)


@pytest.mark.parametrize("command", ["doctor", "recover", "count", "missing", "verify --tree"])
def test_a_name_of_bytes_that_are_no_text_is_read(command: str, tmp_path: Path) -> None:
    home = shutil.copytree(FIXTURES / "v17-crash-txn" / "env", tmp_path / EVIL)
    verb, *options = command.split()
    done = je_tools(verb, home, *options)
    assert done.code == 0
    assert is_safe(done.out.decode("utf-8"))
    assert is_safe(done.err)


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "HOME"),
        ("verify", "HOME", "--format", "jsonl"),
        ("dump", "HOME"),
        ("dump", "HOME", "--output", "HOME/out"),
        ("dump", "HOME", "--follow", "--output", "HOME/out"),
        ("summary", "HOME"),
        ("summary", "HOME", "--format", "csv"),
        ("files", "HOME"),
        ("files", "HOME", "--format", "csv"),
        ("files", "HOME/00000003.jdb", "HOME/00000004.jdb"),
        ("verify", "HOME/nothing.jdb"),
        ("verify", "HOME", "HOME"),
        ("verify", "HOME", "--output", "HOME"),
        ("verify", "HOME", "--format", EVIL),
        ("verify", f"--{EVIL}"),
        (EVIL,),
        ("explain", EVIL),
        ("explain", f"type:{EVIL}"),
        ("explain", "0x3/0x26", "--env", "HOME"),
        ("explain", "0x9/0x26", "--env", "HOME"),
    ],
    ids=lambda words: " ".join(words).replace(EVIL, "EVIL"),
)
def test_nothing_steers_a_terminal(words: tuple[str, ...], home: Path) -> None:
    done = je_tools(*(word.replace("HOME", str(home)) for word in words))
    assert is_safe(done.out.decode("utf-8"))
    assert is_safe(done.err)
    assert done.code in (2, 3, 4, 6) or words[0] == "explain"


def test_the_verdict_names_the_directory(home: Path) -> None:
    assert SPELLED in je_tools("verify", home).err


def test_a_name_as_a_command_line_has_it() -> None:
    assert printable(EVIL) == SPELLED
    assert printable("größe") == "größe"
    assert printable("\ud800") == "\\ud800"


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1", "-1", "@SUM(1)", " =1", "\t=1", "\r=1"])
def test_no_cell_is_a_formula(text: str) -> None:
    assert not safe_cell(text).lstrip().startswith(("=", "+", "-", "@"))
    assert is_safe(safe_cell(text))
    assert "\n" not in safe_cell(text)


def test_csv_of_every_command_holds_no_formula(tmp_path: Path) -> None:
    home = hostile_log(tmp_path / "env")
    names = set()
    for words in (("summary", "--by-db"), ("files",), ("dump",)):
        done = je_tools(words[0], home, *words[1:], "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(done.out.decode("utf-8"), newline=""), strict=True))
        assert rows
        for row in rows:
            for name, cell in row.items():
                is_number = cell.removeprefix("-").isdecimal()
                assert is_number or not cell.startswith(("=", "+", "-", "@", "\t", "\r")), name
                assert is_safe(cell)
                assert "\n" not in cell
            names.add(row.get("db"))
    assert len(names) >= len(HOSTILE)


def test_json_holds_the_name(home: Path) -> None:
    lines = je_tools("verify", home, "--format", "jsonl").out.splitlines()
    assert {json.loads(line)["env"] for line in lines} == {clean_text(str(home))}
