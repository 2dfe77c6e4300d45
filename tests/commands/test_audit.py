"""`audit run`: output, exit codes, requirements, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest

from je_tools.audit.local_engine import LocalEngine
from je_tools.audit.output_folder import KNOWN_NAME, complete_runs, open_output, run_rows
from je_tools.audit.session import open_spark
from je_tools.audit.tables import RUNS, TABLES
from je_tools.errors import (
    EXIT_INPUT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_REFUSED,
    EXIT_STOPPED,
    EXIT_TERMINATED,
    EXIT_USAGE,
)
from tests.builders.planted import write_planted
from tests.corpus import FIXTURES, ROOT
from tests.damage.running import states
from tests.engine.java import find_java
from tests.je_tools.audit.auditing import age, below
from tests.je_tools.core.test_masking import leaks
from tests.je_tools.dumped import Done, dump, je_tools, strict_json
from tests.spark.session import QUICK_JAVA

TOOL = Path(sys.executable).parent / "je-tools"
NAMES = {"audit.json", "metrics.prom", "report.html", *(table.name for table in (*TABLES, RUNS))}
SEVERITIES = ("ok", "note", "warning", "error")
WHOLE, OLD = FIXTURES / "v17-basic" / "env", FIXTURES / "v8-basic" / "env"
LOG_NAME = "00000000.jdb"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return Path(shutil.copytree(WHOLE, tmp_path / "env"))


def audit(output: Path, *words: str | Path) -> Done:
    return je_tools("audit", "run", *words, "--output", output)


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# With Spark


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an environment of each severity."""
    root = tmp_path_factory.mktemp("fleet")
    for severity in SEVERITIES:
        shutil.copytree(OLD if severity == "warning" else WHOLE, root / severity)
    with (root / "note" / LOG_NAME).open("ab") as file:
        file.write(b"\x01\x02\x03")
    with (root / "error" / LOG_NAME).open("r+b") as file:
        file.seek(500)
        file.write(b"XX")
    return root


@pytest.mark.spark
def test_formats_and_exit_codes(
    audit_session: Any, fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audits run one after the other into one folder, which has their tables and one report."""
    assert audit_session
    monkeypatch.chdir(fleet)
    # Room for every column: a line names those that have none.
    monkeypatch.setenv("COLUMNS", "200")
    output = tmp_path / "out put"
    before = states(fleet)
    done = audit(output, ".", "--fail-on", "never")
    assert done.code == 0
    heading, *lines = done.out.decode().splitlines()
    assert heading.split()[:2] == ["severity", "environment"]
    assert [line.split()[:2] for line in lines] == [[name, name] for name in reversed(SEVERITIES)]
    assert "4 environments (1 error, 1 warning, 1 note, 1 ok), 4 files" in done.err
    assert names_in(output) >= NAMES
    failed = tmp_path / "out put.spark.log"
    failed.write_text("what Spark said when an earlier audit failed")

    done = audit(output, ".", "--format", "json")
    assert done.code == 3
    summary = strict_json(done.out.replace(b"\n", b""))
    assert done.out == (output / "audit.json").read_bytes()
    found = {row["env"]: row["severity"] for row in summary["environments"]}
    assert found == {name: name for name in SEVERITIES}
    assert len(complete_runs(output)) == 2
    assert not failed.exists()

    done = audit(output, "ok", "note", "--format", "prometheus", "--fail-on", "warning")
    assert done.code == 0
    assert done.out == (output / "metrics.prom").read_bytes()
    assert b"\n# TYPE je_tools_audit_" in done.out
    assert names_in(tmp_path) == {"out put"}
    assert states(fleet) == before


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "fail_on", "code"),
    [
        ("warning", "error", 0),
        ("warning", "warning", 3),
        ("note", "note", 3),
        ("ok", "note", 0),
    ],
)
def test_what_fails_is_chosen(
    audit_session: Any, fleet: Path, tmp_path: Path, name: str, fail_on: str, code: int
) -> None:
    assert audit_session
    done = audit(tmp_path / "out", fleet / name, "--fail-on", fail_on)
    assert done.code == code
    assert done.err.startswith(f"je-tools: 1 environment (1 {name}), ")


@pytest.mark.spark
@pytest.mark.exhaustive
def test_nothing_of_keys_and_values_is_in_it(audit_session: Any, tmp_path: Path) -> None:
    """`dump` shows that these logs hold such data; test_no_leaks.py has the same without Spark."""
    assert audit_session
    root, output = tmp_path / "root", tmp_path / "out"
    write_planted(root)
    assert leaks(dump(root / "17", "--format", "csv"))
    done = audit(output, root)
    told = done.out + done.err.encode()
    files = [path for path in output.rglob("*") if path.is_file()]
    assert {path.relative_to(output).parts[0] for path in files} >= NAMES
    for path in files:
        told += path.read_bytes()
        if path.suffix == ".parquet":
            told += repr(pq.read_table(path).to_pylist()).encode()
    assert told.count(b"damaged-entry") > 100
    assert leaks(told) == []


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the tasks of audits without Spark in this process: others take longer to start."""

    def run(_: LocalEngine, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        return map(work, tasks)

    monkeypatch.setattr(LocalEngine, "run", run)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Audit an environment."""
    folder = tmp_path_factory.mktemp("night")
    home = Path(shutil.copytree(WHOLE, folder / "env"))
    assert audit(folder / "out", home, "--engine", "local").code == 0
    return folder / "out"


@pytest.fixture
def earlier(night: Path, tmp_path: Path) -> Path:
    """Return an audit of the night before, alone in its folder."""
    return Path(shutil.copytree(night, tmp_path / "audits" / "out", symlinks=True))


SPARK, LOCAL = ("--master", "local[2]"), ("--engine", "local")


def reading(output: Path, engine: tuple[str, str] = SPARK) -> subprocess.Popen[str]:
    """Start an audit, and return it once it reads."""
    command = [TOOL, "audit", "run", FIXTURES, "--output", output, *engine]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while running.poll() is None and not list(output.glob(".staging/*/*")):
        time.sleep(0.02)
    return running


ENDED = {signal.SIGINT: EXIT_INTERRUPTED, signal.SIGTERM: EXIT_TERMINATED}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sent", "engine"),
    [
        (signal.SIGINT, SPARK),
        pytest.param(signal.SIGTERM, SPARK, marks=pytest.mark.exhaustive),
        (signal.SIGINT, LOCAL),
        (signal.SIGTERM, LOCAL),
    ],
)
def test_nothing_is_left_of_an_interrupted_audit(
    earlier: Path, sent: signal.Signals, engine: tuple[str, str]
) -> None:
    """Earlier runs stay unchanged, too; `timeout` and cron send SIGTERM."""
    before = runs_in(earlier)
    with reading(earlier, engine) as running:
        running.send_signal(sent)
        told, _ = running.communicate()
    assert running.returncode == ENDED[sent], told
    assert "Traceback" not in without_cut_update(told)
    assert names_in(earlier.parent) == {"out"}
    assert runs_in(earlier) == before


def without_cut_update(told: str) -> str:
    """Remove what PySpark seldom prints if Java ends while it sends the value of an accumulator."""
    line = "-" * 40 + "\n"
    inside = f"(?:(?!{line}).)*"
    cut = f"{line}Exception occurred during {inside}/pyspark/accumulators.py{inside}{line}"
    return re.sub(cut, "", told, flags=re.DOTALL)


def runs_in(output: Path) -> dict[str, bytes]:
    """Return all files of a folder of audits except the known results and Spark's log."""
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in output.rglob("*")
        if path.is_file() and KNOWN_NAME not in path.parts and path.name != "spark.log"
    }


@pytest.mark.spark
def test_an_audit_whose_java_is_killed(earlier: Path) -> None:
    """The kernel does that if memory is short: one line reports it, and Spark's log is left."""
    before = runs_in(earlier)
    with reading(earlier) as running:
        for java in below(running.pid, "org.apache.spark.deploy.SparkSubmit"):
            os.kill(java, signal.SIGKILL)
        told, _ = running.communicate()
    assert running.returncode == EXIT_STOPPED, told
    log_file = earlier.parent / "out.spark.log"
    assert told == (
        f"je-tools: Spark ended before the audit: its Java has ended; {log_file} has its messages\n"
    )
    assert names_in(earlier.parent) == {"out", "out.spark.log"}
    assert runs_in(earlier) == before


@pytest.mark.exhaustive
@pytest.mark.spark
def test_executors_without_je_tools(home: Path, tmp_path: Path) -> None:
    """This happens on a cluster whose machines do not have je-tools."""
    (tmp_path / "bin").mkdir()
    other = tmp_path / "bin" / "python3"
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    other.chmod(0o755)
    environment = {**os.environ, "PYSPARK_PYTHON": str(other)}
    command = [TOOL, "audit", "run", home, "--output", tmp_path / "out", "--master", "local[1]"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_STOPPED
    assert "No module named 'je_tools'" in done.stderr
    assert "in the Python that PYSPARK_PYTHON names" in done.stderr
    assert done.stderr.count("\n") == 1
    assert names_in(tmp_path) == {"env", "bin", "out.spark.log"}


@pytest.mark.spark
def test_what_lies_in_the_working_directory_is_not_run(home: Path, tmp_path: Path) -> None:
    """Python would import it first; a clone of je-tools has a folder `je_tools`."""
    for name in ("je_tools", "numpy"):
        (tmp_path / "here" / name).mkdir(parents=True)
        (tmp_path / "here" / name / "__init__.py").write_text("raise SystemExit('imported')")
    command = [TOOL, "audit", "run", home, "--output", tmp_path / "out", "--master", "local[1]"]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path / "here", check=False)
    assert done.returncode == EXIT_OK, done.stderr


@pytest.mark.parametrize(
    "master", ["nothing", pytest.param("local[0]", marks=pytest.mark.exhaustive)]
)
@pytest.mark.spark
def test_a_master_that_is_none(home: Path, tmp_path: Path, master: str) -> None:
    """One line gives the reason, and nothing is left."""
    command = [TOOL, "audit", "run", home, "--output", tmp_path / "out", "--master", master]
    done = subprocess.run(command, capture_output=True, check=False)
    told = done.stderr.decode()
    assert (done.returncode, done.stdout) == (EXIT_INPUT, b"")
    assert told.startswith("je-tools: Spark does not start: ")
    assert told.count("\n") == 1
    assert "\tat " not in told
    assert ".scala" not in told
    assert names_in(tmp_path) == {"env"}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Write the two lines of the docs."""
    text = (ROOT / "docs" / "commands" / "audit.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"^```python\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    path = tmp_path / "tools.py"
    path.write_text(lines)
    return path


@pytest.mark.exhaustive
@pytest.mark.spark
def test_under_spark_submit(home: Path, script: Path, tmp_path: Path) -> None:
    """The master is the one given to spark-submit."""
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    out = tmp_path / "out"
    command = [submit, "--master", "local[1]", "--driver-java-options", QUICK_JAVA, script]
    command += ["audit", "run", home, "--output", out]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == EXIT_OK, done.stderr
    told = json.loads((out / "audit.json").read_bytes())
    assert told["run"]["master"] == "local[1]"
    assert b"severity" in done.stdout


# Without Spark


def test_the_script_for_spark_submit_is_a_program(script: Path) -> None:
    command = [sys.executable, script, "audit", "run", "--help"]
    assert b"--fail-on" in subprocess.run(command, capture_output=True, check=True).stdout


class SubmittedContext:
    """A context for `open_spark` to start; it keeps its settings and its gateway."""

    _active_spark_context = None
    _gateway = None

    def __init__(self, conf: pyspark.SparkConf, gateway: str) -> None:
        self.settings, self.gateway = dict(conf.getAll()), gateway

    def stop(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("master", [None, "yarn"])
def test_spark_submit_chooses_what_is_not_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str | None
) -> None:
    """Its Java runs already, with its own master and log, and may run Python elsewhere."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setattr(pyspark, "SparkContext", SubmittedContext)
    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", lambda *_: "spark-submit's")
    log = tmp_path / "spark.log"
    with open_spark(tmp_path, log, master, {"spark.app.name": "ours"}) as context:
        assert context.gateway == "spark-submit's"
        assert context.settings.get("spark.master") == master
        assert context.settings["spark.app.name"] == "ours"
        assert context.settings["spark.sql.session.timeZone"] == "UTC"
        assert "spark.driver.extraJavaOptions" not in context.settings
        assert "spark.driver.host" not in context.settings
    assert "PYSPARK_PYTHON" not in os.environ
    assert list(tmp_path.iterdir()) == [log]


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that no test has a session open."""
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)


@pytest.mark.parametrize("name", ["out", "below/out", "."])
def test_an_output_inside_an_environment_is_refused(home: Path, name: str) -> None:
    (home / "below").mkdir()
    before = states(home)
    done = audit(home / name, home)
    assert done.code == EXIT_REFUSED
    assert "refused" in done.err or "inside" in done.err or "no audit" in done.err
    assert states(home) == before


def test_an_output_below_a_link_into_an_environment_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home)
    assert audit(tmp_path / "link" / "out", home).code == EXIT_REFUSED
    assert names_in(home) == {"00000000.jdb"}


def test_a_folder_that_no_audit_has_made_is_refused(home: Path, tmp_path: Path) -> None:
    output = tmp_path / "photos"
    output.mkdir()
    (output / "one.jpg").touch()
    done = audit(output, home)
    assert done.code == EXIT_REFUSED
    assert "is not from an audit" in done.err
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert audit(tmp_path / "dangling", home).code == EXIT_REFUSED
    (tmp_path / "file").touch()
    assert audit(tmp_path / "file", home).code == EXIT_USAGE
    assert names_in(tmp_path) == {"env", "photos", "dangling", "file"}
    assert names_in(output) == {"one.jpg"}


@pytest.mark.parametrize("text", ['{"auditReportVersion": 2}', '{"format": 1}', ""])
def test_a_folder_with_somebody_elses_audit_json_is_refused(
    home: Path, tmp_path: Path, text: str
) -> None:
    """`npm audit --json` is often written to a file of this name, in a project's folder."""
    output = tmp_path / "project"
    output.mkdir()
    (output / "audit.json").write_text(text)
    (output / "main.js").touch()
    done = audit(output, home)
    assert done.code == EXIT_REFUSED
    assert "is not from an audit" in done.err
    assert names_in(output) == {"audit.json", "main.js"}


def test_an_audit_that_holds_logs_is_refused(earlier: Path) -> None:
    """It would read its own folder."""
    shutil.copytree(WHOLE, earlier / "backups")
    before = states(earlier)
    done = audit(earlier, earlier)
    assert done.code == EXIT_REFUSED
    assert "holds logs that the audit reads" in done.err
    assert states(earlier) == before


@pytest.mark.usefixtures("here")
def test_a_second_audit_into_a_folder_is_refused(home: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    with open_output(output):
        done = audit(output, home, *LOCAL)
        assert (done.code, done.out) == (EXIT_REFUSED, b"")
        assert f"{output}: another audit writes into this folder" in done.err
    assert audit(output, home, *LOCAL).code == 0


def test_a_folder_of_an_older_version_is_refused(home: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    (output / "findings").mkdir(parents=True)
    (output / "findings" / "part-00000.parquet").touch()
    (output / "audit.json").write_text('{"format": 1,\n')
    before = states(output)
    done = audit(output, home, *LOCAL)
    assert done.code == EXIT_REFUSED
    assert "is not from an audit of this version; name another folder" in done.err
    assert states(output) == before


def test_runs_without_spark(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They need no Java, and take over what has not changed."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setenv("PATH", "")
    age(home)
    output = tmp_path / "out"
    read = []
    for options in ((), (), ("--full",), ("--paranoid",), ("--paranoid",)):
        done = audit(output, home, *LOCAL, "--format", "json", *options)
        assert done.code == 0, done.err
        told = strict_json(done.out.replace(b"\n", b""))
        read.append(told["totals"]["read_file_count"])
        assert (told["run"]["engine"], told["run"]["spark_version"]) == ("local", None)
        assert told["run"]["run"] == complete_runs(output)[-1].run
    assert read == [1, 0, 1, 1, 0]
    assert [row["read_file_count"] for row in run_rows(output)] == read
    assert names_in(output) == NAMES | {KNOWN_NAME}


@pytest.mark.usefixtures("here")
def test_old_runs_are_removed(home: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    for count, options in ((1, ()), (2, ()), (3, ()), (2, ("--keep", "2")), (1, ("--keep", "1"))):
        assert audit(output, home, *LOCAL, *options).code == 0
        assert len(complete_runs(output)) == count
    done = audit(output, home, *LOCAL, "--keep", "0")
    assert done.code == EXIT_USAGE


@pytest.mark.parametrize("option", [("--master", "local[2]"), ("--conf", "spark.executor.cores=1")])
def test_options_of_spark_without_it(home: Path, tmp_path: Path, option: tuple[str, str]) -> None:
    done = audit(tmp_path / "out", home, *LOCAL, *option)
    assert done.code == EXIT_USAGE
    assert f"{option[0]}: --engine local runs without Spark" in done.err


def test_roots_without_a_log(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = audit(tmp_path / "out", tmp_path / "empty")
    assert (done.code, done.out) == (EXIT_INPUT, b"")
    assert "no .jdb files and no store of Ignite here or below" in done.err
    assert audit(tmp_path / "out", tmp_path / "nowhere").code == EXIT_INPUT
    assert names_in(tmp_path) == {"empty"}


@pytest.mark.parametrize("text", ["spark.executor.memory", "executor.memory=2g", "=2g"])
def test_settings_that_are_none_of_sparks(home: Path, tmp_path: Path, text: str) -> None:
    done = audit(tmp_path / "out", home, "--conf", text)
    assert done.code == EXIT_USAGE
    assert f"--conf {text}: expected spark.NAME=VALUE" in done.err


def test_the_master_is_no_setting(home: Path, tmp_path: Path) -> None:
    """A master set this way would get settings that are for this machine alone."""
    done = audit(tmp_path / "out", home, "--conf", "spark.master=spark://head:7077")
    assert done.code == EXIT_USAGE
    assert "give the master with --master" in done.err


def fake_java(folder: Path, script: str) -> Path:
    """Return a JAVA_HOME whose java is a script."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return folder


OLD_JAVAS = {
    'openjdk version "11.0.22" 2024-01-16': "is Java 11",
    'java version "1.8.0_402"': "is Java 8",
    "a java of another kind": "is Java unknown",
}


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize("version", OLD_JAVAS)
def test_a_java_that_is_too_old(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    java_home = fake_java(tmp_path / "java", f"echo '{version}' >&2")
    monkeypatch.setenv("JAVA_HOME", str(java_home))
    done = audit(tmp_path / "out", home)
    assert (done.code, done.out) == (EXIT_INPUT, b"")
    assert "Spark needs Java 17 or newer" in done.err
    assert OLD_JAVAS[version] in done.err
    assert done.err.count("\n") == 1
    assert names_in(tmp_path) == {"env", "java"}
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(java_home / "bin"))
    assert OLD_JAVAS[version] in audit(tmp_path / "out", home).err


@pytest.mark.usefixtures("no_session")
def test_no_java(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = audit(tmp_path / "out", home)
    assert done.code == EXIT_INPUT
    assert "there is no java on the PATH; set JAVA_HOME" in done.err
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    done = audit(tmp_path / "out", home)
    assert done.code == EXIT_INPUT
    assert f"JAVA_HOME is {tmp_path}/nowhere, but it does not run" in done.err
    java_home = fake_java(tmp_path / "broken", "exit 7")
    monkeypatch.setenv("JAVA_HOME", str(java_home))
    assert "but it does not run" in audit(tmp_path / "out", home).err
    assert names_in(tmp_path) == {"env", "broken"}


@pytest.mark.spark
def test_a_java_that_does_not_start(home: Path, tmp_path: Path) -> None:
    """The message has the last line that Java printed."""
    script = f"""case "$*" in
    *org.apache.spark.launcher.Main* | -version) exec '{find_java()}' "$@" ;;
    *) echo 'not enough space for the heap' >&2; exit 1 ;;
esac"""
    environment = {**os.environ, "JAVA_HOME": str(fake_java(tmp_path / "java", script))}
    command = [TOOL, "audit", "run", home, "--output", tmp_path / "out"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (EXIT_INPUT, "")
    assert done.stderr == "je-tools: Spark does not start: not enough space for the heap\n"
    assert names_in(tmp_path) == {"env", "java"}


def test_no_pyspark(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    done = audit(tmp_path / "out", home)
    assert done.code == EXIT_INPUT
    assert "PySpark is missing: pip install 'je-tools[spark]'" in done.err
    assert names_in(tmp_path) == {"env"}


def test_the_help_needs_no_spark() -> None:
    """It imports neither PySpark nor PyArrow."""
    program = (
        "import sys; from je_tools.commands.main import group, run; "
        "code = run(group, ['audit', 'run', '--help']); "
        "sys.exit(code or 'pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"--fail-on" in done.stdout
