"""Outputs: never inside the log, never over another file, distinct from inputs in errors."""

from __future__ import annotations

import errno
import io
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from je_tools.errors import RefusedError
from je_tools.log.environment import Environment
from je_tools.log.opening import open_environment
from je_tools.output.files.output_file import WRITE_SIZE
from je_tools.output.files.outputs import (
    PartPath,
    check_output,
    open_directory,
    open_output,
    open_part,
)
from je_tools.output.files.standard_output import ClosedPipeError
from tests.builders.logs import write_log
from tests.damage.small import small_log

FULL = Path("/dev/full")


def flat(folder: Path) -> tuple[list[Path], list[Path]]:
    home = write_log(folder / "env", small_log(17, 3))
    (home / "sub" / "deep").mkdir(parents=True)
    return [home], [home, home / "sub", home / "sub" / "deep"]


def in_data_directories(folder: Path) -> tuple[list[Path], list[Path]]:
    home = folder / "env"
    for i, file in enumerate(small_log(17, 3)):
        write_log(home / f"data00{i % 2 + 1}", [file])
    (home / "data003").mkdir()
    return [home], [home, home / "data001", home / "data002", home / "data003"]


def with_a_marker_only_in_the_home(folder: Path) -> tuple[list[Path], list[Path]]:
    paths, folders = in_data_directories(folder)
    (marked,) = write_log(folder / "marked", small_log(17, 1)[:1]).iterdir()
    marked.rename(paths[0] / "7fffffff.jdb")
    return paths, folders


def loose(folder: Path) -> tuple[list[Path], list[Path]]:
    home = write_log(folder / "env", small_log(17, 3))
    return list(home.iterdir()), [home]


def loose_in_data_directories(folder: Path) -> tuple[list[Path], list[Path]]:
    (home,), folders = in_data_directories(folder)
    return list(home.glob("*/*.jdb")), folders


def linked(folder: Path) -> tuple[list[Path], list[Path]]:
    """Write a home that is reached by a link, with files that are links to another directory."""
    real = write_log(folder / "real", small_log(17, 2))
    home = folder / "home"
    home.mkdir()
    for path in real.iterdir():
        (home / path.name).symlink_to(path)
    (folder / "env").symlink_to(home)
    return [folder / "env"], [folder / "env", home, real]


@contextmanager
def raised(kind: type[BaseException], text: str = "") -> Iterator[None]:
    with pytest.raises(kind) as caught:
        yield
    assert text in str(caught.value)


refused = partial(raised, RefusedError)

Made = tuple[list[Path], list[Path]]
LAYOUTS = (
    flat,
    in_data_directories,
    with_a_marker_only_in_the_home,
    loose,
    loose_in_data_directories,
    linked,
)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_nothing_is_written_inside_a_log(layout: Callable[[Path], Made], tmp_path: Path) -> None:
    paths, folders = layout(tmp_path)
    environment = open_environment(paths)
    (tmp_path / "elsewhere").mkdir()
    to_home = tmp_path / "elsewhere" / "link"
    to_home.symlink_to(folders[0])
    for folder in (*folders, to_home, tmp_path / "elsewhere" / ".." / folders[0].name):
        with pytest.raises(RefusedError, match="inside the environment"):
            check_output(folder / "out", environment)
        with pytest.raises(RefusedError), open_output(folder / "out", environment):
            pass
        with pytest.raises(RefusedError), open_directory(folder / "out", environment):
            pass
        assert not (folder / "out").exists()
    for folder in (tmp_path, tmp_path / "elsewhere"):
        check_output(folder / "out", environment)


def test_a_link_that_leads_to_nothing_forbids_no_folder(tmp_path: Path) -> None:
    home = write_log(tmp_path / "env", small_log(17, 1))
    (home / "7ffffffe.jdb").symlink_to(tmp_path / "nothing")
    check_output(tmp_path / "out", open_environment([home]))


def test_a_relative_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, _ = in_data_directories(tmp_path)
    monkeypatch.chdir(paths[0])
    environment = open_environment([Path()])
    for name in ("out", "data003/out", "../env/out"):
        with pytest.raises(RefusedError, match="inside the environment"):
            check_output(Path(name), environment)
    check_output(Path("../out"), environment)


@pytest.fixture
def log(tmp_path: Path) -> Environment:
    return open_environment([write_log(tmp_path / "env", small_log(17, 1))])


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"env"}


def test_an_output_appears_when_it_is_complete(tmp_path: Path, log: Environment) -> None:
    path = tmp_path / "out"
    with open_output(path, log) as out:
        out.write(b"some")
        out.flush()
        assert not path.exists()
    assert path.read_bytes() == b"some"
    assert left(tmp_path) == {"out"}
    assert path.stat().st_nlink == 1


def test_the_longest_name_is_a_name(tmp_path: Path, log: Environment) -> None:
    path = tmp_path / ("a" * os.pathconf(tmp_path, "PC_NAME_MAX"))
    with open_output(path, log) as out:
        out.write(b"some")
    assert path.read_bytes() == b"some"
    with pytest.raises(RefusedError, match="too long"):
        check_output(path.with_name(path.name + "a"), log)


def without_links(*_: object, **__: object) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("has_links", [True, False])
def test_what_appears_meanwhile_is_kept(
    has_links: bool, tmp_path: Path, log: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", without_links)
    path = tmp_path / "out"
    with refused("exists"), open_output(path, log) as out:
        out.write(b"ours")
        path.write_bytes(b"theirs")
    assert path.read_bytes() == b"theirs"
    path.unlink()
    with open_output(path, log) as out:
        out.write(b"ours")
    assert path.read_bytes() == b"ours"
    assert left(tmp_path) == {"out"}


@pytest.mark.parametrize("theirs", ["a file", "a directory", "a full directory"])
def test_a_directory_that_appears_meanwhile_is_kept(
    theirs: str, tmp_path: Path, log: Environment
) -> None:
    path = tmp_path / "out"
    with refused("exists"), open_directory(path, log) as folder:
        (folder / "part").write_bytes(b"ours")
        if theirs == "a file":
            path.write_bytes(b"theirs")
        else:
            path.mkdir()
        if theirs == "a full directory":
            (path / "theirs").touch()
    assert left(tmp_path) == {"out"}
    assert path.is_file() == (theirs == "a file")
    assert not (path / "part").exists()


def test_a_directory_and_its_parts(tmp_path: Path, log: Environment) -> None:
    with open_directory(tmp_path / "out", log) as folder:
        part = PartPath(folder / "part", tmp_path / "out" / "part")
        with open_part(part) as out:
            out.write(b"some")
        with pytest.raises(RefusedError, match=f"^{part.final}: exists"), open_part(part):
            pass
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out" / "part").read_bytes() == b"some"
    assert left(tmp_path) == {"out"}


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("standard", [True, False])
def test_an_error_of_an_input_is_not_the_outputs(
    number: int, standard: bool, tmp_path: Path, log: Environment
) -> None:
    path = None if standard else tmp_path / "out"
    error = OSError(number, os.strerror(number), "00000000.jdb")
    with raised(type(error), "00000000.jdb"), open_output(path, log) as out:
        out.write(b"")
        raise error
    assert left(tmp_path) == set()


def test_an_error_of_the_output_says_so(tmp_path: Path, log: Environment) -> None:
    with refused("No space left"), open_output(FULL, log) as out:
        out.write(b"some")
    with refused("/dev/full: cannot be written: No space left"), open_output(FULL) as out:
        out.write(bytes(1 << 20))
    with refused("its directory does not exist"), open_output(tmp_path / "a" / "b", log):
        pass
    with refused("Not a directory"), open_output(log.files[0].path / "b"):
        pass
    (tmp_path / "loop").symlink_to("loop")
    with refused("loop"), open_output(tmp_path / "loop" / "b", log):
        pass
    with refused("exists"), open_output(tmp_path / "loop", log):
        pass


class Recorder(io.BytesIO):
    """A file that records the size of each write."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def write(self, data: Any) -> int:
        self.sizes.append(len(data))
        return super().write(data)


def test_the_system_is_given_little_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, text = Recorder(), os.urandom(2 * WRITE_SIZE + 7)
    monkeypatch.setattr(os, "fdopen", lambda *_: file)
    monkeypatch.setattr("je_tools.output.files.output_file.is_regular", lambda _: False)
    with open_part(PartPath(tmp_path / "out", tmp_path / "out")) as out:
        assert out.write(np.frombuffer(text, np.uint8)) == len(text)
        out.flush()
        assert file.getvalue() == text
    assert file.sizes == [WRITE_SIZE, WRITE_SIZE, 7]


def test_much_is_synced_while_more_is_written(
    tmp_path: Path, log: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("je_tools.output.files.background_fsync.FSYNC_SIZE", 100)
    synced = threading.Event()
    sizes, fsync = [], os.fsync

    def sync(number: int) -> None:
        sizes.append(os.fstat(number).st_size)
        fsync(number)
        synced.set()

    monkeypatch.setattr(os, "fsync", sync)
    path, text = tmp_path / "out", os.urandom(1 << 20)
    with open_output(path, log) as out:
        out.write(text[:99])
        assert not sizes
        out.write(text[99 : 1 << 19])
        assert synced.wait(60)
        out.write(text[1 << 19 :])
    assert path.read_bytes() == text
    assert len(sizes) >= 2
    assert sizes[-1] == len(text)


@pytest.mark.parametrize("is_part", [False, True])
def test_a_failed_fsync_is_reported_once(
    is_part: bool, tmp_path: Path, log: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system reports a lost page to the first call that asks, in whichever thread."""
    monkeypatch.setattr("je_tools.output.files.background_fsync.FSYNC_SIZE", 100)
    errors = [OSError(errno.EIO, os.strerror(errno.EIO))]

    def sync(_: int) -> None:
        if errors:
            raise errors.pop()

    monkeypatch.setattr(os, "fsync", sync)
    path = tmp_path / "out"
    opened = open_part(PartPath(path, path)) if is_part else open_output(path, log)
    with refused("out: cannot be written: Input/output error"), opened as out:
        out.write(bytes(1000))
    assert left(tmp_path) == ({"out"} if is_part else set())


def test_what_a_foreign_writer_makes_of_an_error_does_not_matter(log: Environment) -> None:
    with refused("No space left"), open_output(FULL, log) as out:
        try:
            out.write(bytes(1 << 20))
        except OSError as error:
            raise RuntimeError("something went wrong") from error


def test_pipes_and_devices_are_written_to_as_they_are(tmp_path: Path, log: Environment) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with open_output(pipe, log) as out:
        out.write(b"some")
    assert os.read(reader, 10) == b"some"
    with raised(ClosedPipeError), open_output(pipe, log) as out:
        os.close(reader)
        out.write(b"some")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with open_output(Path(os.devnull), log) as out:
        out.write(b"some")
    assert left(tmp_path) == {"pipe"}


def test_an_interrupt_leaves_nothing(tmp_path: Path, log: Environment) -> None:
    with raised(KeyboardInterrupt), open_output(tmp_path / "out", log) as out:
        out.write(b"some")
        raise KeyboardInterrupt
    with raised(KeyboardInterrupt), open_directory(tmp_path / "out", log):
        raise KeyboardInterrupt
    assert left(tmp_path) == set()
