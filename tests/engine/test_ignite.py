"""A real node of Ignite as the judge: it finds the recorded rows, and says why it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus import IgniteNode, corpus, damaged_store, ignite_nodes
from tests.engine.ignite import IgniteEngine, recorded_rows, writable_copy
from tests.truth.contents import Refusal

# TDE needs a keystore, and compressed pages a module that is not fetched.
OTHERS = {"ignite-tde", "ignite-pagecompress"}
NODES = [each for each in ignite_nodes() if each.case not in OTHERS]
REFUSALS = {
    "ignite-bitflip": ("start", "Failed to read WAL record at position: 380580"),
    "ignite-marker-empty": ("start", "Failed to read checkpoint pointer from marker file"),
    "ignite-marker-foreign": ("halt", ""),
}


def read_by(ignite: IgniteEngine, case: IgniteNode, work: Path) -> list[str] | Refusal:
    options = "recovery-files" if case.case == "ignite-recovery-files" else ""
    return ignite.rows(writable_copy(case.store, work), case.node, options=options)


@pytest.mark.engine
@pytest.mark.parametrize("case", NODES, ids=lambda case: f"{case.case}/{case.node}")
def test_a_node_finds_the_recorded_rows(
    ignite: IgniteEngine, case: IgniteNode, tmp_path: Path
) -> None:
    truth = case.store.parent
    own = truth / case.node
    recorded = (own if own.is_dir() else truth) / "records.tsv.gz"
    assert read_by(ignite, case, tmp_path / "work") == recorded_rows(recorded)


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
