"""Advice of commands on stores of Ignite: hints, next commands, and what is left alone."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.builders.ignite_recovery import write_unfinished_store
from tests.corpus import FIXTURES, corpus, damaged_store
from tests.engine.ignite import writable_copy
from tests.je_tools.dumped import je_tools
from tests.je_tools.ignite.repairs.operations import operate, small_store

needs_corpus = pytest.mark.skipif(corpus() is None, reason="only the corpus has such stores")

CUT_SIZE = 4 * 4096
"""Size to which files of pages are cut, between two pages."""


def _store(name: str, into: Path) -> Path:
    whole = corpus()
    assert whole is not None
    return writable_copy(damaged_store(whole / f"ignite-{name}", into), into / "work")


def _document(*words: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(je_tools(*words, "--format", "json").out)
    return found


@needs_corpus
def test_damage_that_recovery_does_not_read_needs_nothing_for_the_start(tmp_path: Path) -> None:
    store = _store("bitflip-before", tmp_path)
    examined = _document("doctor", store)
    gaps = [each for each in examined["findings"] if each["code"] == "wal-gap"]
    assert len(gaps) == 2
    for gap in gaps:
        assert gap["hint"].startswith("The start needs nothing: recovery reads from segment 1")
        assert "historical rebalance" in gap["hint"]
    assert not any("ignite recover" in each["command"] for each in examined["next"])
    # All copies of the log were read.
    assert not any("Copies of the log" in each["text"] for each in examined["not_checked"])
    shown = _document("ignite", "recover", store)
    assert shown["next"] == []
    unread = [each["text"] for each in shown["not_checked"]]
    assert any("The log before segment 1, offset" in text for text in unread)


@pytest.mark.parametrize("is_zeros", [False, True], ids=["cut", "zeros"])
@pytest.mark.parametrize("name", ["cache-accounts/part-0.bin", "metastorage/part-1.bin"])
def test_pages_lost_at_the_end_of_a_file_are_the_same_in_doctor_and_recover(
    name: str, is_zeros: bool, tmp_path: Path
) -> None:
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "store")
    assert [each["outcome"] for each in _document("doctor", store)["nodes"]] == ["starts"]
    path = store / "db" / "node1" / name
    size = path.stat().st_size
    os.truncate(path, CUT_SIZE)
    os.truncate(path, size if is_zeros else CUT_SIZE)
    examined = _document("doctor", store)
    assert [each["outcome"] for each in examined["nodes"]] == ["does not start"]
    assert examined["verdict"].startswith("node1 does not start; ")
    assert "page-lost" in {each["code"] for each in examined["findings"]}
    assert [each["command"] for each in examined["next"]] == [
        f"je-tools ignite recover {store}",
        f"je-tools ignite pages verify {store}",
    ]
    shown = _document("ignite", "recover", store)
    assert {each["outcome"] for each in shown["starts"]} == {"does not start"}
    for told in (examined, shown):
        assert not any("lost at the end" in each["text"] for each in told["not_checked"])


@needs_corpus
def test_damaged_pages_lead_to_recover_then_to_a_copy_and_back(tmp_path: Path) -> None:
    store = _store("page-corrupt-meta", tmp_path)
    steps = [each["command"] for each in _document("doctor", store)["next"]]
    assert steps[0] == f"je-tools ignite recover {store}"
    planned = [each["command"] for each in _document("ignite", "recover", store)["next"]]
    assert planned == [
        f"cp -a {store} {store}.copy",
        f"je-tools ignite recover {store} --apply",
    ]
    applied = _document("ignite", "recover", store, "--apply")
    assert [each["command"] for each in applied["next"]] == [
        f"je-tools ignite undo {store} --apply"
    ]
    assert je_tools("ignite", "undo", store, "--apply").code == 0
    assert "nothing was changed" in je_tools("ignite", "undo", store, "--apply").err


@needs_corpus
def test_what_cannot_be_repaired_is_shown_after_an_attempt(tmp_path: Path) -> None:
    store = _store("bitflip-physical", tmp_path)
    (store / "db" / "node1" / "lock").unlink(missing_ok=True)
    planned = _document("ignite", "recover", store)
    assert planned["left"]
    assert _document("ignite", "recover", store, "--apply")["left"] == planned["left"]
    # Nothing was written, so no lock was taken.
    assert not (store / "db" / "node1" / "lock").exists()


@needs_corpus
def test_a_lost_partition_has_a_hint_of_its_own(tmp_path: Path) -> None:
    findings = _document("doctor", _store("partition-lost", tmp_path))["start"]
    (lost,) = [each for each in findings if each["code"] == "recovery-loss"]
    assert "writes over" not in lost["hint"]
    assert "The node makes an empty file" in lost["hint"]


@needs_corpus
def test_parts_and_folders_of_stores_are_not_called_new_logs(tmp_path: Path) -> None:
    store = _store("bitflip-before", tmp_path)
    above = je_tools("doctor", store.parent)
    assert above.code == 4
    assert f"`je-tools doctor {store}`" in above.err
    for part in ("db/wal", "db/wal/archive/node1", "db/wal/node1"):
        done = je_tools("doctor", store / part)
        assert (done.code, done.out) == (4, b"")
        assert f"`je-tools doctor {store}`" in done.err


@needs_corpus
@pytest.mark.parametrize("name", ["marker-empty", "marker-foreign"])
def test_a_bogus_marker_gives_no_time_of_a_checkpoint(name: str, tmp_path: Path) -> None:
    store = _store(name, tmp_path)
    (node,) = _document("doctor", store)["nodes"]
    assert node["last_checkpoint_ms"] < 1_800_000_000_000
    (log,) = _document("ignite", "checkpoints", store)["log"]
    # The segments up to the one that it points to are not known to be missing.
    assert (log["missing"], log["marked"]) == (None, 99 if name == "marker-foreign" else None)


def test_a_code_alone_is_explained() -> None:
    alone, named = je_tools("explain", "wal-gap"), je_tools("explain", "finding:wal-gap")
    assert (alone.code, alone.out) == (0, named.out)
    words = je_tools("explain", "finding:page-checksum").out.split()
    assert b"another node that owns it" in b" ".join(words)


@needs_corpus
def test_the_wrong_command_names_the_right_one(tmp_path: Path) -> None:
    store = _store("bitflip-before", tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    assert f"`je-tools ignite diff {store} {other}`" in je_tools("diff", store, other).err
    segment = store / "db" / "wal" / "node1" / "0000000000000000.wal"
    told = je_tools("verify", segment).err
    assert f"`je-tools ignite wal verify {segment}`" in told
    assert "pages" not in told.replace(str(tmp_path), "")
    for part in ("db/wal", "db/node1/cp", "db/node1/cache-atom"):
        told = je_tools("ignite", "info", store / part).err
        assert f"a part of the store {store}: name that" in told
    page_file = store / "db/node1/cache-atom/part-0.bin"
    assert "a file of pages" in je_tools("ignite", "pages", "verify", page_file).err
    (other / "00000000.jdb").write_bytes(b"")
    assert f"`je-tools doctor {other}`" in je_tools("ignite", "info", other).err


@needs_corpus
def test_a_diff_needs_two_nodes(tmp_path: Path) -> None:
    store = _store("bitflip-before", tmp_path)
    same = je_tools("ignite", "diff", store, store)
    assert (same.code, "both stores are the same" in same.err) == (2, True)
    one = je_tools("ignite", "diff", store)
    assert (one.code, "name a second store" in one.err) == (2, True)
    assert je_tools("ignite", "info", store, "--node", "nod1").code == 2


@needs_corpus
@pytest.mark.parametrize("command", ["doctor", "ignite recover"])
def test_encrypted_pages_are_not_called_checked(command: str) -> None:
    whole = corpus()
    assert whole is not None
    unchecked = _document(*command.split(), whole / "ignite-tde/store")["not_checked"]
    texts = [each["text"] for each in unchecked]
    assert sum("254 encrypted pages" in text for text in texts) == 1
    assert any("Encrypted entries of the log (99)" in text for text in texts)


@needs_corpus
def test_records_that_a_repair_gives_up_have_their_cache_and_key(tmp_path: Path) -> None:
    store = _store("bitflip", tmp_path)
    (lost,) = _document("ignite", "recover", store)["lost"]
    assert (lost["segment"], lost["offset"], lost["size"]) == (1, 380_580, 329)
    assert (lost["cache"], lost["op"], lost["key"]) == ("obj", "UPDATE", '{"int":39}')
    assert lost["text"] == "one record, probably DATA_RECORD_V2"
    words = ("ignite", "recover", store, "--data", "length", "--format", "json")
    assert json.loads(je_tools(*words).out)["lost"][0]["key"] == "length:5"
    # The length that the record names is damaged, too.
    (same,) = _document("ignite", "recover", _store("bitflip-length", tmp_path / "2"))["lost"]
    assert same["key"] == lost["key"]
    cut = _document("ignite", "recover", store, "--cut-at", "1:380580")["lost"]
    assert [each["text"] for each in cut] == ["all records from here on"]


def test_edits_that_the_node_makes_itself_are_called_optional(tmp_path: Path) -> None:
    store = write_unfinished_store(tmp_path / "store")
    found = _document("ignite", "recover", store)
    assert found["starts"][0]["outcome"] == "starts"
    assert ["optional" in each["text"] for each in found["later"]] == [True]
    assert "optional edits" in found["next"][-1]["why"]
    # Another file of pages is damaged, and only the edits repair it.
    (store / "db" / "node1" / "cache-first" / "index.bin").write_bytes(b"x" * 5000)
    assert not _document("ignite", "recover", store)["later"]


def test_what_is_not_so_for_all_nodes_names_the_node() -> None:
    whole = corpus()
    if whole is not None:
        found = _document("ignite", "recover", whole / "ignite-two-nodes" / "store")
        texts = [each["text"] for each in found["not_checked"]]
        assert [text[:28] for text in texts if "The log before" in text] == [
            f"{node}: The log before segment"[:28] for node in ("node1", "node2")
        ]
        assert len(texts) == 6


def test_an_export_says_what_it_does_not_look_at(tmp_path: Path) -> None:
    store = write_unfinished_store(tmp_path / "store")
    done = je_tools("ignite", "export", store)
    assert done.err.count("je-tools: not checked: ") == 2


@needs_corpus
def test_the_journals_of_all_nodes_are_listed() -> None:
    whole = corpus()
    assert whole is not None
    store = whole / "ignite-two-nodes" / "store"
    listed = je_tools("ignite", "undo", store)
    assert listed.code == 0
    assert listed.out.count(b": Undo journals") == 2
    assert je_tools("ignite", "undo", store, "--apply").code == 2


def test_the_journals_of_all_nodes_are_one_document(tmp_path: Path) -> None:
    store = small_store(tmp_path / "store")
    operate(store, "pages")
    for tree in ("db", "db/wal", "db/wal/archive"):
        shutil.copytree(store / tree / "node1", store / tree / "node2")
    found = _document("ignite", "undo", store)
    assert found["env"] == str(store)
    assert [each["node"] for each in found["journals"]] == ["node1", "node2"]
    assert {each["node"] for each in found["steps"]} == {"node1", "node2"}
    one = _document("ignite", "undo", store, "--node", "node2")
    assert one["env"] == str(store / "db" / "node2")
    assert one["journals"] == found["journals"][1:]
    lines = je_tools("ignite", "undo", store, "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["node"] for line in lines].count("node1") == len(lines) // 2
