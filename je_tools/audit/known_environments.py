"""Rows of environments from earlier runs, which count as long as nothing in them has changed.

What lies beside the log files counts too: a lock file, properties, journals.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from msgspec import Struct

from je_tools import __version__
from je_tools.audit.known_codec import sealed, unsealed
from je_tools.audit.known_files import ROWS_NAME, SETTLED_NS, KnownEnvironment, mark_of, stream_of
from je_tools.audit.staged_members import SCHEMAS
from je_tools.audit.tables import FILES, FINDINGS, ResultSource
from je_tools.formats.files.remote_path import RemotePath, scandir
from je_tools.log.file_names import is_jdb_name
from je_tools.verify.judge import LOCK_NAME, lock_holder

if TYPE_CHECKING:
    from je_tools.audit.discover import FoundEnvironment


class _Kept(Struct, frozen=True):
    """Content of the file: a signature, and tables as Arrow IPC streams."""

    signature: bytes
    tables: dict[str, bytes]


def known_tables(known: KnownEnvironment, signature: bytes | None) -> dict[str, Any] | None:
    """Return the tables of an environment that has not changed since; None if it may have.

    Args:
        known: results of earlier runs.
        signature: of the environment as it is now.
    """
    if signature is None or not known.all.is_used:
        return None
    try:
        data = unsealed((known.folder / ROWS_NAME).read_bytes())
        kept = msgspec.msgpack.decode(data or b"", type=_Kept)
        if kept.signature != signature:
            return None
        read = {name: pa.ipc.open_stream(data).read_all() for name, data in kept.tables.items()}
    except (OSError, msgspec.MsgspecError, pa.ArrowException):
        return None
    if FILES.name not in read or not read.keys() <= SCHEMAS.keys():
        return None
    if any(read[name].schema != SCHEMAS[name] for name in read):
        return None
    files = read[FILES.name]
    place = files.schema.get_field_index("source")
    sources = pa.repeat(ResultSource.KNOWN.value, files.num_rows)
    return read | {FILES.name: files.set_column(place, FILES.schema.field("source"), sources)}


def keep_tables(
    known: KnownEnvironment, signature: bytes | None, tables: Mapping[str, Any]
) -> None:
    """Keep the tables of an environment for the next run, unless an engine writes to it."""
    path = known.folder / ROWS_NAME
    findings = tables.get(FINDINGS.name)
    is_live = findings is not None and "live-writer" in findings["code"].to_pylist()
    if signature is None or is_live:
        path.unlink(missing_ok=True)
        return
    kept = _Kept(
        signature, {name: stream_of([table], table.schema) for name, table in tables.items()}
    )
    known.folder.mkdir(exist_ok=True)
    half = path.with_name(".environment")
    half.write_bytes(sealed(msgspec.msgpack.encode(kept)))
    half.replace(path)


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
    latest_ns = time.time_ns() - SETTLED_NS
    for folder in found.folders:
        with scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            status = entry.stat()
            if status.st_mtime_ns > latest_ns:
                raise _UnsettledError
            mark = None
            if is_jdb_name(entry.name) and entry.is_file():
                mark = mark_of(folder / entry.name, status.st_size, is_whole=is_whole)
            yield (
                *(_encoded(folder / entry.name), status.st_mode, status.st_size),
                *(status.st_mtime_ns, status.st_ino, mark),
            )


def _encoded(path: Path) -> bytes:
    return os.fsencode(str(path))
