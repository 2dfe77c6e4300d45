"""Worker pool for encoding: tasks run in threads, their bytes come in order, buffers are reused."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from msgspec import Struct, field

from je_tools.core.ordered import in_flight
from je_tools.formats.files.source import Bytes
from je_tools.formats.rows import Buffer

AHEAD = 2
"""Number of tasks in work or done, in addition to one for each thread."""

_DONE_AHEAD = 16 << 20
"""Bytes made by the steps of a task after which its other steps run only when they are needed."""

T = TypeVar("T")

Step = Callable[[Buffer], tuple[Bytes, T]]
"""Makes bytes, in the buffer or elsewhere, and a result that describes them."""

Task = Callable[[], Iterator[Step[T]]]
"""Work of one thread: steps that follow each other."""


class WorkerPool(Struct, frozen=True):
    """Threads that run tasks.

    Attributes:
        count: number of threads.
        buffer_max: largest buffer that is kept, in bytes; a larger one served a larger record.
        buffers: buffers that no thread uses.
    """

    count: int
    buffer_max: int
    buffers: deque[Buffer] = field(default_factory=deque)

    def in_order(self, tasks: Iterable[Task[T]]) -> Iterator[tuple[T, Bytes]]:
        """Yield the result and the bytes of each step of each task, in order.

        The bytes are valid until the next are requested.
        """
        if self.count > 1:
            yield from self._by_threads(iter(tasks))
            return
        for task in tasks:
            for step in task():
                yield from self._made(step)

    def _by_threads(self, tasks: Iterator[Task[T]]) -> Iterator[tuple[T, Bytes]]:
        with ThreadPoolExecutor(self.count) as pool:
            most = self.count + AHEAD - 1
            try:
                for _, future in in_flight(
                    lambda task: pool.submit(self._begin, task), tasks, most
                ):
                    yield from self._finished(future.result())
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, task: Task[T]) -> _Begun[T]:
        """Run the first steps of a task, usually all of them."""
        begun: _Begun[T] = _Begun(task())
        size = 0
        for step in begun.rest:
            buffer = self._buffer()
            data, result = step(buffer)
            begun.done.append((result, data, buffer))
            size += len(data)
            if size >= _DONE_AHEAD:
                break
        return begun

    def _finished(self, begun: _Begun[T]) -> Iterator[tuple[T, Bytes]]:
        for result, data, buffer in begun.done:
            yield result, data
            self._keep(buffer)
        for step in begun.rest:
            yield from self._made(step)

    def _made(self, step: Step[T]) -> Iterator[tuple[T, Bytes]]:
        buffer = self._buffer()
        data, result = step(buffer)
        yield result, data
        self._keep(buffer)

    def _buffer(self) -> Buffer:
        try:
            return self.buffers.popleft()
        except IndexError:
            return Buffer()

    def _keep(self, buffer: Buffer) -> None:
        if buffer.size <= self.buffer_max:
            self.buffers.append(buffer)


class _Begun(Struct, Generic[T]):
    """A task of which some steps are done.

    Attributes:
        rest: the other steps.
        done: result and bytes of each step done, and the buffer that holds the bytes.
    """

    rest: Iterator[Step[T]]
    done: list[tuple[T, Bytes, Buffer]] = field(default_factory=list)
