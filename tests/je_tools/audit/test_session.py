"""Starting Spark: interrupts, error messages and retries."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from je_tools.audit.session import failure_in, first_words, interrupts_later, with_tries


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def interrupted_at_fork(request: pytest.FixtureRequest) -> Iterator[list[int]]:
    """Interrupt this process in an after-fork hook at each fork; yield the interrupted PIDs."""
    forks: list[int] = []
    done: list[bool] = []

    def behind() -> None:
        if not done:
            forks.append(os.getpid())
            os.kill(os.getpid(), request.param)

    os.register_at_fork(after_in_parent=behind)
    # An earlier test's session may have left its own handler.
    handler = signal.signal(request.param, signal.default_int_handler)
    yield forks
    assert signal.signal(request.param, handler) is signal.default_int_handler
    done.append(True)


def fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def fork_and_go_on(reached: list[bool]) -> None:
    with interrupts_later():
        fork()
        reached.append(True)


def test_an_interrupt_while_java_is_started_is_not_lost(interrupted_at_fork: list[int]) -> None:
    """Python prints an exception raised in an after-fork hook, and continues."""
    reached: list[bool] = []
    with pytest.raises(KeyboardInterrupt):
        fork_and_go_on(reached)
    assert reached
    assert interrupted_at_fork


SAID = {
    "Could not parse Master URL: 'foo'": """\
WARNING: Using incubator modules: jdk.incubator.vector
2026-11-21T14:45:15,798 WARN org.apache.spark.util.Utils: Your hostname resolves to a loopback
Exception in thread "main" org.apache.spark.SparkException: Could not parse Master URL: 'foo'
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:12)
\t... 1 more
""",
    "Invalid maximum heap size: -Xmxabc": """\
Invalid maximum heap size: -Xmxabc
Error: Could not create the Java Virtual Machine.
Error: A fatal exception has occurred. Program will exit.
""",
    "Asked to run locally with 0 threads": """\
org.apache.spark.SparkException: Asked to run locally with 0 threads
\tat org.apache.spark.SparkContext$.createTaskScheduler(SparkContext.scala:1)
""",
    "": "WARNING: Using incubator modules: jdk.incubator.vector\n",
}


@pytest.mark.parametrize("words", SAID)
def test_why_spark_did_not_start(words: str) -> None:
    assert first_words(SAID[words]) == words


TASK = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed "
    "4 times, most recent failure: Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.2 executor driver): "
)
BEHIND = "\n\tat org.apache.spark.scheduler.Task.run(Task.scala:147)\n\nDriver stacktrace:"
FAILED = {
    "Python worker exited unexpectedly (crashed)": (
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
    ),
    'Cannot run program "/opt/python": error=2, No such file or directory': (
        'java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory'
    ),
    "ZeroDivisionError: division by zero": """\
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
OSError: not this one

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "worker.py", line 2, in main
    1 / 0
ZeroDivisionError: division by zero
""",
    "FileNotFoundError: [Errno 2] No such file or directory: '/nfs/.a.1f.new/.staging/whole'; "
    "every machine must reach the output by the same path": """\
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
FileNotFoundError: [Errno 2] No such file or directory: '/nfs/.a.1f.new/.staging/whole'
""",
    "/usr/bin/python3: No module named 'je_tools'; executors need je-tools in the Python that "
    "PYSPARK_PYTHON names": """\
org.apache.spark.SparkException: \n\
Error from python worker:
  /usr/bin/python3: No module named 'je_tools'
PYTHONPATH was:
  /opt/spark/python
org.apache.spark.SparkException: EOFException occurred while reading the port number.
""",
}


@pytest.mark.parametrize("words", FAILED)
def test_why_a_job_failed(words: str) -> None:
    assert failure_in(TASK + FAILED[words] + BEHIND) == words


MASTERS = {
    "local": "local[1,4]",
    "local[2]": "local[2,4]",
    "local[*]": "local[*,4]",
    "local[2,1]": "local[2,1]",
    "local[*,9]": "local[*,9]",
    "local[0]": "local[0]",
    "local-cluster[2,1,1024]": "local-cluster[2,1,1024]",
    "spark://local:7077": "spark://local:7077",
    "yarn": "yarn",
}


@pytest.mark.parametrize("master", MASTERS)
def test_tasks_are_tried_again_on_this_machine_too(master: str) -> None:
    assert with_tries(master) == MASTERS[master]
