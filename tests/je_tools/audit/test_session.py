"""How Spark is started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from je_tools.audit.session import first_words, interrupts_later


@pytest.fixture
def interrupted_at_fork(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """An interrupt comes each time that this process forks, in what logging does behind it."""
    forks: list[int] = []

    def behind() -> None:
        if not done:
            forks.append(os.getpid())
            os.kill(os.getpid(), signal.SIGINT)

    done: list[bool] = []
    os.register_at_fork(after_in_parent=behind)
    # A session that an earlier test has left has a handler of its own.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield forks
    signal.signal(signal.SIGINT, handler)
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
    """Python prints what is raised in such a place, and goes on."""
    reached: list[bool] = []
    with pytest.raises(KeyboardInterrupt):
        fork_and_go_on(reached)
    assert reached
    assert interrupted_at_fork
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


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
