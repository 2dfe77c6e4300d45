"""Tasks of an audit: what executors run, in any process of any machine, perhaps more than once.

A task returns where it has written its results: files in folders that all machines reach. Modules
that read logs are loaded by the tasks that do so, and not by the process that only plans them.
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
from je_tools.audit.known_environments import keep_rows, known_rows, signature_of
from je_tools.audit.linked_files import link_kept
from je_tools.audit.opening import open_found
from je_tools.audit.plan import FilePart, slices_of
from je_tools.audit.staged_rows import StagedRows, unread_environment
from je_tools.audit.table_writer import StagedTables, write_txns
from je_tools.audit.tables import TXNS
from je_tools.audit.task_data import (
    JudgeTask,
    Opened,
    SliceResult,
    SliceTask,
    TakenOver,
    Written,
)
from je_tools.formats.files.remote_path import RemotePath

if TYPE_CHECKING:
    from je_tools.audit.audited_rows import ScannedPart
    from je_tools.audit.discover import FoundEnvironment
    from je_tools.audit.judged_log import FindStakes
    from je_tools.audit.known_files import KnownEnvironment, KnownFiles
    from je_tools.audit.part_scan import PartScanner
    from je_tools.log.environment import Environment


class AuditTasks(Struct, frozen=True):
    """The tasks of a run, and the folders that they use.

    Attributes:
        staging: folder for results of this run.
        known: results of earlier runs.
        stakes_of: finds the stakes of an environment; None to leave them out.
    """

    staging: Path
    known: KnownFiles
    stakes_of: FindStakes | None = None

    def take_over(self, environments: Iterable[FoundEnvironment]) -> TakenOver:
        """Stage the rows of environments that are as an earlier run has read them."""
        staged = StagedTables(self.staging)
        written: Written = []
        left = set()
        for found in environments:
            taken = self._taken_over(found, self._signature(found), staged)
            if taken is None:
                left.add(found.name)
            else:
                written += taken
        return TakenOver([*staged.close(), *written], frozenset(left))

    def audit_small(self, environments: Iterable[FoundEnvironment]) -> Written:
        """Scan and judge environments, one after the other."""
        staged = StagedTables(self.staging)
        written: Written = []
        for found in environments:
            signature = self._signature(found)
            taken = self._taken_over(found, signature, staged)
            if taken is None:
                staged.write(self._audited(found, signature))
            else:
                written += taken
        return [*staged.close(), *written]

    def _signature(self, found: FoundEnvironment) -> bytes | None:
        return signature_of(found, self.known.of(found.paths[0]), repr(self.stakes_of))

    def _taken_over(
        self, found: FoundEnvironment, signature: bytes | None, staged: StagedTables
    ) -> Written | None:
        """Stage the rows of an earlier run, and return their other files; None if there are none.

        Args:
            found: the environment.
            signature: its signature now.
            staged: where rows are staged.
        """
        known = self.known.of(found.paths[0])
        rows = known_rows(known, signature)
        if rows is None:
            return None
        try:
            paths = link_kept(rows.files, known.folder, self.staging / TXNS.name)
        except OSError:
            return None
        staged.write(rows.tables)
        return [(TXNS.name, path) for path in paths]

    def _audited(self, found: FoundEnvironment, signature: bytes | None) -> dict[str, Any]:
        known = self.known.of(found.paths[0])
        if found.kind is EnvironmentKind.IGNITE:
            from je_tools.audit.store_rows import store_rows

            tables = store_rows(found, predicts=self.stakes_of is not None).tables()
        else:
            tables = self._judged(found, known).tables()
        # It must not have changed while it was read.
        if signature == self._signature(found):
            keep_rows(known, signature, tables)
        return tables

    def _judged(self, found: FoundEnvironment, known: KnownEnvironment) -> StagedRows:
        from je_tools.audit.judging import judge
        from je_tools.audit.part_scan import PartScanner

        environment = _opened(found)
        if isinstance(environment, StagedRows):
            return environment
        scanner = PartScanner.of(environment, found.name, known)
        parts = (FilePart(i, (0, 1), file.size) for i, file in enumerate(environment.files))
        rows = judge(scanner, map(scanner.scan, parts), self.staging, self.stakes_of)
        known.remove_others(environment.files)
        return rows

    def open_large(self, found: FoundEnvironment, share: int) -> Opened | Written:
        """Open an environment and cut it into slices, unless it can be taken over."""
        signature = self._signature_of_large(found)
        staged = StagedTables(self.staging)
        taken = self._taken_over(found, signature, staged)
        if taken is not None:
            return [*staged.close(), *taken]
        environment = _opened(found)
        if isinstance(environment, StagedRows):
            staged.write(environment.tables())
            return staged.close()
        scanner = self._scanner(found, environment)
        slices = slices_of(environment.files, share, is_whole=scanner.is_known)
        path = self._pickled((environment, slices))
        return Opened(found, path, len(slices), signature)

    def _signature_of_large(self, found: FoundEnvironment) -> bytes | None:
        """Return the signature of a large environment; None if one task should not find it.

        Many tasks do so instead, each for the files that it scans.
        """
        is_slow = self.known.is_whole or isinstance(found.paths[0], RemotePath)
        return None if is_slow else self._signature(found)

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
        written = staged.close()
        path = self._pickled((results, [path for _, path in written]))
        return SliceResult(opened.found.name, task.number, path, written)

    def judge_large(self, task: JudgeTask) -> Written:
        """Judge a large environment; only the results of one slice are held at a time."""
        from je_tools.audit.judging import judge

        opened = task.opened
        environment, _ = _unpickled(opened.path)
        scanner = self._scanner(opened.found, environment)
        txn_paths: list[str] = []

        def scanned() -> Iterator[ScannedPart]:
            for path in task.paths:
                results, paths = _unpickled(path)
                txn_paths.extend(paths)
                yield from results

        staged = StagedTables(self.staging)
        rows = judge(scanner, scanned(), self.staging, self.stakes_of)
        tables = rows.tables()
        staged.write(tables)
        # It must not have changed while it was read.
        is_same = opened.signature == self._signature_of_large(opened.found)
        signature = opened.signature if is_same else None
        links = keep_rows(scanner.known, signature, tables, [*txn_paths, *rows.txn_paths])
        scanner.known.remove_others(environment.files, [each.name for each in links])
        return [*staged.close(), *((TXNS.name, path) for path in rows.txn_paths)]

    def stage_problems(self, problems: Iterable[UnreadPath]) -> Written:
        """Stage rows for everything that could not even be searched."""
        staged = StagedTables(self.staging)
        for problem in problems:
            staged.write(unread_environment(problem.env, problem.reason).tables())
        return staged.close()

    def _scanner(self, found: FoundEnvironment, environment: Environment) -> PartScanner:
        from je_tools.audit.part_scan import PartScanner

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


def _opened(found: FoundEnvironment) -> Environment | StagedRows:
    """Open an environment; return the rows that say why it cannot be opened."""
    opened = open_found(found)
    if isinstance(opened, UnreadPath):
        return unread_environment(opened.env, opened.reason)
    return opened
