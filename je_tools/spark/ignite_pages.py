"""The format `ignitepages`: pages of stores of Ignite, as `ignite pages verify` reads them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from je_tools.audit.discover import UnreadPath
from je_tools.core.shares import shares_of
from je_tools.errors import InputError
from je_tools.formats.ignite.ids import cache_id
from je_tools.ignite.caches import known_groups, parse_id
from je_tools.ignite.pages.columns import PAGE_SCHEMA, STATES, page_columns
from je_tools.ignite.pages.files import FileKind, PageFile, page_folder
from je_tools.ignite.pages.scan import Block, read_blocks
from je_tools.spark.columns import ENV, chosen, spark_batch, spark_schema
from je_tools.spark.ignite_stores import STORE_PLACES, NodePlace, check_readable, nodes_of
from je_tools.spark.option_texts import one_of
from je_tools.spark.query import (
    COLUMNS,
    TASKS,
    UNREADABLE,
    CommonOptions,
    Relation,
    Task,
    parse_common,
)

if TYPE_CHECKING:
    from je_tools.spark.option_texts import OptionTexts

OPTIONS: Mapping[str, str] = {
    **STORE_PLACES,
    **COLUMNS,
    "group": "Cache groups, or caches without one, by name or id, as a list.",
    "kind": f"Kinds of files, as a list: `{'`, `'.join(FileKind)}`.",
    "partition": "Partitions, as a list; 65535 is that of indexes.",
    "state": f"States of pages, as a list: `{'`, `'.join(STATES)}`.",
    **TASKS,
    **UNREADABLE,
}
"""Every option, and its description."""


class OwnedFile(Struct, frozen=True):
    """A file of pages of a node.

    Attributes:
        env: name of the store.
        node: name of the node.
        path: path below the store.
        file: the file.
    """

    env: str
    node: str
    path: str
    file: PageFile


class PageSelection(Struct, frozen=True):
    """Pages to read; an empty tuple selects all.

    Attributes:
        groups: ids of groups.
        kinds: kinds of files.
        partitions: partitions.
        states: states of pages.
    """

    groups: tuple[int, ...]
    kinds: tuple[FileKind, ...]
    partitions: tuple[int, ...]
    states: tuple[str, ...]

    def wants(self, file: PageFile) -> bool:
        """Return True if pages of a file can be selected."""
        return (
            (not self.groups or cache_id(file.group) in self.groups)
            and (not self.kinds or file.kind in self.kinds)
            and (not self.partitions or file.partition in self.partitions)
        )


class PageTask(Struct, frozen=True):
    """Input of one task; it pickles.

    Attributes:
        files: files to read, those of one store together.
        columns: names of the columns, in order.
        selection: pages to read.
    """

    files: tuple[OwnedFile, ...]
    columns: tuple[str, ...]
    selection: PageSelection

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the pages of each file in their order.

        Raises:
            StoppedError: a file shrank, vanished or was replaced since the task was planned.
            InputError: a file cannot be read to its end.
        """
        schema = chosen(PAGES.schema(), self.columns)
        own = [name for name in self.columns if name != ENV] or ["page"]
        numbers = [STATES.index(state) for state in self.selection.states]
        for owned in self.files:
            for block in read_blocks([owned.file], threads=1):
                if not isinstance(block, Block):
                    raise InputError(f"{owned.env}: {owned.path}: {block[1]}")
                columns = page_columns(block, owned.node, owned.path, own)
                batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
                if numbers:
                    states = pa.array(block.columns.state)
                    batch = batch.filter(_is_in(states, numbers))
                yield spark_batch(batch, owned.env, schema)


def _is_in(states: pa.Array, numbers: list[int]) -> pa.Array:
    import pyarrow.compute as pc

    return pc.is_in(states, value_set=pa.array(numbers, states.type))


class PageQuery(Struct, frozen=True):
    """Parsed options of a read of pages.

    Attributes:
        common: options that all sources have.
        nodes: names and patterns of nodes; empty for all.
        groups: names and ids of groups, as they were given.
        selection: pages to read.
    """

    common: CommonOptions
    nodes: tuple[str, ...]
    groups: tuple[str, ...]
    selection: PageSelection

    def tasks(self, columns: tuple[str, ...], cores: int) -> list[Task]:
        """Return tasks of files that together yield every selected page once.

        Raises:
            UsageError: no store, no node or no group has a name that was asked for.
            InputError: there is no store, or something cannot be read.
        """
        places = self.common.places
        nodes = nodes_of(places, self.nodes)
        known_groups(self.groups, (each.node for each in nodes), "option group:")
        files = [
            file for node in nodes for file in _files_of(node) if self.selection.wants(file.file)
        ]
        check_readable(places, _unreadable(files))
        readable = [each for each in files if each.file.header is not None]
        share = self.common.share(sum(each.file.size for each in readable), cores)
        return [
            PageTask(tuple(group), columns, self.selection)
            for group in shares_of(readable, lambda each: each.file.size, share)
        ]


def _files_of(place: NodePlace) -> Iterator[OwnedFile]:
    if place.node.db is not None:
        for file in page_folder(place.node).files:
            path = place.store.below(file.path)
            yield OwnedFile(place.env, place.node.name, path, file)


def _unreadable(files: list[OwnedFile]) -> Iterator[UnreadPath]:
    """Yield the files whose pages cannot be read: no file beside them has a good header either."""
    for env, own in groupby(files, lambda each: each.env):
        for each in own:
            if each.file.header is None and not each.file.is_empty:
                yield UnreadPath(env, f"{each.path}: {each.file.problem}")


def parse_page_query(texts: OptionTexts) -> PageQuery:
    """Parse the options of `ignitepages`.

    Raises:
        UsageError: a value is not valid.
    """
    return PageQuery(
        parse_common(texts),
        texts.listed("node", str),
        texts.listed("group", str),
        PageSelection(
            groups=texts.listed("group", parse_id),
            kinds=texts.listed("kind", _kind),
            partitions=texts.listed("partition", int),
            states=texts.listed("state", _state),
        ),
    )


def _kind(text: str) -> FileKind:
    return FileKind(one_of(text, tuple(FileKind)))


def _state(text: str) -> str:
    return one_of(text, STATES)


@functools.cache
def _schema() -> pa.Schema:
    return spark_schema(PAGE_SCHEMA)


PAGES = Relation("ignitepages", OPTIONS, _schema, parse_page_query)
"""The format `ignitepages`."""
