"""Tasks of an audit: what executors run, in any process of any machine, perhaps more than once.

A task returns where it has written its results: files in folders that all machines reach.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from je_tools.audit.discover import EnvironmentKind, UnreadPath
from je_tools.audit.environment_rows import EnvironmentRows, unread_environment
from je_tools.audit.judging import judge
from je_tools.audit.known_environments import keep_tables, known_tables, signature_of
from je_tools.audit.opening import open_found
from je_tools.audit.part_scan import PartScanner
from je_tools.audit.plan import FilePart, slices_of
from je_tools.audit.store_rows import store_rows
from je_tools.audit.table_writer import StagedTables, write_txns
from je_tools.audit.tables import TXNS
from je_tools.audit.task_kinds import JudgeTask, Opened, SliceResult, SliceTask, Written

if TYPE_CHECKING:
    from je_tools.audit.discover import FoundEnvironment
    from je_tools.audit.known_files import KnownEnvironment, KnownFiles
    from je_tools.audit.read_logs import Weigh
    from je_tools.audit.work import Scanned
    from je_tools.log.environment import Environment


class Workplace(Struct, frozen=True):
    """Folders of a run, and its tasks.

    Attributes:
        staging: folder for results of this run.
        known: results of earlier runs.
        weigh: finds the stakes of an environment; None to leave them out.
    """

    staging: Path
    known: KnownFiles
    weigh: Weigh | None = None

    def audit_small(self, environments: Iterable[FoundEnvironment]) -> Written:
        """Scan and judge environments, one after the other."""
        staged = StagedTables(self.staging)
        for found in environments:
            staged.write(self._audited(found))
        return staged.close()

    def _audited(self, found: FoundEnvironment) -> dict[str, Any]:
        known = self.known.of(found.paths[0])
        signature = signature_of(found, known, repr(self.weigh))
        tables = known_tables(known, signature)
        if tables is not None:
            return tables
        if found.kind is EnvironmentKind.IGNITE:
            tables = store_rows(found, predicts=self.weigh is not None).tables()
        else:
            tables = self._judged(found, known).tables()
        # It must not have changed while it was read.
        if signature == signature_of(found, known, repr(self.weigh)):
            keep_tables(known, signature, tables)
        return tables

    def _judged(self, found: FoundEnvironment, known: KnownEnvironment) -> EnvironmentRows:
        environment = _opened(found)
        if isinstance(environment, EnvironmentRows):
            return environment
        scanner = PartScanner.of(environment, found.name, known)
        parts = (FilePart(i, (0, 1), file.size) for i, file in enumerate(environment.files))
        rows = judge(scanner, map(scanner.scan, parts), self.staging, self.weigh)
        known.leave(environment.files)
        return rows

    def open_large(self, found: FoundEnvironment, share: int) -> Opened | Written:
        """Open an environment and cut it into slices."""
        environment = _opened(found)
        if isinstance(environment, EnvironmentRows):
            staged = StagedTables(self.staging)
            staged.write(environment.tables())
            return staged.close()
        scanner = self._scanner(found, environment)
        slices = slices_of(environment.files, share, is_whole=scanner.is_known)
        return Opened(found, self._pickled((environment, slices)), len(slices))

    def scan_slice(self, task: SliceTask) -> SliceResult:
        """Scan a slice of a large environment."""
        opened = task.opened
        environment, slices = _unpickled(opened.path)
        scanner = self._scanner(opened.found, environment)
        staged, results = StagedTables(self.staging), []
        for scanned in map(scanner.scan, slices[task.number]):
            path = None
            if scanned.cut[1] > 1:
                # Whether a range counts is known only when the ranges of its file are joined.
                path = write_txns(self.staging, scanned.txns)
            else:
                for txns in scanned.txns:
                    staged[TXNS.name].write(txns)
            results.append(replace(scanned, txns=(), txns_path=path))
        path = self._pickled(results)
        return SliceResult(opened.found.name, task.number, path, staged.close())

    def judge_large(self, task: JudgeTask) -> Written:
        """Judge a large environment; only the results of one slice are held at a time."""
        environment, _ = _unpickled(task.opened.path)
        scanner = self._scanner(task.opened.found, environment)

        def scanned() -> Iterator[Scanned]:
            for path in task.paths:
                yield from _unpickled(path)

        staged = StagedTables(self.staging)
        rows = judge(scanner, scanned(), self.staging, self.weigh)
        staged.write(rows.tables())
        scanner.known.leave(environment.files)
        return [*staged.close(), *((TXNS.name, path) for path in rows.txn_paths)]

    def stage_problems(self, problems: Iterable[UnreadPath]) -> Written:
        """Stage rows for everything that could not even be searched."""
        staged = StagedTables(self.staging)
        for problem in problems:
            staged.write(unread_environment(problem.env, problem.reason).tables())
        return staged.close()

    def _scanner(self, found: FoundEnvironment, environment: Environment) -> PartScanner:
        return PartScanner.of(environment, found.name, self.known.of(found.paths[0]))

    def _pickled(self, what: Any) -> str:
        """Write an object for another task of this run; return the path."""
        path = self.staging / f"{secrets.token_hex(8)}.pickle"
        with path.open("xb") as out:
            pickle.dump(what, out, pickle.HIGHEST_PROTOCOL)
        return str(path)


def _unpickled(path: str) -> Any:
    with Path(path).open("rb") as file:
        # Written by a task of this run, into a folder of this run.
        return pickle.load(file)


def _opened(found: FoundEnvironment) -> Environment | EnvironmentRows:
    """Open an environment; return the rows that say why it cannot be opened."""
    opened = open_found(found)
    if isinstance(opened, UnreadPath):
        return unread_environment(opened.env, opened.reason)
    return opened
