"""Tables on the inventory of Ignite's stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from je_tools.output.views.ignite_tables import NODE, store_section
from je_tools.output.views.sections import Column, Kind, Section

if TYPE_CHECKING:
    from je_tools.ignite.info import NodeInfo


def _lock(item: NodeInfo) -> str | None:
    return None if item.lock is None else item.lock.state


def _holder(item: NodeInfo) -> str | None:
    return None if item.lock is None else item.lock.detail


_NODES = (
    NODE,
    Column("naming", "id in name", Kind.TEXT, rank=3),
    Column("consistent_id", "consistent id", Kind.TEXT, rank=7),
    Column("lock", "lock", Kind.TEXT, cell=_lock),
    Column("lock_detail", "holder", Kind.TEXT, rank=2, cell=_holder),
    Column("first", "first", Kind.ID),
    Column("last", "last", Kind.ID),
    Column("work", "work", rank=1),
    Column("archive", "archive", rank=1),
    Column("compacted", "compacted", rank=2),
    Column("unused", "unused", rank=4),
    Column("damaged", "damaged", rank=2),
    Column("log_size", "log bytes"),
    Column("is_prefilled", "prefilled", Kind.FLAG, rank=6),
    Column("byte_order", "byte order", Kind.TEXT, rank=8),
    Column(
        "serializers",
        "serializer",
        Kind.TEXTS,
        rank=8,
        cell=lambda item: list(map(str, item.serializers)),
    ),
)

_CACHES = (
    NODE,
    Column("group", "group", Kind.TEXT),
    Column("group_id", "id", Kind.ID, rank=1),
    Column("caches", "caches", Kind.TEXTS, rank=2, cell=lambda item: list(item.caches)),
    Column("is_shared", "shared", Kind.FLAG, rank=4),
    Column("partitions", "partitions"),
    Column("has_index", "index", Kind.FLAG, rank=3),
    Column("size", "bytes"),
    Column("page_size", "page size", rank=1),
    Column("page_version", "file version", rank=6),
)

_FOLDERS = (
    NODE,
    Column("content", "content", Kind.TEXT),
    Column("path", "folder", Kind.PATH),
    Column("files", "files"),
    Column("size", "bytes"),
)

_LEFTOVERS = (NODE, Column("path", "path", Kind.PATH), Column("size", "bytes"))


def info_sections(nodes: Sequence[NodeInfo]) -> list[Section]:
    """Return nodes, caches, folders and leftovers."""
    caches = [each for node in nodes for each in node.caches]
    folders = [each for node in nodes for each in node.folders]
    leftovers = [each for node in nodes for each in node.leftovers]
    return [
        store_section("nodes", "Nodes", _NODES, nodes),
        store_section("caches", "Caches", _CACHES, caches),
        store_section("folders", "Folders", _FOLDERS, folders),
        store_section("leftovers", "Left by unfinished actions", _LEFTOVERS, leftovers),
    ]
