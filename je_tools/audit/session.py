"""Spark session of an audit: checks Java first, logs noise to a file, and reports progress.

Under spark-submit, its gateway and settings are used; settings that it lacks are set here.
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
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from je_tools.audit import daemon
from je_tools.audit.output_folder import STAGING_NAME
from je_tools.errors import InputError

JAVA_MIN = 17
"""Oldest Java that Spark 4 runs on. Source: docs of Spark 4.0, "Spark Runs On"."""

_SAFE_PATH = "PYTHONSAFEPATH"

LOCAL_TRIES = 4
"""Tries for each task, as on clusters: plain `local[*]` gives up when a worker is killed."""

LOCAL_MASTER = f"local[*,{LOCAL_TRIES}]"
"""Master that uses all cores of this machine."""

_SETTINGS = {
    "spark.app.name": "je-tools audit",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # Plans that change while they run cost more than they save: an audit has few tasks.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # On a TCP socket each task's results wait some 40 ms for an acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java options of the driver. An audit is over before the better compiler has paid off."""

_LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # On a cluster, our code may arrive only with the tasks, after the daemon has started.
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

OnProgress = Callable[[int, int], None]


def with_tries(master: str) -> str:
    """Add the number of tries to a master on this machine that does not state it.

    A master without a valid number of threads is left as it is: Spark reports the error.
    """
    if master == "local":
        master = "local[1]"
    return _LOCAL.sub(rf"local[\1,{LOCAL_TRIES}]", master)


_LOCAL = re.compile(r"^local\[(\*|[1-9][0-9]*)\]$")


def _stop(context: Any) -> None:
    """Stop Spark, if it still runs.

    This needs a thread of its own, with its own connection to Java: a thread that was interrupted
    while Java answered has left the answer in its connection.
    """
    thread = threading.Thread(target=_stop_here, args=(context,))
    thread.start()
    thread.join()


def _stop_here(context: Any) -> None:
    # All work given to Spark is done, or its failure is reported to the caller. Stopping fails if
    # Java has ended, and PySpark would warn of it.
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        context.stop()


def is_of_spark(error: Exception) -> bool:
    """Return True if the error means that Spark, or work done in it, has failed."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    # The last two come from the connection to a Java that has ended.
    return isinstance(error, Py4JError | PySparkException | ConnectionError | EOFError)


def why_failed(error: Exception) -> str:
    """Return the line that explains an error for which `is_of_spark` is true."""
    from py4j.protocol import Py4JError, Py4JJavaError

    if isinstance(error, Py4JJavaError):
        return failure_in(str(error.java_exception))
    if isinstance(error, Py4JError | ConnectionError | EOFError):
        return "its Java has ended"
    return failure_in(str(error))


def failure_in(text: str) -> str:
    """Return the line of a failed job's text that explains it: Python's, if it comes from there."""
    reported = [*_OF_PYTHON.finditer(text), *_OF_WORKER.finditer(text)]
    reason = (
        reported[-1][1] if reported else _THROWN_BY.sub("", _OF_TASK.sub("", first_words(text)))
    )
    return reason + next((f"; {hint}" for words, hint in _HINTS.items() if words in text), "")


@contextmanager
def open_spark(
    folder: Path, log: Path, master: str | None, settings: dict[str, str]
) -> Iterator[Any]:
    """Start Spark and yield its context; one that already runs in this process is left running.

    Args:
        folder: existing folder for the settings of Spark's log.
        log: file for all output of Spark and Java. A Java that an earlier session of this process
            has left is used again, and keeps its log.
        master: Spark master; None for all cores of this machine, or what spark-submit chose.
        settings: settings of the user, which override those here.

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
        yield active
        return
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    is_local = not is_submitted and (master or LOCAL_MASTER).startswith("local")
    if not is_submitted:
        check_java()
        if is_local:
            # Otherwise Spark uses the python3 on the PATH, which may not have je-tools.
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
        try:
            yield context
        finally:
            _stop(context)


@contextmanager
def _safe_path(is_wanted: bool) -> Iterator[None]:
    """Keep processes that the block starts from loading modules out of the working directory."""
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
    """Hold SIGINT and SIGTERM back until the block ends: around a fork Python forgets them."""
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
    """Check for a Java that Spark runs on, found as Spark's own scripts find it.

    Raises:
        InputError: there is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    needed = f"Spark needs Java {JAVA_MIN} or newer"
    if java is None:
        raise InputError(f"{needed}, but there is no java on the PATH; set JAVA_HOME")
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        where = f"JAVA_HOME is {home}" if home else f"{java} on the PATH"
        raise InputError(f"{needed}; {where}, but it does not run: {error}") from error
    found = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)
    if found is None or int(found[1]) < JAVA_MIN:
        version = found[1] if found else "unknown"
        raise InputError(f"{needed}; {java} is Java {version}. Set JAVA_HOME to a newer one")


@contextmanager
def tracked(context: Any, on_progress: OnProgress | None) -> Iterator[None]:
    """Report the done and total tasks of the running stages while the block runs."""
    if on_progress is None:
        yield
        return
    stopped = threading.Event()
    thread = threading.Thread(target=_track, args=(context, on_progress, stopped), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _track(context: Any, on_progress: OnProgress, stopped: threading.Event) -> None:
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError):  # Java has ended: the thread that waits for it reports it
        _track_stages(context.statusTracker(), on_progress, stopped)


def _track_stages(tracker: Any, on_progress: OnProgress, stopped: threading.Event) -> None:
    while not stopped.wait(_TRACKED_SECONDS):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        if known:
            done = sum(stage.numCompletedTasks for stage in known)
            on_progress(done, sum(stage.numTasks for stage in known))


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
    f"/{STAGING_NAME}": "every machine must reach the output by the same path",
}
_NOISE = re.compile(
    r"\s*$|\s+at |\s*\.\.\. \d+ more|WARNING: |Using Spark's|Setting default log level"
    r"|To adjust logging level|\d{4}-\d\d-\d\dT\S+ (WARN|INFO) |Picked up "
)
_OF_PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
_OF_WORKER = re.compile(r"Error from python worker:\n\s*(.*)")
_OF_TASK = re.compile(r"^Job aborted due to stage failure: .*?most recent failure: .*?\): ")
_THROWN_BY = re.compile(r'^(Exception in thread "[^"]*" )?([\w$]+\.)*[\w$]*(Exception|Error): ')


def first_words(text: str) -> str:
    """Return the line of Java's last output that explains its end: the first that is no noise."""
    lines = (line for line in text.splitlines() if not _NOISE.match(line))
    return _THROWN_BY.sub("", next(lines, "")).strip()
