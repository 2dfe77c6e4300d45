"""Whole audits on Spark find all planted faults, twice the same, even if processes are killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from je_tools.audit.engines import EngineChoice
from je_tools.audit.run import AuditJob, run_audit
from je_tools.audit.spark_engine import SparkEngine
from je_tools.audit.tasks import AuditTasks
from je_tools.core.escaping import clean_text
from tests.builders.logs import write_log
from tests.corpus import FIXTURES, environments_in
from tests.damage.planted_findings import PLANTED, Told, log
from tests.je_tools.audit.auditing import (
    HOSTILE,
    Row,
    Tables,
    below,
    cut,
    files_said,
    findings_said,
    of_env,
    summarized,
    summary_said,
    tables_in,
    txns_said,
    without_sources,
)
from tests.spark.session import QUICK_JAVA

pytestmark = pytest.mark.spark

SPARK = EngineChoice()
EACH = {60: 1, 300: 4}
"""Number of faults of each kind, by the number of environments of a fleet."""

KINDS = (
    "bad-file-header",
    "damaged-entry",
    "damaged-gap",
    "erased-not-zero",
    "last-entry-mismatch",
    "missing-file",
    "torn-tail",
    "unknown-type",
    "vlsn-duplicate",
    "zero-tail",
)

Plants = dict[str, list[Told]]
Sorted = dict[str, list[Row]]


class Fleet(NamedTuple):
    """A directory of environments: some with planted faults, clean ones by name, and fixtures."""

    size: int
    root: Path
    planted: Plants
    clean: set[str]
    fixtures: dict[str, Path]


@pytest.fixture(scope="module", params=[60, pytest.param(300, marks=pytest.mark.exhaustive)])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Build a fleet of engine logs, planted faults of 10 kinds, and sound logs."""
    size: int = request.param
    root = tmp_path_factory.mktemp("fleet")
    planted: Plants = {}
    for kind in KINDS:
        for number in range(EACH[size]):
            folder = root / f"group{number}" / kind
            planted[str(folder)] = PLANTED[kind](folder)[1]
    (root / "fixtures").mkdir()
    for each in FIXTURES.iterdir():
        if not each.name.startswith("ignite-"):
            (root / "fixtures" / each.name).symlink_to(each)
    fixtures = {
        str(root / "fixtures" / each.home.relative_to(FIXTURES)): each.home
        for each in environments_in(FIXTURES)
    }
    for made in (file_twice(root / "twice"), commit_lost(root / "undone")):
        fixtures[str(made)] = made
    count = size - len(planted) - len(fixtures)
    names = [*map(os.fsdecode, HOSTILE), *map(str, range(count - len(HOSTILE)))]
    clean = {
        clean_text(str(write_log(root / f"clean{i % 7}" / name, [log(count=i % 40 + 1)])))
        for i, name in enumerate(names)
    }
    return Fleet(size, root, planted, clean, fixtures)


def file_twice(home: Path) -> Path:
    """Write two files of one number, so that entries of an unfinished transaction occur twice."""
    log_file = FIXTURES / "v17-crash-txn" / "env" / "00000000.jdb"
    for folder in (home, home / "data001"):
        folder.mkdir()
        shutil.copy(log_file, folder)
    return home


def commit_lost(home: Path) -> Path:
    """Copy a log and damage the end of a transaction that no checkpoint knows."""
    shutil.copytree(FIXTURES / "v17-basic" / "env", home)
    with (home / "00000000.jdb").open("r+b") as file:
        file.seek(500)
        file.write(b"XX")
    return home


@pytest.fixture(scope="module")
def tables(audit_session: Any, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Sorted:
    assert audit_session
    output = tmp_path_factory.mktemp("audit") / "out"
    found = run_audit(AuditJob((fleet.root,), output, SPARK), AuditTasks, summarized)
    assert len(found.environments) == fleet.size
    assert (found.run.engine, found.run.spark_version) == ("spark", audit_session.version)
    return in_order(tables_in(output))


def in_order(tables: Tables) -> Sorted:
    """Return the rows of tables in a fixed order; a second try of a task takes results over."""
    return dict(without_sources(tables))


def test_what_is_planted_is_found_and_nothing_else(fleet: Fleet, tables: Sorted) -> None:
    found: Plants = defaultdict(list)
    for row in tables["findings"]:
        resume = None if row["resume_lsn"] is None else row["resume_lsn"] & 0xFFFFFFFF
        place = (row["file_no"], row["offset"], row["length"], resume)
        found[row["env"]].append(Told(row["code"], row["severity"], *place))
    assert sum(map(len, fleet.planted.values())) >= EACH[fleet.size] * len(KINDS)
    assert {env: sorted(told, key=repr) for env, told in found.items() if env in fleet.planted} == {
        env: sorted(told, key=repr) for env, told in fleet.planted.items()
    }
    assert not found.keys() & fleet.clean
    for env, home in fleet.fixtures.items():
        said = findings_said(home)
        assert sorted(of_env(tables["findings"], env), key=repr) == sorted(said, key=repr)


def test_rows_of_fixtures_are_those_of_the_commands(fleet: Fleet, tables: Sorted) -> None:
    for env, home in fleet.fixtures.items():
        mine = of_env(tables["files"], env)
        said = files_said(home)
        assert [(row["file_no"], row["entry_count"]) for row in mine] == [
            (row["file_no"], row["entry_count"]) for row in said
        ]
        sections = summary_said(home)
        counts: Counter[str] = Counter()
        for row in of_env(tables["entry_stats"], env):
            counts[row["type"]] += row["count"]
        assert counts == {row["name"]: row["count"] for row in sections["type"]}
        outcomes = Counter(row["outcome"] for row in of_env(tables["txns"], env))
        ended = {row["outcome"]: row["count"] for row in sections["transactions"] if row["count"]}
        assert outcomes == ended


def test_transactions_are_those_that_summary_joins(fleet: Fleet, tables: Sorted) -> None:
    unfinished = 0
    for env, home in fleet.fixtures.items():
        rows = of_env(tables["txns"], env)
        rows.sort(key=lambda row: (row["begin_lsn"], row["txn_id"], row["entry_count"]))
        assert rows == txns_said(home), env
        unfinished += sum(row["end_ms"] is None for row in rows)
    assert unfinished > 5
    # Facts from checkpoints and rollbacks have reached the transactions.
    outcomes = {row["outcome"] for row in tables["txns"]}
    assert outcomes == {"committed", "aborted", "unfinished", "undone", "rolled back"}


def test_outcomes_are_the_sums_of_transactions(tables: Sorted) -> None:
    """Counts of whole transactions come from executors, those of joined ones from the table."""
    expected: dict[tuple[str, str], Row] = {}
    for row in tables["txns"]:
        key = row["env"], row["outcome"]
        sums = expected.setdefault(key, {"count": 0, "entry_count": 0, "total_size": 0, "ends": []})
        sums["count"] += 1
        sums["entry_count"] += row["entry_count"]
        sums["total_size"] += row["size"]
        sums["ends"] += [] if row["end_ms"] is None else [row["end_ms"]]
    for sums in expected.values():
        sums["last_end_ms"] = max(sums.pop("ends"), default=None)
    found = {
        (row.pop("env"), row.pop("outcome")): dict(row) for row in map(dict, tables["txn_stats"])
    }
    assert found == expected
    assert len(expected) == len(tables["txn_stats"]) > 50


def test_environments_are_the_sums_of_the_other_tables(fleet: Fleet, tables: Sorted) -> None:
    environments = {row["env"]: row for row in tables["environments"]}
    assert environments.keys() == fleet.planted.keys() | fleet.clean | fleet.fixtures.keys()
    assert len(environments) == len(tables["environments"]) == fleet.size
    by_env: dict[str, dict[str, list[Row]]] = {
        name: defaultdict(list) for name in ("files", "findings", "txns", "checkpoints")
    }
    for name, grouped in by_env.items():
        for row in tables[name]:
            grouped[row["env"]].append(row)
    for env, row in environments.items():
        expected = summed(*(by_env[name][env] for name in by_env))
        assert {name: row[name] for name in expected} == expected
    assert tables["files"][0].keys() & {"damaged_size"} == set()


def summed(files: list[Row], findings: list[Row], txns: list[Row], checkpoints: list[Row]) -> Row:
    severities = Counter(row["severity"] for row in findings)
    outcomes = Counter(row["outcome"] for row in txns)
    vlsns = [row for row in files if row["first_vlsn"] is not None]
    ended = [row for row in checkpoints if row["complete"]]
    last = max(ended, key=lambda row: row["end_lsn"], default=None)
    ordered = sorted(files, key=lambda row: row["file_no"])
    return {
        "severity": next((s for s in ("error", "warning", "note") if severities[s]), "ok"),
        "file_count": len(files),
        "size": sum(row["size"] for row in files),
        "entry_count": sum(row["entry_count"] for row in files),
        **{f"{name}_count": severities[name] for name in ("error", "warning", "note")},
        "first_file_no": ordered[0]["file_no"],
        "last_file_no": ordered[-1]["file_no"],
        "versions": sorted({row["log_version"] for row in files if row["log_version"] is not None}),
        "first_created_ms": ordered[0]["created_ms"],
        "last_created_ms": ordered[-1]["created_ms"],
        "first_vlsn": min((row["first_vlsn"] for row in vlsns), default=None),
        "last_vlsn": max((row["last_vlsn"] for row in vlsns), default=None),
        "committed_count": outcomes["committed"],
        "aborted_count": outcomes["aborted"],
        "unfinished_count": sum(outcomes[name] for name in ("unfinished", "prepared", "undone")),
        "checkpoint_count": len(ended),
        "last_checkpoint_lsn": last["end_lsn"] if last else None,
        "last_checkpoint_ms": last["end_ms"] if last else None,
    }


# Changes and failures during an audit


def test_equal_twice_though_workers_are_killed(
    audit_session: Any,
    fleet: Fleet,
    tables: Sorted,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker ends after its task is done, in each step of the audit. The files are cut, too."""
    from pyspark import cloudpickle

    cut(monkeypatch, 400_000)
    run = SparkEngine.run
    marks: list[Path] = []

    def killing(self: SparkEngine, work: Any, tasks: Any) -> Any:
        marks.append(tmp_path / f"killed-{len(marks)}")
        return run(self, partial(killed_after, work, str(marks[-1])), tasks)

    monkeypatch.setattr(SparkEngine, "run", killing)
    failures = failed_count(audit_session)
    # Workers do not have the tests.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        run_audit(AuditJob((fleet.root,), tmp_path / "out", SPARK), AuditTasks, summarized)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert in_order(tables_in(tmp_path / "out")) == tables
    assert len(marks) > 1
    assert all(mark.exists() for mark in marks)
    assert failed_count(audit_session) - failures >= len(marks)


def killed_after(work: Callable[[Any], Any], mark: str, task: Any) -> Any:
    """Do the work of a task; the process of the first that is done is then killed."""
    result = work(task)
    with suppress(FileExistsError):
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        os.kill(os.getpid(), signal.SIGKILL)
    return result


def failed_count(context: Any) -> int:
    """Return the number of tries of tasks that have failed so far."""
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(None))
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return sum(stage.numFailedTasks for stage in stages if stage)


@pytest.mark.exhaustive
def test_equal_on_a_cluster_that_loses_an_executor(fleet: Fleet, tmp_path: Path) -> None:
    tool = Path(sys.executable).parent / "je-tools"
    audit = [tool, "audit", "run", fleet.root.name, "--fail-on", "never", "--output"]
    command = [*audit, tmp_path / "out", "--master", "local-cluster[2,1,1024]"]
    command += ["--conf", f"spark.executor.extraJavaOptions={QUICK_JAVA}"]
    with subprocess.Popen(
        command, cwd=fleet.root.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        killed = None
        while running.poll() is None and killed is None:
            for executor in below(running.pid, "CoarseGrainedExecutorBackend"):
                # An executor that has started a Python process has been given a task.
                if below(executor, "pyspark.daemon"):
                    os.kill(executor, signal.SIGKILL)
                    killed = executor
                    break
            time.sleep(0.02)
        told, _ = running.communicate()
    assert killed is not None
    assert running.returncode == 0, told.decode()
    local = [*audit, tmp_path / "local", "--engine", "local"]
    subprocess.run(local, cwd=fleet.root.parent, capture_output=True, check=True)
    found = in_order(tables_in(tmp_path / "out"))
    assert found == in_order(tables_in(tmp_path / "local"))
    assert found["groups"]
    assert "Lost executor" in (tmp_path / "out" / "spark.log").read_text()


def change_files(root: Path) -> None:
    """Change environments between discovery and reading."""
    (root / "vanished" / "00000001.jdb").unlink()
    shutil.rmtree(root / "gone")
    with (root / "grown" / "00000001.jdb").open("ab") as file:
        file.write(bytes(100))
    with (root / "grown-last" / "00000002.jdb").open("ab") as file:
        file.write(bytes(100))
    for name in ("shrunk", "shrunk-last"):
        path = root / name / ("00000001.jdb" if name == "shrunk" else "00000002.jdb")
        os.truncate(path, path.stat().st_size - 30)
    shutil.rmtree(root / "locked")
    (root / "locked").symlink_to("locked")
    (root / "last-locked" / "00000002.jdb").unlink()
    (root / "last-locked" / "00000002.jdb").symlink_to("00000002.jdb")
    (root / "a folder" / "00000001.jdb").unlink()
    (root / "a folder" / "00000001.jdb").mkdir()


def test_what_changes_meanwhile_costs_a_finding(audit_session: Any, tmp_path: Path) -> None:
    assert audit_session
    root = tmp_path / "root"
    names = (
        "vanished",
        "gone",
        "grown",
        "grown-last",
        "shrunk",
        "shrunk-last",
        "locked",
        "last-locked",
    )
    for name in (*names, "a folder", "untouched"):
        files = [log()]
        for count in (10, 20):
            files.append(files[-1].follower())
            for size in range(20, 20 + count):
                files[-1].trace(size)
        write_log(root / name, files)

    @contextmanager
    def step(name: str) -> Iterator[None]:
        if name == "reading logs":
            change_files(root)
        yield None

    run_audit(AuditJob((root,), tmp_path / "out", SPARK), AuditTasks, summarized, step)
    tables = tables_in(tmp_path / "out")
    found: dict[str, list[tuple[str, int | None]]] = defaultdict(list)
    for row in tables["findings"]:
        found[Path(row["env"]).name].append((row["code"], row["file_no"]))
    assert {name: sorted(told, key=str) for name, told in found.items()} == {
        "a folder": [("unreadable-file", 1)],
        "gone": [("unread", None)],
        "grown": [("zero-tail", 1)],
        "grown-last": [("zero-tail", 2)],
        "last-locked": [("unread", None)],
        "locked": [("unread", None)],
        "shrunk": [("truncated-file", 1)],
        "shrunk-last": [("torn-tail", 2)],
        "vanished": [("missing-file", 1)],
    }
    severities = {Path(row["env"]).name: row["severity"] for row in tables["environments"]}
    assert severities == {
        **dict.fromkeys(found, "error"),
        "grown-last": "note",
        "shrunk-last": "note",
        "untouched": "ok",
    }
    entries = {Path(row["env"]).name: row["entry_count"] for row in tables["environments"]}
    assert entries["untouched"] == entries["grown"] == 8 + 11 + 21
    assert entries["vanished"] == 8 + 21
