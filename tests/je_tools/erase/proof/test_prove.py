"""`erase prove`: what is planted anywhere is found, and nothing is called gone unseen."""

from __future__ import annotations

import bz2
import errno
import functools
import gzip
import io
import json
import lzma
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from je_tools.erase.proof.hit_places import Where
from je_tools.log.scan import Scanner
from tests.builders.logs import ERASED, LogFile, Placed, write_log
from tests.builders.trees import TreeLog, simple, slot
from tests.commands.test_no_leaks import pattern_of
from tests.corpus import FIXTURES
from tests.damage.running import je_tools, states
from tests.je_tools.erase.proof.planted_tree import (
    ASIDE,
    IN_LOG,
    PREFIX,
    planted_tree,
    prefixed,
    secret,
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted_tree(tmp_path_factory.mktemp("planted") / "env")


def proved(home: Path, *needles: bytes, code: int = 3) -> dict[str, Any]:
    """Return the report of a search for some bytes."""
    words = [word for needle in needles for word in ("--match", f"hex:{needle.hex()}")]
    done = je_tools("erase", "prove", home, *words, "--format", "json")
    assert done.code == code, done.err
    report: dict[str, Any] = json.loads(done.out)
    return report


def found(report: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the files and places of all hits."""
    return {(hit["file"], hit["where"]) for hit in report["hits"]}


@pytest.mark.parametrize("where", IN_LOG)
def test_every_place_of_a_log_is_searched(where: Where, home: Path) -> None:
    needle = PREFIX + b"fixed-4Wk" if where is Where.PREFIXED_KEY else secret(where)
    report = proved(home, needle)
    places = {(file, place) for file, place in found(report) if file == "00000000.jdb"}
    if where is Where.DATABASE_NAME:
        # The database of names has it as a key too.
        places -= {("00000000.jdb", key) for key in ("slot key", "identifier key")}
    assert places == {("00000000.jdb", where.value)}
    assert all(hit["lsn"] for hit in report["hits"])


@pytest.mark.parametrize(
    ("of", "name", "where"),
    [
        *((suffix, f"00000009.{suffix}", Where.TRACE) for suffix in ASIDE),
        ("data001", "data001/00000001.jdb", Where.TRACE),
        ("info", "je.info.0", Where.OTHER_FILE),
        ("properties", "je.properties", Where.OTHER_FILE),
        ("notes", "old/copies/notes", Where.OTHER_FILE),
        ("journal", ".je-tools-undo/000001/journal", Where.JOURNAL),
    ],
)
def test_every_file_is_searched(of: str, name: str, where: Where, home: Path) -> None:
    assert (name, where.value) in found(proved(home, secret(of)))


@pytest.mark.parametrize("of", ["name", "target"])
def test_names_of_files_are_searched_and_masked(of: str, home: Path) -> None:
    report = proved(home, secret(of))
    assert {hit["where"] for hit in report["hits"]} == {Where.FILE_NAME.value}
    assert all(hit["file"].startswith("(masked ") for hit in report["hits"])


def test_the_report_counts_all_and_names_what_was_not_read(home: Path) -> None:
    report = proved(home, b"Qz7-", b"nothing-of-this")
    assert [each["hit_count"] > 15 for each in report["needles"]] == [True, False]
    assert report["hit_count"] == len(report["hits"])
    assert [each["reason"] for each in report["unread"]] == [
        "a link to nothing, or it has just vanished"
    ]
    problems = {each["name"]: each["problems"] for each in report["files"] if each["problems"]}
    assert list(problems) == [".je-tools-undo/000001/journal", "00000000.jdb"]
    assert "type 43" in problems["00000000.jdb"][0]
    assert all("bytes" in str(text) or "pieces" in str(text) for text in problems.values())


def test_a_log_without_the_needle_has_nothing_left(tmp_path: Path) -> None:
    home = simple({b"a": b"1"}).write(tmp_path / "env")
    report = proved(home, b"nothing-of-this", code=0)
    assert report["verdict"] == "nothing left"
    assert report["searched_size"] == (home / "00000000.jdb").stat().st_size
    assert "NOTHING LEFT" in je_tools("erase", "prove", home, "--key", "other").out.decode()


def test_a_key_cut_by_a_prefix_is_in_no_bytes_and_is_found(home: Path) -> None:
    needle = PREFIX + b"fixed-4Wk"
    assert not any(needle in path.read_bytes() for path in home.rglob("*") if path.is_file())
    (hit,) = proved(home, needle)["hits"]
    assert hit["type"] == "BIN"
    data = (home / "00000000.jdb").read_bytes()
    assert data[hit["offset"] :].startswith(b"fixed-4Wk")


@pytest.mark.parametrize("checksum", [True, False])
def test_nodes_that_are_marked_or_damaged_are_decoded(checksum: bool, tmp_path: Path) -> None:
    log = TreeLog()
    log.ln(b"a", b"1")
    prefixed(log, b"user-", b"carol")
    log.ln(b"b", b"1")
    place = log.file.placed[2]
    if checksum:
        log.file.data[place.start] ^= 1
    else:
        log.file.data[place.start + 4] = ERASED
    report = proved(log.write(tmp_path / "env"), b"user-carol")
    assert found(report) == {("00000000.jdb", Where.PREFIXED_KEY.value)}
    assert [hit["type"] for hit in report["hits"]] == ["BIN" if checksum else "Erased"]


def test_keys_of_an_engine_are_found_whole() -> None:
    report = proved(FIXTURES / "v17-dups" / "env", b"city27user00000967")
    joined = [hit for hit in report["hits"] if hit["where"] == Where.PREFIXED_KEY.value]
    assert (report["hit_count"], len(joined)) == (32, 5)
    assert {hit["where"] for hit in report["hits"]} >= {"identifier key", "two-part key"}


@pytest.mark.parametrize("damage", ["gap", "tail", "old node"])
def test_what_does_not_decode_is_no_all_clear(damage: str, tmp_path: Path) -> None:
    log = TreeLog([LogFile(0, 3 if damage == "old node" else 17)])
    for i in range(3):
        if damage == "old node":
            log.file.add(13, bytes([i + 1]))
        else:
            log.node([slot(b"k%d" % i, 100)])
    place = log.file.placed[2]
    if damage == "gap":
        log.file.data[place.start : place.start + 60] = b"\xa7" * 60
    elif damage == "tail":
        log.file.data += b"torn entry"
    report = proved(log.write(tmp_path / "env"), b"nothing-of-this")
    assert (report["verdict"], report["hit_count"]) == ("incomplete", 0)
    assert "nothing left" not in report["text"].lower()


def put_undecodable(log: TreeLog, node: Placed, value: bytes) -> None:
    """Append a node again with a right checksum, but with too large a size of one of its values."""
    item = log.file.data[node.start + 14 : node.stop]
    item[item.index(bytes([len(value)]) + value)] = 119
    log.file.add(log.file.data[node.start + 4], bytes(item))


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("broken", [b"user-", b"carol"], ids=["prefix", "slot"])
def test_a_prefixed_node_that_does_not_decode_is_no_all_clear(
    broken: bytes, level: int, tmp_path: Path
) -> None:
    log = TreeLog()
    prefixed(log, b"user-", b"carol", level=level)
    assert problems_of(proved(log.write(tmp_path / "env"), b"not-there", code=0)) == ""
    put_undecodable(log, log.file.placed[1], broken)
    report = proved(log.write(tmp_path / "env"), b"not-there")
    assert (report["verdict"], report["hit_count"]) == ("incomplete", 0)
    assert problems_of(report) == "1 B-tree node cannot be decoded"


def test_a_key_of_a_node_without_a_prefix_is_found_in_the_bytes(tmp_path: Path) -> None:
    """Even if the node does not decode: its keys are whole, so that it need not be decoded."""
    log = TreeLog()
    log.node([slot(b"user-carol", 100)], identifier_key=b"other")
    put_undecodable(log, log.file.placed[1], b"user-carol")
    home = log.write(tmp_path / "env")
    hits = proved(home, b"user-carol")["hits"]
    assert [(hit["where"], hit["type"]) for hit in hits] == [
        ("slot key", "BIN"),
        ("raw bytes", "BIN"),
    ]
    assert problems_of(proved(home, b"not-there", code=0)) == ""


def problems_of(report: dict[str, Any], name: str = "00000000.jdb") -> str:
    """Return the problems of a file as one text."""
    (file,) = [each for each in report["files"] if each["name"] == name]
    return " | ".join(file["problems"])


@pytest.mark.parametrize("at", ["type", "prefix", "flags", "record", "size"])
def test_a_wrong_checksum_is_no_all_clear(at: str, tmp_path: Path) -> None:
    """A damaged entry may have been a node, whatever its type is now."""
    log = TreeLog()
    log.ln(b"a", b"1")
    prefixed(log, b"user-", b"carol")
    log.ln(b"b", b"1")
    data, node, record = log.file.data, log.file.placed[2], log.file.placed[1]
    places = {
        "type": node.start + 4,
        "prefix": data.index(b"user-", node.start),
        "flags": node.stop - 1,
        "record": record.stop - 1,
        "size": node.start + 10,
    }
    data[places[at]] ^= 0x03
    report = proved(log.write(tmp_path / "env"), b"not-there")
    assert report["verdict"] == "incomplete"
    place = record if at == "record" else node
    assert f"{place.stop - place.start} bytes: {place.start:,} to" in problems_of(report)
    assert "verify" in problems_of(report)


def test_an_entry_of_an_unknown_type_is_no_all_clear(tmp_path: Path) -> None:
    log = TreeLog()
    log.ln(b"a", b"1")
    log.file.add(200, b"of a later engine")
    report = proved(log.write(tmp_path / "env"), b"not-there")
    assert "type is not known, 1" in problems_of(report)


def test_a_damaged_entry_of_zeros_hides_nothing(tmp_path: Path) -> None:
    log = TreeLog()
    log.ln(b"a", b"1")
    log.ln(b"b", b"1")
    place = log.file.placed[1]
    log.file.data[place.start + 14 : place.stop] = bytes(place.stop - place.start - 14)
    log.ln(b"c", b"1")
    assert proved(log.write(tmp_path / "env"), b"not-there", code=0)["files"][0]["problems"] == []


def test_a_torn_tail_says_what_to_do(tmp_path: Path) -> None:
    home = simple({b"a": b"1"}).write(tmp_path / "env")
    path = home / "00000000.jdb"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"torn entry")
    text = problems_of(proved(home, b"not-there"))
    assert f"after the last readable entry (10 bytes: {size:,} to {size + 10:,})" in text
    assert "recover --apply" in text
    assert je_tools("recover", home, "--apply").code in (0, 3)
    assert path.stat().st_size != size + 10


def test_a_log_file_that_is_cut_during_the_search_is_no_all_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when an engine opens the log: it cuts a torn entry off."""
    home = simple({b"a": b"1"}).write(tmp_path / "env")
    path = home / "00000000.jdb"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"torn entry")
    real = Scanner.scan_piece

    def scan_piece(*args: Any) -> Iterator[Any]:
        parts = list(real(*args))
        os.truncate(path, size)
        yield from parts

    monkeypatch.setattr(Scanner, "scan_piece", scan_piece)
    report = proved(home, b"not-there")
    assert report["verdict"] == "incomplete"
    assert f"shrank from {size + 10} to {size} bytes" in problems_of(report)
    assert "it changed during the search" in problems_of(report)


def test_zeros_after_the_last_entry_hide_nothing(tmp_path: Path) -> None:
    log = simple({b"a": b"1"})
    log.file.data += bytes(500)
    assert proved(log.write(tmp_path / "env"), b"not-there", code=0)["hit_count"] == 0


def test_what_cannot_be_read_is_no_all_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = simple({b"a": b"1"}).write(tmp_path / "env")
    (home / "other").write_bytes(bytes(10_000))
    real = os.preadv

    def preadv(fd: int, buffers: Any, at: int) -> int:
        if os.fstat(fd).st_size == 10_000 and at + len(buffers[0]) > 4096:
            raise OSError(errno.EIO, "I/O error")
        return real(fd, buffers, at)

    monkeypatch.setattr(os, "preadv", preadv)
    report = proved(home, b"not-there")
    assert report["verdict"] == "incomplete"
    problems = {each["name"]: each["problems"] for each in report["files"]}
    assert "bytes 4,096 to" in problems["other"][0]
    assert problems["00000000.jdb"] == []


@pytest.mark.parametrize("what", ["nothing", "empty log", "pipe", "other file"])
def test_a_directory_without_a_log_is_no_all_clear(what: str, tmp_path: Path) -> None:
    home = tmp_path / "env"
    home.mkdir()
    if what == "empty log":
        (home / "00000000.jdb").touch()
    elif what == "pipe":
        os.mkfifo(home / "00000000.jdb")
    elif what == "other file":
        (home / "notes").write_bytes(b"text")
    report = proved(home, b"not-there")
    assert report["verdict"] == "incomplete"
    assert "no log file with a byte in it" in str(report["unread"])


def test_what_takes_the_place_of_a_log_file_is_no_all_clear(tmp_path: Path) -> None:
    home = simple({b"a": b"1"}).write(tmp_path / "env")
    os.mkfifo(home / "control")
    (home / "elsewhere").symlink_to(tmp_path / "none")
    done = je_tools("erase", "prove", home, "--key", "not-there", "--html", tmp_path / "page")
    assert done.code == 0
    for text in (done.out, (tmp_path / "page").read_bytes()):
        assert b"a pipe, a socket or a device" in text
        assert b"extended attributes" in text
    os.mkfifo(home / "00000001.jdb")
    (home / "data001").symlink_to(tmp_path / "none")
    report = proved(home, b"not-there")
    holding = [each["name"] for each in report["unread"] if each["may_hold"]]
    assert holding == ["00000001.jdb", "data001"]


def test_logs_of_nodes_are_not_put_aside(tmp_path: Path) -> None:
    simple({b"a": b"1"}).write(tmp_path / "group" / "node1")
    write_log(tmp_path / "group" / "node2" / "data001", [LogFile(1)])
    (tmp_path / "group" / "node2" / "00000000.bad").touch()
    report = proved(tmp_path / "group", b"not-there", code=0)
    assert {each["name"]: each["kind"] for each in report["files"]} == {
        "node1/00000000.jdb": "log elsewhere",
        "node2/00000000.bad": "put aside",
        "node2/data001/00000001.jdb": "log elsewhere",
    }


def test_links_are_followed_to_files_and_data_directories(tmp_path: Path) -> None:
    home = simple({b"a": b"1"}).write(tmp_path / "env")
    for name in ("data", "elsewhere"):
        write_log(tmp_path / name, [LogFile(1)])
        (tmp_path / name / "secret").write_bytes(b"the-needle")
    (home / "data001").symlink_to(tmp_path / "data")
    (home / "elsewhere").symlink_to(tmp_path / "elsewhere")
    (home / "one").symlink_to(tmp_path / "elsewhere" / "secret")
    report = proved(home, b"the-needle")
    assert {hit["file"] for hit in report["hits"]} == {"data001/secret", "one"}
    assert [each["name"] for each in report["unread"]] == ["elsewhere"]
    assert proved(home, b"not-there")["verdict"] == "incomplete"


def tar_of(data: bytes) -> bytes:
    """Return an archive that is not compressed, with a file that is."""
    out, packed = io.BytesIO(), gzip.compress(data)
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("notes.gz")
        member.size = len(packed)
        archive.addfile(member, io.BytesIO(packed))
    return out.getvalue()


PACKERS = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "lzma": functools.partial(lzma.compress, format=lzma.FORMAT_ALONE),
    "zlib": zlib.compress,
    "tar": tar_of,
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_files_are_no_all_clear(suffix: str, tmp_path: Path) -> None:
    home = simple({b"a": b"1"}).write(tmp_path / "env")
    (home / f"je.info.0.{suffix}").write_bytes(PACKERS[suffix](b"the-needle " * 1000))
    report = proved(home, b"the-needle the-needle the-needle ")
    assert report["verdict"] == "incomplete"
    assert "compressed" in str(report["files"])


def test_needles_as_hashes_find_the_same(home: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    values = [secret(where) for where in ("key", "data", "notes")] + [PREFIX + b"fixed-4Wk"]
    keys.write_bytes(b"\r\n".join([*values, b"", b"hex:" + secret("info").hex().encode()]))
    file = tmp_path / "needles"
    done = je_tools("erase", "prove", home, "--key-file", keys, "--write-needles", file)
    assert (done.code, done.out) == (0, b"")
    assert not re.search(pattern_of(*values), file.read_bytes())
    by_hash = je_tools("erase", "prove", home, "--needles", file, "--format", "json")
    by_value = je_tools("erase", "prove", home, "--key-file", keys, "--format", "json")
    places = [
        sorted((hit["file"], hit["offset"], hit["where"]) for hit in json.loads(done.out)["hits"])
        for done in (by_hash, by_value)
    ]
    assert places[0] == places[1] != []
    assert {each["name"][:7] for each in json.loads(by_hash.out)["needles"]} == {"needle:"}


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_a_key_file_of_any_editor_is_read(start: bytes, home: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_bytes(start + secret("key") + b"\r\n\r\n" + secret("notes"))
    done = je_tools("erase", "prove", home, "--key-file", keys, "--format", "json")
    assert [each["hit_count"] for each in json.loads(done.out)["needles"]] == [1, 1]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("\ufeffsecret".encode("utf-16-le"), "UTF-16"),
        ("\ufeffsecret".encode("utf-16-be"), "UTF-16"),
        ("secret".encode("utf-16-le"), "zero byte"),
        (b"other\nsec\0ret", "zero byte"),
        (b"other\n secret", "line 2: it begins or ends with a blank"),
        (b"secret \r\n", "line 1: it begins or ends with a blank"),
        (b"secret\t", "blank"),
        ("\N{NO-BREAK SPACE}secret".encode(), "blank"),
        ("other\n\ufeffsecret".encode(), "line 2: it begins with a byte-order mark"),
        (b"secret\rsecret", "line 1: it has a carriage return"),
    ],
)
def test_keys_that_would_silently_not_be_found_are_refused(
    data: bytes, reason: str, home: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_bytes(data)
    for verb in ("prove", "subject"):
        done = je_tools("erase", verb, home, "--key-file", keys)
        assert done.code == 2
        assert reason in done.err
        assert "secret" not in done.err
        assert "hex:" in done.err or "UTF-8" in done.err


def test_a_key_with_blanks_around_it_is_named_in_hexadecimal(home: Path) -> None:
    done = je_tools("erase", "prove", home, "--key", " secret")
    assert done.code == 2
    assert "hex:" in done.err
    assert "secret" not in done.err


@pytest.mark.parametrize("text", ["", "[]", '{"format": "other"}', "secret", "\ud800"])
def test_other_files_are_no_needles(text: str, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "needles"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    for option in ("--needles", "--before", "--run-report"):
        done = je_tools("erase", "prove", home, option, file, "--key", "a")
        assert done.code == 4, option
        assert "secret" not in done.err


def test_hits_of_a_regular_expression(home: Path) -> None:
    done = je_tools(
        "erase", "prove", home, "--match", r"re:(?i)QZ7-no[a-z]{3,9}-4w", "--format", "json"
    )
    assert {hit["file"] for hit in json.loads(done.out)["hits"]} == {"old/copies/notes"}
    assert je_tools("erase", "prove", home, "--match", "re:carol.*").code == 2


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--key", "hex:0g-secret"),
        ("--key", "long:secret"),
        ("--match", "re:(secret"),
        ("--match", ""),
        ("--match", "re:secret*", "--write-needles", "x"),
    ],
)
def test_wrong_use_is_explained_without_a_quotation(words: tuple[str, ...], home: Path) -> None:
    done = je_tools("erase", "prove", home, *words)
    assert done.code == 2
    assert "secret" not in done.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hex:zz", "--match, number 1: expected pairs of hexadecimal digits, such as hex:0a1b"),
        ("long:5485", "--key"),
        ("int:-7", "--key"),
        ("str:name", "--key"),
    ],
)
def test_a_match_is_no_key(text: str, expected: str, home: Path) -> None:
    done = je_tools("erase", "prove", home, "--match", text)
    assert done.code == 2
    assert expected in done.err
    assert ("long:" in done.err) is False
    assert je_tools("erase", "prove", home, "--match", f"re:{text}").code == 3


def test_short_needles_are_warned_of(home: Path) -> None:
    done = je_tools("erase", "prove", home, "--match", "abc", "--match", "abcd")
    assert "1 needle shorter than 4 bytes" in done.err


def test_no_output_has_a_needle_and_nothing_is_written(home: Path, tmp_path: Path) -> None:
    places = ("key", "data", "name", "target", "info", "embedded data")
    pattern = pattern_of(*map(secret, places), b"Qz7-", PREFIX)
    keys = tmp_path / "keys"
    keys.write_bytes(b"\n".join(map(secret, places)))
    before = states(home)
    for number, form in enumerate(("table", "json", "jsonl")):
        for masking in ("hash", "salted-hash"):
            folder = tmp_path / f"{number}-{masking}"
            folder.mkdir()
            files = [folder / name for name in ("page", "manifest", "out")]
            done = je_tools(
                *("erase", "prove", home, "--key-file", keys, "--match", "re:Qz7-pre[a-z]{2,9}"),
                *("--html", files[0], "--manifest", files[1], "--output", files[2]),
                *("--format", form, "--data", masking),
            )
            assert done.code == 3
            for data in (done.out, done.err.encode(), *(file.read_bytes() for file in files)):
                assert not pattern.search(data)
            assert b"<script" in files[0].read_bytes()
    assert states(home) == before


def test_a_manifest_shows_what_changed(tmp_path: Path) -> None:
    home = simple({b"a": b"1"}).write(tmp_path / "env")
    for name in ("same", "changed", "grown", "cut", "gone"):
        (home / name).write_bytes(b"0123456789")
    manifest = tmp_path / "manifest"
    done = je_tools("erase", "prove", home, "--key", "not-there", "--manifest", manifest)
    assert done.code == 0
    listed = {each["name"]: each for each in json.loads(manifest.read_bytes())["files"]}
    assert listed["same"]["crc32c"] == "280c069e", "of the ten digits"
    assert listed["same"]["sha256"].startswith("84d89877f0d4041efb6bf91a16f0248f2fd573e6")
    (home / "changed").write_bytes(b"0123456780")
    (home / "grown").write_bytes(b"0123456789a")
    (home / "cut").write_bytes(b"0")
    (home / "gone").unlink()
    (home / "new").touch()
    report = tmp_path / "report"
    report.write_text(
        '{"record":"run"}\n{"record":"ranges","file":"00000000.jdb","what":"type","ranges":[[8,20]]}\n'
        '{"record":"fsync","file":"00000000.jdb","time_ms":1700000000000}\n'
    )
    done = je_tools(
        *("erase", "prove", home, "--key", "not-there", "--before", manifest),
        *("--run-report", report, "--format", "json"),
    )
    answer = json.loads(done.out)
    assert {each["name"]: each["change"] for each in answer["files"]} == {
        name: name for name in ("same", "changed", "grown", "cut", "new")
    } | {"00000000.jdb": "same"}
    assert answer["gone"] == ["gone"]
    ranges = {"file": "00000000.jdb", "what": "type", "ranges": [[8, 20]]}
    assert answer["changed_ranges"] == [ranges]
    assert answer["fsyncs"] == [{"file": "00000000.jdb", "time_ms": 1700000000000}]


def test_ranges_that_are_reported_as_zeros_are_checked(tmp_path: Path) -> None:
    home = simple({b"a": b"1"}).write(tmp_path / "env")
    size = (home / "00000000.jdb").stat().st_size
    report = tmp_path / "report"
    for ranges, is_right in (([[20, 3]], True), ([[20, 3], [0, 4]], False), ([[size, 1]], False)):
        line = {"record": "ranges", "file": "00000000.jdb", "what": "zeros", "ranges": ranges}
        report.write_text(json.dumps(line))
        done = je_tools("erase", "prove", home, "--key", "not-there", "--run-report", report)
        assert done.code == (0 if is_right else 3), ranges
        assert (b"1 byte ranges that the run reports" in done.out) is not is_right


def test_outputs_stay_outside_of_the_directory(home: Path) -> None:
    for option in ("--html", "--manifest", "--output", "--write-needles"):
        done = je_tools("erase", "prove", home, "--key", "a", option, home / "old" / "new")
        assert done.code == 6, option


def test_a_directory_that_does_not_exist_and_a_file(home: Path, tmp_path: Path) -> None:
    assert je_tools("erase", "prove", tmp_path / "none", "--key", "a").code == 4
    assert je_tools("erase", "prove", home / "je.info.0", "--key", "a").code == 2
    shutil.copytree(home / "old", tmp_path / "plain")
    done = je_tools("erase", "prove", tmp_path / "plain", "--match", "Qz7-notes")
    assert done.code == 3
