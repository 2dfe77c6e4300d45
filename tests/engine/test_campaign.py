"""The comparison with the engine finds differences, and reports which side is right."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.engine.campaign import (
    Answer,
    Case,
    Difference,
    Foretold,
    Judge,
    Report,
    Warned,
    run_campaign,
    whole_log,
)
from tests.engine.comparison import Found, compare, side_of
from tests.engine.crashes import Crash
from tests.engine.jars import JE_5, JE_18
from tests.engine.recovered import Engine
from tests.engine.snapshots import recovered
from tests.engine.workloads import sessions_of
from tests.truth.contents import Contents, Refusal
from tests.truth.replay import Replayed, replay

A, B, C, OTHER = (b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"b", b"4")
REFUSED = Refusal("open", "SomeException", "why")
CHECKSUM = Refusal("open", "je.EnvironmentFailureException", "(JE 18) at 0x1 LOG_CHECKSUM: bad")
NOT_PLAIN = ("ttl", "daemons", "clean", "deferred")
KIND = "EnvironmentFailureException LOG_CHECKSUM"
FAILED = Refusal("read", "SomeException", "why")


@pytest.mark.parametrize(
    ("told", "engine", "group"),
    [
        ({"x": [A, B]}, {"x": [A, B]}, None),
        (REFUSED, Refusal("open", "another"), None),
        (Refusal("open", "missing-file"), Refusal("open", "E", "LOG_FILE_NOT_FOUND"), None),
        (Refusal("open", "missing-file"), CHECKSUM, "another refusal: missing-file " + KIND),
        ({"x": [A]}, {"x": [A], "y": []}, "databases"),
        ({"x": [A, C]}, {"x": [A, B, C]}, "fewer records than the engine"),
        ({"x": [A, B, C]}, {"x": [A, B]}, "more records than the engine"),
        ({"x": [A, B]}, {"x": [A, B, B]}, "fewer records than the engine (twice)"),
        ({"x": [A, A]}, {"x": [A]}, "more records than the engine (twice)"),
        ({"x": [A, B]}, {"x": [A, OTHER]}, "other data"),
        ({"x": [A, B]}, {"x": [A, C]}, "other records"),
        ({"x": [B, A]}, {"x": [A, B]}, "order"),
        (REFUSED, {"x": []}, "snapshot alone: open SomeException"),
        ({"x": []}, REFUSED, "engine alone: open SomeException"),
        ({}, CHECKSUM, "engine alone: open " + KIND),
        (REFUSED, FAILED, "engine alone: read SomeException"),
        ({}, Refusal("hung", "after 60 s"), "engine alone: hung after 60 s"),
    ],
)
def test_compare(told: Contents | Refusal, engine: Contents | Refusal, group: str | None) -> None:
    found = compare(told, engine)
    assert (found[0] if found else None) == group


@pytest.mark.parametrize(
    ("replayed", "side"),
    [
        (Replayed({"x": [A]}), "snapshot"),
        (Replayed({"x": [B]}), "engine"),
        (Replayed({"x": [C]}), "neither"),
        (Replayed(REFUSED), "neither"),
        (Replayed({"x": [A]}, ["files are missing"]), "not asked, files are missing"),
        (Replayed({"x": [A]}, [], {"x": "not logged"}), "not sure, not logged"),
        (Replayed({"x": [A]}, [], {"y": "not logged"}), "snapshot"),
    ],
)
def test_side(replayed: Replayed, side: str) -> None:
    assert side_of(replayed, {"x": [A]}, {"x": [B]}) == side


@pytest.mark.parametrize(
    ("own", "side"),
    [
        ({"x": [A], "y": [OTHER]}, "snapshot"),
        ({"x": [A, B, C], "y": []}, "engine"),
        ({"x": [A, B], "y": []}, "neither"),
        ({"y": []}, "neither"),
    ],
)
def test_side_looks_at_what_differs(own: Contents, side: str) -> None:
    told: Contents = {"x": [A], "y": [B]}
    assert side_of(Replayed(own), told, {"x": [A, B, C], "y": [B]}) == side


@pytest.mark.parametrize(("own", "side"), [([A, B], "snapshot"), ([B, A], "engine")])
def test_side_on_order(own: list[tuple[bytes, bytes]], side: str) -> None:
    assert side_of(Replayed({"x": own}), {"x": [A, B]}, {"x": [B, A]}) == side


@pytest.mark.parametrize(("own", "side"), [({}, "snapshot"), ({"x": [A]}, "engine")])
def test_side_on_databases(own: Contents, side: str) -> None:
    assert side_of(Replayed(own), {}, {"x": []}) == side


def test_report_tells_all_of_a_difference() -> None:
    report = Report(cases=4)
    report.kinds["whole"] = 4
    for side in ("snapshot", "engine", "not asked, files are missing"):
        warnings = frozenset({Warned("stray-slots", "x")} if side == "snapshot" else ())
        group = "engine alone: open" if side.startswith("not") else "order"
        case = Case(1, 2, Crash("whole", "0x0/0x9", {}), 5)
        found = Found(group, "'x'", "x")
        report.differences.append(Difference(case, found, warnings, side))
    assert report.engine_alone == report.differences[::2]
    assert report.unforetold == report.differences[2:]
    assert report.unexplained == report.differences[1:2]
    text = str(report)
    assert "4 crash points, 1 equal" in text
    assert "1 order · replay: snapshot · stray-slots\n" in text
    assert "workload 1 crash 2 at 5: whole (0x0/0x9): 'x'" in text


@pytest.mark.parametrize(
    ("warned", "group", "explains"),
    [
        (Warned("stray-slots", "x"), "more records than the engine (twice)", True),
        (Warned("stray-slots", "y"), "more records than the engine (twice)", False),
        (Warned("stray-slots", "x"), "databases", False),
        (Warned("expiration-unit", "x"), "fewer records than the engine", True),
        (Warned("expiration-unit", "x"), "other records", True),
        (Warned("expiration-unit", "x"), "other data", False),
        (Warned("expiration-unit", "x"), "engine alone: open E", False),
        (Warned("root-split-cut-short", "y"), "engine alone: open E", True),
        (Warned("damage", None), "other data", True),
    ],
)
def test_what_a_warning_explains(warned: Warned, group: str, explains: bool) -> None:
    """A warning explains differences of its own kind, in its own database."""
    database = None if group.startswith("engine") else "x"
    assert warned.explains(Found(group, "", database)) == explains


PLANTED = frozenset({Warned("damage", None)})


class Planted:
    """The replay of the whole log, with a fault in some of its answers."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, home: Path, now_ms: int) -> Answer:
        contents = whole_log(home, now_ms)
        if isinstance(contents, dict) and contents.get("plain"):
            self.count += 1
            contents["plain"].pop(random.Random(self.count).randrange(len(contents["plain"])))
        return Foretold(contents, PLANTED) if self.count % 2 else contents


@pytest.mark.engine
def test_a_planted_difference_is_found(
    java: Path, class_path: str, engines: dict[str, Engine], tmp_path: Path
) -> None:
    planted = Planted()
    judge = Judge(java, class_path, tmp_path, engines[JE_18])
    report = run_campaign(judge, planted, range(1, 2), 8, small=True)
    found = [
        each for each in report.unexplained if each.found.group == "fewer records than the engine"
    ]
    assert len(found) == planted.count > 2
    assert {each.replayed for each in found} <= {"engine", "not asked, foreign bytes"}
    assert {bool(each.warnings) for each in found} == {True, False}
    assert report.cases == 8


@pytest.mark.engine
def test_the_replay_of_whole_logs(
    java: Path, class_path: str, engines: dict[str, Engine], tmp_path: Path
) -> None:
    """Compare two opinions that share only the bytes, on states for which both exist.

    Excluded are workloads in which JE 18.3.12 spoils expirations, and those that remove files.
    """
    seeds = [seed for seed in range(1, 60) if is_plain(seed)][:2]
    judge = Judge(java, class_path, tmp_path, engines[JE_18])
    report = run_campaign(judge, whole_log, seeds, 10, small=True)
    print(report)
    assert report.cases == 20
    assert {each.replayed for each in report.differences} <= {
        "not asked, damage in file 0",
        "not asked, foreign bytes",
    }


def warned_log(home: Path, now_ms: int) -> Answer:
    """Replay the whole log, as a snapshot with our warnings of the engine's errors."""
    return Foretold(replay(home, now_ms).contents, recovered(home, now_ms).warnings)


def is_plain(seed: int) -> bool:
    """Return True if nothing expires, no daemon cleans or evicts, and all is in transactions."""
    sessions = sessions_of(seed, small=True)
    return not any(session[name] for session in sessions for name in NOT_PLAIN)


@pytest.mark.exhaustive
@pytest.mark.engine
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("coordinate", [JE_18, JE_5])
def test_the_replay_of_many_whole_logs(coordinate: str, tmp_path: Path) -> None:
    with Judge.of(coordinate, tmp_path) as judge:
        report = run_campaign(judge, warned_log, range(1, 26), 40)
    print(report)
    assert report.cases == 1000
    # The hour of the day and the threads decide how many expirations JE 18.3.12 spoils.
    assert len([each for each in report.unforetold if each.found.database != "ttl"]) < 10
