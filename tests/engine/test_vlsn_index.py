"""The engine rebuilds a crashed node's VLSN index, and marks rollbacks, as we predict.

It opens the node as a member of its group while the others are away, and closes it.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from je_tools.checkpoint.rollbacks import missing_invisible_marks
from je_tools.checkpoint.vlsn_records import read_index
from tests.corpus import environments
from tests.engine.acceptance import Judge, node_of
from tests.je_tools.checkpoint.nodes import (
    ROLLBACK_START,
    copy_up_to,
    entries_of,
    index_of_member,
    member,
    node,
    write,
)

CRASHED = ("v17-rep-uncommitted-before/node1", "v15-rep-uncommitted/node1")
ROLLED_BACK = ("starrocks-rep-uncommitted/node1", "v15-rep-uncommitted/node1")
READ = ("v15-rep", "v17-rep", "starrocks-rep")
MANY = 40


def cases() -> list[Any]:
    """Return names of nodes with seeds and numbers of cuts."""
    every = [each.name for each in environments() if each.name.startswith(READ)]
    more = [name for name in every if "/node" in name]
    return [(name, seed, 4) for seed, name in enumerate(CRASHED)] + [
        pytest.param(name, seed, MANY, marks=[pytest.mark.exhaustive])
        for seed, name in enumerate(more)
    ]


def recover(judge: Judge, home: Path, name: str) -> None:
    """Let the engine open the node and close it."""
    told = judge.told(judge.plain, home, "recover", 0, node_of(node(name).home, name[-5:]))
    assert not told.problems


@pytest.mark.parametrize(("name", "seed", "cuts"), cases())
def test_the_index_is_the_engines(
    judge: Judge, name: str, seed: int, cuts: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    source = node(name).home
    entries = entries_of(source)
    for number in range(cuts):
        lsn = rng.choice(entries[len(entries) // 3 :]).lsn
        home = copy_up_to(source, lsn, tmp_path / str(number))
        foretold = index_of_member(home)
        recover(judge, home, name)
        assert read_index(member(home)).encode() == foretold.encode(), f"cut at {lsn:#x}"


@pytest.mark.parametrize("name", ROLLED_BACK)
def test_marks_are_the_engines(judge: Judge, name: str, tmp_path: Path) -> None:
    source = node(name).home
    entries = entries_of(source)
    (at,) = (i for i, each in enumerate(entries) if each.type_no == ROLLBACK_START)
    home = copy_up_to(source, entries[at + 1].lsn, tmp_path / "a", unmarked=True)
    foretold = index_of_member(home)
    marks = missing_invisible_marks(member(home))
    before = bytearray((home / "00000000.jdb").read_bytes())
    recover(judge, home, name)
    assert marks
    for mark in marks:
        before[mark.offset : mark.offset + 1] = mark.new
    assert (home / "00000000.jdb").read_bytes().startswith(bytes(before))
    assert read_index(member(home)).encode() == foretold.encode()


def test_the_engine_goes_on_with_a_checkpoint_cut_short(judge: Judge, tmp_path: Path) -> None:
    """The index shrinks here, and the engine would refuse some of its records alone."""
    name = ROLLED_BACK[0]
    source = node(name).home
    entries = entries_of(source)
    (at,) = (i for i, each in enumerate(entries) if each.type_no == ROLLBACK_START)
    home = copy_up_to(source, entries[at + 1].lsn, tmp_path / "a")
    foretold = index_of_member(home).encode()
    begun = write(home).start_lsn
    behind = [each for each in entries_of(home) if each.lsn > begun]
    (first,) = (i for i, each in enumerate(behind) if each.type_no == 17)
    for cut in behind[first - 2 : first + 6]:
        part = copy_up_to(home, cut.lsn, tmp_path / str(cut.lsn))
        recover(judge, part, name)
        assert read_index(member(part)).encode() == foretold
