"""`je.properties`: read as Java reads it, and checked as the engine checks it."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from je_tools.core.properties import (
    DATA_DIRECTORIES,
    EXPUNGE,
    FILE_MAX,
    FREE_DISK,
    MAX_DISK,
    MIN_AGE,
    RUN_CLEANER,
    PropertiesError,
    Settings,
    parse_properties,
    read_settings,
)
from tests.engine.recovered import QUICK_START

PIECES = (
    *("je.a", "b", "=", ":", " ", "\t", "\f", "\n", "\r", "\r\n", "\\", "\\\\", "#", "!"),
    *("\\\n", "\\\r\n", "\\u0041", "\\u00e4", "\\u20AC\\u0416", "\\t", "\\q", "\xe4", "\\u12", "7"),
)


def settings_of(tmp_path: Path, text: str) -> Settings:
    (tmp_path / "je.properties").write_bytes(text.encode("latin-1"))
    return read_settings(tmp_path)


def test_defaults_where_there_is_no_file(tmp_path: Path) -> None:
    settings = read_settings(tmp_path)
    assert settings == Settings()
    assert settings.number(FILE_MAX) == 10_000_000
    assert settings.number(FREE_DISK) == 5_368_709_120
    assert settings.switch(EXPUNGE)
    assert not settings.is_set(FREE_DISK)


def test_names_values_comments_and_lines_that_go_on(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path,
        "# je.maxDisk=1\n"
        " ! je.maxDisk=2\n"
        "je.maxDisk 30\\\n   00\r\n"
        "je.freeDisk\t:\t7\r"
        "je.cleaner.\\\n  expunge = FALSE \n"
        "je.cleaner.minAge=4\nje.cleaner.minAge=5\n"
        "je.log.f\\u0069leMax=2000000",
    )
    assert settings.refused == ()
    assert settings.number(MAX_DISK) == 3000
    assert settings.number(FREE_DISK) == 7
    assert settings.is_set(FREE_DISK)
    assert not settings.switch(EXPUNGE)
    assert settings.switch(RUN_CLEANER)
    assert settings.number(MIN_AGE) == 5
    assert settings.number(FILE_MAX) == 2_000_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("je.maxDisk=10 GB", "no whole number"),
        ("je.maxDisk=10 ", "no whole number"),
        ("je.maxDisk", "no whole number"),
        ("je.maxDisk=\\u0661", "no whole number"),
        ("je.maxDisk=9223372036854775808", "no whole number"),
        ("je.maxDisk=" + "9" * 5000, "no whole number"),
        ("je.maxDisk=-1", "not from 0"),
        ("je.log.fileMax=1000", "not from 1,000,000 to 1,073,741,824"),
        ("je.log.nDataDirectories=257", "not from 0 to 256"),
        ("je.cleaner.expunge=yes", "no boolean"),
        ("je.x=\\u00zz", "four hexadecimal digits"),
    ],
)
def test_what_the_engine_refuses(tmp_path: Path, text: str, said: str) -> None:
    settings = settings_of(tmp_path, text)
    (refusal,) = settings.refused
    assert said in refusal
    assert settings.number(MAX_DISK) == 0
    assert settings.number(FILE_MAX) == 10_000_000
    assert settings.number(DATA_DIRECTORIES) == 0
    assert settings.switch(EXPUNGE)


def test_other_parameters_are_kept_as_they_are(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "je.rep.x = a b \n")
    assert settings.texts == {"je.rep.x": "a b "}
    assert settings.refused == ()


def test_a_file_that_never_ends(tmp_path: Path) -> None:
    """Reading a pipe would never end; a device or a very long file would fill the memory."""
    path = tmp_path / "je.properties"
    os.mkfifo(path)
    assert read_settings(tmp_path).unreadable == "not a regular file"
    path.unlink()
    path.symlink_to("/dev/zero")
    assert read_settings(tmp_path).unreadable == "not a regular file"
    path.unlink()
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert read_settings(tmp_path).unreadable == "longer than 1,048,576 bytes"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "je.properties").mkdir()
    settings = read_settings(tmp_path)
    assert settings.unreadable == "not a regular file"
    assert settings.number(MAX_DISK) == 0


def shown(data: bytes) -> str:
    """Return the properties as `Properties.java` prints them, or "refused"."""
    try:
        found = parse_properties(data)
    except PropertiesError:
        return "refused"
    hexed = {
        name.encode("utf-16-be").hex(): value.encode("utf-16-be").hex()
        for name, value in found.items()
    }
    return " ".join(f"{name}={hexed[name]}" for name in sorted(hexed))


def of_names(line: str) -> str:
    """Return the line without empty names, which Java makes of a backslash at the very end."""
    return " ".join(each for each in line.split(" ") if not each.startswith("="))


def test_as_java_reads_them(tmp_path: Path, java: Path, class_path: str) -> None:
    rng = random.Random(5)
    paths = []
    for i in range(2_000):
        path = tmp_path / str(i)
        path.write_bytes("".join(rng.choices(PIECES, k=rng.randrange(24))).encode("latin-1"))
        paths.append(path)
    command = [java, *QUICK_START, "-cp", class_path, "Properties", *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = done.stdout.split("\n")
    for path, line in zip(paths, told, strict=False):
        data = path.read_bytes()
        assert of_names(shown(data)) == of_names(line), data
