"""Work that several do at once, of which the results are taken in its order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from msgspec import Struct, field

from je_tools.formats.rows import Room
from je_tools.formats.source import Bytes

AHEAD = 2
"""Tasks in work or waiting beyond one a thread."""

_DONE_AHEAD = 16 << 20
"""Bytes that steps of one task may have come to, for the next to be done ahead too."""

T = TypeVar("T")

Step = Callable[[Room], tuple[Bytes, T]]
"""Makes bytes, in a room or elsewhere, and what is known of them."""

Task = Callable[[], Iterator[Step[T]]]
"""Work of one thread: some steps, one after the other."""


class Hands(Struct, frozen=True):
    """Who works.

    Attributes:
        count: how many at once.
        room_max: a room that is larger, for a record that is, is not kept.
        rooms: that no thread uses.
    """

    count: int
    room_max: int
    rooms: deque[Room] = field(default_factory=deque)

    def in_order(self, tasks: Iterable[Task[T]]) -> Iterator[tuple[T, Bytes]]:
        """What the steps of tasks give, in their order, each with its bytes.

        The bytes last until the next are asked for.

        Args:
            tasks: of which some run ahead.
        """
        if self.count > 1:
            yield from self._by_threads(iter(tasks))
            return
        for task in tasks:
            for step in task():
                yield from self._made(step)

    def _by_threads(self, tasks: Iterator[Task[T]]) -> Iterator[tuple[T, Bytes]]:
        running: deque[Future[_Begun[T]]] = deque()
        with ThreadPoolExecutor(self.count) as pool:
            try:
                for task in tasks:
                    running.append(pool.submit(self._begin, task))
                    if len(running) >= self.count + AHEAD:
                        yield from self._finished(running.popleft().result())
                while running:
                    yield from self._finished(running.popleft().result())
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, task: Task[T]) -> _Begun[T]:
        """Do the first steps of a task; all of them, mostly."""
        begun: _Begun[T] = _Begun(task())
        size = 0
        for step in begun.rest:
            room = self._room()
            data, told = step(room)
            begun.done.append((told, data, room))
            size += len(data)
            if size >= _DONE_AHEAD:
                break
        return begun

    def _finished(self, begun: _Begun[T]) -> Iterator[tuple[T, Bytes]]:
        for told, data, room in begun.done:
            yield told, data
            self._leave(room)
        for step in begun.rest:
            yield from self._made(step)

    def _made(self, step: Step[T]) -> Iterator[tuple[T, Bytes]]:
        room = self._room()
        data, told = step(room)
        yield told, data
        self._leave(room)

    def _room(self) -> Room:
        try:
            return self.rooms.popleft()
        except IndexError:
            return Room()

    def _leave(self, room: Room) -> None:
        if room.size <= self.room_max:
            self.rooms.append(room)


class _Begun(Struct, Generic[T]):
    """A task of which some steps are done.

    Attributes:
        rest: its other steps.
        done: what those gave, their bytes, and in which room these are.
    """

    rest: Iterator[Step[T]]
    done: list[tuple[T, Bytes, Room]] = field(default_factory=list)
