"""Scanners of logs with the threads and the rate of the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict

from msgspec.structs import asdict

from je_tools.commands._progress import Stages, staged_bar

if TYPE_CHECKING:
    from je_tools.core.pace import Pace
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner


class ReadingOptions(TypedDict):
    """Options of the command line that every command on a log has."""

    threads: int
    max_rate: int | None


def chosen_pace(rate: int | None) -> Pace | None:
    """Return the limit that `--max-rate` selects."""
    if rate is None:
        return None
    from je_tools.core.pace import Pace

    return Pace(rate)


def chosen_scanner(
    options: ReadingOptions, progress: Callable[[int], None] | None = None
) -> Scanner:
    """Return a scanner with `--threads` and `--max-rate`.

    Args:
        options: options of the command line.
        progress: called with the number of bytes read since its last call.
    """
    from je_tools.log.scan import Scanner

    pace = chosen_pace(options["max_rate"])
    return Scanner(threads=options["threads"], wide=True, pace=pace, progress=progress)


@contextmanager
def staged_scanner(
    environment: Environment, options: ReadingOptions, label: str = "reading"
) -> Iterator[tuple[Scanner, Stages]]:
    """Yield a scanner, as of `chosen_scanner`, whose progress a bar shows, and the bar's callbacks.

    Args:
        environment: the log.
        options: options of the command line.
        label: name of the first part of the work.
    """
    from je_tools.log.scan import Scanner

    with staged_bar(environment.size, label) as stages:
        pace = chosen_pace(options["max_rate"])
        yield Scanner(threads=options["threads"], wide=True, pace=pace, **asdict(stages)), stages
