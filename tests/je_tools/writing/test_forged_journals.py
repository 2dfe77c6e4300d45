"""Journals that no operation wrote: nothing in them is executed, and nothing is removed."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from je_tools.errors import RefusedError
from je_tools.writing.disk import Disk
from je_tools.writing.journal_folders import journal_numbers
from je_tools.writing.journal_reading import read_journal
from je_tools.writing.undo import clear_remains, list_undos
from je_tools.writing.undo_steps import UndoState
from tests.je_tools.dumped import je_tools
from tests.je_tools.writing.operations import (
    OPERATIONS,
    TAKES_AWAY,
    digests,
    journal_of,
    log_of,
    operate,
    put_back,
    small_log,
    write_more,
)


def frame(head: object, blob: bytes = b"") -> bytes:
    said = head if isinstance(head, bytes) else json.dumps(head).encode()
    rest = struct.pack("<II", len(said), len(blob)) + said + blob
    return b"JEU1" + struct.pack("<I", crc32c(rest)) + rest


def begin(home: Path, **fields: Any) -> dict[str, Any]:
    files = [
        (path.name, path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(home.glob("*.jdb"))
    ]
    said = {"record": "begin", "sure": 0, "version": 1, "operation": "checkpoint", "tool": "0"}
    return {**said, "time_ms": 1, "takes_away": False, "files": files, **fields}


def forge(home: Path, *frames: bytes, **fields: Any) -> Path:
    """Write a journal of a begin frame and these frames, and return its path."""
    journal_of(home).parent.mkdir(parents=True)
    journal_of(home).write_bytes(frame(begin(home, **fields)) + b"".join(frames))
    return journal_of(home)


def assert_refused(home: Path, text: str) -> None:
    """Check that undo refuses the journal, and that neither the log nor a file outside changes."""
    victim = home.parent / "victim"
    before, outside = digests(home), victim.read_bytes() if victim.exists() else None
    for _ in range(2):
        with pytest.raises(RefusedError, match=text):
            put_back(home)
        with Disk() as disk:
            clear_remains(home, disk)
    assert digests(home) == before
    assert (victim.read_bytes() if victim.exists() else None) == outside
    done = je_tools("undo", home)
    assert done.code in (0, 3, 6), done.err
    assert "Traceback" not in done.err


OUTSIDE = (
    "../victim",
    "/{home}/../victim",
    "data001/../../victim",
    ".je-tools-undo/../../victim",
    "..",
    "victim",
    "je.properties",
)

NAMED: dict[str, Callable[[str], bytes]] = {
    "append": lambda name: frame(
        {"record": "append", "sure": 0, "pieces": [(name, 0, 8, 0)]}, bytes(4)
    ),
    "saved": lambda name: (
        frame({"record": "saved", "sure": 0, "file": name, "offset": 0}, b"evil, 8B")
        + frame({"record": "cut", "sure": 0, "file": name, "size": 0, "before": 8})
    ),
    "cut": lambda name: frame({"record": "cut", "sure": 0, "file": name, "size": 3, "before": 8}),
    "rename": lambda name: frame(
        {"record": "rename", "sure": 0, "file": name, "target": "00000009.bad", "checksum": 0}
    ),
    "target": lambda name: frame(
        {"record": "rename", "sure": 0, "file": "00000003.jdb", "target": name, "checksum": 0}
    ),
    "flip": lambda name: frame(
        {"record": "flip", "sure": 0, "flips": [(name, 0, b"prec".hex(), b"good".hex())]}
    ),
}


@pytest.mark.parametrize("what", NAMED)
def test_nothing_is_done_outside_of_the_log(what: str, home: Path) -> None:
    victim = home.parent / "victim"
    victim.write_bytes(b"precious")
    (home / "je.properties").write_bytes(b"precious")
    for name in OUTSIDE:
        forge(home, NAMED[what](name.format(home=home)))
        assert_refused(home, "the undo journal is damaged: the frame at byte .* with a wrong")
        shutil.rmtree(journal_of(home).parent)


@pytest.mark.parametrize(
    "target",
    [
        "00000003.jdb.bad",
        "00000003.bad.x",
        "00000002.bad",
        "data001/00000003.bad",
        ".je-tools-undo/000002/00000003.jdb.removed",
        ".je-tools-undo/000001/../000001/00000003.jdb.removed",
        ".je-tools-undo/000001/00000002.jdb.removed",
    ],
)
def test_files_are_moved_from_nowhere_else(target: str, home: Path) -> None:
    forge(home, NAMED["target"](target))
    assert_refused(home, "the undo journal is damaged")


ODD: dict[str, bytes] = {
    "unknown": frame({"record": "whatever", "sure": 0}),
    "no-record": frame(b"{}"),
    "list": frame(b"[1]"),
    "number": frame(b"7"),
    "no-json": frame(b"{"),
    "no-text": frame(b"\xff\xfe"),
    "deep": frame(b"[" * 100_000),
    "record-list": frame({"record": [], "sure": 0}),
    "no-sure": frame({"record": "undo"}),
    "sure-text": frame({"record": "undo", "sure": "1"}),
    "more": frame({"record": "undo", "sure": 0, "more": 1}),
    "append-nothing": frame({"record": "append", "sure": 0}),
    "append-empty": frame({"record": "append", "sure": 0, "pieces": []}),
    "append-short": frame({"record": "append", "sure": 0, "pieces": [["00000003.jdb", 8]]}),
    "no-sums": frame({"record": "append", "sure": 0, "pieces": [["00000004.jdb", 0, 8, 0]]}),
    "negative": frame(
        {"record": "cut", "sure": 0, "file": "00000002.jdb", "size": -3, "before": 8}
    ),
    "huge": frame({"record": "cut", "sure": 0, "file": "00000002.jdb", "size": 1 << 70}),
    "true": frame(
        {"record": "cut", "sure": 0, "file": "00000002.jdb", "size": True, "before": 2852}
    ),
    "flip-sizes": frame(
        {"record": "flip", "sure": 0, "flips": [["00000000.jdb", 60, "00", "0000"]]}
    ),
    "flip-no-hex": frame({"record": "flip", "sure": 0, "flips": [["00000000.jdb", 60, "x", "y"]]}),
    "begin-again": frame(
        {"record": "begin", "sure": 0, "operation": "a", "tool": "0", "time_ms": 1}
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_frames_of_no_known_form_are_damage(what: str, home: Path) -> None:
    path = forge(home, ODD[what])
    assert_refused(home, "the undo journal is damaged: the frame at byte .* is not valid")
    with pytest.raises(RefusedError, match="journal of undo 1 is damaged"):
        write_more(home)
    # After bytes that may be torn, too.
    path.write_bytes(frame(begin(home)) + bytes(300) + ODD[what])
    assert_refused(home, "the undo journal is damaged")


def cut(name: str, size: int, before: int) -> bytes:
    return frame({"record": "cut", "sure": 0, "file": name, "size": size, "before": before})


def saved(name: str, offset: int, data: bytes) -> bytes:
    return frame({"record": "saved", "sure": 0, "file": name, "offset": offset}, data)


def piece(name: str, offset: int) -> bytes:
    return frame({"record": "append", "sure": 0, "pieces": [(name, offset, 8, 0)]}, bytes(4))


def moved(name: str) -> bytes:
    target = name.replace("jdb", "bad")
    return frame({"record": "rename", "sure": 0, "file": name, "target": target, "checksum": 0})


def flip(name: str, offset: int) -> bytes:
    return frame({"record": "flip", "sure": 0, "flips": [(name, offset, "00", "01")]})


def plain(record: str) -> bytes:
    return frame({"record": record, "sure": 0})


def done(home: Path) -> bytes:
    files = begin(home)["files"]
    return frame({"record": "done", "sure": 0, "time_ms": 1, "files": files})


UNFIT: dict[str, Callable[[Path], tuple[bytes, ...]]] = {
    "cut-unknown": lambda _: (saved("00000009.jdb", 0, bytes(8)), cut("00000009.jdb", 0, 8)),
    "cut-size": lambda _: (saved("00000003.jdb", 30, bytes(9)), cut("00000003.jdb", 30, 39)),
    "cut-unsaved": lambda _: (cut("00000003.jdb", 30, 38),),
    "cut-part": lambda _: (saved("00000003.jdb", 31, bytes(7)), cut("00000003.jdb", 30, 38)),
    "saved-other": lambda _: (saved("00000002.jdb", 30, bytes(8)), cut("00000003.jdb", 30, 38)),
    "saved-alone": lambda home: (saved("00000002.jdb", 30, bytes(8)), done(home)),
    "append-hole": lambda _: (piece("00000003.jdb", 39),),
    "append-inside": lambda _: (piece("00000003.jdb", 0),),
    "begun-late": lambda _: (piece("00000004.jdb", 8),),
    "moved-unknown": lambda _: (moved("00000009.jdb"),),
    "moved-twice": lambda _: (moved("00000003.jdb"), moved("00000003.jdb")),
    "flip-unknown": lambda _: (flip("00000009.jdb", 0),),
    "flip-behind": lambda _: (flip("00000003.jdb", 38),),
    "done-twice": lambda home: (done(home), done(home)),
    "behind-done": lambda home: (done(home), flip("00000003.jdb", 3)),
    "back-alone": lambda _: (plain("back"),),
    "undone-alone": lambda _: (plain("undone"),),
    "undo-twice": lambda _: (plain("undo"), plain("undo")),
    "too-many-back": lambda _: (plain("undo"), plain("back")),
    "undone-early": lambda _: (moved("00000003.jdb"), plain("undo"), plain("undone")),
}


@pytest.mark.parametrize("what", UNFIT)
def test_frames_that_do_not_fit_together_are_damage(what: str, home: Path) -> None:
    forge(home, *UNFIT[what](home))
    (undo,) = list_undos(home)
    assert (undo.state, undo.steps) == (UndoState.DAMAGED, [])
    assert_refused(home, "the undo journal is damaged: its steps contradict each other")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"version": 2}, r"later je-tools.*: it is of version 2, and this je-tools knows 1\."),
        ({"version": 2, "files": 7, "more": 1}, "later je-tools"),
        ({"version": "1"}, "damaged"),
        ({"version": None}, "damaged"),
        ({"files": [["../victim", 1, 1]]}, "damaged"),
        ({"files": {}}, "damaged"),
        ({"operation": 1}, "damaged"),
        ({"time_ms": "x"}, "damaged"),
        ({"takes_away": 1}, "damaged"),
    ],
)
def test_what_a_journal_begins_with(fields: dict[str, Any], text: str, home: Path) -> None:
    forge(home, **fields)
    assert_refused(home, text)
    with pytest.raises(RefusedError, match=r"later je-tools|is damaged") as told:
        write_more(home)
    assert ("later je-tools" in str(told.value)) == ("later je-tools" in text)


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_is_written_has_the_version(name: str, home: Path) -> None:
    operate(home, name)
    journal = read_journal(home, 1)
    assert journal.frames[0].head["version"] == 1
    assert journal.frames[0].head["takes_away"] == (name in TAKES_AWAY)


@pytest.mark.parametrize("what", ["pipe", "folder", "link", "dangling"])
def test_a_journal_that_is_no_file_is_damaged(what: str, home: Path) -> None:
    victim = home.parent / "victim"
    victim.write_bytes(b"precious")
    path = journal_of(home)
    path.parent.mkdir(parents=True)
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to(victim if what == "link" else home / "nowhere")
    with pytest.raises(RefusedError, match="damaged: journal is not a regular file"):
        put_back(home)
    with pytest.raises(RefusedError, match="the journal of undo 1 is damaged"):
        write_more(home)
    with Disk() as disk:
        list_undos(home)[0].drop(disk)
    assert list_undos(home) == []
    write_more(home)
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize(
    "place",
    [
        ".je-tools-undo",
        ".je-tools-undo/000001",
        ".je-tools-undo/000001.dropped",
        ".je-tools-undo/000001.new",
        "data001/.je-tools-undo",
        "data001/.je-tools-undo/000001",
    ],
)
@pytest.mark.parametrize("is_link", [True, False])
def test_folders_of_journals_are_folders(is_link: bool, place: str, tmp_path: Path) -> None:
    home = small_log(tmp_path / "env", data_directories=3)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "journal").write_bytes(b"precious")
    path = home / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_link:
        path.symlink_to(outside)
    else:
        path.write_bytes(b"precious")
    before = log_of(home)
    text = f"{path}: .* found " + ("a symbolic link" if is_link else "something else")
    with pytest.raises(RefusedError, match=text):
        write_more(home)
    with pytest.raises(RefusedError, match=text):
        list_undos(home)
    with Disk() as disk, pytest.raises(RefusedError, match=text):
        clear_remains(home, disk)
    assert log_of(home) == before
    assert (outside / "journal").read_bytes() == b"precious"
    done = je_tools("undo", "--apply", home)
    assert (done.code, "Traceback" in done.err) == (6, False)


def test_only_what_is_called_as_ours_is_ours(home: Path) -> None:
    outer = home / ".je-tools-undo"
    for name in (
        "0000001",
        "\u0660" * 5 + "\u0661",
        "1",
        "...dropped",
        "x.dropped",
        "000001.dropped.new",
        "-00001",
    ):
        (outer / name).mkdir(parents=True)
        (outer / name / "journal").write_bytes(b"precious")
    (home / "precious").write_bytes(b"precious")
    before = digests(home)
    assert journal_numbers(home) == []
    write_more(home)
    assert journal_numbers(home) == [1]
    put_back(home)
    assert digests(home) == before


def test_what_has_become_a_link_is_not_changed(home: Path) -> None:
    operate(home, "earlier-end")
    path, elsewhere = home / "00000001.jdb", home.parent / "elsewhere.jdb"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    before = digests(home)
    with pytest.raises(
        RefusedError, match=f"{path}: expected a regular file, found a symbolic link"
    ):
        put_back(home)
    path.unlink()
    elsewhere.rename(path)
    os.link(path, elsewhere)
    with pytest.raises(
        RefusedError, match=f"{path}: the file has another hard link.*; first replace the file"
    ):
        put_back(home)
    elsewhere.unlink()
    kept = home / ".je-tools-undo" / "000001" / "00000003.jdb.removed"
    kept.rename(elsewhere)
    kept.symlink_to(elsewhere)
    with pytest.raises(
        RefusedError, match=f"{kept}: expected a regular file, found a symbolic link"
    ):
        put_back(home)
    assert digests(home) == before
