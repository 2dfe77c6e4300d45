"""The commands of `ignite` on a store that a real node left when it was killed."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from je_tools.formats.ignite.ids import cache_id
from tests.corpus import FIXTURES, corpus, damaged_store
from tests.je_tools.dumped import je_tools
from tests.truth.ignite_rows import read_rows

CASE = FIXTURES / "ignite-killed"
STORE = CASE / "store"


def lines(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table of the engine's answers."""
    with gzip.open(CASE / "truth" / f"{name}.tsv.gz", "rt", encoding="utf-8") as found:
        yield from csv.DictReader(found, delimiter="\t")


def rows_of(*words: object) -> list[dict[str, Any]]:
    done = je_tools("ignite", *map(str, words), "--format", "jsonl")
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


@pytest.fixture(scope="module")
def dumped() -> list[dict[str, Any]]:
    return rows_of("wal", "dump", STORE)


def test_every_record_of_the_engine_is_dumped(dumped: list[dict[str, Any]]) -> None:
    names = ("segment", "offset", "length", "type")
    engine = [tuple(row.values()) for row in lines("wal")]
    found = {tuple(str(row[name]) for name in names): None for row in dumped}
    assert list(found) == engine


def test_exported_records_are_those_of_the_engine() -> None:
    expected = {
        (row.cache, row.partition, row.key_bytes): (row.key, row.value, row.version)
        for row in read_rows(CASE / "records.tsv.gz")
    }
    found = {
        (row["cache"], row["partition"], row["key"]): (row["key_json"], row["value_json"])
        for row in rows_of("export", STORE)
    }
    assert found.keys() == expected.keys()
    for place, (key, value) in found.items():
        assert json.loads(expected[place][0]) == key
        assert json.loads(expected[place][1]) == value


def test_counts_and_counters_are_those_of_the_engine() -> None:
    """The newest checkpoint has counted nothing of what is only in the log."""
    engine = Counter(
        {(row["#group"], row["partition"]): int(row["size"]) for row in lines("partitions")}
    )
    groups = {"carts": "web", "sessions": "web", "accounts": "accounts"}
    found = Counter(
        (groups[row["cache"]], str(row["partition"])) for row in rows_of("export", STORE)
    )
    assert found == engine


def test_nothing_is_damaged_and_the_node_starts(capfd: pytest.CaptureFixture[str]) -> None:
    for words in (("wal", "verify"), ("checkpoints",), ("pages", "verify"), ("info",)):
        done = je_tools("ignite", *words, STORE)
        assert done.code == 0, done.err
    done = je_tools("ignite", "recover", STORE, "--format", "json")
    found = json.loads(done.out)
    (start,), (logical,) = found["starts"], found["logical"]
    assert (done.code, start["outcome"], logical["end_reason"]) == (0, "starts", "end")
    assert len(found["transactions"]) == logical["transactions"] == 1
    assert (found["findings"], found["edits"]) == ([], [])


def test_a_key_has_its_history(dumped: list[dict[str, Any]]) -> None:
    history = rows_of("wal", "dump", STORE, "--cache", "accounts", "--key", "long:1")
    assert [row["op"] for row in history] == ["CREATE", "UPDATE"]
    assert history == [
        row for row in dumped if row.get("cache") == "accounts" and row["key_json"] == {"long": 1}
    ]
    (record,) = (row for row in rows_of("export", STORE) if row["key_json"] == {"long": 1})
    assert record["value_json"] == history[1]["value_json"]
    # The update is only in the log.
    page, row = rows_of("pages", "dump", STORE, "--group", "accounts", "--key", "long:1")
    assert (page["type"], row["key"], row["value"]) == ("data", record["key"], history[0]["value"])


def test_a_damaged_page_is_told_with_one_advice(tmp_path: Path) -> None:
    store = damaged_store(FIXTURES / "ignite-page-damaged", tmp_path)
    verified = json.loads(je_tools("ignite", "pages", "verify", store, "--format", "json").out)
    (error,) = (row for row in verified["findings"] if row["severity"] == "error")
    (file,) = (row for row in verified["files"] if row["state"] == "damaged")
    assert (error["code"], error["pages"], file["bad"]) == ("page-checksum", 1, 1)
    assert file["advice"].startswith("`je-tools ignite recover` rebuilds it from the log.")
    examined = json.loads(je_tools("doctor", store, "--format", "json").out)
    assert file["advice"] in [row["hint"] for row in examined["findings"]]
    assert examined["next"][0]["command"] == f"je-tools ignite recover {store}"
    done = je_tools("ignite", "recover", store, "--apply")
    assert (done.code, "1 edit written" in done.err) == (0, True)
    base = STORE / error["file"]
    assert (store / error["file"]).read_bytes() == base.read_bytes()


def test_advice_names_recovery_only_if_it_can_rebuild(tmp_path: Path) -> None:
    store = damaged_store(FIXTURES / "ignite-page-damaged", tmp_path)
    # Without the first segment, the log has only a part of the history of pages.
    for path in (store / "db" / "wal").rglob("0000000000000000.wal"):
        path.unlink()
    verified = json.loads(je_tools("ignite", "pages", "verify", store, "--format", "json").out)
    (file,) = (row for row in verified["files"] if row["state"] == "damaged")
    assert "recover" not in file["advice"]


def test_damage_of_a_copy_that_nothing_reads_is_a_note(tmp_path: Path) -> None:
    store = shutil.copytree(STORE, tmp_path / "store")
    ring = store / "db" / "wal" / "node1" / "0000000000000000.wal"
    data = bytearray(ring.read_bytes())
    data[100_000] ^= 1
    ring.write_bytes(data)
    (found,) = rows_of("wal", "verify", store)
    assert (found["severity"], found["code"]) == ("note", "wal-gap")
    examined = json.loads(je_tools("doctor", store, "--format", "json").out)
    assert not examined["damaged"]


@pytest.mark.parametrize("group", ["cache-accounts", "cacheGroup-web"])
def test_records_without_a_configuration_are_missed_aloud(group: str, tmp_path: Path) -> None:
    store = shutil.copytree(STORE, tmp_path / "store")
    for path in (store / "db" / "node1" / group).glob("*cache_data.dat"):
        path.unlink()
    done = je_tools("ignite", "export", store)
    assert done.code == 3
    assert f"node1 {group.partition('-')[2]}: cache_data.dat is gone: 2 partitions" in done.err
    assert "cache-unconfigured" in done.err


def test_records_of_one_cache_of_a_group_without_its_configuration_are_missed_aloud(
    tmp_path: Path,
) -> None:
    whole = Counter(row["cache"] for row in rows_of("export", STORE))
    store = shutil.copytree(STORE, tmp_path / "store")
    (store / "db" / "node1" / "cacheGroup-web" / "cartscache_data.dat").unlink()
    done = je_tools("ignite", "export", store, "--format", "jsonl")
    assert done.code == 3
    left = Counter(json.loads(line)["cache"] for line in done.out.splitlines())
    assert whole - left == Counter(carts=whole["carts"])
    assert f"of caches without cache_data.dat (id {cache_id('carts')}) left out" in done.err
    assert "cache-unconfigured" in done.err
    # The cache that the user names is complete.
    done = je_tools("ignite", "export", store, "--cache", "sessions", "--format", "jsonl")
    assert (done.code, len(done.out.splitlines())) == (0, whole["sessions"])


def test_encrypted_pages_are_not_compared_aloud() -> None:
    whole = corpus()
    if whole is not None:
        words = ("pages", "dump", whole / "ignite-tde" / "store", "--key", "int:1")
        done = je_tools("ignite", *words)
        assert "encrypted pages whose rows were not compared: " in done.err
