"""Cuts of small hard logs: the snapshot finds the engine's records, or warns of its failure.

`hardlogs` has the logs and the windows of root changes, `cuts` the campaign.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.builders.logs import CKPT_END, CKPT_START
from tests.builders.trees import BEFORE_CKPT_END, PROVISIONAL, TreeLog, slot
from tests.corpus import corpus, environment
from tests.engine import cuts
from tests.engine.campaign import Foretold
from tests.engine.comparison import Records, compare
from tests.engine.crashes import Crash, read_source, write_crash
from tests.engine.cuts import (
    CutReport,
    Judge,
    Looked,
    fast_folder,
    parse_answers,
    run_cuts,
    sums_of,
    whose,
)
from tests.engine.hardlogs import CHILD, ROOT, Cut, cuts_of, windows, write_hard_logs
from tests.engine.jars import JE_5, JE_18, STARROCKS, engine_jar
from tests.engine.java import find_java
from tests.engine.recovered import engine_class_path
from tests.engine.snapshots import recovered
from tests.truth.contents import Refusal, parse_contents

ENGINES = (JE_18, JE_5, STARROCKS)
FEW = {JE_18: 37, JE_5: 17, STARROCKS: 37}
"""Seed for each engine whose log is short and has windows of both kinds."""

STEP, MORE_STEP = 200, 1000
LOGS, PARTS, SAMPLES = 14, 2, 180
"""Numbers for each engine. SAMPLES is the number of cuts that are also written."""


def judged(report: CutReport) -> None:
    print(report)
    assert not report.wrong, report
    assert not report.alarms, report
    assert not report.not_accepted, report
    assert report.refused < report.cases / 100
    met = " ".join(report.kinds)
    assert CHILD in met
    assert ROOT in met


@pytest.fixture(scope="module")
def few_logs() -> Iterator[Callable[[str], Path]]:
    """Return a function that lets an engine write the log of FEW, once."""
    with fast_folder() as folder:

        @functools.cache
        def written(coordinate: str) -> Path:
            java, below = find_java(), folder / coordinate
            class_path = engine_class_path(java, engine_jar(coordinate))
            (home,) = write_hard_logs(java, class_path, below, [FEW[coordinate]])
            return home

        yield written


@pytest.mark.engine
@pytest.mark.parametrize(
    ("coordinate", "writer"),
    [
        (JE_18, JE_18),
        (JE_5, JE_5),
        (STARROCKS, JE_18),
        pytest.param(STARROCKS, STARROCKS, marks=pytest.mark.exhaustive),
    ],
)
def test_cuts(coordinate: str, writer: str, few_logs: Callable[[str], Path]) -> None:
    """Judge all cuts in windows of an old root as a child, and some others."""
    seed, step = FEW[writer], STEP if coordinate == writer else MORE_STEP
    with fast_folder() as folder, Judge(coordinate, folder) as judge:
        report = CutReport(f"seed {seed} of {writer}")
        run_cuts(judge, [(seed, few_logs(writer))], report, step=step)
    judged(report)


@pytest.mark.exhaustive
@pytest.mark.engine
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("coordinate", ENGINES)
def test_many_cuts(coordinate: str, part: int) -> None:
    """Judge every cut, and the checkpoints that are written at some."""
    count = LOGS // PARTS
    seeds = range(1 + part * count, 1 + (part + 1) * count)
    with fast_folder() as folder, Judge(coordinate, folder) as judge:
        report = CutReport(f"seeds {seeds[0]} to {seeds[-1]}")
        run_cuts(judge, judge.write(seeds, report), report, sample=SAMPLES / LOGS)
    assert report.cases > 1_000 * count
    assert report.accepted >= SAMPLES // PARTS - 1
    judged(report)


def root_split_cases() -> list[Path]:
    """Return the known cuts beside the corpus that have the engine's records."""
    whole = corpus()
    found = sorted((whole.parent / "cases").glob("*-root-split-*")) if whole else []
    return [case for case in found if (case / "records.tsv").is_file()]


@pytest.mark.parametrize("case", root_split_cases(), ids=lambda case: case.name)
def test_root_split_cases(case: Path) -> None:
    with (case / "records.tsv").open(encoding="utf-8", newline="\n") as lines:
        engine = parse_contents(lines)
    assert compare(recovered(case, 1).contents, engine) is None


class Echo(Judge):
    """An engine that always agrees with the snapshot."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def look(
        self, home: Path, cuts: Sequence[Cut], mode: str = "sums", *words: object
    ) -> dict[Cut, Looked | Refusal]:
        source, found = read_source(home), {}
        for cut in cuts:
            place = self.folder / f"echo-{cut.offset}"
            write_crash(source, Crash("", "", {0: source.files[0][: cut.offset]}), place)
            contents = recovered(place, 1).contents
            assert isinstance(contents, dict)
            found[cut] = Looked(sums_of(contents), contents)
            shutil.rmtree(place)
        return found


def test_a_planted_difference_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove one record from some answers; the campaign finds these answers and no others."""
    planted = []

    def one_less(home: Path, now_ms: int, **how: Any) -> Foretold:
        told = recovered(home, now_ms, **how)
        assert isinstance(told.contents, dict)
        at = (home / "00000000.jdb").stat().st_size
        name = next((name for name, records in told.contents.items() if records), None)
        if at % 3 == 0 and name is not None:
            told.contents[name].pop()
            planted.append(f"0x0/{at:#x}")
        return told

    monkeypatch.setattr(cuts, "recovered", one_less)
    report = CutReport()
    home = environment("v17-basic").home
    run_cuts(Echo(tmp_path), [(1, home)], report, step=STEP, keep=tmp_path / "kept")
    assert [each.case.crash.detail for each in report.wrong] == sorted(set(planted))
    assert len(report.wrong) > 1
    assert {each.found.group for each in report.wrong} == {"fewer records than the engine"}
    assert {each.searched for each in report.wrong} == {"engine"}
    assert report.cases == -(-len(cuts_of(read_source(home))) // STEP)
    assert (tmp_path / "kept" / "1" / "00000000.jdb").read_bytes() == read_source(home).files[0]
    assert len(list((tmp_path / "kept").glob("1-0-*/records.tsv"))) == len(report.runs)


def test_sums() -> None:
    whole = b"\0\0\0\1a\0\0\0\2bc\0\0\0\0\0\0\0\0"
    found = sums_of({"x": [(b"a", b"bc"), (b"", b"")], "y": []})
    assert found["x"] == (2, hashlib.sha256(whole).hexdigest())
    assert found["y"] == (0, hashlib.sha256(b"").hexdigest())
    assert sums_of({"x": [(b"ab", b"c"), (b"", b"")]})["x"] != found["x"]


def test_answers() -> None:
    said = """#cut 0 120
61 6263
#db x 1 aa
#db y 0 bb
#cut 1 64
#refused open E why not
#cut 1 90
62 6364
#failed x E lost
#db y 0 bb
"""
    found = parse_answers(line.replace(" ", "\t") for line in said.splitlines(keepends=True))
    whole, refused, partly = (found[Cut(*at)] for at in ((0, 120), (1, 64), (1, 90)))
    assert isinstance(refused, Refusal)
    assert refused.stage == "open"
    assert not isinstance(whole, Refusal)
    assert (whole.sums, whole.failed) == ({"x": (1, "aa"), "y": (0, "bb")}, {})
    assert whole.contents == {"x": [(b"a", b"bc")], "y": []}
    assert not isinstance(partly, Refusal)
    assert (partly.sums, list(partly.failed)) == ({"y": (0, "bb")}, ["x"])


A, B, OLD = (b"a", b"1"), (b"b", b"2"), (b"b", b"1")


@pytest.mark.parametrize(
    ("ours", "searched", "logged", "side"),
    [
        ([A, B], [A, B], [], "snapshot"),
        ([A, B], [A], [A, B], "snapshot, without some that redo has put out of reach"),
        ([A, B], [A], [A], "neither"),
        ([A, B, B], [A, B], [A, B], "neither"),
        ([A, OLD, B], [A, B], [A, B], "neither"),
        ([A], [A, OLD], [A], "engine"),
        ([A], [OLD], [A], "neither"),
    ],
)
def test_whose(ours: Records, searched: Records, logged: Records, side: str) -> None:
    assert whose(ours, [A, OLD], searched, logged) == side


def test_cuts_begin_behind_the_first_checkpoint_start(tmp_path: Path) -> None:
    log = TreeLog()
    log.ln(b"a", b"1")
    log.checkpoint()
    log.next_file()
    last = log.ln(b"b", b"2")
    source = read_source(log.write(tmp_path / "log"))
    types = {
        Cut(file_no, (entry.lsn & 0xFFFFFFFF) + entry.size): entry.type_no
        for file_no in source.files
        for entry in source.entries(file_no)
    }
    found = cuts_of(source)
    assert types[found[0]] == CKPT_START
    assert found == sorted(types)[list(types.values()).index(CKPT_START) :]
    assert CKPT_END in [types[cut] for cut in found]
    assert found[-1] == Cut(1, len(source.files[1]))
    assert last >> 32 == 1


class Nodes:
    """A log of nodes, and the windows after each."""

    def __init__(self) -> None:
        self.log = TreeLog()

    def node(self, node_id: int, *, is_root: bool, flags: int = 0, db: int = 6) -> None:
        slots = [slot(b"k", 64)]
        self.log.node(slots, level=2, node_id=node_id, is_root=is_root, flags=flags, db=db)

    def open(self, folder: Path) -> list[str]:
        """Return the first letters of open windows, for each entry after the file header."""
        found = windows(read_source(self.log.write(folder)))
        letters = {CHILD: "c", ROOT: "r"}
        return ["".join(sorted(letters[name] for name in found[cut])) for cut in sorted(found)][1:]


def test_windows_of_a_deferred_split(tmp_path: Path) -> None:
    nodes = Nodes()
    nodes.node(1, is_root=True)
    nodes.node(2, is_root=False, flags=BEFORE_CKPT_END)
    nodes.node(1, is_root=False, flags=BEFORE_CKPT_END)
    nodes.node(7, is_root=True, db=9)
    nodes.node(3, is_root=True)
    nodes.node(3, is_root=True)
    nodes.log.ckpt_end(64, 64)
    nodes.node(3, is_root=True)
    assert nodes.open(tmp_path) == ["", "", "c", "c", "r", "r", "", ""]


def test_windows_of_a_split_that_is_logged_at_once(tmp_path: Path) -> None:
    """The log holds the new root before the old root as a child."""
    nodes = Nodes()
    nodes.node(1, is_root=True)
    nodes.node(2, is_root=True)
    nodes.node(1, is_root=False, flags=PROVISIONAL)
    nodes.node(2, is_root=True)
    assert nodes.open(tmp_path) == ["", "r", "r", "r"]


def test_windows_of_nodes_that_are_provisional_for_good(tmp_path: Path) -> None:
    nodes = Nodes()
    nodes.node(1, is_root=True)
    nodes.node(1, is_root=False, flags=PROVISIONAL)
    assert nodes.open(tmp_path) == ["", ""]


def test_windows_that_the_end_of_a_checkpoint_does_not_close(tmp_path: Path) -> None:
    """A root that splits after a CkptStart may be no part of that checkpoint."""
    nodes = Nodes()
    nodes.node(1, is_root=True)
    start = nodes.log.here
    nodes.node(1, is_root=False)
    nodes.log.ckpt_end(start, 64)
    later = nodes.log.here
    nodes.log.ckpt_end(later, 64)
    assert nodes.open(tmp_path) == ["", "c", "c", ""]
