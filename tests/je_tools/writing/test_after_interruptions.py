"""Writing after an undo, or the removal of its journal, was interrupted."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from je_tools.errors import RefusedError
from je_tools.writing.disk import Disk
from je_tools.writing.undo import clear_remains, list_undos
from je_tools.writing.undo_steps import UndoState
from tests.builders.power_cuts import Call, KilledError, PowerCuts, Recorder
from tests.je_tools.writing.operations import (
    OPERATIONS,
    TAKES_AWAY,
    log_of,
    operate,
    put_back,
    small_log,
    without_journals,
    write_more,
)

each_layout = pytest.mark.parametrize("data_directories", [0, 3])


def drop_newest(home: Path, disk: Disk | None = None) -> None:
    with disk or Recorder() as used:
        list_undos(home)[-1].drop(used)


ENDS: dict[str, Callable[[Path, Disk | None], None]] = {
    "undo": put_back,
    "drop": drop_newest,
}
each_end = pytest.mark.parametrize("end", ENDS)


def two_journals(folder: Path, data_directories: int) -> Path:
    """Return a log that was appended to and then cut back, with a journal for each."""
    home = small_log(folder, data_directories=data_directories)
    write_more(home)
    operate(home, "earlier-end")
    return home


def calls_of(end: str, home: Path) -> list[Call]:
    disk = Recorder()
    ENDS[end](home, disk)
    return disk.calls


def taken_numbers(home: Path) -> set[int]:
    """Return the numbers in all folders of journals, even of mere remains."""
    folders = home.rglob(".je-tools-undo/*")
    return {int(path.name[:6]) for path in folders if path.suffix != ".new"}


def states_of(home: Path) -> set[UndoState]:
    return {undo.state for undo in list_undos(home)}


def assert_writing_goes_on(state: Path, first: dict[str, str]) -> None:
    """Check that the next write gets its own journal, and that all journals can be put back."""
    if UndoState.HALF_BACK in states_of(state):
        with pytest.raises(RefusedError, match="undo 2 was interrupted"):
            write_more(state)
        put_back(state)
    taken = taken_numbers(state)
    write_more(state)
    numbers = [undo.number for undo in list_undos(state)]
    assert numbers[0] == 1
    assert numbers[-1] > max(taken)
    written = log_of(state)
    with Disk() as disk:
        clear_remains(state, disk)
    assert [undo.number for undo in list_undos(state)] == numbers
    assert log_of(state) == written
    kept = shutil.copytree(state, state.with_name("dropped"))
    for undo in list_undos(kept):
        with Disk() as disk:
            undo.drop(disk)
    assert not list(kept.rglob(".je-tools*"))
    assert log_of(kept) == written
    shutil.rmtree(kept)
    put_back(state)
    while list_undos(state):
        put_back(state)
    assert not list(state.rglob(".je-tools*"))
    assert without_journals(state) == first


@each_layout
@each_end
def test_the_next_journal_has_a_number_of_its_own(
    end: str, data_directories: int, tmp_path: Path
) -> None:
    """Killed at each call, the removal continues later and takes no journal but its own."""
    first = without_journals(small_log(tmp_path / "first", data_directories=data_directories))
    calls = calls_of(end, two_journals(tmp_path / "all", data_directories))
    for at in range(len(calls)):
        home = two_journals(tmp_path / f"{at}", data_directories)
        ended = log_of(home)
        with pytest.raises(KilledError):
            ENDS[end](home, Recorder(at))
        if end == "drop" and len(list_undos(home)) == 1:
            # The content that the journal kept is gone for good.
            assert log_of(home) == ended
            taken = taken_numbers(home)
            write_more(home)
            assert [undo.number for undo in list_undos(home)] == [1, max(taken) + 1]
        else:
            assert_writing_goes_on(home, first)


@each_layout
def test_so_it_is_after_a_power_cut(data_directories: int, tmp_path: Path) -> None:
    first = without_journals(small_log(tmp_path / "first", data_directories=data_directories))
    home = two_journals(tmp_path / "env", data_directories)
    cuts = PowerCuts(home)
    calls = calls_of("undo", home)
    for _, state in cuts.states(calls, tmp_path, random.Random(7), 2):
        assert_writing_goes_on(state, first)
        shutil.rmtree(state)


def test_a_number_that_was_given_twice_is_no_dead_end(tmp_path: Path) -> None:
    """Somebody restored a journal from a backup, beside the remains of its removal."""
    home = two_journals(tmp_path / "env", 3)
    folder = home / ".je-tools-undo"
    kept = {p: p.read_bytes() for p in home.rglob("*.removed")}
    assert kept
    shutil.copytree(folder / "000002", folder / "000002.dropped")
    assert [undo.number for undo in list_undos(home)] == [1, 2]
    with Disk() as disk:
        clear_remains(home, disk)
    assert {p: p.read_bytes() for p in home.rglob("*.removed")} == kept
    shutil.copytree(folder / "000002", folder / "000002.dropped")
    before = without_journals(small_log(tmp_path / "first", data_directories=3))
    put_back(home)
    put_back(home)
    assert without_journals(home) == before
    assert not list(home.rglob(".je-tools*"))


def test_what_is_not_ours_among_the_remains_stays_and_stops_nothing(tmp_path: Path) -> None:
    home = two_journals(tmp_path / "env", 0)
    dropped = home / ".je-tools-undo" / "000001.dropped"
    (dropped / "somebody's").mkdir(parents=True)
    (home / ".je-tools-undo" / "somebody.dropped").mkdir()
    (home / ".je-tools-undo" / "...dropped").mkdir()
    assert [undo.number for undo in list_undos(home)] == [1, 2]
    put_back(home)
    write_more(home)
    drop_newest(home)
    assert [undo.number for undo in list_undos(home)] == [1]
    assert (dropped / "somebody's").is_dir()
    assert (home / ".je-tools-undo" / "somebody.dropped").is_dir()


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_log_that_was_cut_back_in_part_is_put_back_first(name: str, tmp_path: Path) -> None:
    """It accepts no other write; logs after a crash of any other operation do."""
    disk = Recorder()
    operate(small_log(tmp_path / "all"), name, disk)
    refused = 0
    for at in range(len(disk.calls)):
        home = small_log(tmp_path / f"{at}")
        before = without_journals(home)
        with pytest.raises(KilledError):
            operate(home, name, Recorder(at))
        left = log_of(home)
        try:
            write_more(home)
        except RefusedError as error:
            refused += 1
            text = f"{home}: the {name} of undo 1 was interrupted after it had removed a part"
            said = str(error)
            assert said.startswith(text)
            assert said.endswith("which reverts it; nothing was changed")
            assert log_of(home) == left
            put_back(home)
            assert without_journals(home) == before
            write_more(home)
        else:
            is_finished = bool(list_undos(home)) and list_undos(home)[0].is_finished
            assert name not in TAKES_AWAY or left.keys() == before.keys() or is_finished
    assert (refused > 5) == (name in TAKES_AWAY)
