"""After any interruption of `checkpoint --apply` or `recover --apply`, the engine has all records.

`undo` restores every byte, even if it is interrupted itself.
"""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Callable
from errno import EIO
from pathlib import Path

import pytest

from je_tools.checkpoint.apply import apply_checkpoint
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.errors import RefusedError
from je_tools.log.scan import Scanner
from je_tools.writing.disk import Disk
from tests.builders.forked import Forked
from tests.builders.power_cuts import Recorder
from tests.builders.signals import run_signalled
from tests.corpus import FIXTURES
from tests.engine.acceptance import fingerprint
from tests.engine.crashes import Crash, read_source, write_crash
from tests.engine.holder import Holder
from tests.engine.interruptions import Case, Interrupter, Report, log_unsure
from tests.engine.jars import JE_5, JE_18
from tests.engine.recovered import Engine
from tests.je_tools.dumped import je_tools
from tests.je_tools.writing.operations import digests, put_back
from tests.truth.contents import Refusal

pytestmark = pytest.mark.engine

CRASHED = FIXTURES / "v17-crash-txn" / "env"
OLD_CRASHED = FIXTURES / "v8-crash-txn-ckpt" / "env"
STATES = 10
"""Number of states of each environment while a write is not yet durable."""

SMALL_FILES = 8_000
"""Bytes of new files, so small that the checkpoint begins several."""


def crashed(folder: Path, home: Path, tail: bytes = b"", behind: bytes | None = None) -> Path:
    """Write a crashed environment with a tail after its last file, or a file after the last."""
    source = read_source(home)
    files = {source.last: source.files[source.last] + tail}
    if behind is not None:
        files[source.last + 1] = behind
    write_crash(source, Crash("", "", files), folder / "crashed")
    return folder / "crashed"


NOISE = random.Random(1).randbytes(900)

MADE: dict[str, tuple[str, Callable[[Path], Path], CheckpointOptions]] = {
    "as-it-is": (JE_18, lambda folder: crashed(folder, CRASHED), CheckpointOptions()),
    "small-files": (
        JE_18,
        lambda folder: crashed(folder, CRASHED),
        CheckpointOptions(file_max=SMALL_FILES),
    ),
    "torn-tail": (
        JE_18,
        lambda folder: crashed(folder, CRASHED, bytes(700) + NOISE),
        CheckpointOptions(cuts=True, file_max=SMALL_FILES),
    ),
    "unusable-file": (
        JE_18,
        lambda folder: crashed(folder, CRASHED, b"", NOISE[:30]),
        CheckpointOptions(cuts=True, file_max=SMALL_FILES),
    ),
    "old": (
        JE_5,
        lambda folder: crashed(folder, OLD_CRASHED, NOISE),
        CheckpointOptions(cuts=True, file_max=SMALL_FILES // 4),
    ),
}
"""Engine to ask, maker of the crashed environment, and options to write it with."""

each_made = pytest.mark.parametrize("name", MADE)


def interrupter(name: str, engines: dict[str, Engine], folder: Path) -> Interrupter:
    coordinate, make, orders = MADE[name]
    work = folder / "work"
    work.mkdir()
    case = Case(name, make(folder), orders)
    return Interrupter(case, engines[coordinate], work, Report())


@each_made
def test_a_power_cut(name: str, engines: dict[str, Engine], tmp_path: Path) -> None:
    one = interrupter(name, engines, tmp_path)
    names = [call.name for call in one.calls]
    assert one.outcome.checkpoint is not None
    assert ("truncate" in names) == (name in ("torn-tail", "old"))
    assert one.outcome.set_aside == (("00000001.jdb",) if name == "unusable-file" else ())
    assert (names.count("create") > 3) == bool(one.case.orders.file_max)
    one.power_cuts(random.Random(name), STATES)
    one.power_cuts_in_undo(random.Random(name), STATES)
    print(one.report)
    assert not one.report.wrong, one.report
    assert one.report.logs["writing"] >= STATES


def test_a_power_cut_while_files_are_taken_away(engines: dict[str, Engine], tmp_path: Path) -> None:
    """The log is cut back to its first file; the others are in the journal."""
    home = Path(shutil.copytree(FIXTURES / "v17-erase-after" / "env", tmp_path / "env"))
    work = tmp_path / "work"
    work.mkdir()
    case = Case("cut back", home, CheckpointOptions(cuts=True, to_lsn=0xA0000), takes_away=True)
    one = Interrupter(case, engines[JE_18], work, Report())
    assert one.outcome.removed == ("00000001.jdb", "00000002.jdb")
    one.power_cuts(random.Random(1), STATES)
    one.power_cuts_in_undo(random.Random(1), STATES)
    print(one.report)
    assert not one.report.wrong, one.report
    copy = Path(shutil.copytree(home, work / "told"))
    with pytest.raises(RefusedError, match="the log ends somewhere between"):
        apply_checkpoint(
            copy, Scanner(threads=1), case.orders, 0, disk=Recorder(len(one.calls) // 2, EIO)
        )


@pytest.mark.parametrize("name", ["torn-tail", "unusable-file"])
def test_a_disk_that_fails(name: str, engines: dict[str, Engine], tmp_path: Path) -> None:
    """Some calls fail for lack of space or with a device error, or end the process."""
    one = interrupter(name, engines, tmp_path)
    unsure = log_unsure(one.calls)
    chosen = [at for at in range(len(one.calls)) if unsure[at] != unsure[at + 1]][::3]
    one.failures(chosen)
    print(one.report)
    assert not one.report.wrong, one.report
    assert one.report.logs.total() >= 3


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@each_made
def test_a_disk_that_fails_at_each_call(
    name: str, engines: dict[str, Engine], tmp_path: Path
) -> None:
    one = interrupter(name, engines, tmp_path)
    one.failures()
    print(one.report)
    assert not one.report.wrong, one.report


def calls_of(home: Path, folder: Path) -> int:
    disk = Recorder()
    copy = shutil.copytree(home, folder / "counted")
    apply_checkpoint(copy, Scanner(threads=1), CheckpointOptions(cuts=True), 0, disk=disk)
    return len(disk.calls)


def test_kills(engines: dict[str, Engine], forked: Forked, tmp_path: Path) -> None:
    """SIGKILL in the middle of each third call; undo is killed, too, then completed."""
    source = crashed(tmp_path, CRASHED, NOISE)
    before = digests(source)
    expected = engines[JE_18].ask(shutil.copytree(source, tmp_path / "expected"))
    assert not isinstance(expected, Refusal)
    count = calls_of(source, tmp_path)
    assert count > 12
    logs = set()
    for at in range(1, count, 3):
        home = Path(shutil.copytree(source, tmp_path / f"home-{at}"))
        code, said = run_signalled(forked, at, signal.SIGKILL, "recover", "--apply", home)
        assert (code, said) == (-signal.SIGKILL, "")
        logs.add((home / "00000000.jdb").read_bytes())
        left = shutil.copytree(home, tmp_path / f"left-{at}")
        assert engines[JE_18].ask(left) == expected, at
        run_signalled(forked, at // 2, signal.SIGKILL, "undo", "--apply", home)
        code, said = run_signalled(forked, 999, signal.SIGKILL, "undo", "--apply", home)
        assert code == 0, said
        assert digests(home) == before, at
    assert len(logs) >= 3


@pytest.mark.parametrize(
    ("verb", "number", "code", "word"),
    [
        ("checkpoint", signal.SIGINT, 130, "interrupted"),
        ("recover", signal.SIGTERM, 143, "terminated"),
    ],
)
def test_what_is_told_when_it_is_interrupted(
    verb: str, number: int, code: int, word: str, forked: Forked, tmp_path: Path
) -> None:
    """The message states the log's state and the way to undo; it is true at every call."""
    source = crashed(tmp_path, CRASHED)
    before = digests(source)
    what = "recovery" if verb == "recover" else "checkpoint"
    met = set()
    count = calls_of(source, tmp_path)
    for at in (2, count // 2, count - 3, count - 1):
        home = Path(shutil.copytree(source, tmp_path / f"home-{at}"))
        ended, said = run_signalled(forked, at, number, verb, "--apply", home)
        assert ended == code, said
        back = f"`je-tools undo {home} --apply`"
        logs = (home / "00000000.jdb").read_bytes() == (source / "00000000.jdb").read_bytes()
        if said == f"{word}; nothing was changed\n":
            assert logs
            met.add("nothing")
        else:
            assert said == (
                f"{word}; the {what} is not finished, and the log is as after a crash, from "
                f"which the engine recovers. {back} reverts it\n"
            )
            met.add("unfinished")
        put_back(home)
        assert digests(home) == before
    assert met == {"nothing", "unfinished"}


def test_what_is_told_when_it_is_done_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the written log is being checked."""
    home = crashed(tmp_path, CRASHED)
    before = digests(home)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("je_tools.checkpoint.apply.check_written", interrupt)
    done = je_tools("checkpoint", "--apply", home)
    assert done.code == 130
    assert done.err == (
        f"interrupted; the checkpoint is done. `je-tools undo {home} --apply` reverts it\n"
    )
    put_back(home)
    assert digests(home) == before


def test_an_undo_that_is_interrupted_tells_so(forked: Forked, tmp_path: Path) -> None:
    home = crashed(tmp_path, CRASHED, NOISE)
    before = digests(home)
    assert je_tools("recover", "--apply", home).code == 0
    code, said = run_signalled(forked, 3, signal.SIGINT, "undo", "--apply", home)
    assert code == 130
    text = f"the undo is not finished: run `je-tools undo {home} --apply` again"
    assert said == f"interrupted; {text}\n"
    assert je_tools("undo", "--apply", home).code == 0
    assert digests(home) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_nothing_is_left_of_a_copy(number: int, code: int, forked: Forked, tmp_path: Path) -> None:
    home = crashed(tmp_path, CRASHED, NOISE)
    before = digests(home)
    out = tmp_path / "out"
    out.mkdir()
    words = ("recover", "--apply", "--output", out / "copy", home)
    for at in (0, 2, 3):
        ended, said = run_signalled(forked, at, number, *words)
        assert ended == code, said
        assert f"; {out / 'copy'} was not created, and the environment is unchanged" in said
        assert not list(out.iterdir())
    assert digests(home) == before


@pytest.mark.parametrize("verb", ["checkpoint", "recover"])
def test_an_engine_that_writes_keeps_it_out(verb: str, holder: Holder, tmp_path: Path) -> None:
    home = crashed(tmp_path, CRASHED)
    with holder.opened(home, "rw") as said:
        assert said == "open"
        before = fingerprint(home)
        done = je_tools(verb, "--apply", home)
        assert done.code == 6
        assert f"process {holder.pid} " in done.err
        assert "has the environment open for writing" in done.err
        assert fingerprint(home) == before
        assert not list(home.glob(".je-tools*"))


def test_an_engine_that_reads_is_told_of(holder: Holder, tmp_path: Path) -> None:
    home = crashed(tmp_path, CRASHED)
    with holder.opened(home, "ro") as said:
        assert said == "open"
        done = je_tools("checkpoint", "--apply", home)
        assert done.code == 0
        first = done.err.splitlines()[0]
        assert first.startswith(f"je-tools: process {holder.pid} (")
        assert first.endswith(
            ") has the environment open for reading; it continues with the state that it knows"
        )


def test_it_keeps_an_engine_out(holder: Holder, tmp_path: Path) -> None:
    """The lock holds during every write, to the journal or to the log."""
    home = crashed(tmp_path, CRASHED)
    answers = []

    class Asking(Disk):
        def write(self, path: Path, offset: int, data: bytes | memoryview) -> None:
            super().write(path, offset, data)
            with holder.opened(home, "rw") as said:
                answers.append((path.suffix, said))

    apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), 0, disk=Asking())
    assert {suffix for suffix, _ in answers} == {"", ".jdb"}
    assert {said for _, said in answers} == {"EnvironmentLockedException"}
    with holder.opened(home, "rw") as said:
        assert said == "open"
