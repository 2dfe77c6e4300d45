"""The format `jelog`, planned and read in this process: the same rows as `dump` writes."""

from __future__ import annotations

import pickle
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from je_tools.errors import InputError, StoppedError
from je_tools.formats.je.log import reader as je_reader
from je_tools.formats.je.types import Family
from tests.builders.logs import TRACE, LogFile, packed, write_log
from tests.builders.planted import VERSIONS, planted_log
from tests.corpus import FIXTURES, Environment
from tests.spark.reading import assert_same, batches, dumped, read, reader, source

PROJECTIONS = [
    "lsn,type,checksum",
    "db,txn_id,lsn",
    "data_size,key,file_no,vlsn",
    "node,db_id,data",
    "undecodable,lsn",
    "erased,trace,map_ln,key",
]


def test_every_environment_is_as_dump_writes_it(
    some_environment: Environment, tmp_path: Path
) -> None:
    home = some_environment.home
    whole = dumped(home, tmp_path / "out.parquet")
    assert len(whole) > 0
    assert_same(read(home), whole)
    for columns in PROJECTIONS:
        names = [name for name in columns.split(",") if name in whole.column_names]
        found = read(home, columns=",".join(names))
        assert_same(found, whole.select(names))


def test_files_of_old_releases(legacy_file: Path, tmp_path: Path) -> None:
    if legacy_file.name == "maxversion.jdb":
        with pytest.raises(InputError, match="log version 2147483647"):
            read(legacy_file)
        return
    whole = dumped(legacy_file, tmp_path / "out.parquet")
    assert_same(read(legacy_file), whole)
    assert_same(read(legacy_file, columns="db_id,lsn"), whole.select(["db_id", "lsn"]))


@pytest.mark.parametrize("version", VERSIONS)
def test_entries_of_every_type(version: int, tmp_path: Path) -> None:
    home = planted_log(tmp_path / "env", version)
    whole = dumped(home, tmp_path / "out.parquet")
    assert_same(read(home), whole)
    for family in Family:
        if family.value in whole.column_names:
            assert_same(read(home, columns=family.value), whole.select([family.value]))


def test_loose_files_in_any_order(tmp_path: Path) -> None:
    files = sorted((FIXTURES / "v8-cleaned" / "env").glob("*.jdb"))
    assert len(files) == 2
    assert_same(read(files[::-1]), dumped(files, tmp_path / "out.parquet"))


def hurt(rng: random.Random, file: Path) -> None:
    """Damage a file at random in ways that are common."""
    data = bytearray(file.read_bytes())
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data))
        size = rng.choice([1, 2, 40, 700, 9000])
        match rng.choice(["flip", "zero", "noise", "insert", "remove", "move"]):
            case "flip":
                data[at] ^= 1 << rng.randrange(8)
            case "zero":
                data[at : at + size] = bytes(len(data[at : at + size]))
            case "noise":
                data[at : at + size] = rng.randbytes(len(data[at : at + size]))
            case "insert":
                data[at:at] = rng.randbytes(size)
            case "remove":
                del data[at : at + size]
            case "move":
                data[at:at] = data[: min(size, at)]
    file.write_bytes(data)


@pytest.mark.parametrize("seed", range(10))
def test_damaged_files_in_pieces(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entries, good and damaged, come once and in order, whatever the cuts of a file."""
    rng = random.Random(seed)
    home = tmp_path / "env"
    shutil.copytree(
        FIXTURES / rng.choice(["v17-basic", "v8-dbops", "v26-crash-txn-ckpt"]) / "env", home
    )
    for file in sorted(home.glob("*.jdb")):
        if seed:
            hurt(rng, file)
    expected = dumped(home, tmp_path / "out.parquet")
    monkeypatch.setattr(je_reader, "RANGE_SIZE", rng.choice([12_000, 50_000]))
    tasks = rng.choice(["5", "20"])
    if not seed:
        assert len(reader(home, tasks=tasks).partitions()) > len(list(home.glob("*.jdb")))
    assert_same(read(home, tasks=tasks), expected)
    names = ["lsn", "db_id", "key", "checksum"]
    found = read(home, columns=",".join(names), tasks=tasks)
    assert_same(found, expected.select(names))
    middle = expected.column("lsn")[len(expected) // 2].as_py()
    place = f"0x{middle >> 32:x}/0x{middle & 0xFFFFFFFF:x}"
    behind = read(home, from_lsn=place, tasks=tasks)
    assert_same(behind, expected.filter(pc.greater_equal(expected.column("lsn"), middle)))


def test_an_image_of_a_log_inside_a_record_is_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = (FIXTURES / "v17-basic" / "env" / "00000000.jdb").read_bytes()
    file = LogFile(0, 17)
    for _ in range(3):
        file.trace(100)
        file.add(TRACE, b"\x7d" + bytes(6) + packed(len(image)) + image)
    home = write_log(tmp_path / "env", [file])
    monkeypatch.setattr(je_reader, "RANGE_SIZE", 30_000)
    found = read(home, columns="lsn", tasks="17")
    assert found.column("lsn").to_pylist() == [placed.start for placed in file.placed]


def test_a_log_that_changes_after_it_was_planned(tmp_path: Path) -> None:
    """Appended entries are left out; missing bytes end the read with a reason."""
    home = tmp_path / "env"
    shutil.copytree(FIXTURES / "v17-basic" / "env", home)
    file = home / "00000000.jdb"
    whole = read(home, columns="lsn")
    data = file.read_bytes()

    def planned(content: bytes | None) -> pa.Table:
        file.write_bytes(data)
        reading = reader(home, columns="lsn")
        tasks = reading.partitions()
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        return pa.Table.from_batches([b for task in tasks for b in reading.read(task)])

    assert_same(planned(data + data), whole)
    with pytest.raises(StoppedError, match="shrank from 287967 to 287966 bytes"):
        planned(data[:-1])
    with pytest.raises(StoppedError, match=r"00000000\.jdb: .*removed|00000000\.jdb: No such"):
        planned(None)


def test_a_piece_that_is_another_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "env"
    shutil.copytree(FIXTURES / "v17-basic" / "env", home)
    monkeypatch.setattr(je_reader, "RANGE_SIZE", 10_000)
    reading = reader(home, columns="lsn", tasks="6")
    tasks = reading.partitions()
    assert len(tasks) > 3
    at = tasks[1].value.parts[0].pieces[0].end_state.last
    with (home / "00000000.jdb").open("r+b") as file:
        file.seek(at)
        file.write(bytes(200))
    with pytest.raises(StoppedError, match="its bytes changed while the log was read"):
        list(reading.read(tasks[1]))


@pytest.mark.parametrize("mode", ["hide", "length", "hash"])
def test_masked_as_in_dump(mode: str, tmp_path: Path) -> None:
    home = FIXTURES / "v26-dbops" / "env"
    assert_same(read(home, data=mode), dumped(home, tmp_path / "out.parquet", "--data", mode))


def test_salted_hashes_are_the_same_in_all_tasks_of_a_load() -> None:
    """Equal keys have equal hashes in all tasks, and different ones after another `load`."""
    home = FIXTURES / "v8-cleaned" / "env"
    shown = read(home, columns="key").column("key").to_pylist()
    made = source(home, columns="key", data="salted-hash", tasks="2")
    hashed: list[bytes] = []
    for _ in range(2):
        reading = pickle.loads(pickle.dumps(made)).reader(made.schema())
        assert len(reading.partitions()) == 2
        column = pa.Table.from_batches(batches(reading)).column("key").to_pylist()
        assert column == (hashed or column)
        hashed = column
    pairs = {(one, other) for one, other in zip(shown, hashed, strict=True) if one is not None}
    assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})
    again = read(home, columns="key", data="salted-hash").column("key").to_pylist()
    assert again != hashed


def test_unchecked_as_in_dump(tmp_path: Path) -> None:
    home = FIXTURES / "v17-dups" / "env"
    expected = dumped(home, tmp_path / "out.parquet", "--ignore-checksum")
    assert_same(read(home, ignore_checksum="true"), expected)
