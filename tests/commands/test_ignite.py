"""`je-tools ignite`: formats, exit codes, and outputs that hold nothing of an entry."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from je_tools.commands._ignite_hint import COUNTERPARTS
from je_tools.commands.ignite_wal import VERBS
from tests.builders import ignite as build
from tests.builders import ignite_pages as pages
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


@pytest.mark.parametrize("verb", ["info", "recover"])
def test_a_name_that_is_too_long_is_no_store(verb: str) -> None:
    done = je_tools("ignite", verb, "x" * 300)
    assert (done.code, "File name too long" in done.err) == (4, True)


def test_wrong_use_is_refused(store: Path, tmp_path: Path) -> None:
    inside = store / "db" / "out"
    done = je_tools("ignite", "wal", "verify", store, "--output", inside)
    assert (done.code, inside.exists()) == (6, False)
    assert "inside" in done.err
    unknown = je_tools("ignite", "wal", "verify", store, "--node", "node7")
    assert (unknown.code, "its nodes: node1" in unknown.err) == (2, True)
    assert je_tools("ignite", "wal", "verify", tmp_path / "nothing").code == 4
    assert je_tools("ignite", "wal", "verify", store, store).code == 2
    both = ("--by-cache", "--by-segment", "--format", "csv")
    assert je_tools("ignite", "wal", "summary", store, *both).code == 2


def test_files_and_folders_of_segments(store: Path) -> None:
    folder = store / "db" / "wal" / "node1"
    for path in (folder, folder / "0000000000000000.wal", store / "db", store / "db" / "node1"):
        done = je_tools("ignite", "wal", "verify", path)
        assert done.code == 3, path
        assert "1 error in 1 file, 2 records" in done.err, path


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


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("pages dump --group none", "--group none: there is no such group"),
        ("pages dump --partition 7", "--partition 7: no such partition there. There are: 0-1"),
        ("pages dump --partition 65536", "65536 is not in the range"),
        ("wal dump --partition -1", "-1 is not in the range"),
        ("wal dump --from 2:0 --to 1:0", "--from comes after --to: nothing can match"),
    ],
)
def test_filters_that_nothing_can_match_are_refused(words: str, told: str, tmp_path: Path) -> None:
    store = pages.write_page_store(tmp_path / "store")
    verb, command, *options = words.split()
    done = je_tools("ignite", verb, command, store, *options)
    assert (done.code, done.out) == (2, b"")
    assert told in done.err


def test_partitions_that_no_cache_has_are_refused(tmp_path: Path) -> None:
    store = build.write_exported_store(tmp_path / "store")
    other = build.write_exported_store(tmp_path / "other")
    told = "--partition 7: no such partition there. There are: 3-4"
    for words in (("export", store), ("diff", store, other)):
        done = je_tools("ignite", *words, "--partition", "7")
        assert (done.code, done.out) == (2, b"")
        assert told in done.err
    assert je_tools("ignite", "export", store, "--partition", "4").code == 0


def test_caches_without_a_folder_may_be_in_the_log(tmp_path: Path) -> None:
    store = build.write_dumped_store(tmp_path / "store")
    known = je_tools("ignite", "wal", "dump", store, "--cache", "accounts")
    assert (known.code, known.err) == (0, "")
    destroyed = je_tools("ignite", "wal", "dump", store, "--cache", "9", "--format", "jsonl")
    assert len(destroyed.out.splitlines()) == 3
    assert "warning: 9: no node has a folder of such a cache or group" in destroyed.err
    page = je_tools("ignite", "wal", "dump", store, "--page", "none:0001000500000002")
    assert "warning: none: no node has a folder" in page.err
    segments = store / "db" / "wal" / "node1"
    assert "warning" not in je_tools("ignite", "wal", "dump", segments, "--cache", "none").err


@pytest.mark.parametrize("command", COUNTERPARTS)
def test_commands_on_logs_name_the_command_on_stores(command: str, tmp_path: Path) -> None:
    store = build.write_exported_store(tmp_path / "store")
    words: dict[str, tuple[object, ...]] = {
        "get": ("--db", "x", "key"),
        "export": ("--all",),
        "diff": (store,),
        "salvage": ("--output", tmp_path / "out"),
    }
    done = je_tools(command, store, *map(str, words.get(command, ())))
    line = done.err.splitlines()[-1]
    assert (done.code, done.out) == (4, b"")
    assert line.startswith(f"je-tools: {store}: a store of Apache Ignite, not a log of JE; use `")
    named = f"{store} {store}" if command == "diff" else str(store)
    assert f"je-tools {COUNTERPARTS[command][0]} {named}`" in line


def test_a_segment_is_no_log(tmp_path: Path) -> None:
    store = build.write_exported_store(tmp_path / "store")
    folder = store / "db" / "wal" / "node1"
    for path in (folder, folder / "0000000000000000.wal"):
        done = je_tools("verify", path)
        assert done.code == 4
        assert f"use `je-tools ignite wal verify {path}`" in done.err


def test_a_record_of_a_repair_is_shown_as_such(tmp_path: Path) -> None:
    blanks = ("CLUSTER_SNAPSHOT", (9).to_bytes(4, "little") + b" " * 9)
    named = ("CLUSTER_SNAPSHOT", (4).to_bytes(4, "little") + b"snap")
    store = build.write_cache_store(tmp_path / "store", [blanks, named])
    done = je_tools("ignite", "wal", "dump", store, "--format", "jsonl")
    fields = [json.loads(line)["fields"] for line in done.out.splitlines()]
    assert fields == [{"filler": True}, {"name": "snap"}]
    assert '{"filler":true}' in je_tools("ignite", "wal", "dump", store).out.decode()
