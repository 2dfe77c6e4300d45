"""Recovery of made stores: both byte orders, and edits that are undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.formats.ignite.pages import PageState, page_rules, read_pages
from je_tools.formats.ignite.replay import PageReplay
from je_tools.ignite.page_check.verify import verify_pages
from je_tools.ignite.pages.files import page_folder
from je_tools.ignite.recovery import physical
from je_tools.ignite.recovery.physical import open_replay, recovered_pages
from je_tools.ignite.recovery.plan import StartOutcome, plan_recovery
from je_tools.ignite.recovery.rebuilding import rebuilt_files
from je_tools.ignite.recovery.repair import RepairPlan, plan_repairs
from je_tools.ignite.store import open_store
from tests.builders.ignite_pages import damage
from tests.builders.ignite_recovery import GROUP, MADE, ROWS, write_unfinished_store
from tests.je_tools.dumped import je_tools

PART = "db/node1/cache-first/part-0.bin"


def _contents(store: Path) -> dict[Path, bytes]:
    paths = (path for path in store.rglob("*") if path.is_file())
    names = ("je-tools", "lock")
    return {p: p.read_bytes() for p in paths if not any(each in str(p) for each in names)}


def _repairs(store: Path) -> RepairPlan:
    (plan,) = plan_recovery(open_store([store]), 1)
    return plan_repairs(plan, 1)


@pytest.mark.parametrize("order", "<>")
def test_pages_are_recovered_in_both_byte_orders(order: str, tmp_path: Path) -> None:
    (node,) = open_store([write_unfinished_store(tmp_path, order)]).nodes
    found = recovered_pages(node, 1)
    assert (found.problem, found.snapshots, found.deltas) == (None, 1, 3)
    assert found.replay is not None
    indexes, pages = found.replay.pages_of(GROUP, 0)
    assert indexes.tolist() == [MADE]
    assert pages[0].tobytes().endswith(ROWS[0])
    header = next(each.header for each in page_folder(node).files)
    assert header is not None
    columns = read_pages(pages.ravel(), page_rules(header, 0), MADE)
    assert (columns.state.tolist(), columns.items.tolist()) == ([PageState.GOOD], [len(ROWS)])


def test_edits_are_written_and_undone(tmp_path: Path) -> None:
    store = write_unfinished_store(tmp_path / "store")
    before = _contents(store)
    dry = je_tools("ignite", "recover", store)
    assert _contents(store) == before
    done = je_tools("ignite", "recover", store, "--apply")
    assert "journal is 1" in done.err
    after = _contents(store)
    assert len((store / PART).read_bytes()) == len(before[store / PART]) + 1024
    (plan,) = plan_recovery(open_store([store]), 1)
    assert plan.physical.status == "finished"
    assert (dry.code, done.code, plan.outcome) == (0, 0, StartOutcome.STARTS)
    assert je_tools("ignite", "undo", store, "--apply").code == 0
    assert _contents(store) == before != after


def test_a_log_that_lacks_a_base_is_no_recovery(tmp_path: Path) -> None:
    store = write_unfinished_store(tmp_path)
    log = store / "db/wal/node1/0000000000000000.wal"
    data = bytearray(log.read_bytes())
    at = data.index(ROWS[0])
    data[at] ^= 1
    log.write_bytes(data)
    (plan,) = plan_recovery(open_store([store]), 1)
    assert plan.outcome is StartOutcome.REFUSED


def test_a_page_far_after_the_end_of_a_file_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log names the page; all pages before it would be 4 TB of zeros."""
    monkeypatch.setattr("tests.builders.ignite_recovery.MADE", 0xFFFF_FFF0)
    repairs = _repairs(write_unfinished_store(tmp_path))
    assert repairs.edits == ()
    assert "far after the end of the file" in " ".join(repairs.left)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "does not have all pages"), (b"no header".ljust(3072), "does not begin as a file")],
)
def test_no_page_is_written_unless_all_can_be(content: bytes, reason: str, tmp_path: Path) -> None:
    """The pages of the other files alone are no checkpoint."""
    store = write_unfinished_store(tmp_path)
    (store / PART).write_bytes(content)
    repairs = _repairs(store)
    assert repairs.edits == ()
    assert f"{PART}: " in repairs.left[0]
    assert reason in repairs.left[0]


def test_a_lost_file_of_which_pages_are_missing_is_left(tmp_path: Path) -> None:
    store = write_unfinished_store(tmp_path)
    (store / PART).unlink()
    repairs = _repairs(store)
    assert repairs.edits == ()
    assert "does not have all pages" in repairs.left[0]


@pytest.mark.parametrize("order", "<>")
def test_an_empty_file_is_filled(
    order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that dies right after it made a file leaves it empty."""
    monkeypatch.setattr("tests.builders.ignite_recovery.MADE", 0)
    store = write_unfinished_store(tmp_path, order)
    whole = (store / PART).read_bytes()
    (store / PART).write_bytes(b"")
    done = je_tools("ignite", "recover", store, "--apply")
    # The log makes it a page of rows, and the node takes the partition for a new one.
    assert (done.code, b"recovery-loss" in done.out) == (3, True)
    filled = (store / PART).read_bytes()
    assert (len(filled), filled[:1024]) == (2048, whole[:1024])
    assert filled.endswith(ROWS[0])
    (plan,) = plan_recovery(open_store([store]), 1)
    assert plan.physical.status == "finished"
    assert je_tools("ignite", "undo", store, "--apply").code == 0
    assert (store / PART).read_bytes() == b""


def test_a_checkpoint_without_its_log_is_not_finished(tmp_path: Path) -> None:
    store = write_unfinished_store(tmp_path)
    log = store / "db/wal/node1/0000000000000000.wal"
    data = log.read_bytes()
    log.write_bytes(data.replace(ROWS[1], ROWS[1].upper()))
    repairs = _repairs(store)
    assert repairs.edits == ()
    assert "cannot be finished" in repairs.left[-1]


def test_a_page_of_which_the_log_has_no_history_is_left(tmp_path: Path) -> None:
    store = write_unfinished_store(tmp_path)
    begin = max((store / "db/node1/cp").glob("*-START.bin"))
    begin.with_name(begin.name.replace("START", "END")).write_bytes(begin.read_bytes())
    damage(store / "db/node1/cache-first/part-1.bin", 3)
    repairs = _repairs(store)
    # The log has an image of page 4, which is damaged too.
    assert [(edit.offset, edit.size) for edit in repairs.edits] == [(5 * 1024, 1024)]
    assert "whole history of page 3" in repairs.left[-1]


def test_verifying_pages_replays_the_log_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay keeps up to 4 GiB of pages."""
    store = write_unfinished_store(tmp_path)
    damage(store / PART, 3)
    opened: list[PageReplay | None] = []
    monkeypatch.setattr(
        physical, "open_replay", lambda node: opened.append(open_replay(node)) or opened[-1]
    )
    report = verify_pages(open_store([store]), 1, rebuilt=rebuilt_files)
    assert (len(opened), "damaged" in {each.state for each in report.files}) == (1, True)


def test_apply_needs_the_pages(tmp_path: Path) -> None:
    store = write_unfinished_store(tmp_path)
    assert je_tools("ignite", "recover", store, "--apply", "--no-pages").code == 2
    fast = je_tools("ignite", "recover", store, "--no-pages")
    assert (fast.code, b"The files of pages." in fast.out) == (0, True)
