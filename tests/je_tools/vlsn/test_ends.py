"""Nodes of a group at different places of the replication stream differ, equal records or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.errors import EXIT_DAMAGE, EXIT_OK
from je_tools.vlsn.last_vlsns import last_vlsn
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools
from tests.je_tools.snapshots import snapshot_of

GROUP = FIXTURES / "v17-rep-uncommitted-before"
AHEAD, LATE = GROUP / "node1", GROUP / "node2"


@pytest.mark.parametrize(
    ("home", "vlsn"), [(AHEAD, 1249), (LATE, 1223), (FIXTURES / "v17-basic" / "env", None)]
)
def test_the_last_vlsn_is_that_of_the_log(home: Path, vlsn: int | None) -> None:
    assert last_vlsn(snapshot_of(home)) == vlsn


def test_an_earlier_end_counts() -> None:
    snapshot = snapshot_of(AHEAD)
    earlier = snapshot_of(AHEAD, to_lsn=snapshot.checkpoint.start_lsn)
    assert (last_vlsn(earlier) or 0) < 1249


def test_nodes_at_different_places_differ() -> None:
    done = je_tools("diff", AHEAD, LATE)
    assert done.code == EXIT_DAMAGE
    assert "1249" in done.err
    assert "1223" in done.err
    assert je_tools("diff", AHEAD, AHEAD).code == EXIT_OK
