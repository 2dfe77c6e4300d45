"""A dump into a directory of files, each made of some log files by a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, as_completed
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from je_tools.dump import Dump, contents
from je_tools.environment import Environment
from je_tools.errors import StoppedError
from je_tools.scan import FileState, Progress
from je_tools.sinks.entries import EntrySink
from je_tools.sinks.output import open_part
from je_tools.workers import open_workers, told

PARTS_WANTED = 32
PART_SIZES = (16 << 20, 256 << 20)
"""Smallest and largest number of bytes of the log files that become one part.

A part may be smaller, and where a log file is larger it is one by itself. In between the log is
cut in PARTS_WANTED: enough that no process waits long for the last one.
"""


@dataclass(frozen=True)
class PartDump:
    """How parts are made.

    Attributes:
        dump: which entries, read by one thread each part.
        sink: the form of a part, whose `encode` is the dump's.
        suffix: of the names of parts.
    """

    dump: Dump[Any]
    sink: EntrySink
    suffix: str

    def write(self, environment: Environment, path: Path) -> list[FileState]:
        """Write one part, from all files of `environment`; the states of these files."""
        states: list[FileState] = []
        with open_part(path) as out:
            self.sink.write_all(contents(self.dump.run(environment, states.append)), out)
        return states


def write_parts(
    part_dump: PartDump,
    environment: Environment,
    directory: Path,
    threads: int,
    progress: Progress | None = None,
) -> list[FileState]:
    """Write part-00000…, in log order, to an existing directory; the states of all files.

    Raises:
        StoppedError: a file shrank, vanished or was replaced, or a process was killed.
    """
    groups = list(_groups(part_dump.dump.wanted_files(environment)))
    paths = [directory / f"part-{i:05}{part_dump.suffix}" for i in range(len(groups))]
    states: dict[Path, list[FileState]] = {}
    with open_workers(min(threads, len(groups)), part_dump) as pool:
        running = {
            pool.submit(_write_in_worker, group, path): (group, path)
            for group, path in zip(groups, paths, strict=True)
        }
        try:
            for future in as_completed(running):
                group, path = running[future]
                states[path] = future.result()
                if progress:
                    progress(sum(file.size for file in group.files))
        except BrokenExecutor as error:
            reason = "a worker process was killed, for lack of memory perhaps"
            raise StoppedError(f"{environment.name}: {reason}") from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return [state for path in paths for state in states[path]]


def _groups(environment: Environment) -> Iterator[Environment]:
    """The log cut between files; one group without files where there are none."""
    files = list(environment.files)
    wanted = min(max(environment.size // PARTS_WANTED, PART_SIZES[0]), PART_SIZES[1])
    for number in count():
        size = 0
        taken = 0
        while taken < len(files) and (not taken or size + files[taken].size <= wanted):
            size += files[taken].size
            taken += 1
        if taken or not number:
            yield replace(environment, files=tuple(files[:taken]))
        del files[:taken]
        if not files:
            return


def _write_in_worker(environment: Environment, path: Path) -> list[FileState]:
    part_dump: PartDump = told()
    return part_dump.write(environment, path)
