"""The engine accepts erased logs: crash points of stress, the corpus, and groups of nodes."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import pytest

from je_tools.checkpoint.apply import apply_checkpoint
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.erase.cycle import stored_state
from je_tools.erase.live_records import delete_records
from je_tools.erase.options import ErasureOptions
from je_tools.erase.results import ErasureHooks
from je_tools.erase.run import run_erasure
from je_tools.errors import InputError, RefusedError
from je_tools.log.scan import Scanner
from tests.engine.acceptance import Judge, WriteRefusedError
from tests.engine.acceptances import (
    Write,
    read_by,
    run_acceptances,
    run_corpus,
    write_and_judge,
)
from tests.engine.groups import Group, free_addresses, is_one_group, running_group
from tests.engine.jars import JE_18, engine_jar
from tests.engine.java import find_java
from tests.engine.recovered import QUICK_START
from tests.engine.test_crash_states import leave
from tests.je_tools.erase.erasing import copy_of, erase
from tests.je_tools.snapshots import records_of, snapshot_of

pytestmark = pytest.mark.engine


def names_of(home: Path) -> frozenset[str]:
    """Return the databases whose trees can be written anew."""
    return frozenset(
        each.name
        for each in snapshot_of(home).databases.values()
        if each.name is not None and not each.is_internal and not each.comparators
    )


def recover_and_erase(erased: list[int]) -> Write:
    """Return a writer that recovers a log, and then erases what it can.

    In every other log it writes the trees anew first.

    Args:
        erased: the number of entries overwritten in each log is added to it.
    """

    def write(home: Path) -> None:
        scanner, now_ms = Scanner(threads=1), time.time_ns() // 1_000_000
        try:
            apply_checkpoint(home, scanner, CheckpointOptions(cuts=True, force=True), now_ms)
        except (RefusedError, InputError) as error:
            raise WriteRefusedError(str(error)) from error
        for journal in sorted(home.glob(".je-tools-undo/*/*")):
            journal.unlink()
            journal.parent.rmdir()
        names = names_of(home) if len(erased) % 2 else frozenset()
        options = ErasureOptions(checkpoint_first=True, force=True, rewritten=names)
        try:
            result = run_erasure(home, scanner, options, now_ms)
        except RefusedError as error:
            # A transaction of the group ends when the node joins it; and crashes flip bits.
            if not re.search("without a Commit or an Abort|damaged place", str(error)):
                raise
            return
        assert result.left is not None
        assert result.left.totals.erase_count == 0
        erased.append(result.counts.entry_count)

    return write


def test_crash_points(judge: Judge) -> None:
    erased: list[int] = []
    report = run_acceptances(judge, recover_and_erase(erased), [201], 6, small=True)
    print(report, erased)
    assert report.cases == 6
    assert not report.refused, report
    assert sum(erased) > 1000


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(210, 240, 3))
def test_many_crash_points(judge: Judge, seed: int) -> None:
    erased: list[int] = []
    report = run_acceptances(judge, recover_and_erase(erased), range(seed, seed + 3), 10)
    print(report, erased)
    assert not report.refused, report


@pytest.mark.exhaustive
def test_the_corpus(judge: Judge) -> None:
    erased: list[int] = []
    chosen = [each for each in read_by(JE_18) if each.name.startswith("v17-")]
    report = run_corpus(judge, recover_and_erase(erased), chosen)
    print(report, erased)
    assert not report.refused, report


ADDED, OLD = "added", "old"
THREE = ("a", "b", "c")


def write_group(folder: Path, where: dict[str, str]) -> dict[str, Path]:
    """Return the nodes of a group that have written records three times, and are closed."""
    homes = {name: folder / name for name in THREE}
    classes = folder / "first"
    classes.mkdir()
    with running_group(find_java(), engine_jar(), classes) as nodes:
        for name, home in homes.items():
            home.mkdir()
            # The VLSN index is cut only between buckets, so small buckets are needed.
            (home / "je.properties").write_text("je.rep.vlsn.mappings=5\n")
            nodes.open(name, home, where[name], where["a"])
            nodes.states()
        for _ in range(3):
            nodes.put(OLD, 0, 400)
        for name in THREE:
            nodes.close(name)
    return homes


def erased(home: Path, least: int, *, force: bool = True) -> None:
    """Erase all that may be erased on a node, at least some entries."""
    options = ErasureOptions(checkpoint_first=True, force=force)
    result = run_erasure(home, Scanner(threads=1), options, time.time_ns() // 1_000_000)
    assert result.counts.entry_count >= least
    assert result.checkpoint is not None


@pytest.mark.exhaustive
def test_groups_of_erased_nodes(tmp_path: Path) -> None:
    """Erased nodes agree and continue, and a new one gets the records by a network restore.

    A node that has then led alone rejoins the others, which have continued without it. A network
    restore replaces its log, so its commits are lost. Without the flag for cleaned files in its
    CkptEnd, the log would be cut back to erased B-tree nodes, and the engine would refuse it.
    """
    where = dict(zip([*THREE, "new"], free_addresses(4), strict=True))
    homes = write_group(tmp_path, where)
    for home in homes.values():
        erased(home, 500)
    homes["new"] = tmp_path / "new"
    homes["new"].mkdir()
    second = tmp_path / "second"
    second.mkdir()
    with running_group(find_java(), engine_jar(), second) as nodes:
        start_group(nodes, homes, where, THREE)
        nodes.put(ADDED, 0, 30)
        nodes.open("new", homes["new"], where["new"], where["a"])
        assert is_one_group(nodes.states())
        nodes.put(ADDED, 30, 30)
        assert_alike(nodes, homes, 60)
        for name in ("b", "c", "new"):
            nodes.close(name)
        nodes.put(ADDED, 60, 20)
        nodes.close("a")
        erased(homes["a"], 10, force=False)
        start_group(nodes, homes, where, ("b", "c"))
        nodes.put(ADDED, 100, 20)
        nodes.open("a", homes["a"], where["a"], where["b"])
        assert is_one_group(nodes.states())
        nodes.put(ADDED, 120, 20)
        assert_alike(nodes, {name: homes[name] for name in THREE}, 100)


def start_group(
    nodes: Group, homes: dict[str, Path], where: dict[str, str], names: tuple[str, ...]
) -> None:
    """Open nodes, the first of which leads."""
    leader = names[0]
    nodes.open(leader, homes[leader], where[leader], where[leader], leads=True)
    nodes.states()
    for name in names[1:]:
        nodes.open(name, homes[name], where[name], where[leader])
    assert is_one_group(nodes.states())


def assert_alike(nodes: Group, names: Iterable[str], added: int) -> None:
    """Check that nodes have the same records."""
    first, *others = [nodes.records(name) for name in names]
    assert all(each == first for each in others)
    assert len(first[OLD]) == 400
    assert len(first[ADDED]) == added


@pytest.mark.parametrize("name", ["v17-basic", "v17-dups"])
def test_deleted_and_erased_records(name: str, judge: Judge, tmp_path: Path) -> None:
    home = copy_of(name, tmp_path / "env")
    snapshot = snapshot_of(home)
    doomed = {}
    for db_id, database in snapshot.databases.items():
        if not database.is_internal:
            chosen = records_of(snapshot, database)[2::5]
            has_two_parts = database.has_duplicates
            doomed[db_id] = [(key, data if has_two_parts else None) for key, data in chosen]
    now_ms = time.time_ns() // 1_000_000
    options = ErasureOptions(checkpoint_first=True, rewritten=names_of(home))
    delete_records(home, Scanner(threads=1), doomed, now_ms)
    run_erasure(home, Scanner(threads=1), options, now_ms)
    verdict = write_and_judge(judge, lambda _: None, home, tmp_path / "judged", now_ms)
    assert not verdict.problems, verdict


@pytest.mark.parametrize("name", ["v17-basic", "v17-erase-after"])
def test_a_recorded_cycle(name: str, judge: Judge, tmp_path: Path) -> None:
    """The record has a database of its own, which the first log lacks."""
    home = copy_of(name, tmp_path / "env")
    now_ms = time.time_ns() // 1_000_000
    options = ErasureOptions(checkpoint_first=True, period_ms=1000)
    state = erase(home, options).state
    assert state is not None
    assert stored_state(snapshot_of(home)) == state
    verdict = write_and_judge(judge, lambda _: None, home, tmp_path / "judged", now_ms)
    assert not verdict.problems, verdict


def test_a_checkpoint_that_left_upper_nodes(judge: Judge, tmp_path: Path) -> None:
    """Recovery finds the places of these nodes through versions that a later one replaces."""
    home = tmp_path / "env"
    leave(judge, home, "checkpointed", 500)
    with pytest.raises(RefusedError, match=r"upper nodes.*--checkpoint-first"):
        erase(home, ErasureOptions())
    now_ms = time.time_ns() // 1_000_000

    def write(written: Path) -> None:
        assert erase(written).counts.entry_count > 500

    verdict = write_and_judge(judge, write, home, tmp_path / "written", now_ms)
    assert not verdict.problems, verdict


PERIODS_SECONDS = (16, 80)
"""Periods of cycles: the second if the first is over before a busy machine has opened the log."""


def test_the_engine_takes_up_a_cycle(judge: Judge, tmp_path: Path) -> None:
    """It erases the files that our eraser left, and je-tools then reads the cycle as complete."""
    assert any(takes_up(judge, tmp_path / str(seconds), seconds) for seconds in PERIODS_SECONDS)


def takes_up(judge: Judge, home: Path, seconds: int) -> bool:
    """Check that the engine ends our cycle; return False if it was over before."""
    leave(judge, home, "checkpointed", 20_000)
    # A cycle selects files that are at least as old as its period.
    time.sleep(seconds)
    seen = [0]
    hooks = ErasureHooks(
        on_batch=lambda file, _batch: seen.append(file.file_no), should_stop=lambda: seen[-1] > 0
    )
    options = ErasureOptions(checkpoint_first=True, period_ms=seconds * 1000)
    state = erase(home, options, hooks).state
    assert state is not None
    assert state.completed
    assert state.pending
    *times, erased_count, left_count = engine_erases(judge, home, seconds)
    if shown_ms(times[0]) >= state.end_ms:
        return False
    assert [shown_ms(each) for each in times] == [state.start_ms, state.end_ms]
    assert (int(erased_count), int(left_count)) == (len(state.pending), 0)
    last = stored_state(snapshot_of(home))
    assert last is not None
    assert set(last.completed) == {*state.completed, *state.pending}
    assert not last.pending
    return True


def engine_erases(judge: Judge, home: Path, seconds: int) -> list[str]:
    """Let the engine's eraser end the cycle; return what Eraser.java prints."""
    words = ["Eraser", home, str(seconds), str(3 * seconds)]
    command = [judge.java, *QUICK_START, "-cp", judge.class_path, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return done.stdout.splitlines()


def shown_ms(text: str) -> int:
    """Return, in ms since 1970, a time that the engine shows."""
    return round(datetime.fromisoformat(text.replace(" UTC", "Z")).timestamp() * 1000)
