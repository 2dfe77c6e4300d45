"""`je-tools ignite`: formats, exit codes, and outputs that hold nothing of an entry."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from je_tools.commands.ignite_wal import VERBS
from tests.builders import ignite as build
from tests.je_tools.dumped import je_tools

SECRET = b"alice@example.org"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with a damaged record, whose entries all hold a secret."""
    texts = [build.string(SECRET + bytes(n)) for n in range(3)]
    records = [("DATA_RECORD_V2", build.data_payload(texts[0], text)) for text in texts]
    data, offsets = build.segment(0, records, end=bytes(50))
    damaged = bytearray(data)
    damaged[offsets[1] + 20] ^= 1
    return build.write_store(tmp_path / "store", [], [bytes(damaged)])


@pytest.mark.parametrize("form", ["table", "jsonl", "csv", "parquet"])
@pytest.mark.parametrize("verb", VERBS)
def test_outputs_hold_nothing_of_an_entry(
    verb: str, form: str, store: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    masked = ("--data", "hash") if verb == "dump" else ()
    done = je_tools("ignite", "wal", verb, store, *masked, "--format", form, "--output", output)
    assert done.code == 3
    written = output.read_bytes()
    texts = str(pq.read_table(output).to_pylist()).encode() if form == "parquet" else written
    assert written
    for text in (written, texts, done.err.encode()):
        assert SECRET not in text
        assert SECRET.hex().encode() not in text


def test_keys_and_values_are_shown_unless_they_are_masked(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = je_tools("ignite", "wal", "dump", store, "--format", "jsonl")
    row = json.loads(shown.out.splitlines()[0])
    assert row["key_json"] == row["value_json"] == SECRET.decode()
    for form in ("table", "jsonl", "csv"):
        words = ("ignite", "wal", "dump", store, "--format", form)
        assert SECRET in je_tools(*words).out
        for mode in ("hide", "length", "hash", "salted-hash"):
            assert SECRET not in je_tools(*words, "--data", mode).out


def test_damage_is_exit_code_3_unless_zero_is_asked_for(store: Path) -> None:
    done = je_tools("ignite", "wal", "verify", store, "--format", "jsonl")
    (found,) = map(json.loads, done.out.splitlines())
    assert (done.code, found["code"], found["length"]) == (3, "wal-gap", found["length"])
    assert je_tools("ignite", "wal", "verify", store, "--exit-zero").code == 0
    assert je_tools("ignite", "wal", "summary", store, "--exit-zero").code == 0


def test_wrong_use_is_refused(store: Path, tmp_path: Path) -> None:
    inside = store / "db" / "out"
    done = je_tools("ignite", "wal", "verify", store, "--output", inside)
    assert (done.code, inside.exists()) == (6, False)
    assert "inside" in done.err
    unknown = je_tools("ignite", "wal", "verify", store, "--node", "node7")
    assert (unknown.code, "its nodes: node1" in unknown.err) == (4, True)
    assert je_tools("ignite", "wal", "verify", tmp_path / "nothing").code == 4
    assert je_tools("ignite", "wal", "verify", store, store).code == 2
    both = ("--by-cache", "--by-segment", "--format", "csv")
    assert je_tools("ignite", "wal", "summary", store, *both).code == 2


def test_files_and_folders_of_segments(store: Path) -> None:
    folder = store / "db" / "wal" / "node1"
    for path in (folder, folder / "0000000000000000.wal", store / "db", store / "db" / "node1"):
        done = je_tools("ignite", "wal", "verify", path)
        assert done.code == 3, path
        assert "1 error in 1 files, 2 records" in done.err, path


@pytest.mark.parametrize("form", ["table", "json", "jsonl"])
def test_checkpoints_exit_with_3_for_damage_only(form: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    build.write_checkpointed_store(store)
    words = ("ignite", "checkpoints", store, "--partitions", "--format", form)
    whole = je_tools(*words)
    assert (whole.code, "no errors or warnings" in whole.err) == (0, True)
    for path in (store / "db" / "node1" / "cp").glob("*-END.bin"):
        path.write_bytes(b"")
    assert je_tools(*words).code == 3
    assert je_tools(*words, "--exit-zero").code == 0


def test_checkpoints_as_one_object(tmp_path: Path) -> None:
    store = tmp_path / "store"
    pointers = build.write_checkpointed_store(store)
    document = json.loads(je_tools("ignite", "checkpoints", store, "--format", "json").out)
    places = [(c["segment"], c["offset"], c["length"]) for c in document["checkpoints"]]
    assert places == pointers
    assert [each["state"] for each in document["checkpoints"]] == ["finished"] * 2 + ["unfinished"]
    assert document["log"][0]["first"] == 1
    assert "partitions" not in document


def test_checkpoints_need_a_work_directory(tmp_path: Path) -> None:
    build.write_checkpointed_store(tmp_path / "store")
    folder = tmp_path / "store" / "db" / "wal" / "node1"
    done = je_tools("ignite", "checkpoints", folder)
    assert (done.code, "name the work directory" in done.err) == (4, True)
