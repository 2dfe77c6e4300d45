"""`je-tools ignite export` and `ignite diff`: formats, filters, masking, exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from je_tools.ignite.records import merge
from tests.builders import ignite as build
from tests.je_tools.dumped import je_tools

NAMES = (b"alice", b"bob", b"erin")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store whose records are in the log."""
    return build.write_exported_store(tmp_path / "store")


def _rows(*words: object) -> list[dict[str, Any]]:
    done = je_tools("ignite", "export", *words)
    assert done.code == 0
    return [json.loads(line) for line in done.out.splitlines()]


def test_records_are_those_of_the_log_that_count(store: Path) -> None:
    rows = _rows(store)
    found = {row["key_json"]: (row["partition"], row["value_json"]) for row in rows}
    assert found == {"alice": (3, {"int": 5}), "bob": (3, "new"), "erin": (4, "last")}
    assert {row["source"] for row in rows} == {"log"}


def test_batches_do_not_change_the_records(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _rows(store)
    monkeypatch.setattr(merge, "LOG_ROWS", 1)
    assert _rows(store) == whole
    monkeypatch.undo()
    monkeypatch.setattr(merge, "LOG_BYTES", 1)
    assert _rows(store) == whole


def test_caches_and_partitions_are_filtered(store: Path) -> None:
    assert len(_rows(store, "--partition", "4")) == 1
    assert len(_rows(store, "--cache", "accounts", "--partition", "3")) == 2
    done = je_tools("ignite", "export", store, "--cache", "other")
    assert (done.code, done.out) == (2, b"")
    assert "there is no such cache or group. The store has: MetaStorage, accounts" in done.err


@pytest.mark.parametrize("mode", ["hide", "length", "hash", "salted-hash"])
@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_masked_records_show_no_key_or_value(
    form: str, mode: str, store: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    words = ("ignite", "export", store, "--format", form, "--output", output)
    je_tools(*words, "--data", mode)
    written = output.read_bytes()
    if form == "parquet":
        written += str(pq.read_table(output).to_pylist()).encode()
    output.unlink()
    je_tools(*words)
    shown = output.read_bytes()
    for name in NAMES:
        assert form == "parquet" or name in shown
        assert name not in written
        assert name.hex().encode() not in written


def test_formats_have_the_same_records(store: Path, tmp_path: Path) -> None:
    output = tmp_path / "records.parquet"
    je_tools("ignite", "export", store, "--format", "parquet", "--output", output)
    table = pq.read_table(output).to_pylist()
    for row, line in zip(table, _rows(store), strict=True):
        for name, value in row.items():
            expected = value.hex() if isinstance(value, bytes) else value
            if name.endswith("_json"):
                expected = json.loads(value)
            assert line.get(name) == expected, name
    csv = je_tools("ignite", "export", store, "--format", "csv").out.splitlines()
    assert len(csv) == len(table) + 1


def test_partitions_that_the_node_does_not_own_are_named(tmp_path: Path) -> None:
    entry = build.Entry(build.string(b"a"), build.string(b"b"), cache=build.ACCOUNTS).record()

    def export(state: int, name: str) -> Any:
        records = [entry, build.state_record(3, state, build.ACCOUNTS)]
        return je_tools("ignite", "export", build.write_cache_store(tmp_path / name, records))

    moving, owning, evicted = export(0, "moving"), export(1, "owning"), export(3, "evicted")
    assert (moving.code, "partition 3: state MOVING" in moving.err) == (0, True)
    assert (owning.code, "state" in owning.err, len(owning.out.splitlines())) == (0, False, 1)
    assert (evicted.code, evicted.out) == (0, b"")


@pytest.mark.parametrize("kind", ["", "local-"])
def test_a_group_whose_log_was_off_is_told(kind: str, tmp_path: Path) -> None:
    key = f"grp-wal-{kind}disabled-{build.ACCOUNTS}".encode()
    entry = build.Entry(build.string(b"a"), build.string(b"b"), cache=build.ACCOUNTS).record()
    off = build.write_cache_store(tmp_path / "off", [build.metastore_record(key, b"1"), entry])
    done = je_tools("ignite", "export", off)
    assert (done.code, "wal-disabled" in done.err) == (3, True)
    records = [build.metastore_record(key, b"1"), build.metastore_record(key, b""), entry]
    assert je_tools("ignite", "export", build.write_cache_store(tmp_path / "on", records)).code == 0


def test_damage_and_a_useless_marker_are_told(tmp_path: Path) -> None:
    damaged = build.write_exported_store(tmp_path / "damaged", is_damaged=True)
    done = je_tools("ignite", "export", damaged)
    assert (done.code, "log-damaged" in done.err) == (3, True)
    assert je_tools("ignite", "export", damaged, "--exit-zero").code == 0
    marker = build.write_marker(damaged, 5, build.CHECKPOINTS[0], "START", (0, 0, 0))
    marker.write_bytes(b"")
    done = je_tools("ignite", "export", damaged)
    assert (done.code, done.out, "0 bytes" in done.err) == (4, b"", True)


def test_two_stores_are_compared(store: Path, tmp_path: Path) -> None:
    other = build.write_exported_store(tmp_path / "other", is_damaged=True)
    copy = shutil.copytree(store, tmp_path / "copy")
    same = je_tools("ignite", "diff", store, copy)
    assert (same.code, "0 of 2 partitions" in same.err) == (0, True)
    done = je_tools("ignite", "diff", store, other, "--keys", "--format", "json")
    found = json.loads(done.out)
    assert (done.code, found["differing_count"]) == (3, 1)
    (partition,) = found["partitions"]
    assert (partition["partition"], partition["verdict"]) == (4, "one copy")
    one = je_tools("ignite", "diff", store)
    assert (one.code, "two nodes" in one.err) == (2, True)
    assert je_tools("ignite", "diff", store, other, store).code == 2
