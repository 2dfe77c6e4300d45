"""Processes that share what this one has, for work that Python's global lock would put in a queue.

They are forked, so that they begin at once with all that is loaded and mapped, and their results
lie in memory that both sides have. Who works so must not need a thread, nor change what others are
to see: a process that was forked has its own copy of everything else.
"""

from __future__ import annotations

import mmap
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from msgspec import Struct

from je_tools.errors import JeToolsError, StoppedError
from je_tools.formats.rows import Room
from je_tools.formats.source import Bytes

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")
Step = Callable[[Room], tuple[Bytes, T]]
"""Makes bytes, in a room or elsewhere, and tells of them what pickles."""

Task = Callable[[], Iterator[Step[T]]]
"""Work of one process: some steps, one after the other."""

CAN_FORK = sys.platform == "linux"
"""Whether forked processes can go on with what was loaded before."""

_ROOMS, _ROOM_SIZE = 2, 64 << 20
"""Rooms of a process, and the bytes that each has: memory is taken as they are filled."""

_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0)
_SHARED = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _NO_RESERVE


class _SharedRoom(Room):
    """A room that forked processes share; what it has no place for gets one apart."""

    def __init__(self) -> None:
        super().__init__()
        self._array = np.frombuffer(mmap.mmap(-1, _ROOM_SIZE, flags=_SHARED), np.uint8)

    def of(self, size: int) -> Bytes:
        return self._array[:size] if size <= self.size else np.empty(size, np.uint8)

    def holds(self, data: Bytes) -> bool:
        """Whether these bytes are the first that it has."""
        return len(data) > 0 and data.ctypes.data == self._array.ctypes.data


class _Done(Struct, frozen=True):
    """What came of a step: in which room its bytes are, None where they are sent behind it."""

    room: int | None
    size: int
    told: Any


_TASK_ENDS = None


class _Fork(Struct, frozen=True):
    """A forked process, by what the process that forked it has of it."""

    process: Any
    connection: Connection
    rooms: Sequence[_SharedRoom]


def forked(tasks: Iterable[Task[T]], count: int) -> Iterator[tuple[T, Bytes]]:
    """What the steps of tasks give, in their order, each with its bytes.

    The bytes last until the next are asked for.

    Args:
        tasks: each process goes through all of them and takes its share, so they have to be the
            same for all. Errors of steps are raised here.
        count: how many processes.

    Raises:
        StoppedError: a process was killed, or could not be started.
    """
    forks: list[_Fork] = []
    try:
        # All that was begun here stays here: a process goes on with what it finds.
        coming = iter(tasks)
        for number in range(count):
            forks.append(_fork(coming, number, count, [fork.connection for fork in forks]))
        for _, fork in zip(coming, cycle(forks), strict=False):
            yield from _taken(fork)
    finally:
        for fork in forks:
            fork.process.kill()
        for fork in forks:
            fork.process.join()
            fork.connection.close()


def _fork(coming: Iterator[Task[T]], number: int, count: int, others: list[Connection]) -> _Fork:
    # What a command that forks nothing does not wait for.
    import multiprocessing

    rooms = [_SharedRoom() for _ in range(_ROOMS)]
    here, there = multiprocessing.Pipe()
    share = islice(coming, number, None, count)
    process = multiprocessing.get_context("fork").Process(
        target=_work, args=(share, there, rooms, [*others, here]), daemon=True
    )
    with warnings.catch_warnings():
        # Of threads that hold a lock for ever in the copy: none here is waited for.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            process.start()
        except OSError as error:
            reason = f"no process can be started: {error.strerror}; try --threads 1"
            raise StoppedError(reason) from error
    there.close()
    return _Fork(process, here, rooms)


def _taken(fork: _Fork) -> Iterator[tuple[Any, Bytes]]:
    """What the steps of a task give."""
    while (done := _received(fork.connection)) is not _TASK_ENDS:
        if isinstance(done, BaseException):
            raise done
        if done.room is None:
            data = fork.connection.recv_bytes() if done.size else b""
            yield done.told, np.frombuffer(data, np.uint8)
        else:
            yield done.told, fork.rooms[done.room].of(done.size)
            with suppress(BrokenPipeError):
                # What it has made before it ended is here all the same.
                fork.connection.send(done.room)


def _received(connection: Connection) -> Any:
    try:
        return connection.recv()
    except (EOFError, ConnectionResetError):
        raise StoppedError("a worker process was killed, for lack of memory perhaps") from None


def _work(
    share: Iterator[Task[Any]],
    connection: Connection,
    rooms: Sequence[_SharedRoom],
    others: Sequence[Connection],
) -> None:
    """What a forked process does, as long as the one is there that forked it."""
    # Ctrl-C reaches every process of the terminal; the first is the one to answer it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Else nobody would see the end of who has the other side.
    for other in others:
        other.close()
    with suppress(BrokenPipeError, EOFError, ConnectionResetError):
        try:
            _work_off(share, connection, rooms)
        except (BrokenPipeError, EOFError, ConnectionResetError):
            raise
        except JeToolsError as error:
            connection.send(error)
        except BaseException as error:
            # A fault of ours, of which not every kind pickles.
            import traceback

            connection.send(RuntimeError("".join(traceback.format_exception(error))))


def _work_off(
    share: Iterator[Task[Any]], connection: Connection, rooms: Sequence[_SharedRoom]
) -> None:
    free = deque(range(len(rooms)))
    for task in share:
        for step in task():
            room = free.popleft() if free else connection.recv()
            data, told = step(rooms[room])
            if rooms[room].holds(data):
                connection.send(_Done(room, len(data), told))
                continue
            free.append(room)
            connection.send(_Done(None, len(data), told))
            if len(data):
                connection.send_bytes(data.data)
        connection.send(_TASK_ENDS)
