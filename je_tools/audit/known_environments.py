"""Rows of environments from earlier runs, which count as long as nothing in them has changed.

What lies beside the log files counts too: a lock file, properties, journals. Of a store of Ignite,
all files in its folders count. A store with a node that runs is never taken over, nor one with
links to folders, since what they lead to is not examined here.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from je_tools import __version__
from je_tools.audit.discover import EnvironmentKind
from je_tools.audit.known_codec import with_header, without_header
from je_tools.audit.known_files import SETTLED_NS, KnownEnvironment, mark_of, stream_of
from je_tools.audit.linked_files import LinkedFile, keep_links
from je_tools.audit.staged_members import SCHEMAS
from je_tools.audit.tables import ENVIRONMENTS, FILES, FINDINGS, ResultSource
from je_tools.formats.files.remote_path import FolderEntry, RemotePath, scandir
from je_tools.ignite.info import lock_state
from je_tools.log.file_names import is_jdb_name
from je_tools.verify.judge import LOCK_NAME, lock_holder

if TYPE_CHECKING:
    from je_tools.audit.discover import FoundEnvironment


STORE_SETTLED_NS = 60_000_000_000
"""Age of a change of a store of Ignite, in ns, after which no other can have the same time.

A node writes its log through a map. Linux notes a time when a page of the map becomes dirty, and
none for further writes until the page is written back, which takes about 35 s by default.
"""


_PASSING = frozenset({"live-writer", "unread"})
"""Findings that may pass without a change of any file."""


class _Kept(Struct, frozen=True):
    """Content of the file: a signature, tables as Arrow IPC streams, and kept files."""

    signature: bytes
    tables: dict[str, bytes]
    files: tuple[LinkedFile, ...] = ()


class KnownRows(Struct, frozen=True):
    """Rows of an environment from an earlier run.

    Attributes:
        tables: pyarrow Tables by name.
        files: files with more transactions, in the folder of what is known of it.
    """

    tables: dict[str, Any]
    files: tuple[LinkedFile, ...]


def known_rows(known: KnownEnvironment, signature: bytes | None) -> KnownRows | None:
    """Return the rows of an environment that has not changed since; None if it may have.

    Args:
        known: results of earlier runs.
        signature: of the environment as it is now.
    """
    if signature is None or not known.all.is_used:
        return None
    try:
        data = without_header(known.rows_path.read_bytes())
        kept = msgspec.msgpack.decode(data or b"", type=_Kept)
        if kept.signature != signature:
            return None
        read = {name: pa.ipc.open_stream(data).read_all() for name, data in kept.tables.items()}
    except (OSError, msgspec.MsgspecError, pa.ArrowException):
        return None
    if not {ENVIRONMENTS.name} <= read.keys() <= SCHEMAS.keys():
        return None
    if any(read[name].schema != SCHEMAS[name] for name in read):
        return None
    # Only a store of Ignite has no rows of files.
    if (
        FILES.name not in read
        and EnvironmentKind.IGNITE not in read[ENVIRONMENTS.name]["kind"].to_pylist()
    ):
        return None
    return KnownRows({name: _taken_over(table) for name, table in read.items()}, kept.files)


def _taken_over(table: Any) -> Any:
    """Return a table with `known` in the column `source`, where it says something."""
    place = table.schema.get_field_index("source")
    if place < 0:
        return table
    is_read = table["source"].is_valid()
    sources = pc.if_else(is_read, ResultSource.KNOWN.value, pa.scalar(None, pa.string()))
    return table.set_column(place, table.schema.field(place), sources)


def keep_rows(
    known: KnownEnvironment,
    signature: bytes | None,
    tables: Mapping[str, Any],
    paths: Sequence[str] = (),
) -> tuple[LinkedFile, ...]:
    """Keep the rows of an environment for the next run, unless they may change by themselves.

    They do if an engine writes to it, or if something could not be read.

    Args:
        known: results of earlier runs.
        signature: of the environment before and after it was read; None if they differ.
        tables: its rows.
        paths: finished files with more transactions.

    Returns:
        Links to these files that the rows need.
    """
    path = known.rows_path
    findings = tables.get(FINDINGS.name)
    codes = [] if findings is None else findings["code"].to_pylist()
    if signature is None or not _PASSING.isdisjoint(codes):
        path.unlink(missing_ok=True)
        return ()
    streams = {name: stream_of([table], table.schema) for name, table in tables.items()}
    known.folder.mkdir(exist_ok=True)
    try:
        files = keep_links(paths, known.folder)
    except OSError:
        path.unlink(missing_ok=True)
        return ()
    kept = _Kept(signature, streams, files)
    half = path.with_name(".environment")
    half.write_bytes(with_header(msgspec.msgpack.encode(kept)))
    half.replace(path)
    return files


def signature_of(found: FoundEnvironment, known: KnownEnvironment, options: str) -> bytes | None:
    """Return a signature that changes with an environment; None if a change might not show in it.

    Args:
        found: the environment.
        known: results of earlier runs.
        options: options of the audit on which its tables depend.
    """
    summed = hashlib.sha256()
    try:
        home = found.folders[0]
        if not isinstance(home, RemotePath) and lock_holder(home / LOCK_NAME) is not None:
            return None
        for part in _parts(found, options, is_whole=known.all.is_whole):
            summed.update(msgspec.msgpack.encode(part))
    except (_UnsettledError, OSError):
        return None
    return summed.digest()


class _UnsettledError(Exception):
    """Something has changed so recently that another change could have the same time."""


def _parts(found: FoundEnvironment, options: str, *, is_whole: bool) -> Iterator[tuple[Any, ...]]:
    yield __version__, options, is_whole, found.name, tuple(map(_encoded, found.paths))
    is_store = found.kind is EnvironmentKind.IGNITE
    latest_ns = time.time_ns() - (STORE_SETTLED_NS if is_store else SETTLED_NS)
    for folder, listed in _listed_store(found) if is_store else _listed(found):
        for entry in listed:
            status = entry.stat()
            if status.st_mtime_ns > latest_ns:
                raise _UnsettledError
            mark = None
            if (is_store or is_jdb_name(entry.name)) and entry.is_file():
                mark = mark_of(folder / entry.name, status.st_size, is_whole=is_whole)
                if mark.changed_ns is None:
                    raise _UnsettledError
            yield (
                *(_encoded(folder / entry.name), status.st_mode, status.st_size),
                *(status.st_mtime_ns, status.st_ino, mark),
            )


def _listed(found: FoundEnvironment) -> Iterator[tuple[Path, list[FolderEntry]]]:
    """Yield the folders of an environment with what is in each, in order."""
    for folder in found.folders:
        with scandir(folder) as entries:
            yield folder, sorted(entries, key=lambda entry: entry.name)


def _listed_store(found: FoundEnvironment) -> Iterator[tuple[Path, list[FolderEntry]]]:
    """Yield the folders of a store with what is in each, in order.

    Raises:
        _UnsettledError: a node runs, or may run, or a folder is a link.
    """
    waiting = list(found.paths)
    while waiting:
        folder = waiting.pop()
        with scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        yield folder, listed
        if lock_state(folder).state not in ("free", "no file"):
            raise _UnsettledError
        for entry in listed:
            if entry.is_dir():
                if entry.is_symlink():
                    raise _UnsettledError
                waiting.append(folder / entry.name)


def _encoded(path: Path) -> bytes:
    return os.fsencode(str(path))
