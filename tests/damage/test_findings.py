"""Every finding code: a planted log produces it, with its severity, place and length."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from je_tools.findings import CODES
from je_tools.formats.files.source import Source
from tests.builders.logs import OLD_DELTA, LogFile, write_log
from tests.builders.trees import rooted
from tests.damage.planted_findings import PLANTED, Told, log
from tests.damage.running import Outcome, je_tools

ELSEWHERE = {
    *(code for code in CODES if code.startswith("group-")),
    "unreadable",
    "unreadable-file",
    "old-delta-in-v8",
    "live-writer",
    "more-damage",
    "unread",
    "recovery-refused",
    "backward-jump",
    "lost-tail",
    "damaged-end",
    "stray-slots",
    "expiration-unit",
    "root-split-cut-short",
    "transaction-in-doubt",
    "creation-cut-short",
    "old-form-left-out",
    "unknown-order",
    "utilization",
    "journal-hole",
    "journal-record",
    "journal-order",
    "front-end-mismatch",
    *(code for code in CODES if "tree-" in code),
    *(code for code in CODES if code.startswith("vlsn-index-")),
    "vlsn-rollback",
    "vlsn-unmarked",
}
"""Codes without a planted log. They have tests below; in test_listed (damage that is only counted);
in tests/je_tools/audit/test_judging.py (logs that an audit could not read); in test_trees and
tests/je_tools/recovery (snapshots); in tests/je_tools/btree/check (B-trees); in
tests/je_tools/vlsn (VLSN indexes and rollbacks); in tests/je_tools/audit/test_groups.py (groups);
in tests/je_tools/journal (front ends); and in
test_unreadable_files (files that cannot be opened)."""

HOLD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX, 1)
print(flush=True)
sys.stdin.read()
"""


def told(outcome: Outcome) -> list[Told]:
    """Return the findings of `verify --format jsonl`, asserting that LSNs match their places."""
    found = []
    for row in outcome.rows:
        resume = None
        if row["resume_lsn"] is not None:
            file_no, resume = (int(part, 16) for part in row["resume_lsn"].split("/"))
            assert file_no == row["file_no"]
        in_file = row["file_no"] is not None and row["offset"] is not None
        assert row["lsn"] == (f"{row['file_no']:#x}/{row['offset']:#x}" if in_file else None)
        assert row["hint"]
        place = (row["file_no"], row["offset"], row["length"], resume)
        found.append(Told(row["code"], row["severity"], *place))
    return found


def test_every_code_is_planted() -> None:
    assert PLANTED.keys() | ELSEWHERE == CODES.keys()
    assert not PLANTED.keys() & ELSEWHERE


@pytest.mark.parametrize("code", sorted(PLANTED))
def test_a_planted_log_has_its_findings(code: str, tmp_path: Path) -> None:
    home, expected = PLANTED[code](tmp_path / "env")
    outcome = je_tools("verify", home, "--format", "jsonl", "--all")
    found = told(outcome)
    assert code in {each.code for each in found}
    assert [each for each in found if each.code != "clean-end" or code == "clean-end"] == expected
    is_error = any(each.severity == "error" for each in expected)
    assert outcome.code == (3 if is_error else 0)
    without = told(je_tools("verify", home, "--format", "jsonl"))
    assert without == [each for each in expected if each.code != "clean-end"]


def test_bytes_that_the_device_does_not_deliver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = log()
    start, stop = file.trace(20_000)
    file.trace(50)
    home = write_log(tmp_path / "env", [file])
    preadv = os.preadv

    def with_bad_sector(fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        if offset < 8192 and offset + sum(len(buffer) for buffer in buffers) > 4096:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return preadv(fd, buffers, offset)

    monkeypatch.setattr(os, "preadv", with_bad_sector)
    monkeypatch.setattr(Source, "file", lambda _: None)
    outcome = je_tools("verify", home, "--format", "jsonl")
    assert outcome.code == 3
    assert told(outcome) == [
        Told("damaged-entry", "error", 0, start, stop - start, stop),
        Told("unreadable", "error", 0, 4096, 4096),
    ]


def test_old_deltas_in_a_file_that_new_engines_cut_off(tmp_path: Path) -> None:
    """`files` reports them, since nothing is wrong with the file."""
    file = rooted(LogFile(0, 8))
    file.trace(20)
    file.add(OLD_DELTA, bytes(5))
    second = file.add(OLD_DELTA, bytes(5))
    file.trace(20)
    home = write_log(tmp_path / "env", [file])
    outcome = je_tools("files", home)
    assert outcome.code == 0
    first = second.start - 19
    assert f"warning: old-delta-in-v8 at 0x0/{first:#x}" in outcome.err
    assert "2 old BIN-deltas" in outcome.err
    assert je_tools("verify", home).code == 0


def test_an_engine_that_has_the_log_open(tmp_path: Path) -> None:
    file = log()
    home = write_log(tmp_path / "env", [file])
    command = [sys.executable, "-c", HOLD_LOCK, str(home / "je.lck")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        outcome = je_tools("verify", home, "--format", "jsonl")
        holder.communicate(b"")
    assert outcome.code == 0
    assert told(outcome) == [Told("live-writer", "note", 0, len(file.data))]
    (row,) = outcome.rows
    assert f"process {holder.pid} holds je.lck" in row["found"]
