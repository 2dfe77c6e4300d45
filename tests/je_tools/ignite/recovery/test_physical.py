"""Physical replay: stores rebuilt from their logs, and the engine's own recovery."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.markers import MarkerKind, Pointer
from je_tools.formats.ignite.page_image import page_image, read_image_pages
from je_tools.formats.ignite.replay import MisfitReason, PageReplay
from je_tools.ignite.checkpoints.node_checkpoints import newest_marker, node_checkpoints
from je_tools.ignite.pages.files import PageFile, page_folder
from je_tools.ignite.recovery.physical import (
    PageSource,
    open_replay,
    recovered_pages,
    replay_log,
)
from je_tools.ignite.store import Node
from tests.corpus import IgniteNode, ignite_nodes
from tests.je_tools.ignite.reading import node_of

WHOLE = {
    "ignite-closed": 395,
    "ignite-crash": 282,
    "ignite-16k": 166,
    "ignite-two-nodes": 274,
}
"""Finished stores whose log is complete from segment 0, and the pages of their files."""


def _replayed(node: Node) -> PageReplay:
    """Replay the log of a node from its beginning to its last finished checkpoint."""
    end = newest_marker(node_checkpoints(node, 1).folder.markers, MarkerKind.END)
    assert end is not None
    assert end.pointer is not None
    replay = open_replay(node)
    assert replay is not None
    assert replay_log(node, replay, Pointer(0, 0, 0), end.pointer) is None
    return replay


def _stored(file: PageFile, indexes: np.ndarray) -> np.ndarray:
    """Return pages of a file, plain; zeros for those that it does not have."""
    assert file.header is not None
    data = np.fromfile(file.path, np.uint8)
    return read_image_pages(page_image(data, file.header, file.partition), indexes)[0]


def _files(node: Node, replay: PageReplay) -> Iterator[tuple[PageFile, np.ndarray, np.ndarray]]:
    """Yield the files of a node with the indexes and bytes of their replayed pages."""
    for file in page_folder(node).files:
        indexes, pages = replay.pages_of(cache_id(file.group), file.partition)
        yield file, indexes, pages


NODES = {f"{each.case}/{each.node}": each for each in ignite_nodes()}


@pytest.mark.parametrize("name", [name for name in NODES if name.partition("/")[0] in WHOLE])
def test_whole_stores_are_rebuilt_from_their_logs(name: str) -> None:
    case = NODES[name]
    node = node_of(case.store, case.node)
    replay = _replayed(node)
    assert replay.misfits() == ([], 0)
    count = 0
    for file, indexes, pages in _files(node, replay):
        assert file.header is not None
        assert indexes.tolist() == list(range(file.pages))
        stored = np.fromfile(file.path, np.uint8)[file.header.size :]
        assert np.array_equal(stored, pages.ravel()), file.path
        count += len(indexes)
    assert count == WHOLE[case.case]


def _engine_counts(case: IgniteNode) -> tuple[int, int] | None:
    """Return the changes that the engine applied, and the pages that it wrote; None for none."""
    text = (case.truth / "engine.txt").read_text(encoding="utf-8")
    changes = re.search(r"changesApplied=(\d+)", text)
    pages = re.search(r"Checkpoint finished \[cpId=[^,]+, pages=(\d+)", text)
    return (int(changes[1]), int(pages[1])) if changes and pages else None


def test_recovery_applies_what_the_engine_applies(ignite_node: IgniteNode) -> None:
    node = node_of(ignite_node.store, ignite_node.node)
    found = recovered_pages(node, 1)
    assert found.problem is None
    expected = _engine_counts(ignite_node)
    if expected is None:
        assert (found.source, found.replay) == (PageSource.NOTHING, None)
        return
    assert found.replay is not None
    assert (found.snapshots + found.deltas, len(found.replay.places().index)) == expected


@pytest.mark.parametrize("name", [name for name in NODES if "crash-mid" in name])
def test_pages_that_the_node_had_written_are_those_of_recovery(name: str) -> None:
    node = node_of(NODES[name].store)
    found = recovered_pages(node, 1)
    assert found.replay is not None
    written = 0
    for file, indexes, pages in _files(node, found.replay):
        if len(indexes):
            stored = _stored(file, indexes)
            stored[:, 4:8] = pages[:, 4:8]
            written += int((stored == pages).all(axis=1).sum())
    # Of page 101 only a part was written.
    assert written == 100


@pytest.mark.parametrize("name", [name for name in NODES if "closed" in name])
def test_a_replay_that_begins_too_late_has_no_base(name: str) -> None:
    node = node_of(NODES[name].store)
    replay = open_replay(node)
    assert replay is not None
    assert replay_log(node, replay, Pointer(2, 0, 0), Pointer(99, 64, 0)) is not None
    misfits, count = replay.misfits()
    assert count > 100
    assert {each.reason for each in misfits} == {MisfitReason.NO_BASE}
    assert {each.segment for each in misfits} <= {2, 3, 4}
