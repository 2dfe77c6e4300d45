"""A real node of Ignite as the judge: it finds the recorded rows, and says why it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus import FIXTURES, IgniteNode, corpus, damaged_store, ignite_nodes
from tests.engine.ignite import IgniteEngine, recorded_rows, writable_copy
from tests.je_tools.dumped import je_tools
from tests.truth.contents import Refusal

# TDE needs a keystore, and compressed pages a module that is not fetched.
OTHERS = {"ignite-tde", "ignite-pagecompress"}
NODES = [each for each in ignite_nodes() if each.case not in OTHERS]
REFUSALS = {
    "ignite-bitflip": ("start", "Failed to read WAL record at position: 380580"),
    "ignite-marker-empty": ("start", "Failed to read checkpoint pointer from marker file"),
    "ignite-marker-foreign": ("halt", ""),
}


STARTS = 8
"""Starts of a node that keeps recovery files: 2.18.0 halts in one of three on an intact store."""


def read_by(ignite: IgniteEngine, case: IgniteNode, folder: Path) -> list[str] | Refusal:
    keeps_files = case.case == "ignite-recovery-files"
    options = "recovery-files" if keeps_files else ""
    for number in range(STARTS if keeps_files else 1):
        work = writable_copy(case.store, folder / f"work-{number}")
        found = ignite.rows(work, case.node, options=options)
        if not isinstance(found, Refusal) or found.stage != "halt":
            break
    return found


@pytest.mark.engine
@pytest.mark.parametrize("case", NODES, ids=lambda case: f"{case.case}/{case.node}")
def test_a_node_finds_the_recorded_rows(
    ignite: IgniteEngine, case: IgniteNode, tmp_path: Path
) -> None:
    truth = case.store.parent
    own = truth / case.node
    recorded = (own if own.is_dir() else truth) / "records.tsv.gz"
    assert read_by(ignite, case, tmp_path) == recorded_rows(recorded)


@pytest.mark.engine
@pytest.mark.parametrize("name", REFUSALS if corpus() else [])
def test_a_node_says_why_it_refuses(ignite: IgniteEngine, name: str, tmp_path: Path) -> None:
    whole = corpus()
    assert whole is not None
    stage, text = REFUSALS[name]
    found = ignite.rows(damaged_store(whole / name, tmp_path))
    assert isinstance(found, Refusal)
    assert found.stage == stage
    assert text in found.message


@pytest.mark.engine
def test_a_node_starts_on_the_fixtures_as_predicted(ignite: IgniteEngine, tmp_path: Path) -> None:
    rows = recorded_rows(FIXTURES / "ignite-killed" / "records.tsv.gz")
    whole = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "whole")
    assert "node1 starts" in je_tools("ignite", "recover", whole).err
    found = ignite.rows(whole)
    assert isinstance(found, list)
    assert [row for row in found if not row.startswith("ignite-sys-cache")] == rows
    damaged = damaged_store(FIXTURES / "ignite-page-damaged", tmp_path)
    assert "node1 does not start" in je_tools("ignite", "recover", damaged).err
    refused = ignite.rows(writable_copy(damaged, tmp_path / "refused"))
    assert isinstance(refused, Refusal)
    assert je_tools("ignite", "recover", damaged, "--apply").code == 0
    found = ignite.rows(damaged)
    assert isinstance(found, list)
    assert [row for row in found if not row.startswith("ignite-sys-cache")] == rows


@pytest.mark.engine
@pytest.mark.parametrize(
    ("number", "content", "starts"),
    [(0, b"", False), (0, bytes(99), False), (1, b"", True), (1, b"no header".ljust(99), True)],
)
def test_a_node_passes_over_archived_files_without_a_header(
    ignite: IgniteEngine, number: int, content: bytes, starts: bool, tmp_path: Path
) -> None:
    """It goes by headers and not by names, until it archives a segment of such a name."""
    base = FIXTURES / "ignite-killed" / "store"
    path = Path("db/wal/archive/node1", f"{number:016}.wal")
    damaged, mended = (writable_copy(base, tmp_path / each) for each in ("damaged", "mended"))
    for store in (damaged, mended):
        (store / path).write_bytes(content)
    assert isinstance(ignite.rows(damaged), list) == starts
    assert je_tools("ignite", "recover", mended, "--apply").code == 0
    found = ignite.rows(mended)
    assert isinstance(found, list)
    rows = recorded_rows(FIXTURES / "ignite-killed" / "records.tsv.gz")
    assert [row for row in found if not row.startswith("ignite-sys-cache")] == rows
