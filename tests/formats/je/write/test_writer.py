"""Appending entries to a log: copies of those of engines, and random ones."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from je_tools.formats.je.entry.entries import decode_entry, encode_item
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.types import ERASED_NO, FILE_HEADER_NO, type_name
from je_tools.formats.je.write.writer import PIECE_SIZE, WRITTEN_MIN, Appender, LogTail
from je_tools.formats.spans import Spans
from tests.builders.logs import CREATED_MS, LogFile
from tests.corpus import Environment, corpus, environment, log_files
from tests.formats.logs import log_rows

FILE_HEADER_SIZE = 38
FILE_MAX = 1_000_000
TRACE_NO, BIN_NO = 24, 13
HAS_VLSN = 0x28


class Log:
    """Files that receive pieces, each at the end of the one before it."""

    def __init__(self, file_no: int, size: int) -> None:
        self.place = file_no, size
        self.pieces: list[tuple[int, int, int]] = []
        self.files: dict[int, bytearray] = {file_no: bytearray()}

    def __call__(self, file_no: int, offset: int, data: bytes) -> None:
        assert data
        if file_no == self.place[0]:
            assert offset == self.place[1]
        else:
            assert (file_no, offset) == (self.place[0] + 1, 0)
        self.place = file_no, offset + len(data)
        self.pieces.append((file_no, offset, len(data)))
        self.files.setdefault(file_no, bytearray()).extend(data)


def items_of(pieces: list[bytes]) -> Spans:
    """Return byte strings as a column, with other bytes between them."""
    data = np.frombuffer(b"".join(b"\xa5" + piece for piece in pieces) or b"\0", np.uint8)
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    return Spans(data, np.cumsum(sizes + 1) - sizes, sizes)


def copy_rows(appender: Appender, rows: Rows) -> Iterator[tuple[int, int]]:
    """Append entries, those without VLSNs in runs; yield the old and the new LSN of each."""
    starts = rows.offset.astype(np.int64) - rows.base + rows.header_size
    has_vlsn = rows.flags & HAS_VLSN != 0
    changes = np.flatnonzero((rows.type[1:] != rows.type[:-1]) | has_vlsn[1:] | has_vlsn[:-1]) + 1
    for run in np.split(np.arange(len(rows)), changes):
        first = int(run[0])
        if has_vlsn[first]:
            fields = decode_entry(rows.entry_bytes(first), rows.version).fields
            name, flags = type_name(int(rows.type[first])), int(rows.flags[first])
            lsns = [appender.append(name, fields, flags=flags, vlsn=int(rows.vlsn[first]))]
        else:
            items = Spans(rows.data, starts[run], rows.item_size[run].astype(np.int64))
            flags_of = rows.flags[run].astype(np.int64)
            lsns = appender.append_items(int(rows.type[first]), items, flags=flags_of).tolist()
        yield from zip(rows.lsn[run].tolist(), lsns, strict=True)


def made_at(data: bytes, created_ms: int) -> bytes:
    """Return a file with another time in its header."""
    header = data[4:14] + created_ms.to_bytes(8, "little") + data[22:FILE_HEADER_SIZE]
    return zlib.adler32(header).to_bytes(4, "little") + header + data[FILE_HEADER_SIZE:]


def end_of(path: Path) -> int:
    """Return the end of the last entry of a file; a crash may have left other bytes after it."""
    return max(int(rows.offset[-1]) + int(rows.size[-1]) for rows in log_rows(path))


class Copied:
    """A log of an engine, rebuilt from its items."""

    def __init__(self) -> None:
        self.flips = 0
        self.files = 0
        self.log: Log | None = None
        self.appender: Appender | None = None
        self.expected: dict[int, bytes] = {}

    def add(self, path: Path) -> None:
        data = path.read_bytes()[: end_of(path)]
        file_no, version = int(path.stem, 16), int.from_bytes(data[34:38], "little")
        appender = self.appender
        if appender is None or appender.tail.file_no + 1 != file_no:
            self.close()
            self.log = Log(file_no, FILE_HEADER_SIZE)
            tail = LogTail(file_no, FILE_HEADER_SIZE, 0, version)
            appender = self.appender = Appender(
                tail, file_max=FILE_MAX, created_ms=CREATED_MS, emit=self.log
            )
            self.expected[file_no] = data[FILE_HEADER_SIZE:]
        else:
            self.expected[file_no] = made_at(data, CREATED_MS)
            self.flips += 1
        for rows in log_rows(path):
            kept = rows.select(np.flatnonzero(rows.type != FILE_HEADER_NO))
            for was, now in copy_rows(appender, kept):
                assert was == now
        self.files += 1

    def close(self) -> None:
        if self.appender is not None and self.log is not None:
            self.appender.flush()
            assert {no: bytes(data) for no, data in self.log.files.items()} == self.expected
            assert self.appender.file_nos == list(self.expected)[1:]
        self.appender, self.expected = None, {}


def is_made_whole(path: Path) -> bool:
    """Return True if the version is writable and no entry erased, which keeps its old checksum."""
    version = int.from_bytes(path.read_bytes()[34:38], "little")
    return version >= WRITTEN_MIN and not any((r.type == ERASED_NO).any() for r in log_rows(path))


def test_the_log_of_an_engine_comes_out_the_same(environment: Environment) -> None:
    """This includes the headers of new files."""
    copied = Copied()
    for path in log_files(environment.home):
        if is_made_whole(path):
            copied.add(path)
    copied.close()


def test_the_engine_began_files_where_we_do() -> None:
    copied = Copied()
    for path in log_files(environment("v17-mixed" if corpus() else "v8-cleaned").home):
        copied.add(path)
    assert copied.flips
    copied.close()


class Beside:
    """The expected output of an appender, built entry by entry."""

    def __init__(self, version: int, file_max: int) -> None:
        self.files = [LogFile(3, version, 0)]
        self.file_max = file_max

    def add(self, type_no: int, item: bytes, flags: int, vlsn: int | None) -> int:
        file = self.files[-1]
        size = len(item) + (14 if vlsn is None else 22)
        if len(file.data) + size > self.file_max and len(file.placed) > 1:
            self.files.append(file.follower())
        file = self.files[-1]
        return file.no << 32 | file.add(type_no, item, flags=flags, vlsn=vlsn).start


@pytest.mark.parametrize("version", [8, 17, 26])
@pytest.mark.parametrize("file_max", [100, 5_000, 3 * PIECE_SIZE])
def test_files_are_as_if_put_together_one_by_one(version: int, file_max: int) -> None:
    rng = random.Random(f"{version}/{file_max}")
    sizes = [0, 1, 30, 200, 4_000, 6_000] + [PIECE_SIZE - 14, PIECE_SIZE, PIECE_SIZE + 9] * (
        file_max > PIECE_SIZE
    )
    log, beside = Log(3, FILE_HEADER_SIZE), Beside(version, file_max)
    tail = LogTail(3, FILE_HEADER_SIZE, 0, version)
    appender = Appender(tail, file_max=file_max, created_ms=CREATED_MS, emit=log)
    bytes_of = Counter[str]()
    for _ in range(30):
        pieces = [rng.randbytes(rng.choice(sizes)) for _ in range(rng.randint(0, 12))]
        flags = [rng.choice([0, 0x80, 0x40]) for _ in pieces]
        lsns = appender.append_items(BIN_NO, items_of(pieces), flags=np.array(flags, np.int64))
        expected = [beside.add(BIN_NO, p, f, None) for p, f in zip(pieces, flags, strict=True)]
        assert lsns.tolist() == expected
        bytes_of["BIN"] += sum(14 + len(piece) for piece in pieces)
        vlsn = rng.choice([None, rng.randint(1, 1 << 40)])
        fields = {"time_ms": rng.randint(0, 1 << 41), "message": "x" * rng.choice([0, 90, 3_000])}
        item = encode_item(TRACE_NO, version, fields)
        flag = 0 if vlsn is None else 0x28
        assert appender.append("Trace", fields, flags=flag, vlsn=vlsn) == beside.add(
            TRACE_NO, item, flag, vlsn
        )
        bytes_of["Trace"] += len(item) + (14 if vlsn is None else 22)
    appender.flush()
    beside.files[0].data = beside.files[0].data[FILE_HEADER_SIZE:]
    made = {file.no: bytes(file.data) for file in beside.files}
    assert {no: bytes(data) for no, data in log.files.items()} == made
    assert appender.file_nos == list(made)[1:]
    last = beside.files[-1]
    next_offset = len(last.data) + (FILE_HEADER_SIZE if last.no == 3 else 0)
    assert appender.tail == LogTail(last.no, next_offset, last.last, version)
    for no, (start, stop) in appender.written.items():
        assert (start, stop - start) == (FILE_HEADER_SIZE if no == 3 else 0, len(made[no]))
    assert appender.written.keys() == made.keys()
    assert {name: size for name, (_, size) in appender.counts.items()} == {
        **bytes_of,
        **({"FileHeader": FILE_HEADER_SIZE * (len(made) - 1)} if len(made) > 1 else {}),
    }


def test_pieces_are_of_a_bounded_size() -> None:
    log = Log(0, 500)
    tail = LogTail(0, 500, 38, 17)
    appender = Appender(tail, file_max=1 << 30, created_ms=CREATED_MS, emit=log)
    whole = [bytes(1_000)] * 3_000
    appender.append_items(BIN_NO, items_of([*whole, bytes(2 * PIECE_SIZE), *whole]), flags=0x80)
    size = 6_001 * 14 + 6_000_000 + 2 * PIECE_SIZE
    assert sum(size for *_, size in log.pieces) > size - PIECE_SIZE
    appender.flush()
    appender.flush()
    assert [size for *_, size in log.pieces if size > PIECE_SIZE] == [14 + 2 * PIECE_SIZE]
    assert appender.counts == {"BIN": (6_001, size)}
    assert min(sorted(size for *_, size in log.pieces)[2:]) > PIECE_SIZE - 1_014


def test_what_cannot_be_written_is_refused() -> None:
    log = Log(0, FILE_HEADER_SIZE)
    for version in (7, 27):
        with pytest.raises(ValueError, match="log version"):
            Appender(LogTail(0, 38, 0, version), file_max=1, created_ms=0, emit=log)
    appender = Appender(LogTail(0, 38, 0, 17), file_max=1, created_ms=0, emit=log)
    fields = {"time_ms": 0, "message": ""}
    for flags, vlsn in ((0x20, None), (0x08, None), (0, 5)):
        with pytest.raises(ValueError, match="do not agree"):
            appender.append("Trace", fields, flags=flags, vlsn=vlsn)
    with pytest.raises(ValueError, match="one by one"):
        appender.append_items(BIN_NO, items_of([b"a"]), flags=0x28)
