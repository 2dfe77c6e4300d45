"""`vlsn rollback`: what the engine itself has rolled back, and refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from je_tools.append.apply import plan_append
from je_tools.append.operation import AppendLog, AppendOperation
from je_tools.operations.stream_rollback import StreamRollback
from je_tools.recovery.snapshot import Snapshot
from je_tools.vlsn.recovered_index import read_index
from je_tools.writing.lock import EnvironmentLock
from tests.corpus import FIXTURES, Environment, corpus, environments
from tests.je_tools.append.appending import Appending, apply
from tests.je_tools.append.test_transactions import logged
from tests.je_tools.checkpoint.nodes import entries_of, member
from tests.je_tools.dumped import je_tools
from tests.je_tools.vlsn.indexes import snapshot_of_node, write_records
from tests.je_tools.vlsn.test_check import short
from tests.je_tools.writing.operations import digests

NODE, CLOSED = "v17-rep-uncommitted-before/node1", "v17-rep-uncommitted-before/node3"
LAST_COMMIT, LAST = 1224, 1249
OPEN = Appending(NODE, lambda: StreamRollback(LAST_COMMIT))


def lone_masters() -> list[object]:
    """Return nodes, each before and after the engine rolled back some of its entries."""
    every = {each.name: each for each in environments()}
    found = []
    for name, before in every.items():
        after = every.get(name.replace("-uncommitted-before/", "-uncommitted/"))
        marker = before.home.parent / "lone-master"
        if after in (None, before) or marker.read_text().strip() != before.home.name:
            continue
        found.append(pytest.param(before, after, id=name))
    return found


@pytest.mark.skipif(corpus() is None, reason="both states of a node are only in the corpus")
@pytest.mark.parametrize(("before", "after"), lone_masters())
def test_the_rollback_is_the_engines(before: Environment, after: Environment) -> None:
    """Its RollbackStart and RollbackEnd have the same fields, and it marks the same entries."""
    found = list(logged(after.home))
    (start,) = (each.entry.fields for each in found if each.entry.type_name == "RollbackStart")
    snapshot = member(before.home)
    plan = plan_append(snapshot, StreamRollback(int(start["matchpoint_vlsn"])))
    invisible = [each.lsn for each in entries_of(after.home) if each.invisible]
    assert [mark.file_no << 32 | mark.offset - 5 for mark in plan.flipped] == invisible
    (first,) = (each for each in plan.changes if each.change == "rollback-start")
    assert sorted(snapshot.kept_txns) == sorted(start["active_txns"])
    assert first.new is not None
    assert first.new.startswith(f"back to VLSN {start['matchpoint_vlsn']} (")


def test_the_entries_are_those_of_the_plan(tmp_path: Path) -> None:
    home = OPEN.copy(tmp_path / "env")
    lasts = [each.lsn for each in entries_of(home) if (each.vlsn or 0) > LAST_COMMIT]
    assert je_tools("vlsn", "rollback", home, "--to", str(LAST_COMMIT), "--apply").code == 0
    *_, start, end = logged(home)
    point = {"matchpoint_lsn": start.entry.fields["matchpoint_lsn"]}
    assert start.entry.type_name == "RollbackStart"
    assert start.entry.fields["matchpoint_vlsn"] == LAST_COMMIT
    assert start.entry.fields["active_txns"] == [-322]
    assert end.entry.type_name == "RollbackEnd"
    assert end.entry.fields["rollback_start_lsn"] == start.lsn
    assert end.entry.fields["matchpoint_lsn"] == point["matchpoint_lsn"]
    assert [each.lsn for each in entries_of(home) if each.invisible] == lasts
    checked = je_tools("vlsn", "check", home)
    assert checked.code == 0
    more = f"VLSN 1 to {LAST_COMMIT}, without {len(lasts)} that rollbacks undid"
    assert more in " ".join(checked.err.split())


def test_a_node_that_was_rolled_back_is_where_the_others_are(tmp_path: Path) -> None:
    home, other = OPEN.copy(tmp_path / "env"), FIXTURES / CLOSED
    apart = je_tools("diff", home, other)
    assert apart.code == 3
    assert f"VLSN {LAST}, " in apart.err
    assert je_tools("vlsn", "rollback", home, "--to", str(LAST_COMMIT), "--apply").code == 0
    assert je_tools("diff", home, other).code == 0


def test_a_plan_changes_nothing_and_undo_reverts_a_rollback(tmp_path: Path) -> None:
    home = OPEN.copy(tmp_path / "env")
    before = digests(home)
    words = ("vlsn", "rollback", home, "--to", str(LAST_COMMIT))
    plan = je_tools(*words, "--format", "jsonl")
    assert plan.code == 0
    assert digests(home) == before
    assert f"`je-tools vlsn rollback {home} --to {LAST_COMMIT} --apply` writes it" in plan.err
    assert je_tools(*words, "--apply", "--output", tmp_path / "copy").code == 0
    assert digests(home) == before
    done = je_tools(*words, "--apply", "--format", "jsonl")
    rows, planned = (list(map(json.loads, each.out.splitlines())) for each in (done, plan))
    assert rows[1:] == planned[1:]
    assert [row["vlsn"] for row in rows if row.get("change") == "invisible"] == list(
        range(LAST_COMMIT + 1, LAST + 1)
    )
    assert je_tools("undo", home, "--apply").code == 0
    assert digests(home) == before


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize(
    ("to_vlsn", "text"),
    [
        (LAST + 1, f"has VLSNs 1 to {LAST}: choose one of these"),
        (1222, "the entry is UPD_LN_TX, and nodes only agree at .*: choose 1219 or 1223"),
        (LAST, "the entry is UPD_LN_TX, and nodes only agree at .*: choose 1224"),
        (0, "Invalid value for '--to'"),
    ],
)
def test_a_vlsn_that_is_no_sync_point_of_the_log(
    to_vlsn: int, text: str, force: tuple[str, ...], tmp_path: Path
) -> None:
    home = OPEN.copy(tmp_path / "env")
    before = digests(home)
    for more in ((), ("--apply",)):
        done = je_tools("vlsn", "rollback", home, "--to", str(to_vlsn), *force, *more)
        assert done.code == 2
        assert re.search(text, done.err)
    assert digests(home) == before


def test_a_vlsn_below_what_the_log_holds(tmp_path: Path) -> None:
    """The VLSN index of a reset node begins with the reset."""
    home = Appending(CLOSED, OPEN.make).copy(tmp_path / "env")
    assert je_tools("group", "reset", home, "--node-name", "node3", "--apply").code == 0
    before = digests(home)
    done = je_tools("vlsn", "rollback", home, "--to", "1000", "--apply")
    assert done.code == 2
    assert "has VLSNs 1225 to 1229: choose one of these" in done.err
    assert digests(home) == before


def test_commits_are_only_cut_by_force(tmp_path: Path) -> None:
    home = OPEN.copy(tmp_path / "env")
    before = digests(home)
    words = ("vlsn", "rollback", home, "--to", "1219")
    for more in ((), ("--apply",)):
        done = je_tools(*words, *more)
        assert done.code == 6
        assert "2 Commits lie after VLSN 1219, the last with VLSN 1224" in done.err
    assert digests(home) == before
    assert je_tools(*words, "--force", "--format", "csv").code == 2
    plan = je_tools(*words, "--force")
    assert plan.code == 0
    assert f"`je-tools vlsn rollback {home} --to 1219 --force --apply` writes it" in plan.err
    assert "without --force" not in plan.err
    assert digests(home) == before
    assert je_tools(*words, "--force", "--apply").code == 0
    assert max(each.vlsn or 0 for each in entries_of(home)) == 1219
    assert je_tools("vlsn", "check", home).code == 0
    assert je_tools("undo", home, "--apply").code == 0
    assert digests(home) == before


def test_an_index_that_does_not_fit_is_refused_with_force_too(tmp_path: Path) -> None:
    """The index ends before the first VLSN that the checkpoint left to recovery."""
    home = OPEN.copy(tmp_path / "env")
    write_records(home, short(read_index(snapshot_of_node(home))))
    before = digests(home)
    for more in ((), ("--force",), ("--force", "--apply")):
        done = je_tools("vlsn", "rollback", home, "--to", "1219", *more)
        assert done.code == 6, done.err
        assert "the log continues with" in done.err
    assert digests(home) == before


def test_the_end_of_the_stream_needs_nothing(tmp_path: Path) -> None:
    home = Appending(CLOSED, OPEN.make).copy(tmp_path / "env")
    before = digests(home)
    done = je_tools("vlsn", "rollback", home, "--to", str(LAST_COMMIT), "--apply")
    assert (done.code, done.err) == (0, "")
    assert b"nothing to write" in done.out
    assert digests(home) == before


def test_an_environment_without_a_group(tmp_path: Path) -> None:
    home = Appending("v17-basic/env", OPEN.make).copy(tmp_path / "env")
    before = digests(home)
    for more in ((), ("--apply",), ("--force",)):
        done = je_tools("vlsn", "rollback", home, "--to", "1", *more)
        assert done.code == 4
        assert "not replicated" in done.err
    assert digests(home) == before


def test_a_running_node(tmp_path: Path) -> None:
    home = OPEN.copy(tmp_path / "env")
    with EnvironmentLock(home):
        before = digests(home)
        done = je_tools("vlsn", "rollback", home, "--to", str(LAST_COMMIT), "--apply")
        assert done.code == 6
        assert "has the environment open" in done.err
        assert digests(home) == before


class _Begun(AppendOperation):
    """A rollback that begins and does not end."""

    name = "begun"

    def write(self, log: AppendLog) -> None:
        (lsn,) = (each.lsn for each in entries_of(_home(log)) if each.vlsn == LAST_COMMIT)
        point = {"matchpoint_vlsn": LAST_COMMIT, "matchpoint_lsn": lsn, "time_ms": log.now_ms}
        txns = sorted(log.snapshot.kept_txns)
        log.entry("RollbackStart", {**point, "active_txn_count": 1, "active_txns": txns})

    def difference(self, before: Snapshot, after: Snapshot) -> str:
        return ""


def _home(log: AppendLog) -> Path:
    return Path(log.snapshot.environment.name)


def test_an_unfinished_rollback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = OPEN.copy(tmp_path / "env")
    monkeypatch.setattr("je_tools.append.apply.check_appended", lambda *_: None)
    apply(home, _Begun())
    before = digests(home)
    done = je_tools("vlsn", "rollback", home, "--to", str(LAST_COMMIT), "--apply")
    assert done.code == 6
    assert "a rollback was not finished. `je-tools recover " in done.err
    assert digests(home) == before


def test_keys_are_masked() -> None:
    home = next(each.home for each in environments() if each.name == NODE)
    words = ("vlsn", "rollback", home, "--to", str(LAST_COMMIT), "--format", "jsonl")
    shown = je_tools(*words).out
    hidden = je_tools(*words, "--data", "hide").out
    assert b"user".hex().encode() in shown
    assert b"user".hex().encode() not in hidden
