"""Commands of je-tools in processes that are forked from one that has loaded them.

A new process of Python takes 0.2 CPU seconds to load a command. A forked one has arguments,
variables, a working directory and standard streams of its own, and ends as Python does. Two things
need a new process: what happens while modules are loaded, and variables that Python reads when it
starts, except those of `_stream`. A shell runs such commands by programs that `programs` writes.
"""

from __future__ import annotations

import ast
import atexit
import gc
import importlib
import io
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from tests.corpus import ROOT

CLOSED = -1
"""Descriptor of a standard stream that a process does not have."""

_ENTRIES = {"je-tools": "main", "db-dump": "db_dump", "db-recover": "db_recover"}
_LOADED = (
    "je_tools.append.apply",
    "je_tools.checkpoint.apply",
    "je_tools.commands.start",
    "je_tools.dump.entries",
    "je_tools.dump.preparation",
    "je_tools.explain.requests",
    "je_tools.output.encoders.entry_jsonl",
    "je_tools.output.encoders.entry_sinks",
    "je_tools.output.views.checkpoint_tables",
    "je_tools.output.views.explanations",
    "je_tools.output.views.summary_tables",
    "je_tools.output.views.writing_tables",
    "je_tools.summary.run",
    "je_tools.verify.state_findings",
    "je_tools.writing.undo",
    "numpy.ma",
    "pyarrow.compute",
    "rich.table",
)
"""Modules, besides those of the commands, that would otherwise be loaded in many processes."""

_MESSAGE_MAX = 1 << 17

_PROGRAM = """\
#!{python} -IS
import _signal, _socket, os, sys
asked = {{"words": [{name!r}, *sys.argv[1:]], "variables": dict(os.environ), "cwd": os.getcwd()}}
asked |= {{"numbers": [0, 1, 2], "before": []}}
channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
channel.connect({address!r})
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)
channel.sendmsg([ascii(asked).encode()], [rights])
code = int(channel.recv(64))
if code < 0:
    if -code != _signal.SIGKILL:
        _signal.signal(-code, _signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
"""Text of a program: a forked process runs the command with the program's standard streams.

If a signal has ended the command, it ends the program too, so that no shell takes it for an exit
code.

It loads next to nothing: with `socket` and `json`, its own start would take as long as the command.
"""


class Ended(NamedTuple):
    """Exit code of a process, or minus the signal that ended it, and its output to pipes."""

    returncode: int
    stdout: bytes
    stderr: bytes


class _Pipe:
    """A pipe that is read in a thread up to its end; `writer` is for the process."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        self._data = b""
        self._thread = threading.Thread(target=self._read)

    def start(self) -> None:
        """Begin to read; only the process writes from now on."""
        os.close(self.writer)
        self._thread.start()

    def _read(self) -> None:
        with os.fdopen(self._reader, "rb") as file:
            self._data = file.read()

    def data(self) -> bytes:
        """Return all that was written, once every writer has gone."""
        self._thread.join()
        return self._data


class Running:
    """A command that was started. It has to be waited for before the next one starts."""

    def __init__(self, channel: socket.socket, pipes: Sequence[_Pipe | None]) -> None:
        self._channel = channel
        self._pipes = pipes
        self.pid = int(channel.recv(64))

    def wait(self) -> Ended:
        """Wait for the end."""
        out, err = (b"" if pipe is None else pipe.data() for pipe in self._pipes)
        return Ended(int(self._channel.recv(64)), out, err)


class Forked:
    """The process that has loaded the commands."""

    def __init__(self, channel: socket.socket, address: str) -> None:
        self._channel = channel
        self._address = address

    def programs(self, folder: Path) -> Path:
        """Write programs with the names of the commands into a folder, for the PATH of a shell."""
        for name in _ENTRIES:
            text = _PROGRAM.format(python=sys.executable, name=name, address=self._address)
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        return folder

    def start(
        self,
        *words: str | Path,
        variables: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        before: Sequence[Any] = (),
    ) -> Running:
        """Start a command, without a standard input.

        Args:
            words: program and arguments.
            variables: all variables of its environment, by default those of this process.
            cwd: its working directory, by default that of this process.
            stdout: descriptor of its standard output, or CLOSED; by default a pipe.
            stderr: likewise.
            before: module and name of a function to call before the command, and its arguments.
        """
        pipes = [_Pipe() if given is None else None for given in (stdout, stderr)]
        numbers = {
            number: given if pipe is None else pipe.writer
            for number, given, pipe in zip((1, 2), (stdout, stderr), pipes, strict=True)
        }
        opened = {number: given for number, given in numbers.items() if given != CLOSED}
        asked = {
            "words": [str(word) for word in words],
            "variables": dict(os.environ if variables is None else variables),
            "cwd": str(cwd or Path.cwd()),
            "numbers": list(opened),
            "before": list(before),
        }
        socket.send_fds(self._channel, [ascii(asked).encode()], list(opened.values()))
        for pipe in filter(None, pipes):
            pipe.start()
        return Running(self._channel, pipes)

    def run(self, *words: str | Path, **options: Any) -> Ended:
        """Run a command to its end; the options are those of `start`."""
        return self.start(*words, **options).wait()


@contextmanager
def forking() -> Iterator[Forked]:
    """Start the process that forks, and end it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # An address without a file.
    address = f"\0je-tools-tests-{os.getpid()}"
    listener.bind(address)
    listener.listen()
    numbers = [theirs.fileno(), listener.fileno()]
    command = [sys.executable, "-m", __name__, *map(str, numbers)]
    with subprocess.Popen(command, cwd=ROOT, pass_fds=numbers):
        theirs.close()
        listener.close()
        # It ends when its channel is closed.
        with ours:
            yield Forked(ours, address)


def _load() -> None:
    """Load what most commands need."""
    import click

    from je_tools.commands.main import COMMANDS, group

    for name in _LOADED:
        importlib.import_module(name)
    for verb in COMMANDS:
        group.get_command(click.Context(group), verb)
    gc.freeze()


def _serve(channel: socket.socket, listener: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; return it in the process that is to run it, and None at the end."""
    while True:
        ready, _, _ = select.select([channel, listener], [], [])
        if channel in ready:
            text, numbers, _, _ = socket.recv_fds(channel, _MESSAGE_MAX, 2)
            if not text:
                return None
            asked = _forked(channel, text, numbers, is_announced=True)
        else:
            connection, _ = listener.accept()
            # The programs of a pipeline run at once.
            asked = None if os.fork() else _requested(connection)
            connection.close()
        if asked is not None:
            channel.close()
            listener.close()
            return asked
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _requested(connection: socket.socket) -> dict[str, Any]:
    """Fork for the request of a program; return it in the process that is to run it."""
    text, numbers, _, _ = socket.recv_fds(connection, _MESSAGE_MAX, 3)
    asked = _forked(connection, text, numbers, is_announced=False)
    if asked is None:
        os._exit(0)
    return asked


def _forked(
    channel: socket.socket, text: bytes, numbers: Sequence[int], *, is_announced: bool
) -> dict[str, Any] | None:
    """Fork, and return the request in the new process; send its exit code, and return None."""
    pid = os.fork()
    if not pid:
        asked: dict[str, Any] = ast.literal_eval(text.decode())
        for number, given in zip(asked["numbers"], numbers, strict=True):
            os.dup2(given, number)
        for number in {1, 2}.difference(asked["numbers"]):
            os.close(number)
        _close(numbers)
        return asked
    _close(numbers)
    if is_announced:
        channel.send(str(pid).encode())
    _, status = os.waitpid(pid, 0)
    channel.send(str(os.waitstatus_to_exitcode(status)).encode())
    return None


def _close(numbers: Sequence[int]) -> None:
    for number in numbers:
        os.close(number)


def _stream(number: int) -> io.TextIOWrapper:
    """Open a standard output as Python does."""
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    is_buffered = not os.environ.get("PYTHONUNBUFFERED")
    file = open(number, "wb", buffering=-1 if is_buffered else 0, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(
        file,
        encoding or "utf-8",
        "backslashreplace" if number == 2 else errors or "strict",
        newline="\n",
        line_buffering=number == 2 or file.isatty(),
        write_through=not is_buffered,
    )


def _run(asked: dict[str, Any]) -> None:
    """Run a command in a forked process."""
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["variables"])
    program, *words = asked["words"]
    sys.argv = [program, *words]
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = _stream(number) if number in asked["numbers"] else None
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    # Shells start background processes with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if asked["before"]:
        module, function, *arguments = asked["before"]
        getattr(importlib.import_module(module), function)(*arguments)
    from je_tools.commands import start

    try:
        code = getattr(start, _ENTRIES[program])()
    except SystemExit as ended:
        code = ended.code
    _end(code)


def _end(code: Any) -> NoReturn:
    """End as Python does, but leave the modules in memory: to free them takes 46 of 52 ms."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    # Python reports what cannot be written, and a code that is a text.
    with suppress(OSError, ValueError):
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        if code is None or isinstance(code, int):
            os._exit((code or 0) & 0xFF)
    sys.exit(code)


if __name__ == "__main__":
    _load()
    request = _serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:]))
    if request is not None:
        _run(request)
