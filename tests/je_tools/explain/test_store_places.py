"""Places in stores of Ignite: pointers and pages, as users and messages of nodes name them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from je_tools.explain.place_names import StorePlace, parse_store_place
from je_tools.explain.recognition import recognise_text
from tests.builders import ignite as build
from tests.builders import ignite_pages as pages
from tests.corpus import damaged_store
from tests.je_tools.dumped import je_tools

PAGE = 0x0001000000000008


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("1:380580", StorePlace("1:380580", (1, 380580))),
        (f"5:{PAGE:016x}", StorePlace(f"5:{PAGE:016x}", group=5, page_id=PAGE)),
        (f"-5:0x{PAGE:016X}", StorePlace(f"-5:0x{PAGE:016X}", group=-5, page_id=PAGE)),
        (f"{PAGE:016x}", StorePlace(f"{PAGE:016x}", page_id=PAGE)),
        ("exit:3", None),
        ("0x0/0x26", None),
        ("type:NameLN", None),
        ("1:", None),
    ],
)
def test_names_of_places(text: str, place: StorePlace | None) -> None:
    assert parse_store_place(text) == place


def explained(*words: object) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of `explain`, facts by name, and the exit code."""
    done = je_tools("explain", *words, "--format", "jsonl")
    rows = [json.loads(line) for line in done.out.splitlines()]
    for row in rows:
        row["facts"] = {each["fact"]: each["value"] for each in row.get("facts", ())}
    return rows, done.code


def test_pointers_of_a_store(tmp_path: Path) -> None:
    store = build.write_dumped_store(tmp_path / "store")
    ((row,), code) = explained("0:29", "--env", store)
    assert code == 0
    assert row["node"] == "node1"
    assert row["facts"]["what"].startswith("DATA_RECORD_V2, ")
    assert row["facts"]["key"]
    ((hidden,), _) = explained("0:29", "--env", store, "--data", "hide")
    assert "key" not in hidden["facts"]
    ((row,), code) = explained("0:33", "--env", store)
    assert (row["facts"]["what"], code) == ("inside of the DATA_RECORD_V2 that begins at 29", 0)
    ((row,), code) = explained("7:29", "--env", store)
    assert (row["facts"]["what"], code) == (
        "no file has segment 7; segments 0 to 1 are there",
        3,
    )
    segment = next((store / "db" / "wal" / "archive" / "node1").glob("*.wal"))
    data = bytearray(segment.read_bytes())
    data[35] ^= 1
    segment.write_bytes(data)
    ((row,), code) = explained("0:29", "--env", store)
    assert code == row["damaged"] * 3 == 3
    assert row["facts"]["what"].startswith("no record: bytes 29 to ")


def test_pages_of_a_store(tmp_path: Path) -> None:
    store = pages.write_page_store(tmp_path / "store")
    page = "first:0001000000000004"
    ((row,), code) = explained(page, "--env", store)
    assert code == 0
    assert row["facts"]["what"].startswith("data, good, checksum ")
    assert row["facts"]["log"] == "no record names it"
    pages.damage(store / "db" / "node1" / "cache-first" / "part-0.bin", 4)
    ((row,), code) = explained(page, "--env", store)
    assert code == 3
    assert row["facts"]["what"].startswith("data, checksum, stored checksum ")
    ((row,), code) = explained("first:0001000000000009", "--env", store)
    assert (row["facts"]["what"], code) == ("not in the file, which has 6 pages", 0)
    ((row,), code) = explained("0002ffff00000003")
    assert (row["node"], row["facts"]["partition"], code) == (None, "65535 (index.bin)", 0)


def test_a_pointer_needs_a_store(tmp_path: Path) -> None:
    done = je_tools("explain", "1:29")
    assert done.code == 2
    assert "1:29: a pointer needs a store of Ignite: name it with --env" in done.err
    assert je_tools("explain", "1:29", "--env", tmp_path).code == 4


TEXTS = (
    "Failed to read WAL record at position",
    "Page is broken. Can't restore it from WAL",
    "Failed to read checkpoint pointer from marker file",
    "Runtime failure on search row",
)
"""Messages of nodes on damaged stores of the corpus; the others print nothing of the store."""


def test_messages_of_nodes_on_damaged_stores(ignite_damage: Path, tmp_path: Path) -> None:
    lines = (ignite_damage / "damage.txt").read_text().splitlines()
    (text,) = (line for line in lines if line.startswith("engine:"))
    found = recognise_text(text)
    assert len(found.sightings) == any(each in text for each in TEXTS)
    named = [each.place for each in found.places if each.place.pointer or each.place.page]
    if not named:
        return
    store = damaged_store(ignite_damage, tmp_path / "store")
    rows, code = explained(text, "--env", store)
    assert code == 3
    (place,) = [row for row in rows if "damaged" in row]
    assert place["damaged"]
    shutil.rmtree(store)
