"""Reopening a log examines only names, and files that may have changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.errors import UsageError
from je_tools.log import sources
from je_tools.log.environment import Environment
from je_tools.log.opening import open_environment
from tests.builders.logs import LogFile, write_log
from tests.builders.trees import rooted
from tests.damage.planted_cases import CASES
from tests.damage.running import Outcome, je_tools


def log_of(count: int) -> list[LogFile]:
    """Build `count` files with an entry each, the first of them with a root."""
    files = [rooted(LogFile(0))]
    files[0].trace(20)
    for _ in range(count - 1):
        files.append(files[-1].follower())
        files[-1].trace(20)
    return files


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the names of the files that are opened."""
    names: list[str] = []
    real = sources.open_source

    def source(path: Path) -> sources.Source:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(sources, "open_source", source)
    return names


def same(one: Environment, other: Environment) -> bool:
    return (one.files, one.marker, one.folders) == (other.files, other.marker, other.folders)


def test_only_new_files_and_the_last_one_are_opened_again(
    tmp_path: Path, opened: list[str]
) -> None:
    files = log_of(6)
    home = write_log(tmp_path / "env", files[:3])
    before = open_environment([home])
    opened.clear()
    (home / files[2].name).write_bytes(files[2].data + bytes(30))
    write_log(home, files[3:])
    again = open_environment([home], before)
    assert sorted(opened) == [file.name for file in files[2:]]
    assert same(again, open_environment([home]))
    assert again.files[2].size == len(files[2].data) + 30


def test_a_header_that_was_not_whole_is_read_again(tmp_path: Path, opened: list[str]) -> None:
    """A file may be begun, completed and followed by others before the log is opened again."""
    files = log_of(4)
    home = write_log(tmp_path / "env", files)
    (home / files[1].name).write_bytes(files[1].data[:20])
    before = open_environment([home])
    assert not before.files[1].header.good
    opened.clear()
    write_log(home, files)
    again = open_environment([home], before)
    assert sorted(opened) == [files[1].name, files[3].name]
    assert again.files[1].header.good


def test_entries_are_not_asked_again_for_their_version(tmp_path: Path, opened: list[str]) -> None:
    """The header stays damaged, and finding the version that its entries fit takes long."""
    files = log_of(3)
    for _ in range(30):
        files[1].trace(50)
    home = write_log(tmp_path / "env", files)
    (home / files[1].name).write_bytes(bytes(38) + files[1].data[38:])
    before = open_environment([home])
    assert before.files[1].fits
    opened.clear()
    again = open_environment([home], before)
    assert opened == [files[2].name]
    assert same(again, before)


def test_files_that_were_deleted_are_gone(tmp_path: Path) -> None:
    files = log_of(4)
    home = write_log(tmp_path / "env", files)
    before = open_environment([home])
    (home / files[1].name).unlink()
    again = open_environment([home], before)
    assert [file.file_no for file in again.files] == [0, 2, 3]
    assert again.missing == ((1, 1),)


def test_loose_files_too(tmp_path: Path, opened: list[str]) -> None:
    files = log_of(3)
    home = write_log(tmp_path / "env", files)
    paths = [home / file.name for file in files]
    before = open_environment(paths)
    opened.clear()
    again = open_environment(paths, before)
    assert opened == [files[2].name]
    assert same(again, before)


def test_where_a_log_may_end(tmp_path: Path) -> None:
    """It ends in or after the last file with more than a header.

    Loose files may also end before a gap.
    """
    files = log_of(4)
    home = write_log(tmp_path / "env", files)
    assert open_environment([home]).ends == {3}
    (home / files[3].name).write_bytes(files[3].data[:38])
    assert open_environment([home]).ends == {2, 3}
    (home / files[3].name).write_bytes(files[3].data[:39])
    assert open_environment([home]).ends == {3}
    paths = [home / files[i].name for i in (0, 1, 3)]
    assert open_environment(paths).ends == {1, 2}
    assert open_environment(paths).missing == ()


def test_places_are_those_of_data_directories_too(tmp_path: Path) -> None:
    make, _ = CASES["data-directories"]
    (home,) = make(tmp_path / "env")
    found = open_environment([home])
    assert found.folders == ("data001", "data002", "data003")
    assert [file.path.parent.name for file in found.files] == [*found.folders, *found.folders[:2]]
    assert [found.places[file.path] for file in found.files] == [0, 1, 2, 3, 4]


def test_a_directory_is_not_a_log_for_its_name(tmp_path: Path) -> None:
    """Nor is a file with the name of a data directory a data directory."""
    (file,) = log_of(1)
    home = write_log(tmp_path / "env", [file])
    (home / "00000009.jdb").mkdir()
    (home / "data001").touch()
    found = open_environment([home])
    assert [each.path.name for each in found.files] == [file.name]
    assert found.folders == ()


# Several paths on one command line

COMMANDS = {
    "verify": ("verify",),
    "dump": ("dump",),
    "summary": ("summary",),
    "files": ("files",),
    "explain": ("explain", "0x0/0x26"),
}


def named(command: str, *paths: Path) -> Outcome:
    """Run a command over paths, in the form in which it takes them."""
    begin = COMMANDS[command]
    if command != "explain":
        return je_tools(*begin, *paths)
    return je_tools(*begin, *(word for path in paths for word in ("--env", path)))


def refused(outcome: Outcome, *words: str) -> None:
    assert (outcome.code, outcome.out) == (2, b"")
    assert all(word in outcome.err for word in words), outcome.err


@pytest.mark.parametrize("command", COMMANDS)
def test_paths_that_are_not_of_one_log_are_refused(command: str, tmp_path: Path) -> None:
    """They would be judged against each other, but an LSN of one means nothing in the other."""
    first, second = log_of(2)
    one = write_log(tmp_path / "one", [first, second])
    other = write_log(tmp_path / "other", [first, second])
    a, b = one / first.name, other / second.name
    refused(named(command, a, b), f"{a} and {b}", "one command per directory")
    refused(named(command, one, other), str(one), "for each directory")
    refused(named(command, one, b), str(one), "for each directory")
    (one / "data001").mkdir()
    (one / second.name).rename(one / "data001" / second.name)
    assert named(command, a, one / "data001" / second.name).code == 0


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("suffix", ["bad", "del", "bup", "bup.1"])
def test_two_files_of_one_number_are_refused(command: str, suffix: str, tmp_path: Path) -> None:
    """An LSN would not identify one of them."""
    home = write_log(tmp_path / "env", log_of(1))
    (path,) = home.iterdir()
    other = path.with_suffix(f".{suffix}")
    other.write_bytes(path.read_bytes())
    refused(named(command, path, other), str(path), str(other), "one command with each")
    refused(named(command, path, path), "one command with each")
    for each in (path, other, home):
        assert named(command, each).code == 0


@pytest.mark.parametrize(
    "places",
    [("data001", "data002", "data003"), ("data002", "data002", "data001"), (".", "data001", ".")],
)
def test_files_of_one_environment_lie_in_its_data_directories(
    places: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if the directories are links to other disks."""
    home = tmp_path / "env"
    home.mkdir()
    (home / "data001").symlink_to(write_log(tmp_path / "disk", []))
    files = log_of(3)
    for place, file in zip(places, files, strict=True):
        write_log(home / place, [file])
    paths = [home / place / file.name for place, file in zip(places, files, strict=True)]
    found = open_environment(paths)
    assert found.name == str(home)
    assert [file.path for file in found.files] == paths
    monkeypatch.chdir(home)
    assert open_environment([path.relative_to(home) for path in paths]).name == "."
    with pytest.raises(UsageError):
        open_environment([*paths, write_log(tmp_path / "data001", log_of(1)) / files[0].name])


def test_inside_a_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = log_of(2)
    write_log(tmp_path / "env" / "data001", [first])
    write_log(tmp_path / "env" / "data002", [second])
    monkeypatch.chdir(tmp_path / "env" / "data001")
    found = open_environment([Path(first.name), Path("../data002") / second.name])
    assert (found.name, len(found.files)) == ("..", 2)


def test_what_is_no_log_file_is_told_from_one_that_is_damaged(tmp_path: Path) -> None:
    """Both lie beside a good file, as a shell's star matches them."""
    home = write_log(tmp_path / "env", log_of(1))
    (path,) = home.iterdir()
    (home / "je.lck").touch()
    outcome = je_tools("verify", path, home / "je.lck")
    assert outcome.code == 4
    assert f"{home / 'je.lck'}: not a JE log file" in outcome.err
    (home / "00000001.bad").write_bytes(b"damaged" * 9)
    assert je_tools("verify", path, home / "00000001.bad").code == 3


# The log's name in findings


@pytest.mark.parametrize("count", [1, 2])
def test_a_finding_in_a_file_that_was_named_names_the_file(count: int, tmp_path: Path) -> None:
    """It can then be found whatever its suffix, and `explain` accepts the name."""
    files = log_of(3)
    home = write_log(tmp_path / "env", files)
    paths = [home / "00000001.bad", home / "00000002.del"][:count]
    for file, path in zip(files[1:], paths, strict=False):
        file.data[-1] ^= 1
        path.write_bytes(file.data)
    outcome = je_tools("verify", *paths, "--format", "jsonl")
    places = [(row["env"], row["lsn"]) for row in outcome.rows]
    assert [env for env, _ in places] == [str(path) for path in paths]
    assert outcome.err.startswith(f"je-tools: {paths[0] if count == 1 else home}: ")
    for env, lsn in places:
        assert je_tools("explain", lsn, "--env", env).code == 3
    assert {row["env"] for row in je_tools("verify", home, "--all", "--format", "jsonl").rows} == {
        str(home)
    }


def test_so_does_one_of_the_stream_of_vlsns(tmp_path: Path) -> None:
    files = [LogFile(0)]
    files[0].trace(20, vlsn=7)
    files.append(files[0].follower())
    files[1].trace(20, vlsn=5)
    home = write_log(tmp_path / "env", files)
    paths = sorted(home.iterdir())
    (row,) = je_tools("verify", *paths, "--format", "jsonl").rows
    assert (row["code"], row["env"]) == ("vlsn-backward", str(paths[1]))
