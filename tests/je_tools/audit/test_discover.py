"""Discovery of environments below roots, and problems with paths that cannot be read."""

from __future__ import annotations

import errno
import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from je_tools.audit import opening
from je_tools.audit.discover import Fleet, find_fleet
from je_tools.errors import InputError
from tests.builders.logs import LogFile, write_log
from tests.damage.planted_findings import log
from tests.je_tools.audit.auditing import HOSTILE, Tables, audit_fleet

ScanDir = Callable[[Path], Any]


def names(fleet: Fleet, top: Path) -> list[str]:
    """Return the names in the tables, relative to `top`."""
    return [os.path.relpath(each.name, top) for each in fleet.environments]


def names_of(fleet: Fleet) -> tuple[str, ...]:
    return tuple(each.name for each in fleet.environments)


def unread(tables: Tables, top: Path) -> dict[str, str]:
    """Return the reasons for which an audit has not read an environment or a directory."""
    rows = [row for row in tables["findings"] if row["code"] == "unread"]
    return {os.path.relpath(row["env"], top): row["found"] for row in rows}


def file_counts(tables: Tables) -> list[int]:
    return [row["file_count"] for row in tables["environments"]]


def reasons(fleet: Fleet, top: Path) -> dict[str, str]:
    return {os.path.relpath(each.env, top): each.reason for each in fleet.problems}


def home(folder: Path) -> Path:
    return write_log(folder, [log()])


SIZE = len(log().data)


def test_every_layout_of_directories(tmp_path: Path) -> None:
    home(tmp_path)
    home(tmp_path / "below" / "deeper")
    home(tmp_path / "group" / "node1")
    home(tmp_path / "group" / "node2")
    home(tmp_path / "fe" / "meta" / "bdb")
    first, second = log(), log(no=1)
    write_log(tmp_path / "parted" / "data001", [first])
    write_log(tmp_path / "parted" / "data002", [second])
    home(tmp_path / "parted" / "data002" / "inside")
    write_log(tmp_path / "begun" / "data001", [])
    home(tmp_path / "data001")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "00000000.jdb.txt").write_bytes(log().data)
    (tmp_path / "aside").mkdir()
    (tmp_path / "aside" / "00000000.del").write_bytes(log().data)
    (tmp_path / "named" / "00000000.jdb").mkdir(parents=True)
    fleet = find_fleet([tmp_path])
    assert names(fleet, tmp_path) == [
        ".",
        "below/deeper",
        "fe/meta/bdb",
        "group/node1",
        "group/node2",
        "parted",
    ]
    assert fleet.problems == ()
    assert [each.size for each in fleet.environments] == [2 * SIZE, *[SIZE] * 4, 2 * SIZE]
    assert file_counts(audit_fleet(fleet, tmp_path / "out")) == [2, 1, 1, 1, 1, 2]


def test_an_environment_inside_another(tmp_path: Path) -> None:
    home(tmp_path / "env")
    home(tmp_path / "env" / "backup")
    assert names(find_fleet([tmp_path]), tmp_path) == ["env", "env/backup"]


def test_log_files_named_as_roots_are_one_environment_a_folder(tmp_path: Path) -> None:
    first, second = log(), log(no=1)
    one, other = write_log(tmp_path / "a", [first, second]), home(tmp_path / "b")
    fleet = find_fleet([one / "00000001.jdb", other / "00000000.jdb", one / "00000000.jdb"])
    assert names(fleet, tmp_path) == ["a", "b/00000000.jdb"]
    assert [len(each.paths) for each in fleet.environments] == [2, 1]
    assert [each.size for each in fleet.environments] == [2 * SIZE, SIZE]
    assert file_counts(audit_fleet(fleet, tmp_path / "out")) == [2, 1]


def test_roots_that_overlap_count_once(tmp_path: Path) -> None:
    env = home(tmp_path / "env")
    (tmp_path / "link").symlink_to(env)
    roots = [tmp_path, env, tmp_path / "env" / ".." / "env"]
    assert len(find_fleet(roots).environments) == 1
    file = env / "00000000.jdb"
    assert names(find_fleet([file, file]), tmp_path) == ["env/00000000.jdb"]


def test_a_file_and_its_directory_are_told_apart(tmp_path: Path) -> None:
    env = write_log(tmp_path / "env", [log(), log(no=1)])
    fleet = find_fleet([env, env / "00000000.jdb", env / "00000001.jdb"])
    assert len(set(names_of(fleet))) == 2


def test_links_that_lead_in_a_circle(tmp_path: Path) -> None:
    env = home(tmp_path / "env")
    (env / "up").symlink_to(tmp_path)
    (env / "self").symlink_to(env / "self")
    (env / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "into").symlink_to(env / "up" / "env")
    fleet = find_fleet([tmp_path])
    assert names(fleet, tmp_path) == ["env"]
    assert fleet.problems == ()


@pytest.mark.parametrize("link", ["loop", "zoop"])
def test_an_environment_that_links_lead_to_has_its_shortest_name(tmp_path: Path, link: str) -> None:
    """The order of the directories does not matter."""
    home(tmp_path / "odd")
    home(tmp_path / "plain" / "deep" / "env")
    (tmp_path / link).mkdir()
    (tmp_path / link / "up").symlink_to(tmp_path)
    home(tmp_path / link / "deep" / "deeper" / "env")
    (tmp_path / link / "deep" / "side").symlink_to(tmp_path / "plain" / "deep")
    fleet = find_fleet([tmp_path])
    expected = {"odd", "plain/deep/env", f"{link}/deep/deeper/env"}
    assert set(names(fleet, tmp_path)) == expected
    assert set(names(find_fleet([tmp_path / link / "deep", tmp_path]), tmp_path)) == expected


def test_a_place_is_not_called_by_a_link_that_is_as_long(tmp_path: Path) -> None:
    home(tmp_path / "node1" / "env")
    (tmp_path / "latest").symlink_to(tmp_path / "node1")
    assert names(find_fleet([tmp_path]), tmp_path) == ["node1/env"]


def test_a_log_that_is_a_link_to_itself(tmp_path: Path) -> None:
    home(tmp_path / "good")
    bad = write_log(tmp_path / "bad", [])
    (bad / "00000000.jdb").symlink_to(bad / "00000000.jdb")
    home(bad / "below")
    fleet = find_fleet([tmp_path])
    assert names(fleet, tmp_path) == ["bad", "bad/below", "good"]
    assert fleet.problems == ()
    told = unread(audit_fleet(fleet, tmp_path / "out"), tmp_path)
    assert told.keys() == {"bad"}
    assert "symbolic links" in told["bad"]


def test_a_link_that_leads_to_nothing_claims_no_folder(tmp_path: Path) -> None:
    """A link to /nothing would make / a folder of the log, and every output one inside it."""
    env = home(tmp_path / "env")
    real = home(tmp_path / "real")
    (env / "00000001.jdb").symlink_to("/nothing")
    (env / "00000002.jdb").symlink_to(real / "00000000.jdb")
    (found,) = find_fleet([env]).environments
    assert found.folders == (env, real)


def test_roots_that_are_links(tmp_path: Path) -> None:
    env = home(tmp_path / "env")
    (tmp_path / "link").symlink_to(env)
    assert names(find_fleet([tmp_path / "link"]), tmp_path) == ["link"]
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "gone").symlink_to("nowhere")
    told = reasons(find_fleet([tmp_path / "self", tmp_path / "gone", env]), tmp_path)
    assert told.keys() == {"self", "gone"}


def test_a_root_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: there is no such file"):
        find_fleet([home(tmp_path / "env"), tmp_path / "nowhere"])


def test_directories_that_cannot_be_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permissions do not stop a superuser, so `scandir` is patched to fail."""
    for name in ("a/locked/env", "a/open/env", "parted/data001", "b"):
        home(tmp_path / name)
    home(tmp_path / "parted")
    closed = {tmp_path / "a" / "locked", tmp_path / "parted" / "data001"}
    monkeypatch.setattr(os, "scandir", refusing(closed, errno.EACCES))
    fleet = find_fleet([tmp_path])
    assert names(fleet, tmp_path) == ["a/open/env", "b", "parted"]
    told = unread(audit_fleet(fleet, tmp_path / "out"), tmp_path)
    assert told.keys() == {"a/locked", "parted"}
    assert all("Permission denied" in reason for reason in told.values())


def test_a_directory_that_fails_while_it_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home(tmp_path / "a")
    home(tmp_path / "b")
    scandir = os.scandir

    class Failing:
        def __init__(self, path: Path) -> None:
            self.entries = scandir(path)

        def __enter__(self) -> Failing:
            return self

        def __exit__(self, *_: object) -> None:
            self.entries.close()

        def __iter__(self) -> Iterator[os.DirEntry[str]]:
            yield next(self.entries)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(
        os, "scandir", lambda path: (Failing if Path(path).name == "a" else scandir)(path)
    )
    fleet = find_fleet([tmp_path])
    assert names(fleet, tmp_path) == ["b"]
    assert reasons(fleet, tmp_path) == {"a": "Input/output error"}
    told = unread(audit_fleet(fleet, tmp_path / "out"), tmp_path)
    assert told == {"a": "Input/output error"}


def test_what_vanishes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("file", "folder", "stays"):
        home(tmp_path / name)
    opened = opening.open_environment

    def open_late(paths: tuple[Path, ...], **how: Any) -> Any:
        if paths[0].name == "file":
            (paths[0] / "00000000.jdb").unlink()
        if paths[0].name == "folder":
            paths[0].rename(tmp_path / "elsewhere")
        return opened(paths, **how)

    monkeypatch.setattr(opening, "open_environment", open_late)
    fleet = find_fleet([tmp_path])
    assert names(fleet, tmp_path) == ["file", "folder", "stays"]
    tables = audit_fleet(fleet, tmp_path / "out")
    assert unread(tables, tmp_path).keys() == {"file", "folder"}
    severities = {Path(row["env"]).name: row["severity"] for row in tables["environments"]}
    assert severities == {"file": "error", "folder": "error", "stays": "ok"}


def test_hostile_names(tmp_path: Path) -> None:
    for name in HOSTILE:
        home(tmp_path / os.fsdecode(name) / "env")
    fleet = find_fleet([tmp_path])
    assert len(set(names_of(fleet))) == len(fleet.environments) == len(HOSTILE)
    for name in names_of(fleet):
        assert name.encode().decode() == name
    assert f"{tmp_path}/not utf-8 \\xff\\x80/env" in names_of(fleet)


def test_names_that_differ_only_in_bytes_that_are_no_text(tmp_path: Path) -> None:
    """Escaping makes them equal, and the escaped name of one is the real name of another."""
    for name in (b"\xff", b"\\xff", b"\\xff (2)"):
        home(tmp_path / os.fsdecode(name))
    fleet = find_fleet([tmp_path])
    assert len(fleet.environments) == 3
    assert len(set(names_of(fleet))) == 3


def test_problems_have_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / os.fsdecode(name) for name in (b"\xff", b"\\xff")]
    for path in paths:
        home(path)
    monkeypatch.setattr(os, "scandir", refusing(set(paths[:1]), errno.EACCES))
    fleet = find_fleet([tmp_path])
    found = [*names_of(fleet), *(each.env for each in fleet.problems)]
    assert len(set(found)) == len(found) == 2


def test_files_that_are_no_log(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no log")
    write_log(tmp_path / "later", [LogFile(0, 99)])
    home(tmp_path / "good")
    fleet = find_fleet([tmp_path / "good", tmp_path / "later", text])
    assert names(fleet, tmp_path) == ["good", "later", "notes.txt"]
    told = unread(audit_fleet(fleet, tmp_path / "out"), tmp_path)
    assert told.keys() == {"later", "notes.txt"}


def test_a_path_that_is_too_long(tmp_path: Path) -> None:
    """The path is longer than the system accepts."""
    home(tmp_path / "good")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(20):
            os.mkdir("d" * 250, dir_fd=folder)
            below = os.open("d" * 250, os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = below
    finally:
        os.close(folder)
    fleet = find_fleet([tmp_path])
    assert names(fleet, tmp_path) == ["good"]
    (reason,) = reasons(fleet, tmp_path).values()
    assert reason == "File name too long"


def test_relative_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors have working directories of their own, so paths must be absolute."""
    home(tmp_path / "fleet" / "env")
    home(tmp_path / "loose")
    monkeypatch.chdir(tmp_path)
    fleet = find_fleet([Path("fleet"), Path("loose/00000000.jdb")])
    assert names_of(fleet) == ("fleet/env", "loose/00000000.jdb")
    for each in fleet.environments:
        assert all(path.is_absolute() for path in (*each.paths, *each.folders))


def refusing(closed: set[Path], number: int) -> ScanDir:
    scandir = os.scandir

    def refuse(path: Path) -> Any:
        if Path(path) in closed:
            raise OSError(number, os.strerror(number), str(path))
        return scandir(path)

    return refuse


def test_memory_of_a_search_does_not_grow_with_files(tmp_path: Path) -> None:
    """The driver has at most 200 bytes for each file."""
    for number in range(4000):
        (tmp_path / f"{number:08x}.jdb").touch()
    find_fleet([tmp_path])
    tracemalloc.start()
    try:
        find_fleet([tmp_path])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 200 * 4000
