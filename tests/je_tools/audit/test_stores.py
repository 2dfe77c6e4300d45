"""An audit of stores of Ignite beside environments of JE."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.builders import ignite_pages as pages
from tests.corpus import FIXTURES, damaged_store
from tests.je_tools.dumped import je_tools


def audited(root: Path, out: Path, *words: str) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """Return the tables environments and findings of an audit, and its exit code."""
    done = je_tools("audit", "run", root, "--output", out, "--engine", "local", *words)
    tables = {
        name: pq.read_table(out / name).drop_columns("run").to_pylist()
        for name in ("environments", "findings")
    }
    return tables, done.code


def findings_of(store: Path) -> list[tuple[Any, ...]]:
    """Return the findings of `doctor`."""
    document = json.loads(je_tools("doctor", store, "--format", "json").out)
    rows = [row for name in ("start", "findings") for row in document[name]]
    return sorted(map(facts, rows), key=repr)


def facts(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the columns that findings of `doctor` and of an audit have in common."""
    names = ("severity", "code", "node", "file", "segment", "page", "offset", "length", "found")
    return tuple(row[name] for name in names)


def test_a_damaged_store_beside_an_environment(tmp_path: Path) -> None:
    store = pages.write_damaged_page_store(tmp_path / "fleet" / "work")
    shutil.copytree(FIXTURES / "v17-basic" / "env", tmp_path / "fleet" / "je")
    alone, _ = audited(tmp_path / "fleet" / "je", tmp_path / "alone")
    tables, code = audited(tmp_path / "fleet", tmp_path / "out")
    assert code == 3
    je, ignite = tables["environments"]
    assert [(row["env"], row["kind"]) for row in (je, ignite)] == [
        (str(tmp_path / "fleet" / "je"), "je"),
        (str(store), "ignite"),
    ]
    # Nothing changes for the environment.
    assert [je] == alone["environments"]
    of_store = [row for row in tables["findings"] if row["env"] == str(store)]
    assert [row for row in tables["findings"] if row not in of_store] == alone["findings"]
    assert sorted(map(facts, of_store), key=repr) == findings_of(store)
    assert ignite["error_count"] == sum(row["severity"] == "error" for row in of_store) > 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "page-checksum" in page


def test_codes_of_stores_decide_the_exit(tmp_path: Path) -> None:
    pages.write_damaged_page_store(tmp_path / "work")
    words = ("--fail-on", "page-checksum")
    assert audited(tmp_path / "work", tmp_path / "out", *words)[1] == 3
    assert audited(tmp_path / "work", tmp_path / "out", "--fail-on", "wal-gap")[1] == 0


def test_damaged_stores(ignite_damage: Path, tmp_path: Path) -> None:
    if ignite_damage.name not in ("ignite-bitflip", "ignite-partition-lost"):
        # The judge is that of doctor, whose test covers every store.
        return
    store = damaged_store(ignite_damage, tmp_path / "fleet")
    tables, code = audited(tmp_path / "fleet", tmp_path / "out")
    (row,) = tables["environments"]
    document = json.loads(je_tools("doctor", store, "--format", "json").out)
    assert row["outcome"] == document["nodes"][0]["outcome"] != "starts"
    assert row["verdict"] == document["verdict"]
    assert code == 3
    assert sorted(map(facts, tables["findings"]), key=repr) == findings_of(store)
