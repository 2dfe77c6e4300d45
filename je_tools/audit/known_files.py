"""Results of files from earlier runs, which count as long as the files are unchanged.

Whether a file is unchanged is judged by its size, its time of change, and checksums of its first
and last bytes; on request by a checksum of all its bytes. The log of an engine is written at its
end only, but a rollback and an eraser change flags and bytes in place. They change the time too.
Of a file in an object store, the tag that the store gives its content takes the place of checksums.
Checksums of the last file are kept as well, since its tag does not tell whether it has only grown.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from crc32c import crc32c
from msgspec import Struct
from msgspec.structs import replace

from je_tools.audit.known_codec import decoded, encoded
from je_tools.audit.tables import TXNS, ResultSource
from je_tools.formats.files.remote_path import RemotePath
from je_tools.formats.je.log.walk import NO_OFFSET

if TYPE_CHECKING:
    from je_tools.audit.audited_rows import AuditedRows
    from je_tools.log.file_scan import ScanPart
    from je_tools.log.log_files import LogFile
    from je_tools.verify.judge import RowInspector

ROWS_NAME = "environment"
"""File of an environment with its rows; see `known_environments`."""

SUMMED_SIZE = 4096
"""Bytes at the start and at the end of a file that are always summed."""

SETTLED_NS = 2_000_000_000
"""Age of a change, in ns, after which no other change can have the same time."""

_PIECE = 4 << 20
_ROWS_COMPRESSED = 100


class FileMark(Struct, frozen=True):
    """Marks of a file that differ once it has changed.

    Attributes:
        size: bytes that were read.
        changed_ns: time of change; None if it is so recent that a later change may have the same.
        head, tail: CRC-32C of the first and of the last SUMMED_SIZE bytes; None if a tag is enough.
        whole: CRC-32C of all bytes; None if they were not summed.
        tag: what an object store says of the content, such as an ETag; None if it says nothing.
    """

    size: int
    changed_ns: int | None
    head: int | None
    tail: int | None
    whole: int | None = None
    tag: str | None = None

    def is_same_content(self, other: FileMark) -> bool:
        """Return whether two files of one size have the same content, whenever it was written."""
        if self.tag is not None or other.tag is not None:
            return self.tag == other.tag and self.whole == other.whole
        return self._sums == other._sums

    def is_begin_of(self, grown: FileMark) -> bool:
        """Return whether a file begins with the bytes of this one.

        Args:
            grown: mark of as many bytes of the file as this one has.
        """
        return self.head is not None and self._sums == grown._sums

    @property
    def _sums(self) -> tuple[int | None, ...]:
        return self.head, self.tail, self.whole


def mark_of(path: Path, size: int, *, is_whole: bool, may_grow: bool = False) -> FileMark:
    """Return the mark of the first `size` bytes of a file.

    Args:
        path: the file.
        size: number of bytes.
        is_whole: True to sum all of them.
        may_grow: True to sum the first and last of them also if there is a tag: the tag does not
            tell whether a file has only grown.

    Raises:
        OSError: the file cannot be read.
    """
    if isinstance(path, RemotePath):
        return _remote_mark(path, size, is_whole=is_whole, may_grow=may_grow)
    with path.open("rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        is_settled = time.time_ns() - status.st_mtime_ns > SETTLED_NS
        head = crc32c(os.pread(file.fileno(), min(SUMMED_SIZE, size), 0))
        start = max(size - SUMMED_SIZE, 0)
        tail = crc32c(os.pread(file.fileno(), size - start, start))
        whole = None
        if is_whole:
            whole = 0
            for at in range(0, size, _PIECE):
                whole = crc32c(os.pread(file.fileno(), min(_PIECE, size - at), at), whole)
        return FileMark(size, status.st_mtime_ns if is_settled else None, head, tail, whole)


def _remote_mark(path: RemotePath, size: int, *, is_whole: bool, may_grow: bool) -> FileMark:
    from je_tools.formats.files.remote_source import RemoteSource

    with RemoteSource(path) as source:
        status = source.status
        changed_ns = int(status.modified or 0) * 10**9
        is_old = status.is_marked and time.time_ns() - changed_ns > SETTLED_NS
        is_settled = status.tag is not None or is_old
        head = tail = whole = None
        if status.tag is None or may_grow:
            head = crc32c(source.read_bytes(0, min(SUMMED_SIZE, size)))
            tail = crc32c(source.read_bytes(max(size - SUMMED_SIZE, 0), size))
        if is_whole:
            whole = 0
            for at in range(0, size, _PIECE):
                whole = crc32c(source.read_bytes(at, min(at + _PIECE, size)), whole)
    return FileMark(size, changed_ns if is_settled else None, head, tail, whole, status.tag)


class KnownFile(Struct, frozen=True):
    """Results of a file.

    Attributes:
        mark: shows whether they still count.
        version: log version as which it was read.
        is_upgrade_asked, is_last: of the inspector of its rows.
        parts: all its parts, the last with its end.
        txns: its whole transactions, an Arrow IPC stream with the schema of `tables.TXNS`.
    """

    mark: FileMark
    version: int
    is_upgrade_asked: bool
    is_last: bool
    parts: tuple[ScanPart[AuditedRows], ...]
    txns: bytes


class KnownFiles(Struct, frozen=True):
    """Results of the files of all environments, from earlier runs.

    Attributes:
        folder: folder that holds them.
        is_used: False to read every file anew.
        is_whole: True to compare all bytes of files.
    """

    folder: Path
    is_used: bool = True
    is_whole: bool = False

    def of(self, home: Path) -> KnownEnvironment:
        """Return those of one environment.

        Args:
            home: absolute path of its directory, or of the first of its files.
        """
        return KnownEnvironment(self, self.folder / _digest(home))

    def remove_others(self, homes: Iterable[Path]) -> None:
        """Remove what is known of other environments than these."""
        wanted = set(map(_digest, homes))
        for folder in self.folder.glob("*"):
            if folder.name not in wanted:
                shutil.rmtree(folder, ignore_errors=True)


class KnownEnvironment(Struct, frozen=True):
    """Results of the files of one environment; `folder` need not exist."""

    all: KnownFiles
    folder: Path

    def find(self, file: LogFile, inspector: RowInspector) -> tuple[KnownFile, ResultSource] | None:
        """Return the results of a file that is unchanged, or has only grown; None without any."""
        known = self._load(file) if self.all.is_used else None
        if known is None or (known.version, known.is_upgrade_asked) != (
            file.version,
            inspector.is_upgrade_asked,
        ):
            return None
        was = known.mark
        is_last = file.file_no == inspector.last_no
        if file.size < was.size or (is_last and not known.is_last):
            return None
        has_grown = file.size > was.size
        if has_grown and not _can_grow(known):
            return None
        is_whole = self.all.is_whole
        try:
            now = mark_of(file.path, was.size, is_whole=is_whole, may_grow=has_grown)
        except OSError:
            return None
        if not is_whole:
            was = replace(was, whole=None)
        if has_grown:
            return (known, ResultSource.GROWN) if was.is_begin_of(now) else None
        is_same = was.changed_ns is not None and now.changed_ns == was.changed_ns
        return (known, ResultSource.KNOWN) if is_same and was.is_same_content(now) else None

    def keep(
        self,
        file: LogFile,
        inspector: RowInspector,
        parts: Sequence[ScanPart[AuditedRows]],
        txns: Sequence[Any],
        begun_ns: int | None,
    ) -> None:
        """Keep the results of a file for the next run.

        Args:
            file: the file.
            inspector: inspector of its rows.
            parts: all its parts, the last with its end.
            txns: tables of its whole transactions.
            begun_ns: its time of change before it was read; None if it is unknown.
        """
        end = parts[-1].end
        if end is None:
            return
        is_last = file.file_no == inspector.last_no
        try:
            mark = mark_of(file.path, end.size, is_whole=self.all.is_whole, may_grow=is_last)
            if mark.changed_ns != begun_ns:
                mark = replace(mark, changed_ns=None)
            known = KnownFile(
                mark,
                file.version,
                inspector.is_upgrade_asked,
                is_last,
                tuple(parts),
                stream_of(txns, TXNS.schema),
            )
            self._save(file, known)
        except OSError:
            # The file has gone, or the folder is full: the next run reads the file anew.
            return

    @property
    def rows_path(self) -> Path:
        """Path of the file with the rows of the environment."""
        return self.folder / ROWS_NAME

    def remove_others(self, files: Iterable[LogFile], names: Iterable[str] = ()) -> None:
        """Remove what is known of other files than these, and files of other names."""
        wanted = {self._path(file).name for file in files} | {ROWS_NAME, *names}
        for path in self.folder.glob("*"):
            if path.name not in wanted:
                path.unlink(missing_ok=True)

    def _path(self, file: LogFile) -> Path:
        return self.folder / _digest(file.path)

    def _load(self, file: LogFile) -> KnownFile | None:
        try:
            data = self._path(file).read_bytes()
        except OSError:
            return None
        known = decoded(data)
        return known if isinstance(known, KnownFile) else None

    def _save(self, file: LogFile, known: KnownFile) -> None:
        path = self._path(file)
        self.folder.mkdir(exist_ok=True)
        half = path.with_name(f".{secrets.token_hex(8)}")
        half.write_bytes(encoded(known))
        half.replace(path)


def _can_grow(known: KnownFile) -> bool:
    """Return True if a scan of the rest of the file gives what a scan of the whole would."""
    end = known.parts[-1].end
    return (
        end is not None
        and end.last != NO_OFFSET
        and end.shift == 0
        and not (end.gaps or end.chain_breaks or end.bad or end.unreadable)
    )


def stream_of(tables: Sequence[Any], schema: Any) -> bytes:
    """Return tables of a schema as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    # Compression costs more than it saves in a table of a few rows.
    is_large = sum(table.num_rows for table in tables) > _ROWS_COMPRESSED
    options = pa.ipc.IpcWriteOptions(compression="lz4" if is_large else None, use_threads=False)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for table in tables:
            writer.write_table(table)
    return bytes(sink.getvalue())


def txn_table(data: bytes, env: str) -> Any:
    """Return the transactions in an Arrow IPC stream as a table, for an environment of a name."""
    table = pa.ipc.open_stream(data).read_all()
    place = table.schema.get_field_index("env")
    return table.set_column(place, "env", pa.repeat(env, table.num_rows))


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(str(path))).hexdigest()[:32]
