"""Audits of generated fleets find all planted faults and nothing else, and leak nothing."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from je_tools.audit.engines import EngineChoice, EngineInfo
from je_tools.audit.fleet import FleetSummary, RunInfo
from je_tools.audit.output_folder import RunFolder
from je_tools.audit.report import write_reports
from je_tools.audit.run import AuditJob, run_audit
from je_tools.audit.stake_finder import StakeFinder
from je_tools.audit.tasks import AuditTasks
from tests.builders.campaigns import CANARY, Campaign, Codes, make_campaign, many_findings, shown
from tests.builders.logs import LogFile, write_log
from tests.damage.planted_findings import log
from tests.je_tools.audit.auditing import Tables, tables_in

LOCAL, SPARK = EngineChoice(is_local=True), EngineChoice()


def audited(root: Path, output: Path, engine: EngineChoice, step: Any = None) -> Tables:
    """Audit a fleet as the command does, and return its tables."""

    def finish(run: RunFolder, ran: EngineInfo, folder: Path) -> FleetSummary:
        about = (1, 2, "0", ran.engine, ran.spark_version, ran.master, "out")
        return write_reports(run, RunInfo(run.run, (str(root),), *about), folder)

    run_audit(
        AuditJob((root,), output, engine),
        partial(AuditTasks, stakes_of=StakeFinder()),
        finish,
        step,
    )
    return tables_in(output)


def found_in(tables: Tables) -> dict[str, Codes]:
    """Return the number of findings of each environment by code and severity."""
    found: dict[str, Codes] = {}
    for row in tables["findings"]:
        found.setdefault(row["env"], Counter())[row["code"], row["severity"]] += 1
    return found


def check_campaign(fleet: Campaign, tables: Tables, output: Path) -> None:
    assert len(fleet.kinds) == 12
    assert found_in(tables) == fleet.planted
    assert len(tables["environments"]) == fleet.count
    outcomes = {row["env"]: row["outcome"] for row in tables["environments"]}
    assert {outcomes[env] for env in outcomes.keys() - fleet.planted.keys()} == {"opens"}
    check_outputs(output)


def check_outputs(output: Path) -> None:
    """Check that no output holds data of a record, and that no name leaves its place."""
    assert b"<img src=x" not in (output / "report.html").read_bytes()
    assert json.loads((output / "audit.json").read_bytes())["environments"]
    for path in output.rglob("*"):
        if path.suffix == ".parquet":
            assert CANARY not in str(pq.ParquetFile(path).read().to_pydict()).encode()
        elif path.is_file():
            assert CANARY not in path.read_bytes()


@pytest.mark.parametrize(
    ("count", "each", "engine"),
    [
        pytest.param(70, 1, LOCAL, id="small"),
        pytest.param(1000, 5, LOCAL, id="local", marks=pytest.mark.exhaustive),
        pytest.param(1000, 5, SPARK, id="spark", marks=[pytest.mark.exhaustive, pytest.mark.spark]),
    ],
)
def test_what_is_planted_is_found_and_nothing_else(
    tmp_path: Path, count: int, each: int, engine: EngineChoice
) -> None:
    fleet = make_campaign(tmp_path / "fleet", count, each, groups=each, seed=22)
    check_campaign(fleet, audited(fleet.root, tmp_path / "out", engine), tmp_path / "out")


def rough_fleet(root: Path) -> LogFile:
    """Write environments that change or cannot be read; return the last file of `written`."""
    files: list[LogFile] = []
    for name in ("deleted", "sound", "written"):
        files = [log()]
        files.append(files[0].follower())
        for size in range(20, 400):
            files[1].trace(size)
        write_log(root / name, files)
    (root / "loop").symlink_to("loop")
    (root / "unreadable").mkdir()
    (root / "unreadable" / "data001").symlink_to("data001")
    (root / "unreadable" / "00000000.jdb").symlink_to("00000000.jdb")
    return files[-1]


@pytest.mark.parametrize(
    ("count", "engine"),
    [
        pytest.param(3_000, LOCAL, id="small"),
        pytest.param(100_000, LOCAL, id="local", marks=pytest.mark.exhaustive),
        pytest.param(100_000, SPARK, id="spark", marks=[pytest.mark.exhaustive, pytest.mark.spark]),
    ],
)
def test_a_fleet_that_changes_and_one_log_full_of_damage(
    tmp_path: Path, count: int, engine: EngineChoice
) -> None:
    root = tmp_path / "fleet"
    last = rough_fleet(root)
    many_findings(root / "many", count)
    with written_to(root / "written" / last.name, last) as begin:

        @contextmanager
        def step(name: str) -> Iterator[None]:
            if name == "reading logs":
                shutil.rmtree(root / "deleted")
                begin.set()
            yield None

        tables = audited(root, tmp_path / "out", engine, step)
    found = found_in(tables)
    assert found[shown(root / "many")]["damaged-entry", "error"] == count
    assert found[shown(root / "deleted")] == {("unread", "error"): 1}
    assert found[shown(root / "unreadable")] == {("unread", "error"): 1}
    (facts,) = (row for row in tables["environments"] if row["env"] == shown(root / "written"))
    (sound,) = (row for row in tables["environments"] if row["env"] == shown(root / "sound"))
    assert facts["entry_count"] >= sound["entry_count"]
    more = found[shown(root / "written")] - found[shown(root / "sound")]
    assert not more.keys() - {("torn-tail", "note"), ("live-writer", "note")}
    assert (tmp_path / "out" / "report.html").stat().st_size < 1 << 20


@contextmanager
def written_to(path: Path, file: LogFile) -> Iterator[threading.Event]:
    """Append whole entries to a file, some at a time, from the moment the event is set."""
    begin, end = threading.Event(), threading.Event()

    def write() -> None:
        begin.wait()
        with path.open("ab", buffering=0) as out:
            while not end.is_set():
                before = len(file.data)
                file.trace(40)
                out.write(file.data[before:])
                time.sleep(0.001)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield begin
    finally:
        begin.set()
        end.set()
        thread.join()
