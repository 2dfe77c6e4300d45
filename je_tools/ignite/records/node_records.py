"""Records of all caches of a node as recovery would leave them, in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.core.escaping import counted
from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.types import PartitionState
from je_tools.ignite.caches import CacheFolder, cache_folders
from je_tools.ignite.logical.entries import METASTORAGE_ID
from je_tools.ignite.pages.files import FileKind, PageFile, page_folder
from je_tools.ignite.records.merge import CacheRecords, PartitionOverlay
from je_tools.ignite.records.metastorage import unlogged_groups
from je_tools.ignite.records.partition_records import PartitionPlace, PartitionRecords
from je_tools.ignite.records.problems import MissingRecords, RecordProblem, log_problem

if TYPE_CHECKING:
    from je_tools.ignite.records.recovered import RecoveredNode
    from je_tools.ignite.store import Node

_OWNED_OR_UNKNOWN = (PartitionState.OWNING.name, PartitionState.UNKNOWN.name)


class CacheFilter(Struct, frozen=True):
    """Caches and partitions to read.

    Attributes:
        ids: ids of caches and groups; empty for all.
        partitions: numbers; empty for all.
    """

    ids: frozenset[int] = frozenset()
    partitions: frozenset[int] = frozenset()

    def wants_group(self, group: str) -> bool:
        """Return True if all caches of a group are wanted."""
        return not self.ids or cache_id(group) in self.ids

    def caches_of(self, folder: CacheFolder) -> list[int]:
        """Return the ids of the wanted caches of a folder."""
        ids = [cache_id(name) for name in folder.configured]
        if self.wants_group(folder.group):
            return ids
        return [each for each in ids if each in self.ids]

    def wants(self, partition: int) -> bool:
        """Return True if a partition is wanted."""
        return not self.partitions or partition in self.partitions


class _Group(Struct, frozen=True):
    """A cache group that is read.

    Attributes:
        name: its name.
        caches: ids of the wanted caches.
        is_whole: True if all of its caches are wanted.
        is_big: True if the writer's numbers have the highest byte first.
        files: its files, by partition.
    """

    name: str
    caches: tuple[int, ...]
    is_whole: bool
    is_big: bool
    files: Mapping[int, PageFile]


class NodeRecords:
    """Reader of the records of a node.

    Attributes:
        problems: what could not be read so far.
        not_owned: groups and partitions read so far whose state is not OWNING, with the state.
        known: partitions of the wanted caches so far, wanted or not.
    """

    def __init__(self, node: Node, recovered: RecoveredNode, wanted: CacheFilter) -> None:
        """Make a reader.

        Args:
            node: the node.
            recovered: what recovery does.
            wanted: caches and partitions to read.
        """
        self.problems: list[MissingRecords] = []
        self.not_owned: list[tuple[str, int, str]] = []
        self.known: set[int] = set()
        self._node = node
        self._recovered = recovered
        self._wanted = wanted
        self._groups: dict[str, _Group] = {}
        self._judge_log()

    def _judge_log(self) -> None:
        logical, name = self._recovered.logical, self._node.name
        found = log_problem(name, logical.end)
        self.problems += [] if found is None else [found]
        if logical.undecodable:
            text = f"of the log, {counted(logical.undecodable, 'record')} cannot be decoded"
            self._add(RecordProblem.LOG_UNDECODABLE, logical.undecodable, text)
        if logical.encrypted:
            text = f"encrypted entries of the log that are left out: {logical.encrypted:,}"
            self._add(RecordProblem.ENCRYPTED, logical.encrypted, text)
        if self._recovered.problem is not None:
            text = f"the pages are those of two checkpoints: {self._recovered.problem}"
            self._add(RecordProblem.PAGES_MIXED, 1, text)

    def _add(self, problem: RecordProblem, count: int, text: str) -> None:
        """Add a problem of the whole node."""
        name = self._node.name
        self.problems.append(MissingRecords(problem, name, None, None, count, text))

    def _add_unlogged(self, group: str) -> None:
        text = (
            "the log was off for the group when the node stopped: its pages may be of several "
            "states, and recovery leaves them as they are"
        )
        found = MissingRecords(RecordProblem.UNLOGGED, self._node.name, group, None, 1, text)
        self.problems.append(found)

    def _add_unconfigured(self, group: str | None, count: int, found: str) -> None:
        text = (
            f"{found} left out. A node starts without the cache, unless another node of its "
            "cluster has the configuration"
        )
        problem = RecordProblem.UNCONFIGURED
        self.problems.append(MissingRecords(problem, self._node.name, group, None, count, text))

    def batches(self) -> Iterator[CacheRecords]:
        """Yield the records by group and partition: those of pages, then those of the log.

        Raises:
            InputError: a folder cannot be read.
            RefusedError: a temporary file cannot be read.
            StoppedError: a file shrank, vanished or was replaced while it was read.
        """
        for each in self.partitions():
            yield from each.batches()
            place = each.place
            state = self._recovered.state_of(place.group_id, place.partition, each.stored)
            if state not in _OWNED_OR_UNKNOWN:
                self.not_owned.append((place.group, place.partition, state))

    def partitions(self) -> Iterator[PartitionRecords]:
        """Yield a reader of each partition, by group and number.

        Raises:
            InputError: a folder cannot be read.
            StoppedError: a file shrank, vanished or was replaced while it was read.
        """
        assert self._node.db is not None
        files: dict[str, dict[int, PageFile]] = {}
        is_big = False
        for file in page_folder(self._node).files:
            is_big = is_big or (file.header is not None and file.header.is_big)
            if file.kind is FileKind.PARTITION:
                files.setdefault(file.group, {})[file.partition] = file
        unlogged = unlogged_groups(self._node, self._recovered)
        for folder in cache_folders(self._node.db):
            caches = self._wanted.caches_of(folder)
            is_whole = self._wanted.wants_group(folder.group)
            if is_whole and folder.group in files and not folder.configured:
                count = len(files[folder.group])
                found = f"cache_data.dat is gone: {counted(count, 'partition')}"
                self._add_unconfigured(folder.group, count, found)
            if caches:
                if cache_id(folder.group) in unlogged:
                    self._add_unlogged(folder.group)
                known = files.get(folder.group, {})
                group = _Group(folder.group, tuple(caches), is_whole, is_big, known)
                self._groups[group.name] = group
                yield from self._partitions_of(group)
        if not self._wanted.ids:
            self._judge_logged()

    def _partitions_of(self, group: _Group) -> Iterator[PartitionRecords]:
        recovered, updates = self._recovered, self._recovered.logical.updates
        number = cache_id(group.name)
        self._judge_files(group.name, group.files)
        logged = {partition for cache, partition in updates.places if cache in group.caches}
        present = logged | set(recovered.partitions_of(number)) | set(group.files)
        self.known |= present | recovered.rows_at_checkpoint(number).keys()
        unconfigured: Counter[int] = Counter()
        for partition in sorted(present):
            if self._wanted.wants(partition) and not recovered.is_gone(number, partition):
                reader = self.partition(group.name, partition)
                yield reader
                unconfigured += reader.unconfigured
        self._add_rows_of(group.name, unconfigured, "row")

    def _add_rows_of(self, group: str | None, rows: Counter[int], noun: str) -> None:
        """Add a problem if there are rows of caches, by id, without a configuration."""
        if rows.total():
            ids = ", ".join(str(cache) for cache, count in sorted(rows.items()) if count)
            found = f"{counted(rows.total(), noun)} of caches without cache_data.dat (id {ids})"
            self._add_unconfigured(group, rows.total(), found)

    def _judge_logged(self) -> None:
        """Add a problem if the log has records of caches without a configuration."""
        assert self._node.db is not None
        folders = cache_folders(self._node.db)
        known = {cache_id(name) for each in folders for name in each.configured} | {METASTORAGE_ID}
        updates = self._recovered.logical.updates
        found: Counter[int] = Counter()
        for cache, partition in updates.places:
            if cache not in known and self._wanted.wants(partition):
                removed = updates.of_partition(cache, partition).is_removed
                found[cache] += int(np.count_nonzero(~removed))
        self._add_rows_of(None, found, "logged record")

    def partition(self, group: str, partition: int) -> PartitionRecords:
        """Return a new reader of a partition that `partitions` has yielded."""
        found, recovered = self._groups[group], self._recovered
        place = PartitionPlace(
            self._node.name,
            group,
            partition,
            caches=found.caches,
            is_whole=found.is_whole,
            is_big=found.is_big,
        )
        return PartitionRecords(
            place,
            found.files.get(partition),
            recovered.changed(cache_id(group), partition),
            PartitionOverlay(recovered.logical.updates, found.caches, partition),
            self.problems,
        )

    def _judge_files(self, name: str, files: Mapping[int, PageFile]) -> None:
        """Add partitions with rows at the newest checkpoint whose files or pages are gone."""
        group = cache_id(name)
        rows = self._recovered.rows_at_checkpoint(group)
        stored = {number for number, file in files.items() if not file.is_without_pages}
        known = stored | set(self._recovered.partitions_of(group))
        for partition in sorted(rows.keys() - known):
            is_gone = self._recovered.is_gone(group, partition)
            if rows[partition] and self._wanted.wants(partition) and not is_gone:
                count = counted(rows[partition], "row")
                what = "a file without pages" if partition in files else "no file"
                text = f"{what}; the newest checkpoint counted {count} in it"
                place = (self._node.name, name, partition, rows[partition])
                self.problems.append(MissingRecords(RecordProblem.FILE, *place, text))
