"""A salvage from start to end: read the log, and choose the records that come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from je_tools.core.memory import give_back_memory
from je_tools.core.spill import Spill
from je_tools.log.environment import Environment, check_numbers
from je_tools.output.files.outputs import scratch_directory
from je_tools.salvage.content import Content, read_content
from je_tools.salvage.decision import decide
from je_tools.salvage.extents import Ordered, ordered
from je_tools.salvage.gaps import find_gaps
from je_tools.salvage.lost import excluded_ids, find_dangling
from je_tools.salvage.salvaged import Salvage

if TYPE_CHECKING:
    from je_tools.log.scan import Scanner
    from je_tools.salvage.choice import Mode


def salvage(
    environment: Environment,
    scanner: Scanner,
    mode: Mode,
    *,
    internal: bool = False,
    now_ms: int | None = None,
    directory: Callable[[], Path] | None = None,
) -> Salvage:
    """Read a log, and decide what comes back.

    Args:
        environment: the log; files that cannot be opened count as gaps.
        scanner: reads the files.
        mode: extent of the salvage.
        internal: True to search for lost records of internal databases, too.
        now_ms: time in ms since 1970; records that have expired by then are left out. None leaves
            out none.
        directory: returns the directory for temporary files, if the log needs any; None for the
            system's, outside of the environment.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
        InputError: a file cannot be read, or two have the same number.
        RefusedError: a temporary file cannot be written.
    """
    check_numbers(environment)
    spill = Spill(environment.size, directory or scratch_directory(None, environment))
    content = read_content(environment, scanner, spill, internal=internal)
    give_back_memory()
    gaps = find_gaps(environment, content)
    excluded = excluded_ids(content, mode, internal=internal)
    dangling = find_dangling(environment, scanner, content, spill, excluded, gaps)
    decision = decide(
        content,
        dangling,
        gaps,
        spill,
        mode,
        ends_until=_where_ends_may_be(environment, content),
        threads=scanner.thread_count(),
    )
    return Salvage(environment, mode, internal, content, dangling, decision, now_ms, scanner.pace)


def _where_ends_may_be(environment: Environment, content: Content) -> Ordered:
    """Return the sorted LSNs at which unreadable places begin that may hold transaction ends."""
    closed = np.array([file.file_no for file in environment.unreadable], np.uint64)
    return np.sort(np.concatenate((ordered(content.readable.ends), closed << np.uint64(32))))
