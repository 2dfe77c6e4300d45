"""Engines accept logs that are erased in kind: they know no erased entries before version 17."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest

from je_tools.erase.completion import complete_erasure
from je_tools.erase.options import ErasureOptions
from je_tools.erase.results import ErasureHooks
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from tests.builders.power_cuts import PowerCuts, Recorder
from tests.engine.acceptance import Judge
from tests.engine.acceptances import (
    Report,
    read_by,
    run_acceptances,
    run_corpus,
    write_and_judge,
)
from tests.engine.jars import JE_5, JE_18
from tests.engine.test_erased import recover_and_erase
from tests.engine.tools import Tools
from tests.je_tools.erase.erasing import copy_of, erase, log_bytes
from tests.truth.headers import ERASED, walk_log

pytestmark = pytest.mark.engine


def accept_corpus(judge: Judge, engine: str, prefixes: tuple[str, ...]) -> tuple[Report, int]:
    """Let an engine judge the erased environments of the corpus; return the entries erased, too.

    An engine writes to a log of an older version as soon as it opens it, so that is no fault.
    """
    erased: list[int] = []
    chosen = [each for each in read_by(engine) if each.name.startswith(prefixes)]
    report = run_corpus(judge, recover_and_erase(erased), chosen)
    print(report, erased)
    for name in ("found", "written"):
        # Logs that broke a rule are kept there, and would be in the way of another run.
        shutil.rmtree(judge.folder / name)
    assert broken_rules(report) <= ({"quiet"} if engine == JE_18 else set()), report
    return report, sum(erased)


def broken_rules(report: Report) -> set[str]:
    """Return the rules that logs break; `snapshot` says that the right records are unknown."""
    problems = [problem for each in report.refused for problem in each.verdict.problems]
    return {problem.rule for problem in problems} - {"snapshot"}


def test_crash_points(old_judge: Judge) -> None:
    erased: list[int] = []
    report = run_acceptances(old_judge, recover_and_erase(erased), [301], 4, small=True, ttl=False)
    print(report, erased)
    assert report.cases == 4
    assert not broken_rules(report), report
    assert sum(erased) > 500


def test_one_log_of_each_version(judge: Judge, old_judge: Judge) -> None:
    assert accept_corpus(old_judge, JE_5, ("v8-cleaned",))[1] > 1000
    assert accept_corpus(judge, JE_18, ("v8-dbops", "v15-embedded"))[1] > 1000


def upgraded(judge: Judge, name: str) -> Path:
    """Return a copy of a log to which an engine of version 17 has written."""
    home = copy_of(name, judge.folder / f"upgraded-{name}")
    judge.write_as_engine(home)
    assert [file.version for file in open_environment([home]).files][-1] == 17
    return home


def test_old_files_of_an_upgraded_log(judge: Judge) -> None:
    """Only the last file must not be erased in kind, and it has the new version."""
    home = upgraded(judge, "v15-embedded")
    files = len(log_bytes(home))
    erased: list[int] = []
    written = home.with_name("erased")
    now_ms = time.time_ns() // 1_000_000
    verdict = write_and_judge(judge, recover_and_erase(erased), home, written, now_ms)
    assert not verdict.problems
    assert sum(erased) > 3000
    entries = list(walk_log(written))
    assert len(log_bytes(written)) == files
    assert not [each for each in entries if each.type_no == ERASED and each.version < 17]
    assert all(each.checksum_ok for each in entries if each.version < 17)


def check_interrupted(judge: Judge, name: str, folder: Path, count: int) -> int:
    """Let the engine open states of an interrupted erasure; return their number."""
    home = copy_of(name, folder / "env")
    erase(home, hooks=ErasureHooks(should_stop=lambda: True))
    expected = judge.plain.ask(shutil.copytree(home, folder / "asked"))
    cuts, disk = PowerCuts(home), Recorder()
    erase(home, disk=disk)
    seen: set[tuple[bytes, ...]] = set()
    # Until the journal is durable, and after the file is, there is nothing to see.
    counts = [count * (call.path.suffix == ".jdb" and call.name == "write") for call in disk.calls]
    for _, state in cuts.states(disk.calls, folder, random.Random(name), [0, *counts]):
        found = tuple(log_bytes(state).values())
        if found not in seen:
            seen.add(found)
            assert judge.plain.ask(state, read_only=True) == expected
            complete_erasure(state, Scanner(threads=1))
            assert judge.plain.ask(state) == expected
        shutil.rmtree(state)
    return len(seen)


def test_interrupted_erasures(old_judge: Judge, tmp_path: Path) -> None:
    assert check_interrupted(old_judge, "v8-dbops", tmp_path, 4) > 4


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["v8-dbops", "v8-cleaned", "v8-crash-txn-ckpt"])
def test_many_interrupted_erasures(old_judge: Judge, name: str, tmp_path: Path) -> None:
    assert check_interrupted(old_judge, name, tmp_path, 100) > 80


def test_the_tools_read_blank_entries(tools: Tools, tmp_path: Path) -> None:
    home = copy_of("v8-cleaned", tmp_path / "env")
    before = tools.run("DbPrintLog", "-h", home, "-S").splitlines()
    result = erase(home, ErasureOptions())
    assert result.counts.entry_count > 1000
    assert tools.run("DbPrintLog", "-h", home, "-S").splitlines() == before


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(310, 340, 3))
def test_many_crash_points(old_judge: Judge, seed: int) -> None:
    erased: list[int] = []
    seeds = range(seed, seed + 3)
    report = run_acceptances(old_judge, recover_and_erase(erased), seeds, 10, ttl=False)
    print(report, erased)
    assert not broken_rules(report), report


@pytest.mark.exhaustive
def test_the_corpus(judge: Judge, old_judge: Judge) -> None:
    assert accept_corpus(old_judge, JE_5, ("v8-",))[1] > 4_000
    assert accept_corpus(judge, JE_18, ("v8-", "v15-"))[1] > 8_000
