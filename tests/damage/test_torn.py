"""Files truncated while a command has them mapped: exit code 5 and no output."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from je_tools.core.masking import DataMode, Masking
from je_tools.errors import InputError, StoppedError, UsageError
from je_tools.formats.files.image import Image, ImagePart
from je_tools.log.images import map_files
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.output.encoders.record_sinks import RecordFormat, open_record_sink
from je_tools.recovery.end import _read_file, find_end
from je_tools.recovery.opening import held_snapshot
from je_tools.recovery.plan import plan_recovery
from je_tools.salvage.choice import Mode
from je_tools.salvage.output import write
from je_tools.salvage.run import salvage
from je_tools.writing.lock import EnvironmentLock
from tests.builders.trees import TreeLog, simple, slot
from tests.corpus import ROOT
from tests.damage.running import Outcome, je_tools
from tests.je_tools.snapshots import NOW_MS, snapshot_of

COUNT = 200

COMMANDS: dict[str, tuple[str, ...]] = {
    "recover": ("recover", "ENV", "--output", "OUT"),
    "recover in place": ("recover", "ENV", "--apply"),
    "recover a copy": ("recover", "ENV", "--apply", "--output", "OUT"),
    "checkpoint": ("checkpoint", "ENV"),
    "checkpoint in place": ("checkpoint", "ENV", "--apply"),
    "checkpoint a copy": ("checkpoint", "ENV", "--apply", "--output", "OUT"),
    "databases": ("databases", "ENV", "--output", "OUT"),
    "count": ("count", "ENV", "--output", "OUT"),
    "get": ("get", "ENV", "--db", "db", "0150", "--output", "OUT"),
    "get prefix": ("get", "ENV", "--db", "db", "hex:30*", "--format", "jsonl", "-o", "OUT"),
    "get history": ("get", "ENV", "--db", "db", "0150", "--history", "--output", "OUT"),
    "export": ("export", "ENV", "--db", "db", "--output", "OUT"),
    "export all": ("export", "ENV", "--all", "--output", "OUT"),
    "export jsonl": ("export", "ENV", "--db", "db", "--format", "jsonl", "-o", "OUT"),
    "export parquet": ("export", "ENV", "--all", "--format", "parquet", "-o", "OUT"),
    "verify": ("verify", "ENV", "--tree", "--output", "OUT"),
    "verify totals": ("verify", "ENV", "--tree", "--utilization", "--output", "OUT"),
    "space": ("space", "ENV", "--output", "OUT"),
    "space recount": ("space", "ENV", "--recount", "--output", "OUT"),
    "missing": ("missing", "ENV", "--output", "OUT"),
    "missing without": ("missing", "ENV", "--without", "0x0", "--output", "OUT"),
    "diff": ("diff", "ENV", "COPY", "--output", "OUT"),
    "diff other": ("diff", "COPY", "ENV", "--output", "OUT"),
    "diff records": ("diff", "ENV", "COPY", "--show", "records", "--format", "jsonl", "-o", "OUT"),
    "diff blocks": ("diff", "ENV", "COPY", "--blocks", "3", "--output", "OUT"),
    "erase subject": ("erase", "subject", "ENV", "--key", "0150", "--exit-zero", "-o", "OUT"),
    "salvage": ("salvage", "ENV", "--output", "OUT"),
    "salvage all": ("salvage", "ENV", "--mode", "everything", "--format", "csv", "-o", "OUT"),
    "salvage parquet": ("salvage", "ENV", "--format", "parquet", "--output", "OUT"),
}


def two_files(folder: Path) -> Path:
    """Write a log with the records in the first file; recovery reads only the second."""
    log = TreeLog()
    slots = []
    for i in range(COUNT):
        key = b"%04d" % i
        slots.append(slot(key, log.ln(key, b"x" * 80, txn=i + 1)))
        log.end(i + 1)
    root = log.tree(slots)
    log.next_file()
    log.database(b"db", root)
    log.checkpoint()
    return log.write(folder)


def cut(path: Path, how: str) -> None:
    """Truncate a file: to nothing, to a page, or within its last page."""
    size = path.stat().st_size
    os.truncate(path, {"whole": 0, "pages": 4096, "bytes": size - 100}[how])


def tear_when_mapped(
    home: Path, monkeypatch: pytest.MonkeyPatch, how: str, count: int = 1
) -> list[int]:
    """Truncate the first file of a log, or of its copy, when it is mapped the `count`th time.

    Returns:
        List that grows by one per map.
    """
    maps: list[int] = []
    made = Image.__init__

    def make(self: Image, parts: Any, *rest: Any) -> None:
        made(self, parts, *rest)
        for part in parts:
            is_first = part.path.name == "00000000.jdb"
            if is_first and (part.path.parent == home or ".part" in part.path.parent.name):
                maps.append(1)
                if len(maps) == count:
                    cut(part.path, how)

    monkeypatch.setattr(Image, "__init__", make)
    return maps


def run(name: str, home: Path, copy: Path, out: Path) -> Outcome:
    """Run a command of COMMANDS."""
    places = {"ENV": str(home), "COPY": str(copy), "OUT": str(out)}
    return je_tools(*(places.get(word, word) for word in COMMANDS[name]))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same log, for `diff`."""
    return two_files(tmp_path_factory.mktemp("copy") / "env")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_log_that_stays(name: str, copy: Path, tmp_path: Path) -> None:
    """Before the log is cut, every command reads it and has its output."""
    home, out = two_files(tmp_path / "env"), tmp_path / "out"
    done = run(name, home, copy, out)
    # The builder writes node ids that its checkpoint does not know.
    has_findings = "verify" in name or "without" in name
    assert done.code == (3 if has_findings else 0), done.err
    assert out.exists() == ("OUT" in COMMANDS[name])


@pytest.mark.parametrize("how", ["whole", "pages", "bytes"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_that_is_cut_under_a_command(
    name: str, how: str, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, out = two_files(tmp_path / "env"), tmp_path / "out"
    maps = tear_when_mapped(home, monkeypatch, how)
    done = run(name, home, copy, out)
    assert maps
    assert done.code == 5, (done.code, done.err)
    assert "00000000.jdb" in done.err
    assert "Traceback" not in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["env"]
    assert {path.name for path in home.iterdir()} <= {"00000000.jdb", "00000001.jdb", "je.lck"}


@pytest.mark.parametrize("name", ["checkpoint in place", "checkpoint a copy"])
def test_a_file_that_is_cut_when_it_is_written(
    name: str, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is cut while the written log is read back; a write in place can be undone."""
    home, out = two_files(tmp_path / "env"), tmp_path / "out"
    tear_when_mapped(home, monkeypatch, "bytes", 2)
    done = run(name, home, copy, out)
    assert done.code == 5, (done.code, done.err)
    assert "00000000.jdb: became shorter" in done.err
    assert not out.exists()
    assert ("`je-tools undo" in done.err) == ("place" in name)


@pytest.mark.parametrize("how", ["whole", "pages", "bytes"])
def test_a_file_that_is_cut_under_an_undo(
    how: str, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`undo` reads without a map, and leaves a log alone that is not as it was."""
    home, out = two_files(tmp_path / "env"), tmp_path / "out"
    assert run("checkpoint in place", home, copy, out).code == 0
    before = (home / "00000001.jdb").read_bytes()
    made = EnvironmentLock.__enter__

    def enter(self: EnvironmentLock) -> EnvironmentLock:
        cut(home / "00000000.jdb", how)
        return made(self)

    monkeypatch.setattr(EnvironmentLock, "__enter__", enter)
    maps = tear_when_mapped(home, monkeypatch, how)
    done = je_tools("undo", home, "--apply")
    assert not maps
    assert done.code == 6, (done.code, done.err)
    assert "00000000.jdb: had" in done.err
    assert (home / "00000001.jdb").read_bytes() == before


def test_what_lies_behind_the_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`recover` uses a separate map for the part of the log that would be lost."""
    log = simple({b"a": b"1"})
    last = log.end(5)
    for i in range(500):
        log.ln(b"%04d" % i, bytes(40), txn=6)
    log.end(6)
    home = log.write(tmp_path / "env")
    asked = ("recover", home, "--to-lsn", f"0x0/{last:#x}", "--output", tmp_path / "out")
    assert je_tools(*asked).code == 0
    (tmp_path / "out").unlink()
    tear_when_mapped(home, monkeypatch, "bytes", 2)
    done = je_tools(*asked)
    assert done.code == 5
    assert "00000000.jdb: became shorter" in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", list(RecordFormat))
def test_a_log_that_is_another_when_a_salvage_writes(tmp_path: Path, form: RecordFormat) -> None:
    """No promised record is missing silently, though no file is shorter."""
    home = two_files(tmp_path / "env")
    salvaged = salvage(open_environment([home]), Scanner(), Mode.COMMITTED)
    (one,) = salvaged.databases()
    assert sum(one.records.values()) == COUNT
    path = home / "00000000.jdb"
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(bytes(4096))
    sink = open_record_sink(form, Masking(DataMode.SHOW))
    (tmp_path / "out").mkdir()
    with pytest.raises(StoppedError, match=r"0x0/0x[0-9a-f]+: the entry changed while"):
        write(salvaged, [one], sink, tmp_path / "out", tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Path.unlink, "removed while it was read"),
        (lambda path: os.truncate(path, 100), r"shrank from \d+ to 100 bytes"),
    ],
    ids=["removed", "shorter"],
)
def test_a_last_file_that_changes_while_its_end_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], reason: str
) -> None:
    log = simple({b"a": b"1"})
    log.file.data += b"no entry"
    home = log.write(tmp_path / "env")
    environment = open_environment([home])

    def read(*arguments: Any, **named: Any) -> Any:
        found = _read_file(*arguments, **named)
        change(home / "00000000.jdb")
        return found

    monkeypatch.setattr("je_tools.recovery.end._read_file", read)
    with pytest.raises(StoppedError, match=f"00000000.jdb: {reason}"):
        find_end(environment, Scanner(threads=1))


def test_a_file_behind_the_end_that_is_gone(tmp_path: Path) -> None:
    log = simple({b"a": b"1"})
    last = log.end(5)
    log.next_file()
    log.end(6)
    home = log.write(tmp_path / "env")
    snapshot = snapshot_of(home, to_lsn=last - 1)
    (home / "00000001.jdb").unlink()
    with pytest.raises(StoppedError, match=r"00000001\.jdb: removed while it was read"):
        plan_recovery(snapshot)


def test_a_file_that_is_gone_when_it_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "00000000.jdb"
    with pytest.raises(StoppedError, match=r"00000000\.jdb: removed while it was read"):
        map_files([ImagePart(path, 0, 17, 100)])
    pipe = tmp_path / "00000001.jdb"
    pipe.symlink_to("/dev/null")
    with pytest.raises(StoppedError, match=r"00000001\.jdb: shrank from 100 to 0 bytes"):
        map_files([ImagePart(pipe, 1, 17, 100)])


@pytest.mark.parametrize("error", [KeyError("zeros"), InputError("no root"), OSError("no")])
def test_what_goes_wrong_with_zeros_is_not_what_is_told(tmp_path: Path, error: Exception) -> None:
    home = two_files(tmp_path / "env")

    def use() -> None:
        with held_snapshot(open_environment([home]), Scanner(threads=1), now_ms=NOW_MS):
            cut(home / "00000000.jdb", "bytes")
            raise error

    with pytest.raises(StoppedError, match=r"00000000\.jdb: became shorter"):
        use()


@pytest.mark.parametrize("error", [UsageError("no such database"), BrokenPipeError()])
def test_what_has_nothing_to_do_with_the_log_is_told(tmp_path: Path, error: Exception) -> None:
    home = two_files(tmp_path / "env")

    def use() -> None:
        with held_snapshot(open_environment([home]), Scanner(threads=1), now_ms=NOW_MS):
            cut(home / "00000000.jdb", "bytes")
            raise error

    with pytest.raises(type(error)):
        use()


def test_every_map_is_looked_after() -> None:
    """No command or library makes an image or a snapshot that nothing checks for changes."""
    sources = [
        path for folder in ("je_tools", "commands") for path in (ROOT / folder).rglob("*.py")
    ]
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in sources}
    makers = {name for name, text in texts.items() if re.search(r"\bImage\(", text)}
    assert makers == {"je_tools/log/images.py"}
    takers = [text for text in texts.values() if "take_snapshot(" in text]
    assert takers
    assert all("unchanged(" in text for text in takers)
