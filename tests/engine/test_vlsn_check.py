"""The engine treats a damaged index as `vlsn check` predicts.

The engine opens the node as a member of its group while the others are away, or leads it alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from je_tools.vlsn.recovered_index import read_index
from je_tools.vlsn.stream_check import check_stream
from tests.corpus import FIXTURES
from tests.engine.acceptance import Judge, node_of, vlsn_gaps
from tests.engine.jars import JE_18
from tests.je_tools.checkpoint.nodes import COMMIT, copy_up_to, entries_of, stream_of, write
from tests.je_tools.vlsn.indexes import copy_of, cut_index, snapshot_of_node, write_records
from tests.je_tools.vlsn.test_check import CASES, copy_before_its_first_checkpoint, short

CRASHED = FIXTURES / "v17-rep-uncommitted-before" / "node1"
NODE = FIXTURES / "v17-rep-uncommitted-before" / "node2"
SEED, TRANSACTIONS = 1, 5


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    # Nodes that were refused keep their ports until the JVM ends.
    with Judge.of(JE_18, tmp_path_factory.mktemp("judge") / "new") as made:
        yield made


def codes(home: Path) -> set[str]:
    return {each.code for each in check_stream(snapshot_of_node(home)).findings}


def problems(judge: Judge, home: Path, name: str, *work: int) -> str:
    """Return what goes wrong when the engine opens a node, or with `work` leads it and writes."""
    question = "work" if work else "recover"
    told = judge.told(judge.plain, home, question, 0, *work, node_of(home, name))
    return " ".join(told.problems)


def test_a_log_that_does_not_follow_the_index_is_refused(judge: Judge, tmp_path: Path) -> None:
    home = copy_of(CRASHED, tmp_path / "node")
    index = read_index(snapshot_of_node(home))
    write_records(home, short(index))
    assert "vlsn-index-refused" in codes(home)
    said = problems(judge, home, "node1")
    assert "should overlap or follow on disk last VLSN of 1 recoveryFirst= 628" in said


def test_a_short_index_gives_vlsns_twice_without_a_message(judge: Judge, tmp_path: Path) -> None:
    home = copy_up_to(CRASHED, entries_of(CRASHED)[-1].lsn, tmp_path / "node")
    write(home)
    assert codes(home) == set()
    last, lsn = [(v, e.lsn) for v, e in stream_of(home).items() if e.type_no == COMMIT][-2]
    write_records(home, cut_index(read_index(snapshot_of_node(home)), last, lsn))
    assert codes(home) == {"vlsn-index-short"}
    assert problems(judge, home, "node1", SEED, TRANSACTIONS) == ""
    assert list(vlsn_gaps(home))
    assert "vlsn-duplicate" in codes(home)


def test_recovery_fills_an_empty_index(judge: Judge, tmp_path: Path) -> None:
    """A node that crashes before its first checkpoint of its own is whole."""
    home = copy_before_its_first_checkpoint(tmp_path / "node")
    assert codes(home) == set()
    assert problems(judge, home, "node1", SEED, TRANSACTIONS) == ""
    assert not list(vlsn_gaps(home))
    assert codes(home) == set()


def test_a_landmark_that_is_no_end_of_a_transaction_is_refused(
    judge: Judge, tmp_path: Path
) -> None:
    home = copy_up_to(CRASHED, entries_of(CRASHED)[-1].lsn, tmp_path / "node")
    write(home)
    write_records(home, short(read_index(snapshot_of_node(home))))
    assert codes(home) == {"vlsn-index-short", "vlsn-index-range"}
    assert "cannot be cast" in problems(judge, home, "node1", SEED, TRANSACTIONS)


def test_an_index_without_its_head_is_refused(judge: Judge, tmp_path: Path) -> None:
    home = copy_of(NODE, tmp_path / "node")
    make, expected = CASES["head missing"]
    write_records(home, make(read_index(snapshot_of_node(home))))
    assert codes(home) == expected
    assert "find bucket for" in problems(judge, home, "node2", SEED, TRANSACTIONS)
