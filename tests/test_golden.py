"""Exact output of the commands, with their exit codes: tests/golden/*.txt.

After an intended change, run `pytest tests/test_golden.py --rewrite-golden`, and read the diff.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from je_tools.commands.dump import db_dump_command
from je_tools.commands.erase import VERBS as ERASE_VERBS
from je_tools.commands.group import VERBS as GROUP_VERBS
from je_tools.commands.ignite_pages import VERBS as IGNITE_PAGES_VERBS
from je_tools.commands.ignite_wal import VERBS as IGNITE_WAL_VERBS
from je_tools.commands.journal import VERBS as JOURNAL_VERBS
from je_tools.commands.main import COMMANDS, group
from je_tools.commands.recover import db_recover_command
from je_tools.commands.vlsn import VERBS
from je_tools.erase.proof import run
from je_tools.erase.proof.scope import NOT_LOOKED_AT, Scope
from tests.builders.ignite import (
    write_checkpointed_store,
    write_damaged_store,
    write_exported_store,
)
from tests.builders.ignite_pages import write_damaged_page_store
from tests.builders.ignite_recovery import write_unfinished_store
from tests.builders.logs import CREATED_MS, LogFile, entry, write_log
from tests.builders.trees import simple, slot
from tests.corpus import FIXTURES, ROOT
from tests.damage.running import states
from tests.je_tools.dumped import je_tools
from tests.je_tools.ignite.repairs.operations import operate as operate_on_store
from tests.je_tools.ignite.repairs.operations import small_store
from tests.je_tools.writing.operations import journal_of, operate, small_log, spoil

GOLDEN = ROOT / "tests" / "golden"
WIDTH = 100
FREE = os.statvfs_result((4096, 4096, 9_000_000, 5_000_000, 5_000_000, 1, 1, 1, 0, 255))
"""Free space of every disk."""

SCOPE = Scope(NOT_LOOKED_AT, ("The file system is ext4.",))
"""Surroundings of every directory."""

CRASH = "fixtures/v17-crash-txn/env"
REPLICATED = "fixtures/v26-rep-committed/node1"
ROLLED_BACK = "fixtures/starrocks-rep-uncommitted/node1"
LONE = "fixtures/v17-rep-uncommitted-before"
OLD = "fixtures/v8-dbops/env"
OTHER = "fixtures/v17-erase-after/env"
FRONT_END = "fixtures/starrocks-fe-hole/node1"
TABLES = "--by-file --by-db --vlsn --checkpoints --txns"

PROGRAMS: dict[str, click.Command] = {
    "je-tools": group,
    "db-dump": db_dump_command,
    "db-recover": db_recover_command,
}
COMMAND_LINES = {
    "help": "je-tools --help",
    "help-db-dump": "db-dump --help",
    "help-db-recover": "db-recover --help",
    **{f"help-{name}": f"je-tools {name} --help" for name in COMMANDS},
    "help-audit-run": "je-tools audit run --help",
    **{f"help-vlsn-{verb}": f"je-tools vlsn {verb} --help" for verb in VERBS},
    **{f"help-group-{verb}": f"je-tools group {verb} --help" for verb in GROUP_VERBS},
    **{f"help-erase-{verb}": f"je-tools erase {verb} --help" for verb in ERASE_VERBS},
    **{f"help-journal-{verb}": f"je-tools journal {verb} --help" for verb in JOURNAL_VERBS},
    "help-ignite-checkpoints": "je-tools ignite checkpoints --help",
    "help-ignite-diff": "je-tools ignite diff --help",
    "help-ignite-export": "je-tools ignite export --help",
    "help-ignite-pages": "je-tools ignite pages --help",
    **{
        f"help-ignite-pages-{verb}": f"je-tools ignite pages {verb} --help"
        for verb in IGNITE_PAGES_VERBS
    },
    "help-ignite-info": "je-tools ignite info --help",
    "help-ignite-undo": "je-tools ignite undo --help",
    "help-ignite-recover": "je-tools ignite recover --help",
    "help-ignite-wal": "je-tools ignite wal --help",
    **{
        f"help-ignite-wal-{verb}": f"je-tools ignite wal {verb} --help" for verb in IGNITE_WAL_VERBS
    },
    "ignite-checkpoints": "je-tools ignite checkpoints checkpoints",
    "ignite-checkpoints-json": (
        "je-tools ignite checkpoints checkpoints --partitions --format json"
    ),
    "ignite-checkpoints-damaged": "je-tools ignite checkpoints ignite --format jsonl",
    "ignite-diff": "je-tools ignite diff caches caches-damaged --all --keys",
    "ignite-diff-json": "je-tools ignite diff caches caches-damaged --keys --format json",
    "ignite-diff-wrong": "je-tools ignite diff caches",
    "ignite-export": "je-tools ignite export caches",
    "ignite-export-csv": "je-tools ignite export caches-damaged --format csv --data length",
    "ignite-pages-verify": "je-tools ignite pages verify pages",
    "ignite-pages-verify-all": "je-tools ignite pages verify pages --all --format jsonl",
    "ignite-pages-dump": "je-tools ignite pages dump pages --partition 0 --items",
    "ignite-pages-dump-csv": (
        "je-tools ignite pages dump pages --group first --items --format csv --data length"
    ),
    "ignite-pages-dump-wrong": "je-tools ignite pages dump pages --type none",
    "ignite-pages-space": "je-tools ignite pages space pages",
    "ignite-pages-space-types": "je-tools ignite pages space pages --by-type --format csv",
    "ignite-info": "je-tools ignite info checkpoints",
    "ignite-info-json": "je-tools ignite info ignite --format json",
    "ignite-undo": "je-tools ignite undo repaired",
    "ignite-undo-json": "je-tools ignite undo repaired --format json",
    "ignite-undo-wrong": "je-tools ignite undo repaired --drop 7 --apply",
    "ignite-recover": "je-tools ignite recover unfinished",
    "ignite-recover-json": "je-tools ignite recover unfinished --format json",
    "ignite-recover-refused": "je-tools ignite recover ignite --no-pages --format jsonl",
    "ignite-wal-dump": "je-tools ignite wal dump checkpoints",
    "ignite-wal-dump-jsonl": "je-tools ignite wal dump ignite --format jsonl --data length",
    "ignite-wal-dump-csv": "je-tools ignite wal dump checkpoints --type DATA --format csv",
    "ignite-wal-dump-wrong": "je-tools ignite wal dump ignite --type NONE",
    "ignite-wal-verify": "je-tools ignite wal verify ignite",
    "ignite-wal-verify-all": "je-tools ignite wal verify ignite --all --format jsonl",
    "ignite-wal-verify-wrong": f"je-tools ignite wal verify {CRASH}",
    "ignite-wal-summary": "je-tools ignite wal summary ignite --by-segment --by-cache",
    "ignite-wal-summary-csv": "je-tools ignite wal summary ignite --by-cache --format csv",
    "erase-plan": f"je-tools erase plan {OTHER}",
    "erase-plan-jsonl": f"je-tools erase plan {OTHER} --format jsonl",
    "erase-plan-node": f"je-tools erase plan {REPLICATED} --force --checkpoint-first",
    "erase-plan-crash": f"je-tools erase plan {CRASH}",
    "erase-plan-wrong": f"je-tools erase plan {OTHER} --period 30",
    "erase-run": f"je-tools erase run {CRASH} --checkpoint-first --format csv",
    "erase-run-late": f"je-tools erase run {OTHER} --until 2001-01-01 --apply",
    "erase-status": f"je-tools erase status {OTHER}",
    "erase-status-json": f"je-tools erase status {OTHER} --format json",
    "erase-status-prometheus": f"je-tools erase status {OTHER} --format prometheus",
    "erase-resume": f"je-tools erase resume {OTHER}",
    "erase-abort-wrong": f"je-tools erase abort {OTHER} 00000009.jdb",
    "erase-subject": f"je-tools erase subject {OTHER} --key user00000005 --db people",
    "erase-subject-crash": f"je-tools erase subject {CRASH} --key user00000001",
    "erase-subject-jsonl": f"je-tools erase subject {OTHER} --key user00000005 --format jsonl",
    "erase-subject-wrong": f"je-tools erase subject {CRASH}",
    "erase-prove": f"je-tools erase prove {OTHER} --key user00000005 --match re:user0000199[0-9]",
    "erase-prove-nothing": f"je-tools erase prove {CRASH} --key long:5485 --match nobody",
    "erase-prove-incomplete": "je-tools erase prove damaged --match hex:00ff00ff",
    "erase-prove-wrong": f"je-tools erase prove {CRASH} --match re:user.*",
    "doctor": f"je-tools doctor {CRASH}",
    "doctor-tree": f"je-tools doctor {OTHER} --tree",
    "doctor-damaged": "je-tools doctor damaged",
    "doctor-lost": "je-tools doctor lost",
    "doctor-lost-jsonl": "je-tools doctor lost --format jsonl --exit-zero",
    "doctor-refused": "je-tools doctor refused",
    "doctor-above": "je-tools doctor .",
    "doctor-json": f"je-tools doctor {OLD} --format json",
    "dump-table": f"je-tools dump {CRASH} --limit 40",
    "dump-table-replicated": f"je-tools dump {REPLICATED} --from-vlsn 1 --limit 25",
    "dump-table-backward": f"je-tools dump {OLD} --backward --limit 25",
    "dump-table-damaged": "je-tools dump damaged",
    "dump-jsonl": f"je-tools dump {CRASH} --format jsonl --from-lsn 0x0/0x300 --limit 30",
    "dump-jsonl-replicated": f"je-tools dump {REPLICATED} --format jsonl --type TXN --limit 5",
    "dump-jsonl-old": f"je-tools dump {OLD} --format jsonl --type IN --type DbTree --limit 8",
    "dump-jsonl-damaged": "je-tools dump damaged --format jsonl --data hide",
    "dump-csv": f"je-tools dump {REPLICATED} --format csv --db people --limit 12",
    "dump-csv-damaged": "je-tools dump damaged --format csv --exit-zero",
    "dump-data-length": f"je-tools dump {CRASH} --type INS_LN_TX --limit 5 --data length",
    "dump-data-hash": f"je-tools dump {CRASH} --type IN --format jsonl --limit 3 --data hash",
    "dump-unchecked": "je-tools dump damaged --ignore-checksum --format csv",
    "db-dump": f"db-dump {CRASH} --db people --key user00000001",
    "summary": f"je-tools summary {CRASH} {TABLES}",
    "summary-replicated": f"je-tools summary {REPLICATED} {TABLES}",
    "summary-jsonl": f"je-tools summary {CRASH} --format jsonl {TABLES}",
    "summary-csv": f"je-tools summary {OLD} --format csv",
    "verify": f"je-tools verify {CRASH}",
    "verify-damaged": "je-tools verify damaged",
    "verify-damaged-jsonl": "je-tools verify damaged --format jsonl --exit-zero",
    "verify-tree": f"je-tools verify {CRASH} --tree --utilization",
    "missing": "je-tools missing fixtures/v17-erase-after/env --without 1",
    "missing-jsonl": "je-tools missing fixtures/v17-erase-after/env --without 1 --format jsonl",
    "missing-nothing": "je-tools missing fixtures/v8-cleaned/env",
    "files": "je-tools files fixtures/v17-erase-after/env",
    "files-old": f"je-tools files {OLD}",
    "files-jsonl": "je-tools files fixtures/v8-cleaned/env --format jsonl",
    "files-damaged": "je-tools files damaged",
    "recover": f"je-tools recover {CRASH}",
    "recover-jsonl": f"je-tools recover {CRASH} --format jsonl",
    "recover-replicated": f"je-tools recover {REPLICATED} --to-vlsn 20",
    "recover-old": "je-tools recover fixtures/v6-halt/env",
    "recover-to-lsn": f"je-tools recover {OLD} --to-lsn 0x0/0x20000",
    "recover-to-time": f"je-tools recover {OLD} --to-time 2001-01-01",
    "recover-two-ends": f"je-tools recover {OLD} --to-time 2001-01-01 --to-vlsn 7",
    "recover-lost": "db-recover lost",
    "recover-lost-jsonl": "db-recover lost --format jsonl --exit-zero",
    "recover-refused": "je-tools recover refused",
    "recover-force": f"je-tools recover {CRASH} --force",
    "checkpoint": f"je-tools checkpoint {CRASH}",
    "checkpoint-jsonl": f"je-tools checkpoint {CRASH} --format jsonl",
    "checkpoint-nothing": "je-tools checkpoint fixtures/v8-cleaned/env",
    "checkpoint-cut": "je-tools checkpoint damaged",
    "checkpoint-old": "je-tools checkpoint fixtures/v6-halt/env",
    "checkpoint-copy": f"je-tools checkpoint {CRASH} --apply --output -",
    "recover-rootless": "je-tools recover damaged",
    "databases": f"je-tools databases {OLD}",
    "databases-jsonl": f"je-tools databases {CRASH} --internal --format jsonl",
    "count": f"je-tools count {OLD}",
    "count-csv": f"je-tools count {CRASH} --internal --format csv",
    "export-dump": f"je-tools export {CRASH} --db people --print --key-range ..user00000005",
    "export-jsonl": f"je-tools export {REPLICATED} --all --format jsonl --data length"
    " --key-range user00000010..user00000012",
    "export-csv": f"je-tools export {CRASH} --db people --format csv"
    " --key-range hex:757365723030303030303033*..user00000004",
    "export-wrong": f"je-tools export {CRASH}",
    "get": f"je-tools get {CRASH} --db people user00000001",
    "get-jsonl": f"je-tools get {CRASH} --db people user00000001 --format jsonl --data hash",
    "get-history": f"je-tools get {CRASH} --db people user00000001 --history",
    "get-history-csv": f"je-tools get {CRASH} --db people user00000001 --history --format csv"
    " --data length",
    "get-nothing": f"je-tools get {CRASH} --db people nobody",
    "diff": f"je-tools diff {CRASH} {OTHER}",
    "diff-records": f"je-tools diff {CRASH} {OTHER} --show records --format csv --data length",
    "diff-files": f"je-tools diff {CRASH} {OTHER} --show files",
    "diff-records-since": f"je-tools diff {CRASH} {CRASH} --to-lsn 0x0/0x41800 --show records",
    "diff-wrong": f"je-tools diff {CRASH} {OTHER} --show records --blocks 2",
    "vlsn-show": f"je-tools vlsn show {ROLLED_BACK}",
    "vlsn-show-csv": f"je-tools vlsn show {ROLLED_BACK} --format csv",
    "vlsn-show-json": f"je-tools vlsn show {REPLICATED} --format json --sync-points 2",
    "vlsn-show-map": f"je-tools vlsn show {REPLICATED} --map 777",
    "vlsn-show-lsn": f"je-tools vlsn show {ROLLED_BACK} --lsn 0x0/0x1f7c1",
    "vlsn-show-stream": f"je-tools vlsn show {ROLLED_BACK} --stream --rolled-back",
    "vlsn-show-wrong": f"je-tools vlsn show {CRASH}",
    "vlsn-check": f"je-tools vlsn check {REPLICATED}",
    "vlsn-compare": f"je-tools vlsn compare {LONE}/node1 {LONE}/node2 {LONE}/node3",
    "vlsn-compare-jsonl": f"je-tools vlsn compare {LONE}/node3 {LONE}/node1 --format jsonl",
    "vlsn-compare-leader": f"je-tools vlsn compare {LONE}/node1 {LONE}/node2 --leader {LONE}/node2",
    "vlsn-compare-csv": (
        f"je-tools vlsn compare {LONE}/node1 {LONE}/node2 --leader {LONE}/node2 --format csv"
        " --data hash"
    ),
    "vlsn-compare-one": f"je-tools vlsn compare {LONE}/node1",
    "vlsn-show-front-end": f"je-tools vlsn show {FRONT_END} --format json --sync-points 1",
    "vlsn-compare-wrong": f"je-tools vlsn compare {REPLICATED} {LONE}/node1",
    "vlsn-rebuild": f"je-tools vlsn rebuild {REPLICATED}",
    "vlsn-rebuild-csv": f"je-tools vlsn rebuild {REPLICATED} --format csv",
    "vlsn-rebuild-wrong": f"je-tools vlsn rebuild {CRASH}",
    "vlsn-rollback": f"je-tools vlsn rollback {LONE}/node1 --to 1224",
    "vlsn-rollback-csv": f"je-tools vlsn rollback {LONE}/node1 --to 1224 --format csv",
    "vlsn-rollback-wrong": f"je-tools vlsn rollback {LONE}/node1 --to 1222",
    "group-show": f"je-tools group show {LONE}/node1",
    "group-show-json": f"je-tools group show {REPLICATED} --format json",
    "group-show-jsonl": f"je-tools group show {REPLICATED} --format jsonl",
    "group-show-wrong": f"je-tools group show {CRASH}",
    "group-reset-csv": f"je-tools group reset {LONE}/node3 --node-name node3 --format csv",
    "group-reset-wrong": f"je-tools group reset {LONE}/node1 --node-name node1",
    "journal": f"je-tools journal {FRONT_END}",
    "journal-jsonl": f"je-tools journal {FRONT_END} --format jsonl --exit-zero",
    "journal-show": f"je-tools journal {FRONT_END} --show 527 --show 522",
    "journal-truncate": f"je-tools journal truncate {FRONT_END} --above 790",
    "journal-truncate-csv": f"je-tools journal truncate {FRONT_END} --above 790 --format csv",
    "journal-truncate-wrong": f"je-tools journal truncate {FRONT_END} --above 813",
    "journal-none": f"je-tools journal {CRASH}",
    "lock": f"je-tools lock {CRASH}",
    "lock-jsonl": f"je-tools lock {CRASH} --format jsonl",
    "undo": "je-tools undo changed",
    "undo-damaged": "je-tools undo spoiled",
    "undo-drop": "je-tools undo changed --drop 1",
    "undo-jsonl": "je-tools undo changed --format jsonl",
    "undo-nothing": f"je-tools undo {CRASH}",
    "undo-wrong": "je-tools undo changed --drop 7",
    "explain-type": "je-tools explain type:NameLN",
    "explain-exit": "je-tools explain exit:6",
    "explain-finding": "je-tools explain finding:torn-tail",
    "explain-entry": f"je-tools explain 0x0/0xc7 --env {CRASH}",
}
NARROW = {
    "narrow-doctor": "je-tools doctor lost",
    "narrow-dump": f"je-tools dump {REPLICATED} --limit 30",
    "narrow-summary": f"je-tools summary {CRASH} {TABLES}",
    "narrow-verify": "je-tools verify damaged",
    "narrow-files": "je-tools files damaged",
    "narrow-recover": f"je-tools recover {CRASH}",
    "narrow-undo": "je-tools undo changed",
    "narrow-journal": f"je-tools journal {FRONT_END}",
}
"""Command lines on a terminal of 40 columns."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a folder with fixtures/ and logs with many faults, which no command changes."""
    folder = tmp_path_factory.mktemp("golden")
    (folder / "fixtures").symlink_to(FIXTURES)
    write_log(folder / "damaged", damaged_log())
    write_log(folder / "lost", lost_tail())
    write_log(folder / "refused", refused_log())
    change_log(small_log(folder / "changed"))
    change_log(small_log(folder / "spoiled"))
    spoil(journal_of(folder / "spoiled"), 100)
    write_damaged_store(folder / "ignite")
    write_exported_store(folder / "caches")
    write_exported_store(folder / "caches-damaged", is_damaged=True)
    write_damaged_page_store(folder / "pages")
    write_checkpointed_store(folder / "checkpoints")
    change_store(small_store(folder / "repaired"))
    write_unfinished_store(folder / "unfinished")
    before = states(folder)
    yield folder
    assert states(folder) == before


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the working directory of commands, on a terminal and a disk that are always the same."""
    monkeypatch.chdir(made)
    monkeypatch.setattr(os, "statvfs", lambda _: FREE)
    monkeypatch.setattr(run, "find_scope", lambda *_: SCOPE)
    monkeypatch.setenv("TERM", "dumb")
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "LINES"):
        monkeypatch.delenv(name, raising=False)
    return made


def change_log(home: Path) -> None:
    """Run an operation that leaves an undo journal, at a fixed time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: CREATED_MS * 1_000_000)
        operate(home, "earlier-end")


def change_store(store: Path) -> None:
    """Run an operation on a store that leaves an undo journal, at a fixed time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: CREATED_MS * 1_000_000)
        operate_on_store(store, "cut")


def damaged_log() -> list[LogFile]:
    """Return entries damaged alone and in a row, inserted bytes, a missing file, a torn tail."""
    first = LogFile(3, 17)
    places = [first.trace(40 + i) for i in range(8)]
    first.data[places[2].start + 20] ^= 1
    first.data[places[4].start : places[5].start + 30] = b"\x1b" * (
        places[5].start + 30 - places[4].start
    )
    second = first.follower()
    second.trace(30)
    second.data += b"inserted"
    second.trace(50)
    third = LogFile(6, 17, second.last)
    third.trace(60)
    third.data += entry(24, bytes(100), third.last)[:50]
    return [first, second, third]


def lost_tail() -> list[LogFile]:
    """Return a log with two transactions committed after damage, an open one, and a new file."""
    log = simple({b"a": b"1", b"b": b"1"})
    hurt = log.ln(b"a", b"2", txn=3)
    for key, txn in ((b"a", 3), (b"c", 4), (b"d", 5)):
        log.ln(key, b"3", txn=txn)
    log.end(3)
    log.end(4)
    log.file.data[hurt + 20] ^= 1
    log.next_file()
    return log.files


def refused_log() -> list[LogFile]:
    """Return a log that lacks a file that recovery needs, and creates a database after it."""
    log = simple({b"a": b"1"})
    log.next_file()
    log.ln(b"a", b"2", txn=3)
    log.next_file()
    log.database(b"made", log.tree([slot(b"k", log.ln(b"k", b"1", db=8))], db=8), db=8)
    log.end(3)
    del log.files[1]
    return log.files


def run_line(line: str) -> str:
    """Run a command line, and return it with its output and exit code."""
    program, *arguments = shlex.split(line)
    command = PROGRAMS[program]
    done = je_tools(*arguments, command=command)
    parts = [f"$ {line}\n", done.out.decode("utf-8")]
    parts += [f"-- on standard error\n{done.err}"] if done.err else []
    return "".join([*parts, f"-- exit code {done.code}\n"])


CASES = [(name, line, WIDTH) for name, line in COMMAND_LINES.items()]
CASES += [(name, line, 40) for name, line in NARROW.items()]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("name", "line", "width"), CASES, ids=[case[0] for case in CASES])
def test_output_is_as_it_was(
    name: str,
    line: str,
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "argv", [line.split()[0]])
    text = run_line(line)
    assert str(ROOT) not in text
    assert all(c == "\n" or c.isprintable() for c in text)
    path = GOLDEN / f"{name}.txt"
    if request.config.getoption("--rewrite-golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_golden_file_has_its_command() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {case[0] for case in CASES}


@pytest.mark.parametrize("name", ["narrow-dump", "narrow-verify", "narrow-files"])
def test_a_narrow_terminal_is_not_overrun(name: str) -> None:
    """Numbers of a summary may overrun it: half a number is a wrong one."""
    _, *lines = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    shown = lines[: lines.index(next(line for line in lines if line.startswith("-- ")))]
    assert shown
    assert max(map(len, shown)) <= 40
