"""`verify`: manifest, totals, and outputs that are refused before anything is read."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from je_tools import __version__
from je_tools.btree.check import findings
from je_tools.btree.check.run import check_trees
from je_tools.commands import verify
from je_tools.formats.files.source import Source
from je_tools.log import manifest
from tests.builders.logs import write_log
from tests.corpus import FIXTURES
from tests.damage.small import small_log
from tests.je_tools.dumped import je_tools
from tests.test_golden import damaged_log

SOUND = FIXTURES / "v26-basic" / "env"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_log(tmp_path / "env", small_log(17, 3))


def moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)


def examined(path: Path, *words: str | Path) -> dict[str, Any]:
    """Run `verify`, and return its manifest, asserting that its times are those of the run."""
    before = datetime.now(UTC)
    done = je_tools("verify", *words, "--manifest", path)
    after = datetime.now(UTC)
    assert done.code in (0, 3), done.err
    told: dict[str, Any] = json.loads(path.read_bytes())
    assert before <= moment(told.pop("started_utc")) <= moment(told.pop("finished_utc")) <= after
    return told


def expected_input(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {
        "path": str(path.resolve()),
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


@pytest.mark.parametrize("piece", [7, 1 << 20])
def test_a_manifest_says_what_was_examined(
    piece: int, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "_PIECE", piece)
    monkeypatch.setattr(sys, "argv", ["je-tools", "verify", os.fsdecode(b"\xff")])
    (home / "7fffffff.jdb").write_bytes((home / "00000000.jdb").read_bytes())
    (home / "je.lck").touch()
    told = examined(tmp_path / "manifest.json", home)
    assert (told["tool"], told["version"]) == ("je-tools", __version__)
    assert told["command"] == ["je-tools", "verify", "\\xff"]
    paths = sorted(home.glob("*.jdb"))
    for path, each in zip(paths, told["inputs"], strict=True):
        changed = moment(each.pop("modified_utc")).timestamp()
        assert abs(changed - path.stat().st_mtime) < 1e-5
        assert each == expected_input(path)


def test_a_manifest_of_damaged_files(tmp_path: Path) -> None:
    home = write_log(tmp_path / "damaged", damaged_log())
    loose = [home / "00000003.jdb", home / "00000006.jdb"]
    told = examined(tmp_path / "manifest.json", *loose)
    for path, each in zip(loose, told["inputs"], strict=True):
        assert each.items() >= expected_input(path).items()


def test_a_manifest_beside_a_growing_file(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes appended since are not part of the examination."""
    last = sorted(home.iterdir())[-1]
    known = expected_input(last)
    write = manifest.write_manifest

    def grown(*arguments: Any, **named: Any) -> None:
        with last.open("ab") as file:
            file.write(b"more")
        write(*arguments, **named)

    monkeypatch.setattr(manifest, "write_manifest", grown)
    told = examined(tmp_path / "manifest.json", home)
    assert told["inputs"][-1].items() >= known.items()


def test_no_manifest_of_a_file_that_shrank(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = sorted(home.iterdir())[-1]
    write = manifest.write_manifest

    def cut(*arguments: Any, **named: Any) -> None:
        os.truncate(last, 50)
        write(*arguments, **named)

    monkeypatch.setattr(manifest, "write_manifest", cut)
    path = tmp_path / "manifest.json"
    done = je_tools("verify", home, "--manifest", path)
    assert done.code == 5
    assert "shrank" in done.err
    assert not path.exists()


def test_what_cannot_be_read_has_no_digest(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unreadable sectors read as zeros, so a digest of them would be of no file."""
    check = Source.check_unchanged

    def with_a_bad_sector(source: Source) -> None:
        source.unreadable.add((0, 1))
        check(source)

    monkeypatch.setattr(Source, "check_unchanged", with_a_bad_sector)
    told = examined(tmp_path / "manifest.json", home)
    assert [each["sha256"] for each in told["inputs"]] == [None] * 3


OUTPUTS = ("--output", "--stats", "--manifest")


@pytest.fixture
def _unread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forbid all reading: a scan of a large log takes minutes."""

    def scan(*_: object, **__: object) -> None:
        raise AssertionError("read")

    monkeypatch.setattr("je_tools.log.scan.Scanner.scan", scan)
    return


@pytest.mark.usefixtures("_unread")
@pytest.mark.parametrize("one", OUTPUTS)
@pytest.mark.parametrize("other", OUTPUTS)
def test_outputs_are_compared_before_anything_is_read(
    one: str, other: str, home: Path, tmp_path: Path
) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    assert je_tools("verify", home, one, taken).code == 6
    assert je_tools("verify", home, one, home / "out").code == 6
    assert je_tools("verify", home, one, tmp_path / "none" / "out").code == 6
    if one != other:
        path = tmp_path / "out"
        spelled = tmp_path / "env" / ".." / "out"
        done = je_tools("verify", home, one, path, other, spelled)
        assert (done.code, done.out) == (2, b"")
        assert "name the same file" in done.err
        assert not path.exists()


def test_devices_take_more_than_one_output(home: Path) -> None:
    null = os.devnull
    words = ("--output", null, "--stats", null, "--manifest", null)
    assert je_tools("verify", home, *words).code == 0


def test_one_place_says_what_options_there_are() -> None:
    names = {parameter.name for parameter in verify.command.params}
    # The mode of files is kept in the context, for all code that writes outputs.
    assert names - {"file_mode"} == set(verify.Options.__annotations__)


@pytest.mark.parametrize("left", [0, -1], ids=["emptied", "a byte less"])
def test_a_file_that_is_cut_while_its_trees_are_read(
    left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that are gone by then are no damage."""
    shutil.copytree(SOUND, tmp_path / "env")
    path = tmp_path / "env" / "00000000.jdb"
    path.chmod(0o644)

    def cut(*arguments: Any) -> Iterator[Any]:
        path.write_bytes(path.read_bytes()[:left])
        yield from check_trees(*arguments)

    monkeypatch.setattr(findings, "check_trees", cut)
    done = je_tools("verify", "--tree", path.parent)
    assert done.code == 5
    assert "00000000.jdb: became shorter while it was read" in done.err
    assert done.out == b""


def test_large_logs_are_opened_beside_the_scan(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is the same, even if there is nothing to open, or `--now` is invalid."""
    rootless = write_log(tmp_path / "rootless", small_log(17, 1))
    told = {each: je_tools("verify", "--tree", each) for each in (SOUND, home, rootless)}
    assert {done.code for done in told.values()} == {0, 3}
    monkeypatch.setattr("je_tools.log.scan_options.ONE_THREAD_MAX", 0)
    for each, done in told.items():
        assert je_tools("verify", "--tree", each, "--threads", 3) == done
        assert je_tools("verify", "--tree", each, "--threads", 1) == done
    wrong = je_tools("verify", "--tree", SOUND, "--now", "yesterday")
    assert (wrong.code, wrong.out) == (2, b"")
