"""Predicted starts: the answers of a real node on damaged and cut stores."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest
from msgspec.structs import replace

from je_tools.findings import Severity
from je_tools.formats.ignite.pages import PageState
from je_tools.ignite.checkpoints.node_checkpoints import node_checkpoints
from je_tools.ignite.page_check.judge import PageJudge
from je_tools.ignite.page_check.page_recovery import page_recovery
from je_tools.ignite.page_check.verify import verify_pages
from je_tools.ignite.pages.files import page_folder
from je_tools.ignite.pages.scan import PageFileScan, Run
from je_tools.ignite.recovery.page_damage import PageRepair, judged_pages
from je_tools.ignite.recovery.physical import recovered_pages
from je_tools.ignite.recovery.plan import NodePlan, StartOutcome, plan_recovery
from je_tools.ignite.recovery.prediction import Predictor
from je_tools.ignite.recovery.repair import plan_repairs
from je_tools.ignite.repairs.edits import EditKind
from je_tools.ignite.store import open_store
from tests.builders.ignite_pages import SIZE
from tests.builders.ignite_recovery import MADE, write_unfinished_store
from tests.corpus import FIXTURES, IgniteNode, corpus, damaged_store
from tests.engine.ignite import writable_copy

LOSSES = {"ignite-bitflip-work": 556, "ignite-partition-lost": 26}
"""Stores from which the node starts with losses: records or rows that it does not find."""


def _plan(store: Path, node: str = "node1") -> NodePlan:
    (plan,) = plan_recovery(open_store([store], [node]), 2)
    return plan


def test_undamaged_stores_start(ignite_node: IgniteNode) -> None:
    plan = _plan(ignite_node.store, ignite_node.node)
    assert plan.outcome is StartOutcome.STARTS
    assert all(each.severity is Severity.NOTE for each in plan.findings)


def test_the_start_of_damaged_stores_is_predicted(ignite_damage: Path, tmp_path: Path) -> None:
    text = (ignite_damage / "damage.txt").read_text(encoding="utf-8")
    answer = text.rpartition("engine:")[2]
    plan = _plan(damaged_store(ignite_damage, tmp_path))
    if ignite_damage.name in LOSSES:
        assert plan.outcome is StartOutcome.LOSES
        (found,) = [each for each in plan.findings if each.code == "recovery-loss"]
        assert str(LOSSES[ignite_damage.name]) in f"{found.expected} {found.found}"
    else:
        starts = "ROWS" in answer
        assert plan.outcome is (StartOutcome.STARTS if starts else StartOutcome.REFUSED), answer


_MANY = 25_000_000
"""Pages of 4 KiB in a partition of 100 GB."""


@pytest.mark.parametrize("state", [PageState.ZERO, PageState.MISPLACED])
def test_millions_of_damaged_pages_are_one_run(state: PageState, tmp_path: Path) -> None:
    (node,) = open_store([write_unfinished_store(tmp_path)]).nodes
    (file,) = (each for each in page_folder(node).files if each.path.name == "part-0.bin")
    size = file.size + _MANY * SIZE
    run = Run(state, 1, _MANY - 1, 0, version=0, page_id=0, stored=0, computed=0)
    scan = PageFileScan(replace(file, size=size), Counter(), Counter(), 0, _MANY + 1, [run])
    physical = recovered_pages(node, 1, node_checkpoints(node, 1))
    judged = judged_pages(node, physical, [(scan, None)])
    fates = [(each.page, each.pages, each.repair) for each in judged.damaged]
    fate = PageRepair.FATAL if state is PageState.ZERO else PageRepair.UNCLEAR
    after = (MADE + 1, _MANY - MADE - 1, fate)
    assert fates == [(1, 5, fate), (MADE, 1, PageRepair.RECOVERED), after]
    judge = PageJudge("node1", str(tmp_path), page_recovery(node, 1))
    _, found = judge.judge(scan, None, {})
    assert [each.pages for each in found] == [5, 1, _MANY - MADE - 1]
    predicted = Predictor(node, str(tmp_path), node_checkpoints(node, 1), physical)
    pages = [each.length for each in predicted.findings(None, judged, []) if each.length]
    assert pages == [5 * SIZE, SIZE, (_MANY - MADE - 1) * SIZE]


@pytest.mark.skipif(corpus() is None, reason="only the corpus has pages that the node repairs")
def test_a_page_that_the_node_restores_is_an_error_as_in_the_pages(tmp_path: Path) -> None:
    whole = corpus()
    assert whole is not None
    store = open_store([damaged_store(whole / "ignite-page-corrupt-meta", tmp_path)], ["node1"])
    (plan,) = plan_recovery(store, 1)
    assert plan.damaged
    assert {each.repair for each in plan.damaged} == {PageRepair.REPAIRED}
    found = [each for each in plan.findings if each.code == "recovery-page"]
    verified = [each for each in verify_pages(store, 1).findings if each.code == "page-checksum"]
    assert [(each.severity, each.offset) for each in found] == [
        (each.severity, each.offset) for each in verified
    ]


def _killed(tmp_path: Path) -> Path:
    return writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "store")


def test_a_marker_whose_name_cannot_be_parsed_prevents_the_start(tmp_path: Path) -> None:
    store = _killed(tmp_path)
    marker = store / f"db/node1/cp/{1 << 63}-{UUID(int=7)}-START.bin"
    marker.write_bytes(bytes(16))
    plan = _plan(store)
    (found,) = (each for each in plan.findings if each.code == "recovery-refused")
    assert (plan.outcome, found.file) == (
        StartOutcome.REFUSED,
        str(marker.relative_to(store)),
    )


def test_a_file_in_place_of_the_last_segment_is_named(tmp_path: Path) -> None:
    store = _killed(tmp_path)
    last = store / "db/wal/node1/0000000000000001.wal"
    last.unlink()
    last.symlink_to("/dev/zero")
    (found,) = (each for each in _plan(store).findings if each.code == "recovery-loss")
    assert found.found == (
        f"no file that can be read; {last.relative_to(store)}: it is no regular file"
    )


CUTS = "ignite-crash/truth/cuts.tsv"


def _cuts() -> list[tuple[int, int, str]]:
    whole = corpus()
    if whole is None:
        return []
    lines = (whole / CUTS).read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return [(int(row[0]), int(row[1]), row[2]) for row in rows]


def test_the_start_after_each_cut_of_the_log_is_predicted(tmp_path: Path) -> None:
    whole = corpus()
    if whole is None:
        pytest.skip("only the corpus has the cuts")
    for segment, offset, rows in _cuts():
        store = tmp_path / f"{segment}-{offset}"
        shutil.copytree(whole / "ignite-crash" / "store", store, copy_function=shutil.copyfile)
        for file in open_store([store]).nodes[0].segments:
            if file.header is None or file.header.segment < segment:
                continue
            file.path.parent.chmod(0o755)
            if file.header.segment > segment:
                file.path.unlink()
            else:
                data = file.path.read_bytes()
                file.path.write_bytes(data[:offset].ljust(len(data), b"\0"))
        expected = StartOutcome.REFUSED if rows == "refused" else StartOutcome.STARTS
        assert _plan(store).outcome is expected, (segment, offset)


def _copy(case: str, tmp_path: Path) -> Path:
    whole = corpus()
    if whole is None:
        pytest.skip("only the corpus has such stores")
    store = tmp_path / "store"
    shutil.copytree(whole / case / "store", store, copy_function=shutil.copyfile)
    for folder in store.rglob("*"):
        if folder.is_dir():
            folder.chmod(0o755)
    return store


def _newest(store: Path, kind: str) -> Path:
    return max((store / "db" / "node1" / "cp").glob(f"*-{kind}.bin"))


MID = "ignite-crash-mid-checkpoint"


def test_experiments_with_markers_and_segments(tmp_path: Path) -> None:
    """Expect what a node did in each case."""

    def begin_removed(store: Path) -> None:
        _newest(store, "START").unlink()

    def end_removed(store: Path) -> None:
        _newest(store, "END").unlink()

    def segment_removed(store: Path) -> None:
        for path in store.rglob("*3.wal"):
            path.unlink()

    def last_removed(store: Path) -> None:
        (store / "db/wal/node1/0000000000000002.wal").unlink()

    def log_removed(store: Path) -> None:
        shutil.rmtree(store / "db" / "wal")

    def recovery_files_removed(store: Path) -> None:
        for path in store.rglob("*-RECOVERY-*.bin"):
            path.unlink()

    def index_removed(store: Path) -> None:
        (store / "db/node1/cache-tx/index.bin").unlink()

    cases = [
        # Pages of the later checkpoint lead to others that were not written.
        (MID, begin_removed, StartOutcome.REFUSED),
        (MID, end_removed, StartOutcome.STARTS),
        (MID, segment_removed, StartOutcome.REFUSED),
        ("ignite-crash", begin_removed, StartOutcome.REFUSED),
        ("ignite-crash", end_removed, StartOutcome.STARTS),
        ("ignite-crash", last_removed, StartOutcome.LOSES),
        ("ignite-closed", log_removed, StartOutcome.REFUSED),
        ("ignite-closed", index_removed, StartOutcome.STARTS),
        ("ignite-recovery-files", recovery_files_removed, StartOutcome.REFUSED),
    ]
    for number, (case, change, expected) in enumerate(cases):
        store = _copy(case, tmp_path / str(number))
        change(store)
        assert _plan(store).outcome is expected, (case, change.__name__)


def test_files_of_another_time_are_found(tmp_path: Path) -> None:
    whole = corpus()
    store = _copy("ignite-crash", tmp_path)
    assert whole is not None
    other = whole / "ignite-closed/store/db/node1/cache-atom/part-1.bin"
    (store / "db/node1/cache-atom/part-1.bin").write_bytes(other.read_bytes())
    plan = _plan(store)
    codes = {each.code for each in plan.findings}
    assert codes & {"recovery-loss", "recovery-unclear"}


@pytest.mark.parametrize("content", [b"", bytes(99), b"no header".ljust(99)])
def test_a_file_of_the_archive_without_a_header(content: bytes, tmp_path: Path) -> None:
    """The node passes over it, until it archives the segment of this name."""
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "work")
    archive = store / "db/wal/archive/node1"
    # The ring has segments 0 and 1.
    other, blocking = (archive / f"{no:016}.wal" for no in (1, 0))
    other.write_bytes(content)
    (plan,) = plan_recovery(open_store([store]), 1)
    assert plan.outcome is StartOutcome.UNCLEAR
    assert [edit.path for edit in plan_repairs(plan, 1).edits] == [other]
    blocking.write_bytes(content)
    (plan,) = plan_recovery(open_store([store]), 1)
    assert plan.outcome is StartOutcome.REFUSED
    edits = plan_repairs(plan, 1).edits
    assert [edit.path for edit in edits] == [blocking, other]
    assert {edit.kind for edit in edits} == {EditKind.SET_ASIDE}


@pytest.mark.parametrize(
    ("content", "outcome"),
    [
        (b"", StartOutcome.REFUSED),
        (b"no ZIP".ljust(99), StartOutcome.REFUSED),
        (b"PK\x03\x04".ljust(60), StartOutcome.STARTS),
    ],
)
def test_a_zip_without_an_entry_prevents_the_start(
    content: bytes, outcome: StartOutcome, tmp_path: Path
) -> None:
    """The node passes over a ZIP that ends inside its entry."""
    store = writable_copy(FIXTURES / "ignite-killed" / "store", tmp_path / "work")
    (store / "db/wal/archive/node1/0000000000000001.wal.zip").write_bytes(content)
    assert _plan(store).outcome is outcome
