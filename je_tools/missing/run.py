"""Search for losses from missing files: of descriptors, of names, and of each tree.

Source: je-log.md "Where a log ends, and what damage costs".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.errors import InputError
from je_tools.formats.je.header import NULL_LSN
from je_tools.log.environment import Environment, check_numbers
from je_tools.log.file_findings import unreadable_findings
from je_tools.log.images import unchanged
from je_tools.log.names import FIXED_NAMES
from je_tools.missing.file_losses import file_losses, foreign_files, found_at, unnamed_files
from je_tools.missing.losses import DatabaseLoss, LossOptions, LossReport
from je_tools.missing.lost_keys import LossIndex
from je_tools.missing.survivor_counts import SurvivorCounts
from je_tools.missing.tree_search import TreeSearch
from je_tools.recovery.database import ID_DB, NAME_DB
from je_tools.recovery.findings import log_findings
from je_tools.recovery.opening import held_snapshot
from je_tools.salvage.survivors import Survivors, find_survivors

if TYPE_CHECKING:
    from je_tools.log.scan import Scanner
    from je_tools.recovery.snapshot import Snapshot


def report_missing(environment: Environment, scanner: Scanner, options: LossOptions) -> LossReport:
    """Report the losses from files that are missing, or from files to treat as missing.

    Args:
        environment: a whole directory; its unreadable files count as missing.
        scanner: options of the scan.
        options: options of the search.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: two files have the same number.
    """
    check_numbers(environment)
    with ExitStack() as stack:
        try:
            held = held_snapshot(environment, scanner, now_ms=options.now_ms, to_lsn=options.to_lsn)
            snapshot = stack.enter_context(held)
        except InputError as error:
            files = tuple(file_losses(environment, options.without, {}))
            findings = tuple(unreadable_findings(environment))
            return LossReport(files, (), findings, str(error))
        return report_losses(snapshot, options)


def report_losses(snapshot: Snapshot, options: LossOptions) -> LossReport:
    """Report the losses from files that are missing for a snapshot; see `report_missing`."""
    search = _LossSearch(snapshot, options)
    losses = tuple(search.losses())
    places = found_at(snapshot.image, losses)
    foreign = foreign_files(snapshot.environment, losses)
    numbers = [each.file_no for each in foreign if each.file_no is not None]
    files = tuple(file_losses(snapshot.environment, options.without, places, numbers))
    findings = (*log_findings(snapshot), *unnamed_files(snapshot, places), *foreign)
    return LossReport(files, losses, findings)


class _LossSearch(Struct, frozen=True, dict=True):
    """Search for losses.

    Attributes:
        snapshot: the log with all files that exist.
        options: options of the search.
    """

    snapshot: Snapshot
    options: LossOptions

    def losses(self) -> Iterator[DatabaseLoss]:
        """Yield the losses of the databases that lose something."""
        descriptors = self.trees.loss_of(self.snapshot.databases[ID_DB])
        names = self.trees.loss_of(self.snapshot.databases[NAME_DB])
        found = [descriptors, names, *self._of_descriptors(descriptors, names)]
        done = {loss.db_id for loss in found}
        for db_id, database in self.snapshot.databases.items():
            if db_id not in done:
                found.append(self.trees.loss_of(database))
        lost_names = LossIndex.of(names)
        for loss in found if names else ():
            self._find_name(loss, lost_names)
        found = [loss for loss in found if loss]
        if found:
            with unchanged(self.survivors.salvaged.check_files):
                counts = SurvivorCounts(self.snapshot, self.survivors, self.trees.is_gone)
                for loss in found:
                    counts.count(loss)
        yield from found

    @cached_property
    def trees(self) -> TreeSearch:
        """Search of the trees."""
        return TreeSearch(self.snapshot, self.options.without)

    @cached_property
    def survivors(self) -> Survivors:
        """Survivors in the remaining files."""
        snapshot, options = self.snapshot, self.options
        cut = None
        if options.to_lsn is not None:
            cut = (snapshot.end.files[-1].file_no, snapshot.end.next_offset)
        return find_survivors(
            snapshot.environment, snapshot.scanner, options.without, cut, options.directory
        )

    def _of_descriptors(
        self, descriptors: DatabaseLoss, names: DatabaseLoss
    ) -> Iterator[DatabaseLoss]:
        """Yield the databases whose descriptor is lost, and that are named anywhere."""
        if not descriptors:
            return
        snapshot = self.snapshot
        lost = LossIndex.of(descriptors)
        known = dict(snapshot.names)
        if names and not self.options.without:
            # With files treated as missing, the snapshot still reads the names from all files.
            known = {i: each.name for i, each in self.survivors.live().items()} | known
        for number in (text for text in lost.alone if text.lstrip(b"-").isdigit()):
            known.setdefault(int(number), f"id:{int(number)}")
        for db_id, name in known.items():
            lsn = lost.lsn_of(str(db_id).encode())
            database = snapshot.databases.get(db_id)
            if lsn is None and (db_id not in snapshot.names or database is not None):
                continue
            loss = DatabaseLoss(name, db_id, NULL_LSN if lsn is None else lsn)
            if database is not None and self.trees.is_gone(np.array([loss.descriptor_lsn])).all():
                loss.whole_count = snapshot.count(database)
            yield loss

    def _find_name(self, loss: DatabaseLoss, names: LossIndex) -> None:
        """Set whether the name of a database is lost, and its name if the survivors have it."""
        if loss.db_id in FIXED_NAMES:
            return
        name = self.snapshot.names.get(loss.db_id)
        if name is not None:
            key = name.encode("utf-8", "surrogateescape")
            loss.name_lost = names.lsn_of(key) is not None
            return
        known = self.survivors.database(loss.db_id)
        # A removed database has no name that could be lost.
        loss.name_lost = known is None or not known.removed
        if known is not None:
            loss.name = known.name
