"""Options, outputs and messages that the commands on Ignite's stores share."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, TypedDict

import click

from je_tools.commands._options import (
    A_PATH,
    F,
    chosen_file_mode,
    file_mode_option,
    option_group,
    output_file_outside,
)
from je_tools.commands._terminal import say, terminal_width
from je_tools.core.escaping import clean_text
from je_tools.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from je_tools.ignite.records.problems import MissingRecords
    from je_tools.ignite.store import Store
    from je_tools.output.views.sections import Section

PROBLEMS_SHOWN = 20
"""Largest number of problems on standard error."""


class StoreOptions(TypedDict):
    """Options that every command on a store has."""

    paths: tuple[Path, ...]
    nodes: tuple[str, ...]
    format_: str
    output: Path | None
    threads: int
    exit_zero: bool


store_argument = click.argument(
    "paths", metavar="STORE", type=A_PATH, callback=lambda _context, _argument, path: (path,)
)
"""A work directory, its folder db, or the folder of a node."""

segments_argument = click.argument(
    "paths", metavar="STORE|SEGMENT...", nargs=-1, required=True, type=A_PATH
)
"""A store, as `store_argument`, or folders and files of segments."""

node_option = click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NAME",
    help="Read only this node: the name of its folder.",
)


cache_option = click.option(
    "--cache", "caches", multiple=True, metavar="NAME", help="Cache or group, by name or id."
)


def partition_option(note: str = "") -> Callable[[F], F]:
    """Return the option `--partition`; its help ends with `note`."""
    return click.option(
        "--partition",
        "partitions",
        type=click.IntRange(0, 65535),
        multiple=True,
        metavar="N",
        help=f"Number of a partition{note}.",
    )


output_option = option_group(output_file_outside("store"), file_mode_option)
"""`--output` and `--file-mode`."""


def thread_count(threads: int) -> int:
    """Return the number of threads that `--threads` selects."""
    return threads or len(os.sched_getaffinity(0))


@contextmanager
def open_output_outside(path: Path | None, *stores: Store) -> Iterator[BinaryIO]:
    """Open the output of a command, as `open_output` does, which must be outside of its stores.

    Raises:
        RefusedError: `path` exists, lies inside a store, or cannot be written.
    """
    from je_tools.output.files.outputs import open_output

    if path is not None:
        real = path.resolve()
        for root in (root for store in stores for root in store.roots):
            if real.is_relative_to(root.resolve()):
                raise RefusedError(
                    f"{path}: lies inside {root}, which is being read; name a file outside of it"
                )
    with open_output(path, None, chosen_file_mode()) as out:
        yield out


def write_store_report(
    form: str,
    store: Store,
    sections: Sequence[Section],
    out: BinaryIO,
    output: Path | None,
    *,
    facts: Mapping[str, int] | None = None,
    always: str = "",
) -> None:
    """Write what was found in a store.

    Args:
        form: format, one of REPORT.
        store: the store.
        sections: the tables.
        out: where they are written.
        output: file that `out` writes to; None for standard output.
        facts: counts that JSON has beside the tables.
        always: name of a table that is shown even if it has no rows.
    """
    from je_tools.output.views.section_formats import Report, write_sections
    from je_tools.output.views.sections import without_empty_columns

    if form == "table":
        shown = [
            without_empty_columns(each) if each.name == "findings" else each
            for each in sections
            if each.rows or each.name == always
        ]
        write_sections(form, shown, out, terminal_width(output))
    else:
        row = {"store": clean_text(store.name), **(facts or {})}
        Report(row, "store", sections=sections).write(form, out)


def say_problems(problems: Iterable[MissingRecords]) -> None:
    """Say on standard error which records could not be read, and why."""
    from je_tools.ignite.records.problems import merged

    found = merged(problems)
    say_first(
        [problem.text() for problem in found],
        "problems; `je-tools ignite pages verify` reports pages",
    )


def say_first(texts: Sequence[str], what: str) -> None:
    """Say the first of some texts on standard error, and how many more of `what` there are."""
    for text in texts[:PROBLEMS_SHOWN]:
        say(f"je-tools: {text}")
    more = len(texts) - PROBLEMS_SHOWN
    if more > 0:
        say(f"je-tools: and {more:,} more {what}")
