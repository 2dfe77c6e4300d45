"""Options of the commands that erase, and the signals that end them at a safe point."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from je_tools.commands._findings import findings_option
from je_tools.commands._options import (
    exit_zero_option,
    format_option,
    option_group,
    output_option,
    threads_option,
)
from je_tools.commands._snapshot import home_argument
from je_tools.errors import UsageError
from je_tools.output.formats import ROWS

if TYPE_CHECKING:
    from je_tools.erase.options import ErasureOptions


class EraseOptions(TypedDict):
    """Options of a plan or a run."""

    path: Path
    checkpoint_first: bool
    force: bool
    vlsn_below: int | None
    period_ms: int | None
    keep_reserved: bool
    rewritten: tuple[str, ...]
    threads: int
    max_rate: int | None
    format_: str
    output: Path | None
    findings_path: Path | None
    exit_zero: bool


def _period(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """Return a period such as `30d` in milliseconds.

    Raises:
        UsageError: the text is not a period.
    """
    from je_tools.erase.options import UNITS_MS

    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,9})([smhdw])", text)
    if match is None or not int(match[1]):
        raise UsageError(f"--period {text}: expected a number and s, m, h, d or w, such as 30d")
    return int(match[1]) * UNITS_MS[match[2]]


_OPTIONS = (
    home_argument,
    click.option(
        "--checkpoint-first",
        is_flag=True,
        help="Write a checkpoint first, so that everything before it can be erased.",
    ),
    click.option(
        "--force",
        is_flag=True,
        help="On a node of a group, let the VLSN index become smaller than 1,000 VLSNs.",
    ),
    click.option(
        "--vlsn-below",
        type=click.IntRange(min=1),
        metavar="VLSN",
        help="On a node of a group, keep the entries from this VLSN on: the last VLSN of the "
        "slowest member, plus one.",
    ),
    click.option(
        "--period",
        "period_ms",
        metavar="TIME",
        callback=_period,
        help="Erase in cycles of this length, such as 30d, and only files that are at least as "
        "old. Every file is erased once in a cycle.",
    ),
    click.option(
        "--keep-reserved",
        is_flag=True,
        help="Leave the files that the cleaner has reserved, instead of deleting them.",
    ),
    click.option(
        "--rewrite",
        "rewritten",
        metavar="DB",
        multiple=True,
        help="Write all nodes of this database anew in the checkpoint, so that no keys of "
        "deleted records are left in them. Can be repeated.",
    ),
    threads_option,
    format_option(*ROWS),
    output_option,
    findings_option,
    exit_zero_option,
)
erase_options = option_group(*_OPTIONS)
"""The environment, and the options of a plan or a run."""


def chosen_erasure(options: EraseOptions) -> ErasureOptions:
    """Return the options of the erasure, with the files that `erase abort` protects."""
    from je_tools.erase.control_files import interrupted_names, protected_names
    from je_tools.erase.options import ErasureOptions

    home = options["path"]
    return ErasureOptions(
        checkpoint_first=options["checkpoint_first"],
        force=options["force"],
        vlsn_below=options["vlsn_below"],
        period_ms=options["period_ms"],
        keep_reserved=options["keep_reserved"],
        protected=_numbers(protected_names(home)),
        interrupted=_numbers(interrupted_names(home)),
        rewritten=frozenset(options["rewritten"]),
    )


def _numbers(names: Collection[str]) -> frozenset[int]:
    """Return the numbers of log files from their names."""
    return frozenset(int(name[:8], 16) for name in names)


class StopRequest:
    """A request to stop at the next safe point.

    Attributes:
        exit_code: exit code that the signal demands; None without one.
    """

    def __init__(self) -> None:
        self.exit_code: int | None = None

    def note(self, number: int, _frame: object) -> None:
        """Note a signal."""
        self.exit_code = 128 + number

    @property
    def is_made(self) -> bool:
        """True once a signal has arrived."""
        return self.exit_code is not None


@contextmanager
def stopping_on_signals() -> Iterator[StopRequest]:
    """Let SIGTERM and Ctrl-C request a stop instead of ending the process."""
    request = StopRequest()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, request.note) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
