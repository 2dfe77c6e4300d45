"""The engine accepts the output of `recover --apply`: crash points of stress, and the corpus."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from je_tools.checkpoint.apply import apply_checkpoint, apply_to_copy
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.errors import InputError, RefusedError
from je_tools.formats.je.write.node_writer import DELTAS_MIN
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.writing.disk import Disk
from je_tools.writing.undo import list_undos
from tests.corpus import FIXTURES
from tests.engine.acceptance import Judge, WriteRefusedError, fingerprint
from tests.engine.acceptances import Write, read_by, run_acceptances, run_corpus
from tests.engine.jars import JE_5, JE_18
from tests.truth.log_end import read_log

SMALL_FILES = 60_000
"""Bytes of a file, so small that the checkpoint begins new ones."""


def recover(file_max: int | None, nodes: Counter[str] | None = None) -> Write:
    """Return a writer that does the work of `je-tools recover --apply`.

    Args:
        file_max: size in bytes at which a new file begins.
        nodes: the numbers of written nodes, by kind, are added to it.
    """

    def write(home: Path) -> None:
        scanner = Scanner(threads=1)
        now_ms = time.time_ns() // 1_000_000
        try:
            orders = CheckpointOptions(cuts=True, file_max=file_max, force=True)
            _, done = apply_checkpoint(home, scanner, orders, now_ms)
        except (RefusedError, InputError) as error:
            raise WriteRefusedError(str(error)) from error
        if nodes is not None and done.checkpoint is not None:
            for (_, _, kind), count in done.checkpoint.node_counts.items():
                nodes[kind] += count

    return write


def recover_copy(home: Path) -> None:
    """Recover by way of a copy, as for a log that none of the tests' engines wrote."""
    copy = home.with_name(f"{home.name}-copy")
    scanner = Scanner(threads=1)
    try:
        apply_to_copy(
            open_environment([home]),
            copy,
            scanner,
            CheckpointOptions(cuts=True, force=True),
            time.time_ns() // 1_000_000,
        )
    except (RefusedError, InputError) as error:
        raise WriteRefusedError(str(error)) from error
    shutil.rmtree(home)
    copy.rename(home)


@pytest.mark.engine
@pytest.mark.parametrize(("seed", "file_max"), [(101, None), (102, SMALL_FILES)])
def test_crash_points(judge: Judge, seed: int, file_max: int | None) -> None:
    report = run_acceptances(judge, recover(file_max), [seed], 5, small=True)
    print(report)
    assert report.cases == 5
    assert not report.refused, report


@pytest.mark.engine
def test_crash_points_of_an_old_engine(old_judge: Judge) -> None:
    report = run_acceptances(old_judge, recover(None), [103], 4, small=True, ttl=False)
    print(report)
    assert report.cases == 4
    assert not report.refused, report


@pytest.mark.engine
def test_crash_points_with_deltas(judge: Judge) -> None:
    nodes: Counter[str] = Counter()
    report = run_acceptances(judge, recover(None, nodes), [104], 2, sparse=True, ttl=False)
    print(report)
    assert report.cases == 2
    assert not report.refused, report
    assert nodes["NewBINDelta"] > 20


@pytest.mark.engine
@pytest.mark.parametrize("name", ["v17-crash-txn", "v17-dups", "v8-crash-txn-ckpt"])
def test_cut_back(judge: Judge, old_judge: Judge, name: str, tmp_path: Path) -> None:
    """The engine finds the same records as in a log that was cut at that place."""
    home = FIXTURES / name / "env"
    log = read_log(home)
    assert log.last == 0
    rng = random.Random(name)
    entries = [header for header, _ in log.entries()]
    chosen = rng.choice(entries[len(entries) // 2 :])
    crashed, written = tmp_path / "crashed", tmp_path / "written"
    for folder in (crashed, written):
        folder.mkdir()
        shutil.copyfile(home / "00000000.jdb", folder / "00000000.jdb")
    os.truncate(crashed / "00000000.jdb", (chosen.lsn & 0xFFFFFFFF) + chosen.size)
    before = fingerprint(written)
    orders = CheckpointOptions(cuts=True, to_lsn=chosen.lsn)
    apply_checkpoint(written, Scanner(threads=1), orders, time.time_ns() // 1_000_000)
    chosen_judge = old_judge if name.startswith("v8") else judge
    assert not chosen_judge.judge(crashed, written, time.time_ns() // 1_000_000)
    (undo,) = list_undos(written)
    undo.apply(Disk())
    assert fingerprint(written) == before


@pytest.mark.exhaustive
@pytest.mark.engine
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("coordinate", [JE_18, JE_5])
@pytest.mark.parametrize("file_max", [None, SMALL_FILES])
def test_many_crash_points(coordinate: str, file_max: int | None, tmp_path: Path) -> None:
    with Judge.of(coordinate, tmp_path / "judge") as judge:
        ttl = coordinate != JE_5
        report = run_acceptances(judge, recover(file_max), range(111, 121), 20, ttl=ttl)
    print(report)
    assert report.cases == 200
    assert not report.refused, report


@pytest.mark.exhaustive
@pytest.mark.engine
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("coordinate", "version"), [(JE_18, 17), (JE_5, 8)])
def test_many_crash_points_with_deltas(coordinate: str, version: int, tmp_path: Path) -> None:
    """Change little of most nodes; log version 8 has no such deltas.

    Recovery does not read a damaged earlier file. The engine's cleaner finds the damage when it
    gets there, be that in the log that the engine wrote or only in the one that we wrote.
    """
    nodes: Counter[str] = Counter()
    with Judge.of(coordinate, tmp_path / "judge") as judge:
        write = recover(SMALL_FILES, nodes)
        report = run_acceptances(judge, write, range(131, 141), 8, sparse=True, ttl=False)
    print(report)
    assert report.cases == 80
    kinds = {each.case.crash.kind for each in report.refused}
    assert kinds <= {"a bit flipped in an earlier file"}, report
    assert (nodes["NewBINDelta"] > 0) == (version >= DELTAS_MIN)


@pytest.mark.exhaustive
@pytest.mark.engine
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("coordinate", "version"), [(JE_18, "v17"), (JE_5, "v8")])
def test_the_corpus(coordinate: str, version: str, tmp_path: Path) -> None:
    chosen = [each for each in read_by(coordinate) if each.name.startswith(version)]
    with Judge.of(coordinate, tmp_path / "judge") as judge:
        report = run_corpus(judge, recover(None), chosen)
    print(report)
    assert report.cases
    assert not report.refused, report


@pytest.mark.exhaustive
@pytest.mark.engine
@pytest.mark.timeout(7200)
def test_older_logs(tmp_path: Path) -> None:
    """A newer engine begins a file of its own version, and creates its own databases."""
    chosen = [each for each in read_by(JE_18) if not each.name.startswith("v17")]
    with Judge.of(JE_18, tmp_path / "judge") as judge:
        report = run_corpus(judge, recover_copy, chosen)
    print(report)
    assert report.cases
    rules = {problem.rule for each in report.refused for problem in each.verdict.problems}
    assert rules <= {"quiet", "replay"}, report
