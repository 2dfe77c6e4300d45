"""Background work: started at once, its result or error fetched later."""

from __future__ import annotations

from threading import Event, current_thread

import pytest

from je_tools.core.ordered import in_background


def test_what_is_begun_goes_on_beside() -> None:
    may_end = Event()

    def work() -> str:
        may_end.wait(60)
        return current_thread().name

    result = in_background(work)
    may_end.set()
    assert result() == result() != current_thread().name


def test_an_error_comes_to_who_asks_for_the_result() -> None:
    def fail() -> int:
        raise OSError("no")

    result = in_background(fail)
    for _ in range(2):
        with pytest.raises(OSError, match="no"):
            result()
