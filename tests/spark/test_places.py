"""Several environments in one read: roots, patterns, lists, and what cannot be read."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from je_tools.audit.discover import find_fleet
from je_tools.errors import InputError, UsageError
from je_tools.spark.columns import spark_schema
from je_tools.spark.entry_options import ENTRIES
from tests.corpus import FIXTURES
from tests.spark.reading import assert_same, dumped, read, reader

NAMES = ["v6-halt", "v8-dbops", "v17-basic", "v26-basic"]


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Copy some environments below one root."""
    root = tmp_path / "fleet"
    for name in NAMES:
        shutil.copytree(FIXTURES / name / "env", root / name / "meta" / "bdb")
    return root


def all_dumped(root: Path, out: Path) -> pa.Table:
    """Return the entries of all environments below a root, in the order of their names."""
    homes = sorted(root / name / "meta" / "bdb" for name in NAMES)
    return pa.concat_tables([dumped(home, out) for home in homes])


@pytest.mark.parametrize("tasks", ["1", "3", "40"])
def test_all_environments_below_a_root(fleet: Path, tmp_path: Path, tasks: str) -> None:
    whole = all_dumped(fleet, tmp_path / "out.parquet")
    assert_same(read(fleet, tasks=tasks), whole)
    columns = ["env", "db", "lsn"]
    assert_same(read(fleet, tasks=tasks, columns=",".join(columns)), whole.select(columns))


def test_names_are_those_of_the_audit(fleet: Path) -> None:
    found = read(fleet, columns="env").column("env").to_pylist()
    assert set(found) == {each.name for each in find_fleet([fleet]).environments}


def test_patterns_and_lists(fleet: Path) -> None:
    whole = Counter(read(fleet, columns="env").column("env").to_pylist())

    def counted(*paths: str) -> Counter[str]:
        listed = [Path(path) for path in paths]
        return Counter(read(listed, columns="env").column("env").to_pylist())

    assert counted(f"{fleet}/*/meta/bdb") == whole
    by_file = counted(f"{fleet}/**/*.jdb")
    assert sum(by_file.values()) == sum(whole.values())
    assert {Path(file).parent for file in by_file} == set(map(Path, whole))
    assert counted(f"{fleet}/v[68]*", f"{fleet}/v17-basic", f"{fleet}/v26-basic") == whole
    # Reached twice, it counts once.
    assert counted(str(fleet), f"{fleet}/v17-basic") == whole
    home = fleet / "v17-basic" / "meta" / "bdb"
    assert counted(f"file:{home}") == counted(f"file://{home}") == {str(home): whole[str(home)]}


@pytest.mark.parametrize("name", ["one%20two", "a[b]*", "file:", "ü x"])
def test_a_path_that_exists_is_no_pattern(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    shutil.copytree(FIXTURES / "v17-basic" / "env", home)
    assert len(read(home, columns="lsn")) == 1695
    (one,) = set(read(Path(f"file:{home}"), columns="env")["env"].to_pylist())
    assert one == str(home)


def test_pruning_by_environment(fleet: Path) -> None:
    wanted = str(fleet / "v17-basic" / "meta" / "bdb")
    whole = read(fleet, columns="env,lsn")
    for pattern in (wanted, "*/v17-*"):
        reading = reader(fleet, columns="env,lsn", env=pattern)
        for partition in reading.partitions():
            assert {part.env for part in partition.value.parts} == {wanted}
        found = read(fleet, columns="env,lsn", env=pattern)
        assert_same(found, whole.filter(pa.compute.equal(whole["env"], wanted)))
    with pytest.raises(UsageError, match="option env: \\*/v99: none of 4 environments, which are"):
        read(fleet, env="*/v99")


def test_a_database_of_some_environments(fleet: Path) -> None:
    """In a fleet, an environment without the database has no rows; alone, it is an error."""
    rows = read(fleet, columns="env,db", db="new-name", tasks="4").to_pylist()
    home = fleet / "v8-dbops" / "meta" / "bdb"
    assert {(row["env"], row["db"]) for row in rows} == {(str(home), "new-name")}
    with pytest.raises(UsageError, match="option db: new-name: not in this log"):
        read(fleet / "v17-basic", db="new-name")


def test_what_cannot_be_opened(fleet: Path) -> None:
    whole = read(fleet, columns="env,lsn")
    broken = fleet / "broken" / "env"
    broken.mkdir(parents=True)
    (broken / "00000000.jdb").symlink_to("nowhere")
    (fleet / "v6-halt" / "meta" / "bdb" / "0000000f.jdb").symlink_to("nowhere")
    with pytest.raises(InputError, match=r"broken/env.* \(and 1 more\)\. .*unreadable=skip"):
        reader(fleet).partitions()
    assert_same(read(fleet, columns="env,lsn", unreadable="skip"), whole)
    with pytest.raises(InputError, match=r"0000000f\.jdb: .*unreadable=skip"):
        reader(fleet, env="*/v6-halt/*").partitions()
    assert reader(fleet, env="*/v17*").partitions()


def test_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \.jdb files here or below"):
        read(tmp_path)
    with pytest.raises(InputError, match="no such file or directory"):
        read(tmp_path / "gone")
    with pytest.raises(InputError, match="no directory and no log file matches"):
        read(tmp_path / "*.jdb")


def test_files_of_data_directories_are_one_environment(tmp_path: Path) -> None:
    home = tmp_path / "env"
    whole = read(FIXTURES / "v8-cleaned" / "env", columns="lsn")
    files = []
    for no, file in enumerate(sorted((FIXTURES / "v8-cleaned" / "env").glob("*.jdb"))):
        place = home / f"data00{no + 1}" / file.name
        place.parent.mkdir(parents=True)
        shutil.copy(file, place)
        files.append(place)
    found = read(files, columns="env,lsn")
    assert found.column("lsn").equals(whole.column("lsn"))
    assert set(found.column("env").to_pylist()) == {str(home)}


def test_the_columns_do_not_depend_on_the_logs() -> None:
    """Every log version's fields are there, in types that may be null."""
    schemas = {reader(FIXTURES / name / "env").schema for name in NAMES}
    assert schemas == {ENTRIES.schema()}

    def fields(kind: pa.DataType) -> list[pa.Field]:
        if pa.types.is_list(kind):
            return [kind.value_field, *fields(kind.value_type)]
        if pa.types.is_struct(kind):
            return [each for field in kind for each in (field, *fields(field.type))]
        return []

    every = fields(pa.struct(list(ENTRIES.schema())))
    assert all(field.nullable for field in every)
    assert len(every) > 300
    unsigned = (pa.types.is_uint8, pa.types.is_uint32, pa.types.is_uint64)
    assert not any(is_kind(field.type) for field in every for is_kind in unsigned)


def test_a_column_that_may_not_be_null_becomes_one_that_may() -> None:
    given = pa.schema([pa.field("db", pa.dictionary(pa.int32(), pa.string()), nullable=False)])
    assert spark_schema(given) == pa.schema([("env", pa.string()), ("db", pa.string())])
