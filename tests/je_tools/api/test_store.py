"""Stores of Ignite by the API: the same rows as those of commands, and what could not be read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import je_tools
from je_tools.audit.discover import EnvironmentKind
from je_tools.errors import InputError, NoLogError, UsageError
from je_tools.spark.places import LogPlaces
from tests.corpus import FIXTURES, damaged_store
from tests.je_tools.api.reading import assert_same, by_command, home_of
from tests.je_tools.dumped import je_tools as run

STORE = FIXTURES / "ignite-killed" / "store"


def by_verb(words: str, folder: Path, *options: str) -> pa.Table:
    """Return the Parquet that a verb of `ignite` writes."""
    return by_command("ignite", folder, *words.split(), STORE, *options)[0]


@pytest.mark.parametrize(
    ("verb", "words", "options", "call", "arguments"),
    [
        ("wal", "wal dump", (), "log", {}),
        (
            "filters",
            "wal dump",
            ("--type", "DATA", "--cache", "carts", "--key", "int:7", "--limit", "2"),
            "log",
            {"type": "DATA", "cache": ["carts"], "key": "int:7", "limit": 2},
        ),
        (
            "bounds",
            "wal dump",
            ("--from", "1:0", "--partition", "1"),
            "log",
            {"from_pointer": "1:0", "partition": 1},
        ),
        ("export", "export", (), "records", {}),
        (
            "cache",
            "export",
            ("--cache", "web", "--partition", "0"),
            "records",
            {"cache": "web", "partition": (0,)},
        ),
        ("pages", "pages dump", ("--items",), "pages", {"items": True}),
        (
            "meta",
            "pages dump",
            ("--type", "partition meta", "--group", "accounts"),
            "pages",
            {"type": "partition meta", "group": "accounts"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_batches_are_those_of_the_command(
    verb: str, words: str, options: tuple[str, ...], call: str, arguments: Any, tmp_path: Path
) -> None:
    store = je_tools.open_store(STORE)
    found = getattr(store, call)(**arguments).to_table()
    assert found.num_rows
    assert_same(found, by_verb(words, tmp_path, *options))
    assert store.problems == ()


def test_bytes_of_a_key_and_masking(tmp_path: Path) -> None:
    with je_tools.open_store(str(STORE), node="node1", data="hash", threads=1) as store:
        found = store.log(key=b"\x03\x07\x00\x00\x00").to_table()
        assert found.num_rows == 4
        assert found["key"][0].as_py().startswith(b"sha256:")
        assert found["key_json"].null_count == 4
        batches = store.records()
        next(batches)
    with pytest.raises(UsageError, match="closed"):
        next(batches)
    with pytest.raises(UsageError, match="closed"):
        store.nodes()


def test_nodes_recovery_and_state() -> None:
    store = je_tools.open_store(STORE)
    (node,) = store.nodes()
    assert (node.node, node.first, node.last) == ("node1", 0, 1)
    (plan,) = store.recovery()
    assert plan.outcome.value == "starts"
    state = store.doctor()
    assert not state.is_damaged
    assert state.not_checked


def test_what_could_not_be_read_is_told(tmp_path: Path) -> None:
    store = je_tools.open_store(damaged_store(FIXTURES / "ignite-page-damaged", tmp_path))
    assert store.pages().to_table().num_rows
    assert store.records().to_table().num_rows
    assert store.problems[0].startswith("damaged pages and files: 1")
    told = run("ignite", "export", store.name).err.splitlines()
    assert set(store.problems[1:]) <= {line.removeprefix("je-tools: ") for line in told}
    assert store.doctor().is_damaged
    copy = Path(shutil.copytree(STORE, tmp_path / "copy"))
    for path in (copy / "db" / "wal").rglob("0000000000000000.wal"):
        data = bytearray(path.read_bytes())
        data[50_000] ^= 1
        path.write_bytes(data)
    damaged = je_tools.open_store(copy)
    assert damaged.log().to_table().num_rows
    assert "not all records of the log could be read" in damaged.problems[0]


@pytest.mark.parametrize(
    ("call", "arguments", "error", "told"),
    [
        ("log", {"from_pointer": "2:0", "to_pointer": "1:0"}, UsageError, "from_pointer comes"),
        ("log", {"type": "NONE"}, UsageError, "NONE"),
        ("log", {"partition": "1"}, TypeError, "partition: expected int"),
        ("log", {"cache": "nobody"}, UsageError, "cache nobody: there is no such cache"),
        ("log", {"limit": 0}, UsageError, "limit: 0 is less than 1"),
        ("records", {"cache": "nobody"}, UsageError, "cache nobody: there is no such cache"),
        ("records", {"cache": 1.5}, TypeError, "cache: expected str"),
        ("pages", {"group": "nobody"}, UsageError, "group nobody: there is no such group"),
        ("pages", {"partition": 7}, UsageError, "partition 7: no such partition"),
    ],
)
def test_wrong_arguments(
    call: str, arguments: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        getattr(je_tools.open_store(STORE), call)(**arguments)


@pytest.mark.parametrize("call", [je_tools.open, je_tools.open_store])
def test_uris_are_refused_without_their_secrets(call: Callable[[str], object]) -> None:
    """They were taken for paths, which were shown as they are."""
    for uri in ("s3://key:secret@bucket/p", "simplecache::s3://u:secret@b", "s3://b/p?t=secret"):
        with pytest.raises(UsageError) as caught:
            call(uri)
        assert "secret" not in str(caught.value)
    with pytest.raises(UsageError, match=r"^s3://bucket/p: expected a path on this host"):
        call("s3://bucket/p")


def test_a_file_uri_is_its_path() -> None:
    assert je_tools.open_store(f"file://{STORE}").name == str(STORE)


def test_a_partition_that_is_not_there_is_known_at_the_end() -> None:
    with pytest.raises(UsageError, match="partition 777: no such partition there"):
        je_tools.open_store(STORE).records(partition=777).to_table()


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    for paths in (home_of("v17-basic"), tmp_path, tmp_path / "none"):
        with pytest.raises(InputError):
            je_tools.open_store(paths)
    with pytest.raises(UsageError, match="no store was named"):
        je_tools.open_store([])
    with pytest.raises(UsageError, match="its nodes: node1"):
        je_tools.open_store(STORE, node="node7")


def test_a_store_is_no_log() -> None:
    for path in (STORE, STORE / "db" / "wal" / "node1"):
        with pytest.raises(NoLogError, match=r"je_tools\.open_store opens it"):
            je_tools.open(path)


def test_formats_on_the_wrong_kind_name_the_right_ones() -> None:
    with pytest.raises(InputError, match="which the formats ignitewal and ignitepages read"):
        LogPlaces((str(STORE),)).search(EnvironmentKind.JE)
    with pytest.raises(InputError, match="which the formats jelog, jerecords, jefindings"):
        LogPlaces((str(home_of("v17-basic")),)).search(EnvironmentKind.IGNITE)
