"""`doctor` on stores of Ignite: the answers of the commands of `ignite`, on one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import ignite as build
from tests.builders import ignite_pages as pages
from tests.corpus import IgniteNode, damaged_store
from tests.je_tools.dumped import je_tools

Finding = tuple[str, str, str | None, int | None]


def report(store: Path) -> tuple[dict[str, Any], int]:
    """Return the report of a store, and the exit code."""
    done = je_tools("doctor", store, "--format", "json")
    return json.loads(done.out), done.code


def found_by(store: Path, *words: str) -> set[Finding]:
    """Return the errors and warnings of a command of `ignite`."""
    done = je_tools("ignite", *words, store, "--format", "jsonl")
    rows = map(json.loads, done.out.splitlines())
    return {finding(row) for row in rows if row.get("severity") in ("error", "warning")}


def finding(row: dict[str, Any]) -> Finding:
    """Return what two findings have in common if they are the same."""
    return row["severity"], row["code"], row.get("file"), row.get("offset")


def wrong_in(document: dict[str, Any], *sections: str) -> set[Finding]:
    """Return the errors and warnings of a report."""
    rows = (row for name in sections for row in document[name])
    return {finding(row) for row in rows if row["severity"] != "note"}


COMMANDS = (("wal", "verify"), ("checkpoints",), ("pages", "verify"))


def assert_agrees(store: Path) -> dict[str, Any]:
    """Check that the report has what the commands say, and return it."""
    document, code = report(store)
    assert wrong_in(document, "findings") == set().union(
        *(found_by(store, *words) for words in COMMANDS)
    )
    recovered = json.loads(je_tools("ignite", "recover", store, "--format", "json").out)
    assert wrong_in(document, "start") == wrong_in(recovered, "findings")
    starts = all(node["outcome"] == "starts" for node in document["nodes"])
    is_wrong = bool(wrong_in(document, "findings", "start")) or not starts
    assert (document["damaged"], code) == (is_wrong, 3 * is_wrong)
    assert bool(document["next"]) == is_wrong
    return document


def test_damaged_stores(ignite_damage: Path, tmp_path: Path) -> None:
    store = damaged_store(ignite_damage, tmp_path)
    document = assert_agrees(store)
    (line,) = (
        each
        for each in (ignite_damage / "damage.txt").read_text().splitlines()
        if each.startswith("engine: ")
    )
    (node,) = document["nodes"]
    if "EXC " in line:
        assert node["outcome"] != "starts"


def test_an_undamaged_store(ignite_node: IgniteNode) -> None:
    document, code = report(ignite_node.store)
    assert not wrong_in(document, "findings", "start")
    assert {node["outcome"] for node in document["nodes"]} == {"starts"}
    assert (code, document["kind"], document["next"]) == (0, "ignite", [])


def test_a_store_without_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    store = pages.write_damaged_page_store(tmp_path / "store")
    document, code = report(store)
    assert code == 3
    assert document["not_checked"]
    done = je_tools("doctor", store)
    assert done.code == 3
    assert "page-checksum" in done.out.decode()
    assert f"je-tools ignite pages verify {store}" in " ".join(done.out.decode().split())


def test_options_of_environments_are_refused(tmp_path: Path) -> None:
    store = build.write_dumped_store(tmp_path / "store")
    done = je_tools("doctor", store, "--tree")
    assert done.code == 2
    assert "--tree: only for environments of JE, not for stores of Ignite" in done.err


def test_the_page_has_what_the_report_has(tmp_path: Path) -> None:
    store = pages.write_damaged_page_store(tmp_path / "<i>&store")
    page = tmp_path / "page.html"
    done = je_tools("doctor", store, "--html", page)
    text = page.read_text(encoding="utf-8")
    document, code = report(store)
    assert done.code == code == 3
    rows = [row for name in ("start", "findings") for row in document[name]]
    assert rows
    for row in rows:
        assert f"<bdi>{row['code']}</bdi>" in text
        assert row["file"] is None or f"<bdi>{row['file']}</bdi>" in text
    assert "je-tools ignite recover" in text
    assert "<i>&" not in text
    assert "&lt;i&gt;&amp;store" in text
    inside = je_tools("doctor", store, "--html", store / "page.html")
    assert (inside.code, "lies inside" in inside.err) == (6, True)
