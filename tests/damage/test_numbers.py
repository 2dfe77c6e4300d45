"""Files whose number is ambiguous from names or headers: never guessed in silence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools

ONE, OTHER = (FIXTURES / name / "env" / "00000000.jdb" for name in ("v26-basic", "v26-dbops"))


def with_twin(home: Path, name: str) -> tuple[Path, Path]:
    """Create an environment with two files of number 0, of different logs."""
    paths = home / ONE.name, home / name
    paths[1].parent.mkdir(parents=True)
    for source, path in zip((ONE, OTHER), paths, strict=True):
        shutil.copyfile(source, path)
    return paths


@pytest.mark.parametrize(
    "command",
    [
        ("salvage", "--output"),
        ("export", "--all", "--output"),
        ("recover",),
        ("count",),
        ("databases",),
        ("space",),
        ("missing",),
        ("diff", FIXTURES / "v26-basic" / "env"),
        ("diff", FIXTURES / "v26-basic" / "env", "--show", "files"),
    ],
    ids=lambda command: f"{command[0]} {command[-1]}" if "diff" in command else command[0],
)
def test_two_files_of_one_number_are_not_read_as_one_log(
    command: tuple[str | Path, ...], tmp_path: Path
) -> None:
    one, other = with_twin(tmp_path / "env", "data001/00000000.jdb")
    where = [tmp_path / "out"] if command[-1] == "--output" else []
    done = je_tools(command[0], tmp_path / "env", *command[1:], *where)
    assert (done.code, done.out) == (4, b"")
    assert f"{one} and {other} both are file 0x0 of the log" in done.err
    assert "`je-tools salvage FILE --output DIR` reads each by itself" in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["00000000.jdb.1", "00000000.JDB"])
def test_names_may_differ_in_what_is_no_number(name: str, tmp_path: Path) -> None:
    home = tmp_path / "env"
    home.mkdir()
    shutil.copyfile(ONE, home / ONE.name)
    shutil.copyfile(OTHER, home / name)
    done = je_tools("salvage", home, "--output", tmp_path / "out")
    assert done.code == 4
    for path in (home / ONE.name, home / name):
        assert je_tools("salvage", path, "--output", tmp_path / f"out {path.name}").code == 0


CLEANED = FIXTURES / "v8-cleaned" / "env"


def swapped(home: Path) -> Path:
    """Copy two files of one log, each under the name of the other."""
    home.mkdir()
    one, other = sorted(CLEANED.glob("*.jdb"))
    shutil.copyfile(one, home / other.name)
    shutil.copyfile(other, home / one.name)
    return home


def report_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "report.jsonl").read_text().splitlines()]


def records_of(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in folder.glob("*.jsonl")
        if path.name != "report.jsonl"
    }


@pytest.mark.parametrize("named", [False, True], ids=["directory", "files"])
def test_swapped_files_are_read_in_the_order_of_their_headers(named: bool, tmp_path: Path) -> None:
    """In the order of names, old versions would win and come back as committed."""
    home = swapped(tmp_path / "env")
    right, wrong = sorted(CLEANED.glob("*.jdb")), sorted(home.glob("*.jdb"))
    whole = je_tools("salvage", *right, "-o", tmp_path / "right", "--format", "jsonl")
    assert "wrong-file-number" not in whole.err
    paths = wrong if named else [home]
    done = je_tools("salvage", *paths, "-o", tmp_path / "out", "--format", "jsonl")
    assert done.code == 3
    assert records_of(tmp_path / "out") == records_of(tmp_path / "right") != {}
    rows = [row for row in report_of(tmp_path / "out") if row["kind"] == "misnamed-file"]
    assert rows == [
        {
            "kind": "misnamed-file",
            "path": str(wrong[1]),
            "name_no": 3,
            "header_no": 2,
            "file_no": 2,
        },
        {
            "kind": "misnamed-file",
            "path": str(wrong[0]),
            "name_no": 2,
            "header_no": 3,
            "file_no": 3,
        },
    ]
    for name, other in (("0x2", "0x3"), ("0x3", "0x2")):
        assert f"expected {name}, as in its name; found {other}" in done.err
    assert f"misnamed-file: {wrong[1]} is read as file 0x2, as its header says" in done.out.decode()


def test_a_number_that_two_headers_have_tells_nothing(tmp_path: Path) -> None:
    """Names decide then, and the output says so: the data may be older than the name."""
    home = shutil.copytree(CLEANED, tmp_path / "env")
    one, other = sorted(home.glob("*.jdb"))
    shutil.copyfile(one, other)
    done = je_tools("salvage", home, "-o", tmp_path / "out")
    assert done.code == 3
    (row,) = (row for row in report_of(tmp_path / "out") if row["kind"] == "misnamed-file")
    assert (row["path"], row["name_no"], row["header_no"], row["file_no"]) == (str(other), 3, 2, 3)
    assert f"{other} is read as file 0x3, as its name says" in done.out.decode()


def test_so_does_one_that_a_file_without_a_header_has_in_its_name(tmp_path: Path) -> None:
    home = swapped(tmp_path / "env")
    one, other = sorted(home.glob("*.jdb"))
    other.write_bytes(bytes(38) + other.read_bytes()[38:])
    done = je_tools("salvage", home, "-o", tmp_path / "out")
    assert done.code == 3
    rows = [row for row in report_of(tmp_path / "out") if row["kind"] == "misnamed-file"]
    assert [(row["path"], row["file_no"]) for row in rows] == [(str(one), 2)]
