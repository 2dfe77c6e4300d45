"""The reader of a store of Apache Ignite: a part of the Python API."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from je_tools.api import arguments as a
from je_tools.api.open_batches import OpenBatches
from je_tools.errors import UsageError
from je_tools.ignite.store import open_store

if TYPE_CHECKING:
    from je_tools.api.arguments import Key, Time
    from je_tools.api.batches import ArrowBatches
    from je_tools.api.store_batches import StoreCall
    from je_tools.ignite.examination import StoreExamination
    from je_tools.ignite.info import NodeInfo
    from je_tools.ignite.recovery.plan import NodePlan


class StoreReader(OpenBatches):
    """A reader of one store of Apache Ignite; `je_tools.open_store` returns it.

    It takes no lock, writes nothing, and holds no file open. Each call reads the store as it is at
    that moment, as a command does. It is a context manager; leaving it closes the batches that are
    still being read.

    Every method raises, in addition to its own errors:
        UsageError: an argument is not valid, or the reader is closed.
        InputError: the store is gone, is none, or cannot be read.
        StoppedError: a file shrank, vanished or was replaced while it was read.

    Damage is not an error: reading resumes after it, and `problems` and `doctor` report it.
    """

    def __init__(
        self,
        paths: a.Paths | Iterable[a.Paths],
        *,
        node: str | Iterable[str] | None = None,
        threads: int = 0,
        data: str = "show",
    ) -> None:
        self._paths = a.local_paths(paths)
        self._nodes = a.texts("node", node)
        self._threads = a.at_least("threads", threads, 0) or len(os.sched_getaffinity(0))
        self._masking = a.masking_argument(data)
        self._problems: dict[str, None] = {}
        super().__init__()
        if not self._paths:
            raise UsageError("no store was named")
        with a.named_arguments():
            self._name = open_store(self._paths, self._nodes).name

    @property
    def name(self) -> str:
        """The store, as its path was given."""
        return self._name

    @property
    def problems(self) -> tuple[str, ...]:
        """Descriptions of what batches of this object could not read, each once, oldest first.

        They are reported when batches are exhausted. An empty tuple says nothing about what was not
        read: only `doctor` examines a whole store.
        """
        return tuple(self._problems)

    def nodes(self) -> list[NodeInfo]:
        """Return the nodes with their caches, folders and locks, as `ignite info` shows them."""
        from je_tools.ignite.info import node_info

        store = self._call().store
        return [node_info(store, each) for each in store.nodes]

    def log(
        self,
        *,
        type: str | Iterable[str] | None = None,
        cache: str | int | Iterable[str | int] | None = None,
        partition: int | Iterable[int] | None = None,
        key: Key | Iterable[Key] | None = None,
        page: str | Iterable[str] | None = None,
        transaction: str | Iterable[str] | None = None,
        from_pointer: str | None = None,
        to_pointer: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        limit: int | None = None,
    ) -> ArrowBatches:
        """Return the records of the write-ahead log, with the columns of `ignite wal dump`.

        A data record has a row for each entry. All filters must hold; of several values of one
        filter, one. They are those of the command.

        Args:
            limit: largest number of rows; None for all.
        """
        from je_tools.api.store_batches import read_log_records
        from je_tools.ignite.wal.record_filters import RecordFilters

        filters = RecordFilters(
            types=a.texts("type", type),
            caches=a.cache_texts("cache", cache),
            partitions=a.numbers("partition", partition),
            keys=tuple(map(a.key_text, a.several(key))),
            pages=a.texts("page", page),
            transactions=a.texts("transaction", transaction),
            from_pointer=from_pointer,
            to_pointer=to_pointer,
            since=a.time_argument("since", since),
            until=a.time_argument("until", until),
        )
        return self._reading(read_log_records(self._call(), filters, a.at_least("limit", limit, 1)))

    def records(
        self,
        cache: str | int | Iterable[str | int] | None = None,
        *,
        partition: int | Iterable[int] | None = None,
    ) -> ArrowBatches:
        """Return the records of caches as recovery would leave them, as `ignite export` does.

        Args:
            cache: names or ids of caches or groups; None for all.
            partition: numbers of partitions; None for all.

        Raises:
            UsageError: also if there is no such cache, at the call, or no such partition, at the
                end.
            InputError: also if the markers do not show where recovery begins.
        """
        from je_tools.api.store_batches import read_cache_records

        caches, partitions = a.cache_texts("cache", cache), a.numbers("partition", partition)
        return self._reading(read_cache_records(self._call(), caches, partitions))

    def pages(
        self,
        *,
        group: str | int | Iterable[str | int] | None = None,
        partition: int | Iterable[int] | None = None,
        page: int | Iterable[int] | None = None,
        type: str | Iterable[str] | None = None,
        key: Key | Iterable[Key] | None = None,
        items: bool = False,
    ) -> ArrowBatches:
        """Return the pages as they are in the files, with the columns of `ignite pages dump`.

        All filters must hold; of several values of one filter, one.

        Args:
            items: also a row for each item of a page; always with `key`.

        Raises:
            UsageError: also if there is no such group, partition or type.
        """
        from je_tools.api.store_batches import read_pages
        from je_tools.ignite.key_filter import parse_keys
        from je_tools.ignite.pages.dump import PageFilters

        with a.named_arguments():
            keys = parse_keys([a.key_text(each) for each in a.several(key)])
        filters = PageFilters(
            partitions=a.numbers("partition", partition),
            pages=a.numbers("page", page),
            types=a.texts("type", type),
            keys=keys,
        )
        groups = a.cache_texts("group", group)
        return self._reading(read_pages(self._call(), groups, filters, items))

    def recovery(self) -> list[NodePlan]:
        """Return what the next start of each node would do, as `ignite recover` shows it.

        `data` does not mask the keys and values in `physical` and `logical`; findings have none.
        """
        from je_tools.ignite.recovery.plan import plan_recovery

        call = self._call()
        return plan_recovery(call.store, call.threads)

    def doctor(self) -> StoreExamination:
        """Read the whole store, and return its state as `doctor` reports it.

        The result has the outcome of each node's next start, all findings on log, markers, pages
        and recovery, and what was not checked.
        """
        from je_tools.ignite.examination import examine_store
        from je_tools.ignite.recovery.rebuilding import rebuilt_files

        call = self._call()
        return examine_store(call.store, call.threads, rebuilt=rebuilt_files)

    def __repr__(self) -> str:
        return f"<je_tools.StoreReader {self._name!r}>"

    def _call(self) -> StoreCall:
        from je_tools.api.store_batches import StoreCall

        if self._is_closed:
            raise UsageError(f"{self._name}: this store is closed; open it again")
        with a.named_arguments():
            store = open_store(self._paths, self._nodes)
        found = self._problems
        return StoreCall(store, self._threads, self._masking, lambda text: found.setdefault(text))
