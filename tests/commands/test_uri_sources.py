"""The formats of logs by URI: the rows of local files, by ranged reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from je_tools.errors import InputError, StoppedError, UsageError
from je_tools.formats.files.remote_path import located
from je_tools.spark.ignitewal import IgnitewalSource
from je_tools.spark.jefindings import JefindingsSource
from je_tools.spark.jelog import JelogSource
from je_tools.spark.jerecords import JerecordsSource
from je_tools.spark.jevlsn import JevlsnSource
from je_tools.spark.source import LogSource
from tests.builders import ignite
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools
from tests.s3_store import BUCKET, S3Store
from tests.spark.reading import read, reader, source


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (JelogSource, "v8-cleaned/env"),
        (JerecordsSource, "v26-dbops/env"),
        (JefindingsSource, "v8-crash-txn-ckpt/env"),
        (JevlsnSource, "v26-rep-committed/node1"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name(),
)
@pytest.mark.parametrize("tasks", [pytest.param("1", marks=pytest.mark.exhaustive), "7"])
def test_rows_are_those_of_local_files(
    store: S3Store, kind: type[LogSource], name: str, tasks: str
) -> None:
    home = FIXTURES / name
    uri = located(store.put(home, f"rows/{name}"))
    options = {"tasks": tasks}
    if kind is JerecordsSource:
        options["now"] = "2026-11-25T00:00:00"
    local, remote = read(home, kind, **options), read(uri, kind, **options)
    assert local.num_rows > 0
    assert set(remote.column("env").to_pylist()) == {str(uri)}
    assert remote.drop_columns("env").equals(local.drop_columns("env"))


def test_patterns_match_in_each_folder(store: S3Store) -> None:
    for name in ("v17-basic", "v26-basic", "v8-basic"):
        data = (FIXTURES / name / "env" / "00000000.jdb").read_bytes()
        store.put_bytes(f"patterns/{name}/env/00000000.jdb", data[:5000])
    root = f"s3://{BUCKET}/patterns"

    def found(path: str) -> set[str]:
        return set(read(located(path), columns="env").column(0).to_pylist())

    every = {f"{root}/{name}/env" for name in ("v17-basic", "v26-basic", "v8-basic")}
    assert found(root) == found(f"{root}/*/env") == found(f"{root}/*") == every
    assert found(f"{root}/v[18]*/env") == every - {f"{root}/v26-basic/env"}
    file = f"{root}/v17-basic/env/00000000.jdb"
    assert found(f"{root}/v17*/env/*.jdb") == {file} == found(file)
    with pytest.raises(InputError, match="no directory and no log file matches"):
        found(f"{root}/none*/env")
    with pytest.raises(UsageError, match=r"\*\* is not matched in an object store"):
        found(f"{root}/**/env")


def test_a_file_in_a_store_is_fetched_once(store: S3Store) -> None:
    uri = located(store.put(FIXTURES / "v17-basic" / "env", "once"))
    planned = reader(uri, tasks="9", columns="type")
    (partition,) = planned.partitions()
    store.requests.clear()
    assert sum(batch.num_rows for batch in planned.read(partition)) == 1695
    assert sum(each.size for each in store.reads) <= 1.2 * 287_967


def test_places_that_cannot_be_read(store: S3Store, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or directory"):
        read(located(f"s3://{BUCKET}/nowhere"))
    with pytest.raises(InputError, match="no file system is known for nonsense://"):
        read(located("nonsense://a/b"))
    with pytest.raises(UsageError, match=r"s3://\*\*\*@logs"):
        JelogSource({"path": "s3://key:secret@logs/env"}).schema()
    with pytest.raises(UsageError, match=r"^file://\*\*\*@host/tmp: "):
        JelogSource({"path": "file://u:secret@host/tmp"}).schema()
    with pytest.raises(UsageError, match="names a file of this host"):
        JelogSource({"path": "file://host/tmp"}).schema()
    uri = store.put(ignite.write_dumped_store(tmp_path / "store"), "ignite")
    with pytest.raises(InputError, match="copy it to a file system"):
        read(located(uri), IgnitewalSource)


def test_a_stream_follows_a_log_in_a_store(store: S3Store) -> None:
    """A backup job replaces the object of a file that has grown."""
    home = FIXTURES / "v17-basic" / "env"
    name = "00000000.jdb"
    data = (home / name).read_bytes()
    expected = read(home, columns="lsn,type")
    uri = located(store.put(home, "stream"))
    made = source(uri, columns="lsn,type")
    stream = made.streamReader(made.schema())
    offset: dict[str, str] = {}
    batches = []
    for size in (100_000, 100_000, 200_001, len(data)):
        store.put_bytes(f"stream/{name}", data[:size])
        end = stream.latestOffset()
        store.requests.clear()
        for partition in stream.partitions(offset, end):
            batches += stream.read(partition)
        # Ranges that an earlier batch has read are not fetched again, except for its large block.
        assert sum(each.size for each in store.reads) <= size + 50_000
        offset = end
    assert pa.Table.from_batches(batches).equals(expected)
    store.put_bytes(f"stream/{name}", data[:50_000])
    with pytest.raises(StoppedError, match="cut back"):
        stream.latestOffset()


def test_an_option_with_a_local_path_does_not_advise_to_copy_a_uri() -> None:
    done = je_tools("dump", FIXTURES / "v17-basic" / "env", "--output", "s3://bucket/rows")
    assert done.code == 2
    assert "s3://bucket/rows: expected a path on this host. This option takes no URIs" in done.err
