"""Redo journals: what they hold, what guards them, and what is refused."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c

from je_tools.erase.completion import complete_erasure
from je_tools.erase.in_kind.blanks import Blanks
from je_tools.erase.in_kind.redo_journal import read_redo
from je_tools.erase.in_kind.resuming import RedoState
from je_tools.errors import RefusedError
from je_tools.log.scan import Scanner
from je_tools.writing.redo_folder import FOLDER, is_unfinished
from tests.damage.running import je_tools
from tests.je_tools.erase.erasing import copy_of, erase, log_bytes, stopped_in_kind
from tests.je_tools.snapshots import contents_of, snapshot_of

Head = dict[str, Any]


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log with a redo journal, of which no entry is overwritten yet."""
    return stopped_in_kind(copy_of("v8-dbops", tmp_path_factory.mktemp("unfinished") / "env"))


@pytest.fixture
def home(unfinished: Path, tmp_path: Path) -> Path:
    """Return a copy of that log."""
    return shutil.copytree(unfinished, tmp_path / "env")


def frames_of(data: bytes) -> list[tuple[Head, bytes]]:
    """Return the frames of a journal."""
    found, at = [], 0
    while at < len(data):
        head_size, blob_size = struct.unpack_from("<II", data, at + 8)
        head = json.loads(data[at + 16 : at + 16 + head_size])
        blob = data[at + 16 + head_size : at + 16 + head_size + blob_size]
        found.append((head, blob))
        at += 16 + head_size + blob_size
    return found


def journal_of(frames: list[tuple[Head, bytes]]) -> bytes:
    """Return the bytes of a journal, with right checksums."""
    data = b""
    for head, blob in frames:
        text = json.dumps(head).encode()
        rest = struct.pack("<II", len(text), len(blob)) + text + blob
        data += b"JER1" + struct.pack("<I", crc32c(rest)) + rest
    return data


def complete(home: Path) -> Any:
    return complete_erasure(home, Scanner(threads=1)).in_kind


def test_a_journal_holds_no_data(home: Path) -> None:
    journal = (home / FOLDER / "redo").read_bytes()
    raw = b"".join(zlib.decompress(blob) for _, blob in frames_of(journal) if blob)
    keys = {
        part
        for records in contents_of(snapshot_of(home)).values()
        for record in records
        for part in record
        if len(part) >= 6
    }
    assert keys
    assert not [each for each in keys if each in raw or each in journal]


def test_writers_refuse_and_readers_say_it(home: Path) -> None:
    old = log_bytes(home)
    writers = (["recover", "--apply"], ["checkpoint", "--apply"], ["erase", "run", "--apply"])
    for words in writers:
        done = je_tools(*words[:-1], home, words[-1])
        assert done.code == 6, done.err
        assert "je-tools erase resume" in done.err
    for words in (["verify"], ["databases"], ["summary"], ["dump"], ["files"], ["erase", "plan"]):
        done = je_tools(*words, home)
        assert done.code == 0, done.err
        assert "je-tools erase resume" in done.err
    assert log_bytes(home) == old
    done = je_tools("erase", "resume", home)
    assert "was interrupted" in done.err
    assert log_bytes(home) == old
    done = je_tools("erase", "resume", home, "--apply")
    assert done.code == 0, done.err
    assert "entries erased in kind" in done.err
    assert "erase resume" not in je_tools("verify", home).err


def test_a_file_that_is_gone_needs_nothing(home: Path) -> None:
    (home / "00000000.jdb").unlink()
    assert complete(home).state is RedoState.FILE_GONE
    assert not is_unfinished(home)


def test_a_file_that_was_replaced_stays(home: Path) -> None:
    """The journal was made for other bytes."""
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    entry = int(read_redo(home).batches().__next__().entries.offset[0])  # type: ignore[union-attr]
    data[entry + 14] ^= 1
    path.write_bytes(data)
    with pytest.raises(RefusedError, match="the redo journal was made for"):
        complete(home)
    assert path.read_bytes() == data
    path.write_bytes(data[:-1])
    with pytest.raises(RefusedError, match="and this one has"):
        complete(home)


def test_a_bit_that_a_rollback_set_meanwhile_stays(home: Path) -> None:
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    entry = int(read_redo(home).batches().__next__().entries.offset[0])  # type: ignore[union-attr]
    data[entry + 5] |= 0x10
    path.write_bytes(data)
    complete(home)
    assert path.read_bytes()[entry + 5] & 0x10


def changed_head(name: str, value: Any) -> Callable[[list[tuple[Head, bytes]]], Any]:
    def change(frames: list[tuple[Head, bytes]]) -> list[tuple[Head, bytes]]:
        return [({**h, name: value} if name in h else h, blob) for h, blob in frames]

    return change


def with_blanks(raw: bytes, count: int) -> Callable[[list[tuple[Head, bytes]]], Any]:
    def change(frames: list[tuple[Head, bytes]]) -> list[tuple[Head, bytes]]:
        begin = frames[0]
        head = {"record": "blanks", "entry_count": count, "raw_size": len(raw)}
        return [begin, (head, zlib.compress(raw)), ({"record": "end", "entry_count": count}, b"")]

    return change


ENTRY = struct.Struct("<IBBIII")
HOSTILE = {
    "a file outside": changed_head("file", "../00000000.jdb"),
    "a later version": changed_head("version", 2),
    "another count": changed_head("entry_count", 3),
    "a bomb": changed_head("raw_size", 1 << 40),
    "a smaller size": changed_head("raw_size", 10),
    "no end": lambda frames: frames[:-1],
    "no beginning": lambda frames: frames[1:],
    "no entries": with_blanks(b"", 0),
    "no zlib": lambda frames: [frames[0], (frames[1][0], b"abc"), *frames[2:]],
    "frames in another order": lambda frames: [frames[0], *frames[1:-1][::-1], *frames[1:]],
    "a range outside": with_blanks(
        ENTRY.pack(100, 14, 13, 10, 0, 1) + struct.pack("<II", 14, 11), 1
    ),
    "a range in the header": with_blanks(
        ENTRY.pack(100, 14, 13, 10, 0, 1) + struct.pack("<II", 13, 2), 1
    ),
    "too many ranges": with_blanks(ENTRY.pack(100, 14, 13, 10, 0, 1 << 31), 1),
    "a wrong header": with_blanks(ENTRY.pack(100, 15, 13, 10, 0, 0), 1),
    "an entry after the end": with_blanks(ENTRY.pack(1 << 31, 14, 13, 10, 0, 0), 1),
    "no JSON object": lambda frames: [([], b""), *frames[1:]],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_journal_that_no_erasure_writes_is_refused(home: Path, name: str) -> None:
    path = home / FOLDER / "redo"
    path.write_bytes(journal_of(HOSTILE[name](frames_of(path.read_bytes()))))
    old = log_bytes(home)
    with pytest.raises(RefusedError, match="the redo journal cannot be used"):
        complete(home)
    assert log_bytes(home) == old
    assert is_unfinished(home)


def test_a_damaged_journal_is_refused(home: Path) -> None:
    path = home / FOLDER / "redo"
    whole = path.read_bytes()
    old = log_bytes(home)
    for at in range(0, len(whole), len(whole) // 40):
        data = bytearray(whole)
        data[at] ^= 4
        path.write_bytes(data)
        with pytest.raises(RefusedError, match="the redo journal cannot be used"):
            complete(home)
    path.write_bytes(whole[:-1])
    with pytest.raises(RefusedError, match="the redo journal cannot be used"):
        complete(home)
    assert log_bytes(home) == old


def test_a_folder_that_is_a_link_is_refused(home: Path, tmp_path: Path) -> None:
    shutil.move(home / FOLDER, tmp_path / "elsewhere")
    (home / FOLDER).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError, match="expected a folder for a redo journal"):
        complete(home)


def test_a_journal_that_was_not_finished_is_removed(home: Path) -> None:
    (home / FOLDER / "redo").rename(home / FOLDER / "redo.new")
    old = log_bytes(home)
    assert complete(home) is None
    assert not (home / FOLDER).exists()
    assert log_bytes(home) == old


def test_data_directories(tmp_path: Path) -> None:
    home = copy_of("v8-cleaned", tmp_path / "env")
    (home / "je.properties").write_text("je.log.nDataDirectories=3\n")
    for number in range(1, 4):
        (home / f"data{number:03d}").mkdir()
    for path in sorted(home.glob("*.jdb")):
        path.rename(home / f"data{int(path.stem, 16) % 3 + 1:03d}" / path.name)
    records = contents_of(snapshot_of(home))
    result = erase(home)
    assert result.counts.entry_count > 1000
    assert result.left is not None
    assert result.left.totals.erase_count == 0
    assert contents_of(snapshot_of(home)) == records


def test_any_bytes_are_no_blanks() -> None:
    rng = np.random.default_rng(1)
    for size in range(0, 400, 7):
        for count in (0, 1, 3, 1 << 40):
            with pytest.raises(ValueError, match=r"."):
                Blanks.decode(rng.bytes(size), count)
