"""`explain` on texts, log files and standard input: messages, places, counts, exit codes."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from je_tools.commands.explain import LOOKED_UP_MAX
from je_tools.explain import recognition
from je_tools.explain.message_places import places_in, vlsns_in
from je_tools.explain.recognition import PLACES_MAX, Recognition, recognise, recognise_text
from je_tools.explain.requests import is_message, requests_of
from je_tools.formats.je.header import lsn_of
from tests.corpus import FIXTURES
from tests.je_tools.explain.test_explain import change, explained

BASIC = FIXTURES / "v17-basic" / "env"
ROLLBACK = (
    "com.sleepycat.je.rep.RollbackException: (JE {release}) Node n must rollback 1 total "
    "commits(1 of which were durable) to the earliest point indicated by transaction id=-6 "
    "time=2023-03-05 18:24:01.739 {passed} in order to rejoin the replication group. Log files "
    "were truncated to file 0x{file}, offset 0x{offset}, vlsn 9,528,443 HARD_RECOVERY: Rolled back"
)


def names(found: Recognition) -> list[str]:
    return [each.case.name for each in found.sightings]


# Places


@pytest.mark.parametrize(
    ("release", "passed", "file", "offset", "place"),
    [
        # The places of three public reports; each is just before the first transaction passed.
        ("18.3.12", "vlsn=9,528,445 lsn=0xfb/0x426da3 durable=false", "251", "4353230", 251),
        ("18.1.11", "vlsn=112,533 lsn=0xe/0xa625 durable=false", "14", "42489", 14),
        ("18.3.16", "vlsn=129,934,919 lsn=0x1bfc/0xf6aa3 durable=false", "7164", "1009545", 7164),
        # Without the transaction, the release decides.
        ("7.5.11", "", "251", "4353230", 251),
        ("25.3.21", "", "251", "4353", 0x251),
        # With it, the release does not.
        ("25.3.21", "vlsn=9 lsn=0xfb/0x426da3 durable=false", "251", "4353230", 251),
        ("18.3.12", "vlsn=9 lsn=0x251/0x4354 durable=false", "251", "4353", 0x251),
        # Letters are no decimal digits.
        ("18.3.12", "", "fb", "426cce", 251),
    ],
)
def test_decimal_digits_of_a_rollback_are_corrected(
    release: str, passed: str, file: str, offset: str, place: int
) -> None:
    text = ROLLBACK.format(release=release, passed=passed, file=file, offset=offset)
    found = next(places_in(text.encode()))
    is_decimal = place == int(file) if file.isdecimal() else False
    assert found.lsn == lsn_of(place, int(offset, 10 if is_decimal else 16))
    assert found.file == f"{place:08x}.jdb"
    assert (found.printed is not None) == is_decimal


def test_places_of_other_texts() -> None:
    text = (
        b"truncate the log to file 00000003.jdb, offset 0x1a2f, 0x43/0x6648b twice 0x43/0x6648b "
        b'<DbLsn val="0x1/0x2"/> /bdb/0000001f.jdb 0xffffffffff/0x1 0x1/0x2/0x3 (00000010.del)'
    )
    assert [each.text for each in dict.fromkeys(places_in(text))] == [
        "0x3/0x1a2f",
        "0x43/0x6648b",
        "0x1/0x2",
        "00000003.jdb",
        "0000001f.jdb",
        "00000010.del",
    ]


def test_a_place_beyond_32_bits_is_none() -> None:
    text = ROLLBACK.format(release="18.3", passed="", file="99999999999", offset="1")
    assert list(places_in(text.encode())) == []


def test_vlsns() -> None:
    text = b"want to read 242,587,394 but reader at 242,587,395 fetching vlsn=242,587,394 vlsn 7"
    assert vlsns_in(text) == [242587394, 242587395, 7]


# Texts of any size


def log_of(*texts: str) -> bytes:
    lines = (f"2024-01-24 01:{i:02}:00,000 WARN (x|1) {text}\n" for i, text in enumerate(texts))
    return "".join(lines).encode()


def test_occurrences_are_counted_by_log_entry() -> None:
    twice = "LOG_CHECKSUM: 0x1/0x2\nCaused by: LOG_CHECKSUM 0x1/0x2\n\tat com.sleepycat.je.X"
    found = recognise(io.BytesIO(log_of("nothing", twice, "nothing", twice, "DiskLimitException")))
    assert names(found) == ["checksum", "disk-limit"]
    seen = found.sightings[0].seen
    assert (seen.count, seen.first_line, seen.last_line) == (2, 2, 6)
    assert seen.first_time == "2024-01-24 01:01:00,000"
    assert seen.last_time == "2024-01-24 01:03:00,000"
    assert [(each.place.text, each.seen.count) for each in found.places] == [("0x1/0x2", 2)]
    assert found.sightings[1].lsn is None


def test_a_general_case_counts_where_no_special_one_is() -> None:
    special = "want to read 1 but reader at 2 UNEXPECTED_STATE: x"
    assert names(recognise_text(special)) == ["vlsn-passed"]
    both = log_of(special, "UNEXPECTED_STATE: something else")
    found = recognise(io.BytesIO(both))
    assert [(each.case.name, each.seen.count) for each in found.sightings] == [
        ("vlsn-passed", 1),
        ("unexpected-state", 1),
    ]


@pytest.mark.parametrize("size", [64, 100, 1000])
def test_blocks_do_not_change_the_result(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["nothing", "LOG_CHECKSUM 0x1/0x2", "x " * 30, "want to read 5\nbut reader at 6"] * 40
    log = log_of(*texts)
    whole = recognise(io.BytesIO(log))
    monkeypatch.setattr(recognition, "BLOCK", size)
    assert recognise(io.BytesIO(log)) == whole
    assert [each.seen.count for each in whole.sightings] == [40, 40]


def test_an_entry_that_is_longer_than_memory_may_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognition, "BLOCK", 100)
    monkeypatch.setattr(recognition, "_ENTRY_MAX", 400)
    log = b"LOG_CHECKSUM 0x1/0x2\n" + b"\tat x.y.z\n" * 500 + b"LOG_CHECKSUM 0x3/0x4\n"
    found = recognise(io.BytesIO(log + log_of("DiskLimitException")))
    assert [(each.case.name, each.seen.count) for each in found.sightings] == [
        ("checksum", 1),
        ("disk-limit", 1),
    ]
    assert found.sightings[1].seen.first_line == 503
    assert len(found.places) == 2


def test_one_line_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognition, "BLOCK", 100)
    monkeypatch.setattr(recognition, "_ENTRY_MAX", 400)
    assert names(recognise(io.BytesIO(b"x" * 5000 + b" LOG_READ " + b"y" * 5000))) == ["log-read"]


def test_places_that_are_kept_are_limited() -> None:
    texts = [f"LOG_CHECKSUM 0x{i:x}/0x1" for i in range(PLACES_MAX + 5)]
    found = recognise(io.BytesIO(log_of(*texts)))
    assert (len(found.places), found.more_places) == (PLACES_MAX, 5)


def test_the_nearest_of_a_log_comes_from_its_exceptions() -> None:
    log = log_of(*["replay journal"] * 3000, "com.sleepycat.je.OddException: disk usage limits")
    found = recognise(io.BytesIO(log))
    assert found.sightings == []
    assert found.nearest is not None


# The command


def rows_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = explained(capsys, "com.sleepycat.je.LogWriteException: disk, LOG_WRITE: x")
    assert (code, err) == (0, "")
    assert out.startswith("log-write: A write failed\n")
    assert "je-tools verify ENV" in out


def test_a_text_without_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["Log", "file", "missing,", "log", "is", "likely", "invalid."]
    assert explained(capsys, *words)[1].startswith("file-not-found: ")
    assert explained(capsys, "LOG_READ:", "IOException", "on", "0x3/0x1")[0] == 0


def test_an_unknown_text_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    text = "the log files of this node seem to be obsolete"
    code, out, err = explained(capsys, text)
    assert (code, err) == (3, "")
    assert "The nearest is insufficient-log" in out
    assert explained(capsys, text, "--exit-zero")[0] == 0
    code, out, _ = explained(capsys, text, "--format", "jsonl")
    assert code == 3
    assert rows_of(out)[0]["nearest"] == "insufficient-log"


@pytest.mark.parametrize("text", ["?? !!", "2024-01-24 01:30:33 x", "a b", "some.OddException"])
def test_no_text_is_a_wrong_use(capsys: pytest.CaptureFixture[str], text: str) -> None:
    code, out, err = explained(capsys, text)
    assert (code, err) == (3, "")
    assert out.startswith("No known message.")


def test_what_is_a_message() -> None:
    assert is_message("2024-01-24 failed")
    assert is_message("com.sleepycat.je.rep.RollbackException:")
    assert is_message("LOG_CHECKSUM")
    for other in ("type:BIN", "0x3/0x26", "clean-end", "nonsense", "halt-chosen", "BIN"):
        assert not is_message(other)
    assert requests_of(["type:BIN", "a", "b"]) == ["type:BIN", "a", "b"]
    assert requests_of(["0x0/0x26", "nix"]) == ["0x0/0x26", "nix"]
    assert requests_of(["Log", "file", "missing"]) == ["Log file missing"]
    assert requests_of(["a b", "c"]) == ["a b", "c"]


def test_nothing_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = explained(capsys)
    assert (code, out) == (2, "")
    assert "--file" in err


def test_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "fe.log"
    log.write_bytes(log_of("x", "LOG_CHECKSUM \xff 0x0/0x1e3\x1b[31m") + b"\xff\xfe DiskLimit")
    code, out, _ = explained(capsys, "--file", log)
    assert code == 0
    assert "in 1 log entry, line 2 (2024-01-24 01:01:00,000)" in out
    assert "\\x1b[31m" in out
    assert "\\xff\\xfe" in out
    code, out, _ = explained(capsys, "--file", log, "--format", "jsonl")
    assert "\\xff\\xfe DiskLimit" in rows_of(out)[0]["excerpt"]
    code, out, err = explained(capsys, "--file", tmp_path / "none.log")
    assert (code, out) == (4, "")
    assert "none.log: No such file or directory" in err


def test_a_file_without_a_message(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "fe.log"
    log.write_bytes(b"")
    assert explained(capsys, "--file", log)[0] == 3


@pytest.mark.parametrize("words", [["-"], ["--file", "-"]])
def test_standard_input(words: list[str]) -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "je-tools", "explain", *words],
        input=log_of("THREAD_INTERRUPTED: x"),
        capture_output=True,
        check=True,
    )
    assert done.stdout.startswith(b"thread-interrupted: ")


def test_places_are_looked_up(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "ChecksumException: Location 0x0/0x1e3 expected 1 got 2, and 0x0/0x1e4, and 0x7/0x0"
    code, out, err = explained(capsys, text, "--env", BASIC)
    assert (code, err) == (0, "")
    assert f"je-tools verify {BASIC}" in out
    assert "0x0/0x1e3 Commit: a transaction's commit" in out
    assert "0x0/0x1e4: no entry begins there." in out.replace("\n", " ")
    assert "has no file 00000007.jdb" in out.replace("\n", " ")
    code, out, _ = explained(capsys, text, "--env", BASIC, "--format", "jsonl")
    rows = rows_of(out)
    assert [row["place"] for row in rows if "place" in row] == ["0x0/0x1e3", "0x0/0x1e4", "0x7/0x0"]
    assert [row["lsn"] for row in rows if row.get("part") == "problem"] == ["0x0/0x1e4", "0x7/0x0"]

    shutil.copy(BASIC / "00000000.jdb", tmp_path)
    change(tmp_path / "00000000.jdb", 500, 1)
    assert explained(capsys, text, "--env", tmp_path)[0] == 3
    assert explained(capsys, text, "--env", tmp_path, "--exit-zero")[0] == 0


def test_only_the_first_places_are_looked_up(capsys: pytest.CaptureFixture[str]) -> None:
    text = "LOG_CHECKSUM " + " ".join(f"0x7/0x{i:x}" for i in range(20))
    _, out, err = explained(capsys, text, "--env", BASIC)
    assert out.count("has no file") == LOOKED_UP_MAX
    assert f"only the first {LOOKED_UP_MAX} places" in err


def test_messages_and_topics_together(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = explained(capsys, "exit:3", "an ENV_LOCKED text", "0x0/0x1e3", "--env", BASIC)
    assert code == 0
    at = [out.index(text) for text in ("exit  meaning", "environment-locked:", "0x0/0x1e3 Commit")]
    assert at == sorted(at)
