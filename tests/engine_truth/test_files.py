"""Rows of `files` agree with the engines' prints of the files, and with what engines open."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.corpus import (
    FIXTURES,
    ROOT,
    VECTORS,
    Environment,
    environments,
    environments_in,
    legacy_files,
    log_files,
)
from tests.engine.jars import JE_5, JE_18
from tests.engine.recovered import Engine
from tests.engine_truth.running import json_rows
from tests.engine_truth.selected import PRINTED_FIXTURES, PRINTLOG, over
from tests.truth.contents import Refusal
from tests.truth.headers import walk_file
from tests.truth.printlog import read_printlog

HERE = environments_in(FIXTURES)
MODERN = (20, 1)
OLD_DELTA_NO, CKPT_END_NO = 22, 20
_RELEASE_ROW = re.compile(r"^\| (\d+) \| (\d+\.\d+) \|$", re.MULTILINE)
_VERSION = re.compile(r"\d+\.\d+\.\d+")

FileRows = dict[int, dict[str, Any]]


def rows_of(home: Path) -> FileRows:
    """Return the rows of `files`, by file number."""
    code, rows = json_rows("files", home)
    assert code == 0
    return {row["file_no"]: row for row in rows if row.get("section") != "findings"}


def lsn_text(lsn: int | None) -> str | None:
    return None if lsn is None else f"0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:x}"


def said_by(entries: list[Any]) -> dict[str, Any]:
    """Return number, LSNs and VLSNs of one file's entries, printed or walked."""
    vlsns = [each.vlsn for each in entries if each.replicated and not each.invisible]
    return {
        "entry_count": len(entries),
        "damage_count": 0,
        "first_lsn": lsn_text(entries[0].lsn),
        "last_lsn": lsn_text(entries[-1].lsn),
        "first_vlsn": min(vlsns, default=None),
        "last_vlsn": max(vlsns, default=None),
    }


def check(home: Path, said: Iterable[Any]) -> None:
    """Compare the rows with entries of the whole log, file by file."""
    found = rows_of(home)
    by_file = {no: list(entries) for no, entries in groupby(said, lambda each: each.lsn >> 32)}
    assert found.keys() == by_file.keys()
    for no, entries in by_file.items():
        told = said_by(entries)
        assert {name: found[no][name] for name in told} == told


@over(PRINTED_FIXTURES)
def test_entries_as_printed(env: Environment) -> None:
    assert env.truth is not None
    printed = list(read_printlog(env.truth / PRINTLOG))
    check(env.home, printed)
    found = rows_of(env.home)
    for entry in printed:
        if entry.type == "FileHeader":
            row = found[entry.lsn >> 32]
            assert row["created_ms"] == entry.fields["created_ms"]
            assert row["file_no"] == entry.fields["header_file_no"]


@over(HERE)
def test_entries_as_walked(env: Environment) -> None:
    check(env.home, (header for path in log_files(env.home) for header in walk_file(path)))


@over(HERE)
def test_headers(env: Environment) -> None:
    """Compare number, name, version, time and size with the bytes of the file."""
    found = rows_of(env.home)
    for path in log_files(env.home):
        created_ms, file_no, _, version = struct.unpack_from("<qIqi", path.read_bytes(), 14)
        told = {
            "file_no": file_no,
            "name": path.name,
            "log_version": version,
            "created_ms": created_ms,
            "size": path.stat().st_size,
        }
        assert {name: found[file_no][name] for name in told} == told


def header_vectors() -> list[dict[str, Any]]:
    """Return single file headers as engines wrote and print them."""
    lines = VECTORS.read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["type_name"] == "FileHeader"]


@pytest.mark.parametrize("vector", header_vectors(), ids=lambda row: str(row["log_version"]))
def test_a_file_of_a_header_alone(tmp_path: Path, vector: dict[str, Any]) -> None:
    said = vector["decoded"]
    (tmp_path / f"{said['fileNum']:08x}.jdb").write_bytes(bytes.fromhex(vector["hex"]))
    row = rows_of(tmp_path)[said["fileNum"]]
    assert (row["log_version"], row["created_ms"]) == (said["version"], said["time"])
    assert (row["entry_count"], row["size"], row["last_lsn"]) == (1, 38, vector["lsn"])
    first = releases_in_the_format_page()[said["version"]]
    assert row["opened_from"] == f"{first.major}.{first.minor}"


# Releases


class Release(NamedTuple):
    """A release of the engine."""

    major: int
    minor: int

    @classmethod
    def of(cls, text: str) -> Release:
        return cls(*map(int, text.split(".")[:2]))


def releases_in_the_format_page() -> dict[int, Release]:
    """Return the first release of each log version by the page of the format."""
    text = (ROOT / "docs" / "formats" / "je-log.md").read_text()
    made = text.split("<!-- made: releases -->")[1].split("<!-- end -->")[0]
    return {int(version): Release.of(first) for version, first in _RELEASE_ROW.findall(made)}


def engines() -> dict[str, Release]:
    """Return the engine's release that wrote each environment of fixtures/."""
    manifest = json.loads((FIXTURES / "MANIFEST.json").read_text())
    found = {}
    for name, each in manifest["environments"].items():
        (version,) = _VERSION.findall(each["engine"])
        found[name] = Release.of(version)
    return found


def test_the_page_names_every_version() -> None:
    first = releases_in_the_format_page()
    assert list(first) == list(range(1, 27))
    assert list(first.values()) == sorted(set(first.values()))


@over(HERE)
def test_who_wrote_and_who_opens(env: Environment) -> None:
    first = releases_in_the_format_page()
    engine = engines()[env.name.split("/")[0]]
    for row in rows_of(env.home).values():
        version = row["log_version"]
        begins, until = first[version], first.get(version + 1)
        # The engine that wrote it is one of those documented to write this version.
        assert begins <= engine
        assert until is None or engine < until
        low = f"{begins.major}.{begins.minor}"
        until_text = f"up to before {until.major}.{until.minor}" if until else "and later"
        assert row["written_by"] == f"{low} {until_text}"
        assert row["opened_from"] == low
        assert row["not_opened_by"] == not_opened_by(env.home / row["name"], version)


def not_opened_by(path: Path, version: int) -> str | None:
    if "v6-halt" in path.parts:
        return "5.0 and later refuse it before DbPreUpgrade_4_1"
    if version < 8:
        return "20.1 and later refuse it"
    if any(header.type_no == OLD_DELTA_NO for header in walk_file(path)):
        return "25.3 cuts it off at its first old BIN-delta"
    return None


def is_opened(row: dict[str, Any], engine: Release) -> bool:
    """Return whether an engine opens a file, by its row."""
    refused = row["not_opened_by"]
    too_new = refused is not None and engine >= Release.of(refused.split()[0])
    return engine >= Release.of(row["opened_from"]) and not too_new


@pytest.mark.engine
@pytest.mark.parametrize("coordinate", [JE_5, JE_18])
@pytest.mark.parametrize("name", ["v8-basic", "v8-dbops", "v17-basic", "v26-basic"])
def test_engines_open_what_they_are_said_to(
    name: str, coordinate: str, engines: dict[str, Engine], tmp_path: Path
) -> None:
    """The engine lists the databases of a copy, or reports that the log is too new for it."""
    source = FIXTURES / name
    home = shutil.copytree(source / "env", tmp_path / "env")
    answer = engines[coordinate].ask(home, read_only=True)
    engine = Release.of(coordinate.split(":")[2])
    opened = {is_opened(row, engine) for row in rows_of(source / "env").values()}
    if opened == {True}:
        assert not isinstance(answer, Refusal), answer
        databases = (source / "truth" / "databases.txt").read_text().split()
        assert sorted(answer) == sorted(databases)
    else:
        assert isinstance(answer, Refusal)
        assert "VersionMismatchException" in answer.reason


@pytest.mark.engine
@pytest.mark.parametrize("size", [0, 10, 37])
@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "behind another"])
def test_an_environment_of_a_begun_file(
    size: int, is_alone: bool, engines: dict[str, Engine], tmp_path: Path
) -> None:
    """After a good file, the engine passes over a begun file; alone, it finds no log.

    A part of a header is what is left of a file that was cut off, so it is damage all the same.
    """
    home = tmp_path / "env"
    home.mkdir()
    data = (FIXTURES / "v8-basic" / "env" / "00000000.jdb").read_bytes()
    if not is_alone:
        (home / "00000000.jdb").write_bytes(data)
    (home / f"0000000{int(not is_alone)}.jdb").write_bytes(data[:size])
    code, rows = json_rows("verify", home)
    errors = [row["code"] for row in rows if row["severity"] == "error"]
    if is_alone:
        assert errors == ["bad-file-header"]
    else:
        assert errors == ["torn-tail"] * (size > 0)
    assert code == (3 if errors else 0)
    for coordinate, engine in engines.items():
        copy = shutil.copytree(home, tmp_path / coordinate.replace(":", "-"))
        answer = engine.ask(copy, read_only=True)
        assert isinstance(answer, Refusal) == is_alone, answer


OLD_FORM = "found in the recovery interval"
"""Text in an engine's message about a log that it cannot replay."""


def old_logs() -> list[Path]:
    """Return logs of one file each, of versions before 8 whose entries are decoded."""
    found = [each.home / "00000000.jdb" for each in environments() if each.name.startswith("v6-")]
    for path in legacy_files():
        (version,) = struct.unpack_from("<i", path.read_bytes(), 34)
        found += [path] * (version in (6, 7))
    return found


def refused_as_old_form(home: Path, engines: dict[str, Engine], tmp_path: Path) -> bool:
    """Return whether the engines refuse a log for its old form; `files` must have reported it."""
    (row,) = rows_of(home).values()
    is_told = "old-form-to-replay" in row["findings"]
    refused = row["not_opened_by"]
    assert refused.startswith("5.0 and later" if is_told else "20.1 and later")
    for coordinate, engine in engines.items():
        copy = shutil.copytree(home, tmp_path / coordinate.replace(":", "-"))
        answer = engine.ask(copy, read_only=True)
        message = answer.message if isinstance(answer, Refusal) else ""
        assert (OLD_FORM in message) == is_told, (home, answer)
        shutil.rmtree(copy)
    return is_told


@pytest.mark.engine
@pytest.mark.parametrize("path", old_logs(), ids=lambda path: "-".join(path.parts[-3:]))
def test_logs_of_the_old_form(path: Path, engines: dict[str, Engine], tmp_path: Path) -> None:
    home = tmp_path / "env"
    home.mkdir()
    shutil.copy(path, home / "00000000.jdb")
    assert refused_as_old_form(home, engines, tmp_path) == (path.parent.name == "env")


@pytest.mark.engine
def test_a_log_of_the_old_form_cut_off(engines: dict[str, Engine], tmp_path: Path) -> None:
    """Cut the log after and between its checkpoints: from some places on it is refused."""
    path = FIXTURES / "v6-halt" / "env" / "00000000.jdb"
    ends = [each.lsn for each in walk_file(path) if each.type_no == CKPT_END_NO]
    data = path.read_bytes()
    home = tmp_path / "env"
    home.mkdir()
    verdicts = []
    for size in sorted({*(lsn + 60 for lsn in ends), *(lsn + 20_000 for lsn in ends), len(data)}):
        (home / "00000000.jdb").write_bytes(data[:size])
        verdicts.append(refused_as_old_form(home, engines, tmp_path))
    assert set(verdicts) == {False, True}
