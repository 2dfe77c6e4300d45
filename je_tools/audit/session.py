"""A Spark session for an audit: Java looked for first, noise in a file, progress to be asked for.

Under spark-submit the gateway and the settings are those that it made; what it did not set is set
here.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from je_tools.audit import daemon
from je_tools.errors import InputError

JAVA_MIN = 17
"""The oldest Java that Spark 4 runs on. Source: docs of Spark 4.0, "Spark Runs On"."""

STAGING = ".staging"
"""The folder below an output in which executors write."""

_SAFE_PATH = "PYTHONSAFEPATH"

LOCAL_TRIES = 4
"""Of each task, as clusters have it: plain `local[*]` gives up when a worker is killed."""

LOCAL_MASTER = f"local[*,{LOCAL_TRIES}]"
"""All cores of this machine."""

_SETTINGS = {
    "spark.app.name": "je-tools audit",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # Plans that change while they run cost more than the few tasks of an audit's can save.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Each task's results wait some 40 ms in a TCP socket for an acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of a local Spark. An audit is over before the better compiler has paid for itself."""

_LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Machines of a cluster may get our code with the tasks, which is later.
    "spark.python.daemon.module": daemon.MODULE,
}

_LOG_SETTINGS = """\
status=off
rootLogger.level=warn
rootLogger.appenderRef.file.ref=file
appender.file.type=File
appender.file.name=file
appender.file.fileName=${sys:je_tools.log}
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d{ISO8601} %p %c: %m%n%ex
"""

_TRACKED_SECONDS = 0.2

Tell = Callable[[int, int], None]


def with_tries(master: str) -> str:
    """A master on this machine that does not say how often a task is tried, saying it.

    What names no thread is left as it is: Spark tells what is wrong with it.
    """
    if master == "local":
        master = "local[1]"
    return _LOCAL.sub(rf"local[\1,{LOCAL_TRIES}]", master)


_LOCAL = re.compile(r"^local\[(\*|[1-9][0-9]*)\]$")


class Spark:
    """A running Spark.

    Executors can be given work before there is a SparkSession, which Spark takes seconds to make:
    it is made meanwhile.

    Attributes:
        context: the SparkContext.
    """

    def __init__(self, context: Any) -> None:
        self.context = context
        self._made: Future[Any] = Future()
        threading.Thread(target=self._make, daemon=True).start()

    def _make(self) -> None:
        from pyspark.sql import SparkSession

        try:
            # Of this context, as it is the one that is active.
            self._made.set_result(SparkSession.builder.getOrCreate())
        except BaseException as error:
            self._made.set_exception(error)

    def session(self) -> Any:
        """The SparkSession, as soon as it is there."""
        return self._made.result()

    def stop(self) -> None:
        """Stop Spark, if it still runs.

        A thread of its own has its own connection to Java: whoever was interrupted while Java
        answered has left the answer in his.
        """
        thread = threading.Thread(target=self._stop)
        thread.start()
        thread.join()

    def _stop(self) -> None:
        # What was asked of Spark is done or has failed, and is told by whoever asked. Java that has
        # ended cannot be stopped, of which PySpark would warn.
        with warnings.catch_warnings(), suppress(Exception):
            warnings.simplefilter("ignore")
            # A context that is stopped while its session is being made leaves half of one.
            made = self._made.exception() is None
            (self.session() if made else self.context).stop()


def is_of_spark(error: Exception) -> bool:
    """Whether it tells that Spark, or what was done in it, has failed."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    # The others come from the connection to a Java that has ended.
    return isinstance(error, Py4JError | PySparkException | ConnectionError | EOFError)


def why_failed(error: Exception) -> str:
    """Of an error `is_of_spark` the line that says why."""
    from py4j.protocol import Py4JError, Py4JJavaError

    if isinstance(error, Py4JJavaError):
        return failure_in(str(error.java_exception))
    if isinstance(error, Py4JError | ConnectionError | EOFError):
        return "its Java has ended"
    return failure_in(str(error))


def failure_in(said: str) -> str:
    """Of the text of a failed job the line that says why, Python's where it comes from there."""
    told = [*_OF_PYTHON.finditer(said), *_OF_WORKER.finditer(said)]
    reason = told[-1][1] if told else _THROWN_BY.sub("", _OF_TASK.sub("", first_words(said)))
    return reason + next((f"; {hint}" for words, hint in _HINTS.items() if words in said), "")


@contextmanager
def open_spark(
    folder: Path, log: Path, master: str | None, settings: dict[str, str]
) -> Iterator[Spark]:
    """A Spark, stopped in the end; one that runs in this process is used, and left as it is.

    Args:
        folder: for the settings of Spark's log; it exists.
        log: where all goes that Spark and Java say. A Java that an earlier session of this process
            has left is used again, and keeps its log.
        master: of a cluster; None for all cores of this machine, or what spark-submit chose.
        settings: of the user, which come before those here.

    Raises:
        InputError: Java or PySpark is missing or too old, or Spark does not start.
    """
    try:
        from py4j.protocol import Py4JError, Py4JJavaError
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkException
        from pyspark.java_gateway import launch_gateway
    except ImportError as error:
        raise InputError("PySpark is missing: pip install 'je-tools[spark]'") from error
    active = getattr(SparkContext, "_active_spark_context", None)
    if active is not None:
        yield Spark(active)
        return
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    is_local = not is_submitted and (master or LOCAL_MASTER).startswith("local")
    if not is_submitted:
        check_java()
        if is_local:
            # Else Spark takes the python3 on the PATH, which may know nothing of us.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with log.open("ab") as out:
        # Without the JVM's defaults: there is no JVM yet.
        conf = SparkConf(loadDefaults=False)
        for name, value in _settings(folder, log, master, settings, is_submitted).items():
            conf.set(name, value)
        try:
            gateway = getattr(SparkContext, "_gateway", None)
            if gateway is None:
                with interrupts_later(), _safe_path(is_local):
                    gateway = launch_gateway(conf, {"stdout": out, "stderr": out})  # type: ignore[no-untyped-call]
            context = SparkContext(conf=conf, gateway=gateway)
        except Py4JJavaError as error:
            reason = str(error.java_exception)
            raise InputError(f"Spark does not start: {first_words(reason)}") from error
        except (PySparkException, Py4JError, OSError, RuntimeError) as error:
            reason = first_words(log.read_text(errors="replace")) or str(error)
            raise InputError(f"Spark does not start: {reason}") from error
        spark = Spark(context)
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def _safe_path(is_wanted: bool) -> Iterator[None]:
    """What is started meanwhile loads nothing from the working directory in the place of ours."""
    before = os.environ.get(_SAFE_PATH)
    if is_wanted and before is None:
        os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if is_wanted and before is None:
            del os.environ[_SAFE_PATH]


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Hold what would end this process back until the end: around a fork Python forgets it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    handlers = {
        each: signal.signal(each, lambda number, _: held.append(number))
        for each in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        for number in held[:1]:
            signal.raise_signal(number)


def check_java() -> None:
    """Look for a Java that Spark runs on, as Spark's own scripts look for it.

    Raises:
        InputError: there is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    needed = f"Spark needs Java {JAVA_MIN} or newer"
    if java is None:
        raise InputError(f"{needed}, and there is no java on the PATH; set JAVA_HOME to one")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        where = f"JAVA_HOME is {home}" if home else f"{java} on the PATH"
        raise InputError(f"{needed}; {where}, which does not run: {error}") from error
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if found is None or int(found[1]) < JAVA_MIN:
        version = found[1] if found else "unknown"
        raise InputError(f"{needed}; {java} is Java {version}. Set JAVA_HOME to a newer one")


@contextmanager
def tracked(context: Any, tell: Tell | None) -> Iterator[None]:
    """Tell, meanwhile, how many tasks of the running stages are done, and how many there are."""
    if tell is None:
        yield
        return
    stopped = threading.Event()
    thread = threading.Thread(target=_track, args=(context, tell, stopped), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _track(context: Any, tell: Tell, stopped: threading.Event) -> None:
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError):  # Java has ended: whoever waits for it is told
        _track_stages(context.statusTracker(), tell, stopped)


def _track_stages(tracker: Any, tell: Tell, stopped: threading.Event) -> None:
    while not stopped.wait(_TRACKED_SECONDS):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        if known:
            done = sum(stage.numCompletedTasks for stage in known)
            tell(done, sum(stage.numTasks for stage in known))


def _settings(
    folder: Path, log: Path, master: str | None, chosen: dict[str, str], is_submitted: bool
) -> dict[str, str]:
    settings = dict(_SETTINGS)
    if master is None and not is_submitted:
        master = LOCAL_MASTER
    if master is not None:
        settings["spark.master"] = with_tries(master)
        if settings["spark.master"].startswith("local["):
            settings |= _LOCAL_SETTINGS
    if not is_submitted:
        log_settings = folder / "log4j2.properties"
        log_settings.write_text(_LOG_SETTINGS)
        places = f'"-Dlog4j2.configurationFile={log_settings.as_uri()}" "-Dje_tools.log={log}"'
        settings["spark.driver.extraJavaOptions"] = f"{_JAVA_OPTIONS} {places}"
    return settings | chosen


_HINTS = {
    "No module named 'je_tools": "executors need je-tools in the Python that PYSPARK_PYTHON names",
    f"/{STAGING}/": "every machine must reach the output by the same path",
}
_NOISE = re.compile(
    r"\s*$|\s+at |\s*\.\.\. \d+ more|WARNING: |Using Spark's|Setting default log level"
    r"|To adjust logging level|\d{4}-\d\d-\d\dT\S+ (WARN|INFO) |Picked up "
)
_OF_PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
_OF_WORKER = re.compile(r"Error from python worker:\n\s*(.*)")
_OF_TASK = re.compile(r"^Job aborted due to stage failure: .*?most recent failure: .*?\): ")
_THROWN_BY = re.compile(r'^(Exception in thread "[^"]*" )?([\w$]+\.)*[\w$]*(Exception|Error): ')


def first_words(said: str) -> str:
    """Of what Java said when it ended the line that says why: the first that is no noise."""
    lines = (line for line in said.splitlines() if not _NOISE.match(line))
    return _THROWN_BY.sub("", next(lines, "")).strip()
