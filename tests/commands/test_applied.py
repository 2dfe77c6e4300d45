"""`checkpoint --apply` and `recover --apply`: refusals, results, and messages."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.builders.forked import CLOSED, Forked
from tests.builders.trees import TreeLog, slot
from tests.corpus import FIXTURES, Environment, environments, environments_in
from tests.je_tools.dumped import je_tools, rows_of
from tests.je_tools.writing.operations import digests

CRASHED, RESTING = FIXTURES / "v17-crash-txn" / "env", FIXTURES / "v17-basic" / "env"
NODE = FIXTURES / "v17-rep-uncommitted-before" / "node1"
VERBS = ("checkpoint", "recover")
DAMAGED_AT = 250_000
LAST = "00000000.jdb"

each_verb = pytest.mark.parametrize("verb", VERBS)


def copy_of(home: Path, folder: Path) -> Path:
    return Path(shutil.copytree(home, folder / "env"))


def damaged(home: Path, offset: int) -> Path:
    with (home / LAST).open("r+b") as file:
        file.seek(offset)
        file.write(b"XXXX")
    return home


@each_verb
@pytest.mark.parametrize("source", [CRASHED, RESTING], ids=["crashed", "resting"])
def test_no_copy_without_the_marker_that_keeps_the_engine_out(
    verb: str, source: Path, tmp_path: Path
) -> None:
    home = copy_of(source, tmp_path)
    shutil.copyfile(home / LAST, home / "7fffffff.jdb")
    found = digests(home)
    for more in ([], ["--output", tmp_path / "copy"]):
        done = je_tools(verb, home, "--apply", *more)
        assert done.code == 6
        assert "restore-marker" in done.err
        assert sorted(path.name for path in tmp_path.iterdir()) == ["env"]
    assert {name: each for name, each in digests(home).items() if name != "je.lck"} == found


@each_verb
def test_a_copy_is_told_of_by_the_name_of_the_original(verb: str, tmp_path: Path) -> None:
    home, copy = copy_of(CRASHED, tmp_path), tmp_path / "copy"
    done = je_tools(verb, home, "--apply", "--output", copy, "--format", "jsonl")
    assert done.code == 0
    (row,) = (each for each in rows_of(done.out) if each["section"] == "checkpoint")
    assert row["env"] == str(home)
    assert done.err == f"je-tools: the copy {copy} is written, and {home} is unchanged\n"
    assert digests(home) == digests(CRASHED)
    log = FIXTURES / "v17-rep-uncommitted-before" / "node1"
    done = je_tools("recover", log, "--apply", "--to-vlsn", "30", "--output", tmp_path / "another")
    assert done.code == 6
    assert done.err.startswith(
        f"je-tools: {log}: the environment is a member of a replication group"
    )


@pytest.mark.parametrize(
    "end", [["--to-lsn", "0x0/0x41000"], ["--to-time", "2026-11-20T23:11:23.780"]]
)
def test_no_cut_at_damage_in_front_of_what_is_to_be_kept(end: list[str], tmp_path: Path) -> None:
    home = damaged(copy_of(CRASHED, tmp_path), DAMAGED_AT)
    found = digests(home)
    told = je_tools("recover", home, *end)
    assert "--apply would refuse this" in told.err
    done = je_tools("recover", home, *end, "--apply")
    assert done.code == 6
    assert "the log ends at 0x0/0x3d" in done.err
    assert {name: each for name, each in digests(home).items() if name != "je.lck"} == found


def test_what_is_lost_is_told_when_it_is_cut_off(tmp_path: Path) -> None:
    home = damaged(copy_of(CRASHED, tmp_path), DAMAGED_AT)
    told = je_tools("recover", home)
    assert told.code == 3
    (lost,) = (line for line in told.err.splitlines() if "lost-tail" in line)
    done = je_tools("recover", home, "--apply")
    assert done.code == 3
    assert lost.startswith(done.err.splitlines()[-1].removesuffix("; "))
    assert "the log is written" in done.err
    assert je_tools("checkpoint", home, "--apply").out.startswith(b"checkpoint\nnothing to write")
    again = damaged(copy_of(CRASHED, tmp_path / "other"), DAMAGED_AT)
    assert je_tools("recover", again, "--apply", "--exit-zero").code == 0


def test_commits_of_a_group_behind_damage_go_only_by_force(tmp_path: Path) -> None:
    home = damaged(copy_of(NODE, tmp_path), 100_000)
    found = digests(home)
    assert "--apply would refuse this without --force" in je_tools("recover", home).err
    done = je_tools("recover", home, "--apply")
    assert done.code == 6
    assert "Commits" in done.err
    assert "add --force" in done.err
    assert {name: each for name, each in digests(home).items() if name != "je.lck"} == found
    assert je_tools("recover", home, "--apply", "--force").code == 3
    assert digests(home) != found


def to_nobody() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@each_verb
@pytest.mark.parametrize(
    ("output", "code"), [("closed pipe", 0), ("full", 6), ("closed", 6), ("copy", 0)]
)
def test_the_work_is_done_whoever_reads_of_it(
    verb: str, output: str, code: int, tmp_path: Path, forked: Forked
) -> None:
    home = copy_of(CRASHED, tmp_path)
    words: list[str | Path] = ["je-tools", verb, home, "--apply"]
    if output == "copy":
        words += ["--output", tmp_path / "copy"]
    number = os.open("/dev/full", os.O_WRONLY) if output == "full" else to_nobody()
    done = forked.run(*words, stdout=CLOSED if output == "closed" else number)
    os.close(number)
    assert done.returncode == code, done.stderr
    if code:
        assert b"the log is written; `je-tools undo" in done.stderr.lower()
    written = tmp_path / "copy" if output == "copy" else home
    assert je_tools("checkpoint", written).out.startswith(b"checkpoint\nnothing to write")


def test_a_log_that_needs_nothing_is_left_alone_whatever_its_version(tmp_path: Path) -> None:
    tried = set()
    for each in environments_in(FIXTURES):
        if each.name[:3] in tried:
            continue
        plan = je_tools("checkpoint", each.home, "--format", "jsonl")
        if plan.code or rows_of(plan.out)[0]["needed"]:
            continue
        home = copy_of(each.home, tmp_path / each.name)
        done = je_tools("checkpoint", home, "--apply")
        assert (done.code, done.err) == (0, ""), each.name
        assert digests(home) == digests(each.home)
        done = je_tools("recover", home, "--apply", "--output", tmp_path / "copy")
        assert done.code == 0, (each.name, done.err)
        shutil.rmtree(tmp_path / "copy")
        tried.add(each.name[:3])
    assert {"v15", "v17", "v26"} <= tried


def test_what_is_only_written_to_a_copy_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("je_tools.checkpoint.judged_versions.JUDGED_VERSIONS", (8, 15, 17))
    home = copy_of(FIXTURES / "v26-crash-txn-ckpt" / "env", tmp_path)
    told = je_tools("checkpoint", home)
    assert told.code == 0
    assert told.err == (
        f"je-tools: nothing was written; `je-tools checkpoint {home} --apply --output DIR` writes "
        "to a copy: je-tools does not write a log of version 26 in place\n"
    )
    done = je_tools("checkpoint", home, "--apply")
    assert done.code == 6
    assert "version 26 in place, only of versions 8, 15 and 17. Write to a copy" in done.err
    assert digests(home) == digests(FIXTURES / "v26-crash-txn-ckpt" / "env")
    shutil.rmtree(home)
    for more in ([], ["--apply"], ["--apply", "--output", tmp_path / "copy"]):
        done = je_tools("checkpoint", copy_of(FIXTURES / "v6-halt/env", tmp_path), *more)
        assert done.code == 4
        assert "does not write a log of version" in done.err
        shutil.rmtree(tmp_path / "env")


def judged_once() -> list[Environment]:
    """Return crashed logs of versions whose engines are not asked in these tests."""
    return [
        each
        for each in environments()
        if each.name.startswith(("v15-crash", "v26-crash", "v15-rep-uncommitted"))
    ]


@pytest.mark.parametrize("each", judged_once(), ids=lambda each: each.name)
def test_what_is_written_in_place_is_whole_and_can_be_undone(
    each: Environment, tmp_path: Path
) -> None:
    home = copy_of(each.home, tmp_path)
    plan = je_tools("checkpoint", home, "--format", "jsonl")
    # A torn end is refused: `recover` cuts it off.
    needed = plan.code == 6 or rows_of(plan.out)[0]["needed"]
    counted = je_tools("count", home, "--format", "jsonl").out
    done = je_tools("recover", home, "--apply")
    assert done.code == 0, done.err
    assert (digests(home) != digests(each.home)) is needed
    verified = je_tools("verify", "--tree", home)
    assert verified.code == 0, verified.out
    assert ": intact (" in verified.err
    assert je_tools("count", home, "--format", "jsonl").out == counted
    assert je_tools("checkpoint", home).out.startswith(b"checkpoint\nnothing to write")
    undone = je_tools("undo", home, "--apply")
    assert undone.code == 0, undone.err
    assert digests(home) == digests(each.home)


@each_verb
def test_one_meaning_of_output(verb: str, tmp_path: Path) -> None:
    home = copy_of(CRASHED, tmp_path)
    (tmp_path / "there").mkdir()
    for more, code, text in (
        (["--apply", "--output", "-"], 2, "the output is a copy"),
        (["--apply", "--output", tmp_path / "there"], 6, "exists"),
        (["--output", tmp_path / "there"], 2, "found a directory"),
    ):
        done = je_tools(verb, home, *more)
        assert done.code == code
        assert text in done.err
    assert digests(home) == digests(CRASHED)
    plain = je_tools(verb, home)
    assert je_tools(verb, home, "--output", "-").out == plain.out
    assert je_tools(verb, home, "-o", tmp_path / "plan").code == plain.code
    assert (tmp_path / "plan").read_bytes() == plain.out
    help_text = je_tools(verb, "--help").out.decode()
    assert "a new directory of this name" in " ".join(help_text.split())


def test_the_same_cut_twice_writes_once(tmp_path: Path) -> None:
    home = copy_of(CRASHED, tmp_path)
    words = ("recover", home, "--to-lsn", "0x0/0x20047", "--apply")
    assert je_tools(*words).code == 0
    written = digests(home)
    done = je_tools(*words)
    assert (done.code, done.err) == (0, "")
    assert digests(home) == written
    assert je_tools("undo", home, "--apply").code == 0
    assert digests(home)[LAST] == digests(CRASHED)[LAST]


@pytest.mark.parametrize("size", ["100", "abc"])
def test_a_size_of_files_that_the_engine_does_not_take(size: str, tmp_path: Path) -> None:
    home = copy_of(CRASHED, tmp_path)
    (home / "je.properties").write_text(f"je.log.fileMax={size}\n")
    found = digests(home)
    for more in ([], ["--apply"]):
        done = je_tools("checkpoint", home, *more)
        assert done.code == 6
        assert f"je.properties sets je.log.fileMax to '{size}'" in done.err
    assert {name: each for name, each in digests(home).items() if name != "je.lck"} == found
    assert je_tools("checkpoint", home, "--apply", "--file-max", "1000000").code == 0


def test_where_nobody_may_write_and_nothing_is_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("je_tools.checkpoint.apply.is_writable", lambda _: False)
    monkeypatch.setattr("je_tools.writing.lock.EnvironmentLock._open_or_create", refused)
    for verb in VERBS:
        done = je_tools(verb, copy_of(RESTING, tmp_path / verb), "--apply")
        assert (done.code, done.err) == (0, "")
        done = je_tools(verb, copy_of(CRASHED, tmp_path / f"crashed-{verb}"), "--apply")
        assert done.code == 6
        assert "cannot lock the file" in done.err


def test_a_dry_run_says_how_it_is_done(tmp_path: Path) -> None:
    home = Path(shutil.copytree(CRASHED, tmp_path / "sp ace"))
    words = ["--to-lsn", "0x0/0x20047"]
    told = je_tools("recover", home, *words)
    command = f"je-tools recover '{home}' --to-lsn 0x0/0x20047 --apply"
    assert told.err == f"je-tools: nothing was written; `{command}` writes it\n"
    assert je_tools("checkpoint", home).err == (
        f"je-tools: nothing was written; `je-tools checkpoint '{home}' --apply` writes it\n"
    )
    done = je_tools("recover", home, *words, "--apply")
    assert done.err == (
        f"je-tools: the log is written; `je-tools undo '{home}' --apply` reverts it\n"
    )


def test_a_database_without_a_root_has_none_told(tmp_path: Path) -> None:
    """The null LSN is never shown, and reasons are shown however narrow the table is."""
    log = TreeLog()
    root = log.tree([slot(b"key", log.ln(b"key", b"data"))])
    log.database(b"db", root)
    log.checkpoint()
    log.ln(b"key", b"changed")
    home = log.write(tmp_path / "env")
    done = je_tools("checkpoint", home, "--format", "jsonl")
    rows = [row for row in rows_of(done.out) if row["section"] == "descriptors"]
    assert None in [row["old_root_lsn"] for row in rows]
    told = je_tools("checkpoint", home).out
    assert b"0xffffffff" not in told
    assert b"new: the log has none" in told


def test_why_the_engine_would_refuse_is_told_with_what_to_do(tmp_path: Path) -> None:
    home = copy_of(CRASHED, tmp_path)
    shutil.copyfile(home / LAST, home / "7fffffff.jdb")
    done = je_tools("recover", home)
    assert done.code == 3
    assert "Finish the network restore" in done.err
    assert "`je-tools explain refusal:restore-marker`" in je_tools("checkpoint", home).err


def test_the_loss_of_commits_comes_first(tmp_path: Path) -> None:
    home = damaged(copy_of(CRASHED, tmp_path / "env"), DAMAGED_AT)
    lines = je_tools("recover", home).out.decode().splitlines()
    assert lines[0].strip() == "would be lost"
    names = [line.split("  ")[0] for line in lines[1:6]]
    assert names == ["Commits", "transactions", "keys", "bytes", "newest Commit"]
    (verdict,) = (line for line in lines if line.startswith("the engine"))
    assert verdict.split("  ")[-1].strip().startswith("cuts off")
    rows = [
        json.loads(line) for line in je_tools("recover", home, "--format", "jsonl").out.splitlines()
    ]
    (loss,) = (row for row in rows if row["section"] == "loss")
    lost = [row for row in rows if row["section"] == "lost_transactions"]
    assert loss["commit_count"] == len(lost)
    assert loss["newest_ms"] == max(row["time_ms"] for row in lost)
    assert loss["size"] == rows[0]["cut_size"]
