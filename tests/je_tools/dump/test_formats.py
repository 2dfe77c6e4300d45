"""Table, JSON lines, CSV and Parquet hold the same rows, however they are read and written."""

from __future__ import annotations

import csv
import dataclasses
import errno
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from je_tools.dump import entries as dump_module
from je_tools.dump import part_files as parts
from je_tools.formats import rows as rows_of_text
from je_tools.formats import spans
from je_tools.formats.je.log import reader
from je_tools.formats.je.types import ENTRY_TYPES
from je_tools.log import scan_options
from je_tools.output.encoders import entry_jsonl as jsonl
from je_tools.output.encoders.entry_sinks import ParquetSink
from tests.builders.logs import LogFile, packed, write_log
from tests.builders.planted import VERSIONS, planted_log
from tests.builders.trees import rooted
from tests.corpus import FIXTURES
from tests.je_tools.dumped import Row, dump, dump_rows, je_tools, rows_of, strict_json

TOOLS = Path(sys.executable).parent
NAMES = [
    "v6-halt/env",
    "v8-crash-txn-ckpt/env",
    "v15-embedded/env",
    "v17-dups/env",
    "v17-rep-uncommitted-before/node2",
    "v26-rep-committed/node1",
    "v26-dbops/env",
]
FEW = ["v17-rep-uncommitted-before/node2", "v26-dbops/env"]
SOME_NAMES = [
    *FEW,
    *(pytest.param(name, marks=pytest.mark.exhaustive) for name in NAMES if name not in FEW),
]
FAMILIES = {entry_type.family.value for entry_type in ENTRY_TYPES.values()}
INTS = {"file_no", "offset", "version", "header_size", "item_size", "prev_offset"}
INTS |= {"vlsn", "db_id", "txn_id", "data_size"}
HOSTILE = [
    b'quote"back\\slash',
    b"comma,semi;tab\tline\nfeed\rreturn",
    b"\x1b]0;owned\x07\x1b[31m",
    b"\xff\xfe\x00\x80",
    b"\xed\xa0\x80",
    "caf\u00e9 \u202e \U0001f600 \u2028".encode(),
    b"=cmd|'/c calc'!A0",
    b"+1",
    b"-1",
    b"@SUM(A1)",
    b"'",
    b"\\x41\\n",
    b"NaN",
    b"}{",
    b"",
    bytes(range(256)),
]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return built logs with entries of every type of a version."""
    folder = tmp_path_factory.mktemp("planted")
    return [planted_log(folder / f"v{v}", v, bytes(range(v, v + 25))) for v in VERSIONS]


def lsn_number(text: str) -> int:
    file_no, offset = (int(part, 16) for part in text.split("/"))
    return file_no << 32 | offset


def plain(name: str, value: Any) -> Any:
    """Return a value of either form with LSNs as numbers and bytes in hex, without nulls."""
    if isinstance(value, dict):
        return {k: plain(k, v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [plain(name, item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str) and (name == "lsn" or name.endswith("_lsn")):
        return lsn_number(value)
    return value


def of_json(row: Row) -> Row:
    """Return a row of JSON as Parquet has it."""
    entry = {"lsn" if k == "compact_lsn" else k: v for k, v in row["entry"].items()}
    return plain("", row | {"entry": entry})


def of_parquet(row: Row) -> Row:
    """Return a row of Parquet as JSON has it; the struct that is not null is the entry."""
    structs = [row.pop(name) for name in FAMILIES & row.keys()]
    entries = [struct for struct in structs if struct is not None]
    assert len(entries) <= 1
    entry = dict(entries[0]) if entries else {}
    undecodable = row.pop("undecodable")
    if undecodable is not None:
        entry["undecodable"] = undecodable
    return plain("", row | {"entry": entry})


def of_csv(cells: Row) -> Row:
    """Return a row of CSV as JSON has it."""
    row: Row = {name: int(text) if text else None for name, text in cells.items() if name in INTS}
    for name in ("replicated", "invisible"):
        row[name] = {"true": True, "false": False}[cells[name]]
    for name in ("lsn", "type", "provisional", "checksum"):
        row[name] = cells[name]
    # CSV cannot tell an empty text from a missing one, but `data_size` can.
    row["data"] = cells["data"] if row["data_size"] is not None else None
    row["key"], row["db"] = cells["key"] or None, cells["db"] or None
    return row | {"entry": strict_json(cells["entry"].encode())}


def csv_rows(out: bytes) -> list[Row]:
    table = list(csv.reader(io.StringIO(out.decode("utf-8"), newline=""), strict=True))
    return [dict(zip(table[0], cells, strict=True)) for cells in table[1:]]


def parquet_rows(home: Path, out: Path, *arguments: str) -> list[Row]:
    dump(home, "--format", "parquet", "--output", out, *arguments)
    return [of_parquet(row) for row in pq.read_table(out).to_pylist()]


def assert_parquet_is_json(home: Path, out: Path) -> set[str]:
    """Compare both forms of a log; return the types of entries that were decoded."""
    rows = dump_rows(home)
    for one, other in zip(parquet_rows(home, out), map(of_json, rows), strict=True):
        assert one == other
    return {row["type"] for row in rows if "undecodable" not in row["entry"]}


@pytest.mark.parametrize("name", SOME_NAMES)
def test_parquet_holds_what_json_holds(name: str, tmp_path: Path) -> None:
    assert_parquet_is_json(FIXTURES / name, tmp_path / "out")


def test_parquet_holds_every_type(planted: list[Path], tmp_path: Path) -> None:
    seen = [assert_parquet_is_json(home, tmp_path / home.name) for home in planted]
    assert set().union(*seen) == {entry_type.name for entry_type in ENTRY_TYPES.values()}


def test_parquet_types(tmp_path: Path) -> None:
    """LSNs are uint64 and byte strings binary, at every depth."""
    path = tmp_path / "out.parquet"
    dump(FIXTURES / NAMES[-2], "--format", "parquet", "--output", path)
    schema = pq.read_schema(path)
    assert schema.field("lsn").type == pa.uint64()
    assert schema.field("key").type == schema.field("data").type == pa.binary()
    seen = []

    def walk(field: pa.Field) -> None:
        seen.append(field.name)
        if pa.types.is_list(field.type):
            walk(field.type.value_field.with_name(field.name))
        elif pa.types.is_struct(field.type):
            for child in field.type:
                walk(child)
        elif field.name == "lsn" or field.name.endswith("_lsn"):
            assert field.type == pa.uint64(), field
        elif field.name.endswith("_ms"):
            assert field.type == pa.int64(), field

    for field in schema:
        walk(field)
    assert {"slots", "txn_prev_lsn", "abort_data", "root_key"} <= set(seen)


def assert_csv_is_json(home: Path) -> None:
    found = [of_csv(row) for row in csv_rows(dump(home, "--format", "csv"))]
    expected = [row | {"key": row["key"] or None, "db": row["db"]} for row in dump_rows(home)]
    for one, other in zip(found, expected, strict=True):
        other.pop("file_no"), one.pop("file_no")
        assert one == other


@pytest.mark.parametrize("name", SOME_NAMES)
def test_csv_holds_what_json_holds(name: str) -> None:
    assert_csv_is_json(FIXTURES / name)


def test_csv_holds_every_type(planted: list[Path]) -> None:
    for home in planted:
        assert_csv_is_json(home)


def test_the_table_lists_the_same(planted: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for home in (*planted[::3], *(FIXTURES / name for name in NAMES[3:5])):
        rows = dump_rows(home)
        for width in (200, 40):
            monkeypatch.setenv("COLUMNS", str(width))
            head, *lines = dump(home).decode("ascii").splitlines()
            assert [line.split()[0] for line in lines] == [row["lsn"] for row in rows]
            assert head.startswith("LSN ")
            assert max(map(len, lines)) < width
            if width == 200:
                assert [line[17:32].rstrip(" ~") for line in lines] == [
                    row["type"] if len(row["type"]) <= 15 else row["type"][:14] for row in rows
                ]


def hostile_log(folder: Path) -> Path:
    """Write records and databases whose keys, values, names and messages are hostile."""
    file = LogFile(0, 17)
    for i, text in enumerate(HOSTILE):
        sized = packed(len(text)) + text
        db_id = packed(100 + i)
        ln = bytes(2) + db_id + sized + text
        file.add(34, ln)
        name_ln = bytes(2) + packed(1) + packed(0) + db_id + b"\0" + sized + b"\0"
        file.add(6, name_ln)
        file.add(24, b"\x7d" + b"\x01\x02\x03\x04\x05\x06" + sized)
    return write_log(folder, [rooted(file)])


def test_hostile_keys_values_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "5000")
    home = hostile_log(tmp_path / "env")
    rows = dump_rows(home)
    records = [row for row in rows if row["type"] == "INS_LN"]
    assert [bytes.fromhex(row["key"]) for row in records] == HOSTILE
    assert [bytes.fromhex(row["data"]) for row in records] == HOSTILE
    names = [text.decode("utf-8", "backslashreplace") for text in HOSTILE]
    assert [row["db"] for row in records] == names
    in_csv = csv_rows(dump(home, "--format", "csv"))
    assert [row["lsn"] for row in in_csv] == [row["lsn"] for row in rows]
    for row in in_csv:
        assert not any(cell.startswith(("=", "+", "@", "\t")) for cell in row.values())
        assert not row["db"].startswith("-")
    table = dump(home)
    assert re.fullmatch(rb"[ -~\n]*", table)
    assert table.count(b"\n") == 1 + len(rows)
    found = parquet_rows(home, tmp_path / "out.parquet")
    assert found == [of_json(row) for row in rows]
    pq.read_table(tmp_path / "out.parquet").validate(full=True)


def test_hostile_keys_can_be_asked_for(tmp_path: Path) -> None:
    home = hostile_log(tmp_path / "env")
    for text in HOSTILE:
        rows = dump_rows(home, "--type", "INS_LN", "--key", f"hex:{text.hex()}")
        assert [row["key"] for row in rows] == [text.hex()]
        if 0 not in text:
            spelled = text.decode("utf-8", "surrogateescape")
            assert dump_rows(home, "--type", "INS_LN", "--key", spelled) == rows


# Ways of reading and writing


def in_small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read small logs as large ones are: several ranges per file, several threads."""
    monkeypatch.setattr(scan_options, "ONE_THREAD_MAX", 0)
    monkeypatch.setattr(reader, "RANGE_SIZE", 40_000)
    monkeypatch.setattr(scan_options, "WIDE_RANGE", 100_000)


@pytest.mark.parametrize(
    ("form", "mode"), [("table", "show"), ("jsonl", "show"), ("csv", "show"), ("jsonl", "hash")]
)
def test_small_and_large_logs_are_read_alike(
    planted: list[Path], monkeypatch: pytest.MonkeyPatch, form: str, mode: str
) -> None:
    """The output is the same in one range or many, with one thread or four."""
    every = [*planted[::5], *(FIXTURES / name for name in NAMES[2:5])]
    options = ["--format", form, "--data", mode]
    monkeypatch.setattr(scan_options, "ONE_THREAD_MAX", 1 << 40)
    whole_outs = [dump(home, *options) for home in every]
    in_small_ranges(monkeypatch)
    for home, out in zip(every, whole_outs, strict=True):
        assert dump(home, *options, "--threads", "1") == out
        assert dump(home, *options, "--threads", "4") == out


FILTERS = [
    ["--type", "LN", "--backward"],
    ["--since", "1970-01-01", "--grep", "0", "--limit", "70"],
    ["--key", "hex:75*", "--backward", "--limit", "33"],
    ["--limit", "500"],
]


@pytest.mark.parametrize("options", FILTERS, ids=" ".join)
def test_filters_of_large_logs(monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    names = [FIXTURES / name for name in NAMES[1:]]
    monkeypatch.setattr(scan_options, "ONE_THREAD_MAX", 1 << 40)
    options = [*options, "--format", "jsonl"]
    whole_outs = [dump(home, *options) for home in names]
    in_small_ranges(monkeypatch)
    for home, out in zip(names, whole_outs, strict=True):
        assert dump(home, *options, "--threads", "3") == out


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_worker_processes_write_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    home = FIXTURES / "v8-cleaned/env"
    outs = [tmp_path / "threads", tmp_path / "processes"]
    for limit, out in zip((1 << 40, 0), outs, strict=True):
        monkeypatch.setattr(dump_module, "PROCESSES_FROM", limit)
        dump(home, "--format", form, "--output", out, "--threads", "2")
    first, second = outs
    if form == "jsonl":
        assert first.read_bytes() == second.read_bytes()
    else:
        assert pq.read_table(first).equals(pq.read_table(second))


def test_parts_hold_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_SIZES", (1, 1))
    home = FIXTURES / "v8-cleaned/env"
    out = tmp_path / "out"
    options = ["--format", "parquet", "--parts", "--output", out, "--threads", "2"]
    assert dump(home, *options) == b""
    made = sorted(out.iterdir())
    assert [path.suffix for path in made] == [".parquet"] * len(list(home.glob("*.jdb")))
    tables = [pq.read_table(path).to_pylist() for path in made]
    rows = [of_parquet(row) for table in tables for row in table]
    assert rows == [of_json(row) for row in dump_rows(home)]


def test_a_part_that_cannot_be_written_is_named_as_it_would_be(tmp_path: Path) -> None:
    """The message does not name the hidden directory in which the part is written."""
    out = tmp_path / "out"
    words = ["dump", FIXTURES / "v17-basic/env", "--format", "parquet", "--parts", "-o", out]
    # Byte code that Python writes would be cut short, too, and it does not notice that.
    limited = 'ulimit -f 1; PYTHONDONTWRITEBYTECODE=1 exec "$@"'
    done = subprocess.run(
        ["bash", "-c", limited, "bash", TOOLS / "je-tools", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    told = f"je-tools: {out}/part-00000.parquet: cannot be written: File too large\n"
    assert (done.returncode, done.stderr) == (6, told)
    assert list(tmp_path.iterdir()) == []


def test_parts_of_nothing(tmp_path: Path) -> None:
    """Filters that leave no file still produce a readable output."""
    out = tmp_path / "out"
    options = ["--format", "parquet", "--parts", "--output", out, "--from-lsn", "0x99/0x0"]
    done = je_tools("dump", FIXTURES / "v17-dups/env", *options)
    assert (done.code, done.err) == (0, "")
    assert len(pq.read_table(out)) == 0


def test_json_lines_load_no_arrow(tmp_path: Path) -> None:
    """Loading Arrow takes longer than dumping a megabyte."""
    program = (
        "import sys\n"
        "from je_tools.commands.main import group, run\n"
        "assert run(group, sys.argv[1:]) == 0\n"
        "assert 'je_tools.output.encoders.entry_jsonl' in sys.modules\n"
        "print([name for name in sys.modules if name.startswith('pyarrow')])\n"
    )
    options = ["--format", "jsonl", "--output", tmp_path / "rows"]
    argv = [sys.executable, "-c", program, "dump", FIXTURES / "v17-dups/env", *options]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_an_empty_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    home = FIXTURES / "v17-dups/env"
    nothing = ["--txn", "999999999"]
    assert rows_of(dump(home, "--format", "jsonl", *nothing)) == []
    assert dump(home, *nothing).count(b"\n") == 1
    assert csv_rows(dump(home, "--format", "csv", *nothing)) == []
    path = tmp_path / "none.parquet"
    assert parquet_rows(home, path, *nothing) == []
    assert "lsn" in pq.read_schema(path).names


@pytest.mark.parametrize("form", ["table", "csv", "jsonl"])
def test_an_entry_too_long_for_the_output_is_named(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for counts in (spans, rows_of_text, jsonl):
        monkeypatch.setattr(counts, "GATHERED_MAX", 100)
    done = je_tools("dump", FIXTURES / "v17-basic/env", "--format", form, "--type", "INS_LN_TX")
    assert done.code == 4
    assert "the entry at 0x0/0x" in done.err
    assert "--data length" in done.err


@dataclasses.dataclass
class FullDisk(io.BytesIO):
    """A file whose device is full after `room` bytes."""

    room: int

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("room", [0, 3, 1000, 20_000])
def test_a_parquet_file_that_cannot_be_written(
    room: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """The foreign writer would panic and print a message."""
    batches = [pa.RecordBatch.from_pydict({"number": list(range(10_000))})] * 9
    sink = ParquetSink(lambda _: None, batches[0].schema)
    with pytest.raises(OSError, match="No space left"):
        sink.write_all(batches, FullDisk(room))
    assert capfd.readouterr().err == ""


def test_pieces_that_fail_stop_a_parquet_file(capfd: pytest.CaptureFixture[str]) -> None:
    def pieces() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"number": [1]})
        raise KeyboardInterrupt

    sink = ParquetSink(lambda _: None, pa.schema([("number", pa.int64())]))
    with pytest.raises(KeyboardInterrupt):
        sink.write_all(pieces(), io.BytesIO())
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ((5485 + (1 << 63)).to_bytes(8, "big"), "long:5485"),
        ((-7 + (1 << 63)).to_bytes(8, "big"), "long:-7"),
        ((12 + (1 << 31)).to_bytes(4, "big"), "int:12"),
        ((-1 + (1 << 31)).to_bytes(4, "big"), "int:-1"),
        (bytes.fromhex("000000007fffffe3"), "hex:000000007fffffe3"),
        (b"\x80\x00", "hex:8000"),
        (b"plain", "plain"),
        (b"name\0", "str:name"),
    ],
)
def test_a_table_spells_keys_as_they_are_asked_for(tmp_path: Path, key: bytes, shown: str) -> None:
    file = LogFile(0, 17)
    file.add(34, bytes(2) + packed(77) + packed(1) + b"v" + key)
    home = write_log(tmp_path / "env", [rooted(file)])
    text = dump(home, "--type", "INS_LN").decode()
    assert f" {shown} " in text
    assert dump(home, "--type", "INS_LN", "--key", shown).decode() == text
