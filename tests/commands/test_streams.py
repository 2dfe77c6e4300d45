"""Standard output and standard error that are closed, full or gone, for every command."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from je_tools.commands.main import COMMANDS, group, run
from tests.builders.forked import CLOSED, Forked
from tests.builders.logs import write_log
from tests.corpus import FIXTURES
from tests.test_golden import damaged_log

HOME = FIXTURES / "v17-basic" / "env"
TOOLS = Path(sys.executable).parent
HELP = [
    ("je-tools", "--help"),
    ("je-tools", "--version"),
    ("db-dump", "--help"),
    ("db-recover", "--help"),
    ("je-tools", "dump", "--help"),
]
HELP_OF_OTHERS = [("je-tools", name, "--help") for name in COMMANDS if name != "dump"]
PRINTING = [
    *(("je-tools", "dump", HOME, "--format", name) for name in ("table", "jsonl", "csv")),
    ("je-tools", "dump", HOME, "--limit", "1"),
    ("db-dump", HOME),
    *(("je-tools", "summary", HOME, "--format", name) for name in ("table", "jsonl", "csv")),
    *(("je-tools", "files", HOME, "--format", name) for name in ("table", "jsonl", "csv")),
    ("je-tools", "verify", HOME, "--all"),
    *(("db-recover", HOME, "--format", name) for name in ("table", "jsonl")),
    ("je-tools", "explain", "type:", "exit:"),
    ("je-tools", "explain", "type:BIN", "--format", "jsonl"),
    ("je-tools", "explain", "0x0/0x26", "--env", HOME),
]
Words = Sequence[str | Path]
FULL = "je-tools: standard output: cannot be written: No space left on device\n"


def name_of(words: Words) -> str:
    return " ".join(str(word) for word in words if word != HOME)


def started(words: Words, stdout: int, forked: Forked | None, **more: str) -> tuple[int, str]:
    """Return the exit code and standard error of a command that writes to `stdout`."""
    variables = {**os.environ, "PYTHONUNBUFFERED": "", **more}
    if forked:
        ended = forked.run(*words, stdout=stdout, variables=variables)
        return ended.returncode, ended.stderr.decode()
    done = subprocess.run(
        [TOOLS / words[0], *words[1:]],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=variables,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    """Return the write end of a pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.fixture
def full_disk() -> Iterator[int]:
    """Return a descriptor to which nothing can be written."""
    with Path("/dev/full").open("wb") as full:
        yield full.fileno()


EVERY = pytest.mark.parametrize(
    "words",
    [
        *HELP,
        *PRINTING,
        *(pytest.param(words, marks=pytest.mark.exhaustive) for words in HELP_OF_OTHERS),
    ],
    ids=name_of,
)


@EVERY
def test_a_closed_pipe_is_no_error(words: Words, closed_pipe: int, forked: Forked) -> None:
    assert started(words, closed_pipe, forked) == (0, "")


@EVERY
def test_an_output_without_room_is_said(words: Words, full_disk: int, forked: Forked) -> None:
    assert started(words, full_disk, forked) == (6, FULL)


@pytest.mark.parametrize("words", [HELP[0], HELP[3], PRINTING[0], PRINTING[-1]], ids=name_of)
def test_nothing_depends_on_a_buffer(
    words: Words, closed_pipe: int, full_disk: int, forked: Forked
) -> None:
    assert started(words, closed_pipe, forked, PYTHONUNBUFFERED="1") == (0, "")
    assert started(words, full_disk, forked, PYTHONUNBUFFERED="1") == (6, FULL)


@pytest.mark.parametrize("words", [HELP[0], PRINTING[0]], ids=name_of)
def test_in_a_process_that_is_not_forked(words: Words, closed_pipe: int, full_disk: int) -> None:
    for unbuffered in ("", "1"):
        assert started(words, closed_pipe, None, PYTHONUNBUFFERED=unbuffered) == (0, "")
        assert started(words, full_disk, None, PYTHONUNBUFFERED=unbuffered) == (6, FULL)


def shell(line: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line, "bash", TOOLS / "je-tools", *words],
        capture_output=True,
        text=True,
        check=False,
    )


def test_head_of_a_dump() -> None:
    done = shell('"$@" | head -n 1; echo "${PIPESTATUS[@]}"', "dump", HOME, "--format", "jsonl")
    line, codes = done.stdout.splitlines()
    assert line.startswith('{"file_no":0,"offset":0,')
    assert (codes, done.stderr) == ("0 0", "")


def test_without_a_standard_output() -> None:
    done = shell('"$@" >&-', "dump", HOME)
    assert done.returncode == 6
    assert done.stderr == "je-tools: standard output: is closed; name a file with --output\n"
    assert shell('"$@" >&-', "verify", HOME, "--stats", os.devnull).returncode == 6
    assert shell('"$@" >&-', "--help").returncode == 0


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "2>&1 >/dev/null | true"])
def test_notes_that_nobody_reads_change_nothing(redirection: str, tmp_path: Path) -> None:
    home = write_log(tmp_path / "damaged", damaged_log())
    done = shell(f'"$@" {redirection}; exit "${{PIPESTATUS[0]}}"', "verify", home)
    assert done.returncode == 3


@pytest.mark.parametrize("verb", ["verify", "dump", "summary", "files"])
def test_notes_of_every_command(
    verb: str, closed_pipe: int, full_disk: int, forked: Forked, tmp_path: Path
) -> None:
    home = write_log(tmp_path / "damaged", damaged_log())
    whole = forked.run("je-tools", verb, home)
    for stderr in (CLOSED, full_disk, closed_pipe):
        done = forked.run("je-tools", verb, home, stderr=stderr)
        assert (done.returncode, done.stdout) == (3, whole.stdout)


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), OSError(22, "Invalid")])
def test_an_error_that_is_not_the_outputs_is_a_bug(
    error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken pipe of a worker must not end in exit code 0 with half of the output."""

    def opened(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("je_tools.log.opening.open_environment", opened)
    with pytest.raises(OSError, match=str(error.strerror)) as caught:
        run(group, ["files", str(HOME)])
    assert caught.value is error


@pytest.mark.parametrize("code", [0, 3, -signal.SIGTERM, -signal.SIGINT, -signal.SIGKILL])
def test_a_program_of_the_tests_ends_as_its_command_does(code: int, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        address = f"\0je-tools-program-{os.getpid()}"
        listener.bind(address)
        listener.listen()
        folder = Forked(listener, address).programs(tmp_path)
        with subprocess.Popen([folder / "je-tools"]) as process:
            connection, _ = listener.accept()
            with connection:
                for number in socket.recv_fds(connection, 1 << 17, 3)[1]:
                    os.close(number)
                connection.send(str(int(code)).encode())
    assert process.returncode == code
