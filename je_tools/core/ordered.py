"""Ordered work: items worked on in threads or processes, results in the order of the items.

`concurrent.futures` is imported where it is used: it takes 3 ms, and small logs need no threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, islice
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

Item = TypeVar("Item")
T = TypeVar("T")


def in_flight(
    submit: Callable[[Item], Future[T]], items: Iterable[Item], most: int
) -> Generator[tuple[Item, Future[T]], None, None]:
    """Yield each item with its future, in order; up to `most` later items are submitted already.

    Closing the iterator cancels what has been submitted and not yielded.

    Args:
        submit: begins the work on an item.
        items: read in the thread that iterates.
        most: largest number of items that are submitted and not yet yielded.
    """
    waiting: deque[tuple[Item, Future[T]]] = deque()
    try:
        for item in items:
            waiting.append((item, submit(item)))
            if len(waiting) > most:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        for _, future in waiting:
            future.cancel()


def map_in_order(work: Callable[[Item], T], items: Iterable[Item], threads: int) -> Iterator[T]:
    """Map a function over items in threads, yielding the results in order.

    Args:
        work: function that several threads call at once.
        items: read in the thread that iterates.
        threads: number of threads. With one thread or one item, the calling thread does the work.
    """
    items = iter(items)
    first = list(islice(items, 2))
    items = chain(first, items)
    if threads == 1 or len(first) < 2:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        for _, future in in_flight(lambda item: pool.submit(work, item), items, threads + 1):
            yield future.result()


def in_background(work: Callable[[], T]) -> Callable[[], T]:
    """Begin work in a thread that the end of the program does not wait for.

    Args:
        work: function that is called once.

    Returns:
        A function that waits for the work, and returns its result or raises its exception.
    """
    from concurrent.futures import Future

    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future.result
