"""How Spark is started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from je_tools.audit.session import interrupts_later


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
    yield forks
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
