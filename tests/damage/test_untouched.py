"""No command changes its input, or leaves anything beside it: no lock, no temporary file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from je_tools.dump import tail as following
from je_tools.log import scan_options
from tests.builders.logs import write_log
from tests.corpus import FIXTURES
from tests.damage.planted_findings import damaged_entry
from tests.damage.running import Outcome, je_tools, states
from tests.damage.small import small_log

OUT = "OUT"
"""Placeholder of a new path outside of the environment."""

READ = [
    ("verify",),
    ("verify", "--all", "--stats", OUT, "--format", "jsonl"),
    ("dump",),
    ("dump", "--format", "jsonl", "--threads", "2"),
    ("dump", "--format", "csv", "--data", "hash"),
    ("dump", "--format", "parquet", "--output", OUT),
    ("dump", "--format", "jsonl", "--output", OUT),
    ("dump", "--backward", "--limit", "3"),
    ("dump", "--ignore-checksum", "--type", "LN", "--grep", "a", "--since", "2020-01-01"),
    ("summary",),
    ("summary", "--by-file", "--by-db", "--vlsn", "--checkpoints", "--txns", "--format", "jsonl"),
    ("files",),
    ("files", "--format", "csv", "--output", OUT),
]
PARTS = ("dump", "--format", "parquet", "--parts", "--output", OUT)
STRANGERS = {"je.lck": b"", "je.info.0": b"a log\n", "notes.txt": b"x", "je.config.csv": b""}


@pytest.fixture(params=["one thread", "threads"])
def _form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "threads":
        monkeypatch.setattr(scan_options, "ONE_THREAD_MAX", -1)
    monkeypatch.setattr("sys.argv", ["je-tools"])


def made(folder: Path) -> Path:
    """Write a log with foreign files, and files that a cleaner or a restore has renamed."""
    files = small_log(17, 3)
    home = write_log(folder / "env", files)
    damaged_entry(folder / "damaged")
    for name in ("00000007.del", "00000008.bad", "00000009.bup", "0000000a.jdb"):
        shutil.copy(folder / "damaged" / "00000000.jdb", home / name)
    for name, data in STRANGERS.items():
        (home / name).write_bytes(data)
    return home


def in_data_directories(folder: Path) -> Path:
    home = folder / "env"
    files = small_log(17, 3)
    for i, file in enumerate(files):
        write_log(home / f"data00{i % 2 + 1}", [file])
    return home


def written_by_an_engine(folder: Path) -> Path:
    return shutil.copytree(FIXTURES / "v26-basic" / "env", folder / "env")


HOMES = {each.__name__: each for each in (made, in_data_directories, written_by_an_engine)}


@pytest.fixture(params=sorted(HOMES))
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Yield an environment without write permission: root could write, and must not either."""
    home = HOMES[request.param](tmp_path)
    folders = [home, *(path for path in home.rglob("*") if path.is_dir())]
    for path in home.rglob("*"):
        if path.is_file():
            path.chmod(0o444)
    for folder in folders:
        folder.chmod(0o555)
    yield home
    for folder in folders:
        folder.chmod(0o755)


def run(arguments: tuple[str, ...], paths: list[Path], out: Path) -> Outcome:
    """Run a command over paths, asserting that it ends as it should and leaves them unchanged."""
    parents = {path if path.is_dir() else path.parent for path in paths}
    before = states(*parents)
    chosen = [str(out) if argument == OUT else argument for argument in arguments]
    outcome = je_tools(*chosen, *paths)
    assert outcome.code in (0, 3), (arguments, outcome.err)
    assert states(*parents) == before, arguments
    if out.is_dir():
        shutil.rmtree(out)
    out.unlink(missing_ok=True)
    return outcome


@pytest.mark.usefixtures("_form")
def test_commands_write_nothing_into_an_environment(home: Path, tmp_path: Path) -> None:
    for arguments in READ:
        run(arguments, [home], tmp_path / "out")
    rows = run(("dump", "--format", "jsonl"), [home], tmp_path / "out").rows
    for lsn in (rows[0]["lsn"], rows[-1]["lsn"]):
        run(("explain", lsn, "--env"), [home], tmp_path / "out")


def test_parts_are_written_elsewhere(home: Path, tmp_path: Path) -> None:
    run(PARTS, [home], tmp_path / "out")


@pytest.mark.usefixtures("_form")
def test_commands_write_nothing_beside_loose_files(tmp_path: Path) -> None:
    home = made(tmp_path)
    suffixes = (".jdb", ".del", ".bad", ".bup")
    for suffix in suffixes:
        paths = sorted(home.glob(f"*{suffix}"))
        for arguments in READ:
            run(arguments, paths, tmp_path / "out")
    every = [path for suffix in suffixes for path in home.glob(f"*{suffix}")]
    for arguments in READ:
        run(arguments, every, tmp_path / "out")


@pytest.mark.parametrize("format_", ["table", "jsonl", "csv"])
def test_following_writes_nothing(
    format_: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps = iter(range(3))

    def nap(_: float) -> None:
        if next(naps, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(following, "sleep", nap)
    before = states(home)
    outcome = je_tools("dump", home, "--follow", "--format", format_)
    assert outcome.code == 130
    assert outcome.out
    assert states(home) == before


def test_an_output_inside_the_environment_is_refused(tmp_path: Path) -> None:
    home = made(tmp_path)
    before = states(home)
    for name in ("out.jsonl", "00000000.jdb"):
        outcome = je_tools("dump", home, "--format", "jsonl", "--output", home / name)
        assert outcome.code == 6
    assert states(home) == before


def test_nothing_stays_open(tmp_path: Path) -> None:
    """This includes logs read in ranges: an open file keeps a disk from being unmounted."""
    home = made(tmp_path)
    for arguments in READ:
        run(arguments, [home], tmp_path / "out")
    assert not [name for name in open_files() if name.startswith(str(home))]


def open_files() -> list[str]:
    names = []
    for path in Path("/proc/self/fd").iterdir():
        # Other threads may close files meanwhile.
        with suppress(FileNotFoundError):
            names.append(str(path.readlink()))
    return names
