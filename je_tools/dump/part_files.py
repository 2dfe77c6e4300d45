"""A dump into a directory of part files, each made of some log files by a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, as_completed
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.core.worker_processes import open_workers, worker_input
from je_tools.dump.entries import Dump, contents
from je_tools.errors import StoppedError
from je_tools.output.files.outputs import PartPath, fsync_file, open_part

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FileState, ScanPart
    from je_tools.log.scan_options import Progress
    from je_tools.output.encoders.entry_sinks import EntrySink
    from je_tools.verify.judge import InspectedRows

PARTS_WANTED = 32
PART_SIZES = (16 << 20, 64 << 20)
"""Smallest and largest size of the log files that become one part, in bytes.

A part may be smaller, and a larger log file is a part by itself. In between, the log is cut into
PARTS_WANTED parts: enough that no process waits long for the last one.
"""


class PartDump(Struct, frozen=True):
    """Writer of the parts of a dump.

    Attributes:
        dump: the dump, read by one thread per part.
        sink: format of a part, whose `encode` is the dump's.
        suffix: suffix of the names of parts.
    """

    dump: Dump[Any]
    sink: EntrySink
    suffix: str

    def write(self, environment: Environment, path: PartPath) -> PartReport:
        """Write one part, from all files of `environment`."""
        report = PartReport()

        def add_range(part: ScanPart[Any], seen: list[InspectedRows]) -> None:
            report.ranges.append((replace(part, results=[]), seen))

        with open_part(path) as out:
            pieces = self.dump.run(environment, report.states.append, add_range)
            self.sink.write_all(contents(pieces), out)
        return report


class PartReport(Struct, frozen=True):
    """Report on the log that was read for a part.

    Attributes:
        states: states of the files that were read to their end.
        ranges: the ranges without their results, each with what the dump's `inspector` returned.
    """

    states: list[FileState] = field(default_factory=list)
    ranges: list[tuple[ScanPart[Any], list[InspectedRows]]] = field(default_factory=list)


def write_parts(
    part_dump: PartDump,
    environment: Environment,
    directory: Path,
    final: Path,
    threads: int,
    progress: Progress | None = None,
) -> list[PartReport]:
    """Write part-00000…, in log order, to an existing directory; return a report for each.

    Args:
        part_dump: writer of the parts.
        environment: the log.
        directory: directory to write to.
        final: path of the directory once all parts are written.
        threads: number of processes that write at once.
        progress: called with the bytes of the log that have become a part.

    Raises:
        RefusedError: a part cannot be written.
        StoppedError: a file shrank, vanished or was replaced, or a process was killed.
    """
    groups = list(_groups(part_dump.dump.wanted_files(environment)))
    names = [f"part-{i:05}{part_dump.suffix}" for i in range(len(groups))]
    paths = [PartPath(directory / name, final / name) for name in names]
    reports: dict[PartPath, PartReport] = {}
    with open_workers(min(threads, len(groups)), part_dump) as pool:
        try:
            running = {
                pool.submit(_write_in_worker, group, path): (group, path)
                for group, path in zip(groups, paths, strict=True)
            }
            for future in as_completed(running):
                group, path = running[future]
                reports[path] = future.result()
                # Sync it in this process, which is idle while the workers continue.
                fsync_file(path)
                if progress:
                    progress(sum(file.size for file in group.files))
        except BrokenExecutor as error:
            reason = "a worker process was killed, perhaps for lack of memory"
            raise StoppedError(f"{environment.name}: {reason}") from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return [reports[path] for path in paths]


def _groups(environment: Environment) -> Iterator[Environment]:
    """Yield the log cut between files; one group without files if there are none."""
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


def _write_in_worker(environment: Environment, path: PartPath) -> PartReport:
    part_dump: PartDump = worker_input()
    return part_dump.write(environment, path)
