"""Work that is done ahead of who takes its results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from threading import Thread
from typing import TypeVar

Item = TypeVar("Item")
T = TypeVar("T")


def ahead(work: Callable[[Item], T], items: Iterable[Item], threads: int) -> Iterator[T]:
    """What `work` makes of each item, in their order.

    Args:
        work: runs in several threads at once.
        items: are taken in the thread that takes the results.
        threads: how many; with one, as for a single item, all is done where the results are taken.
            Two items more than that are in work or done at a time.
    """
    items = iter(items)
    begin = list(islice(items, 2))
    items = chain(begin, items)
    if threads == 1 or len(begin) < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        coming: deque[Future[T]] = deque()
        try:
            for item in items:
                coming.append(pool.submit(work, item))
                if len(coming) > threads + 1:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()
        finally:
            for future in coming:
                future.cancel()


def begin(work: Callable[[], T]) -> Callable[[], T]:
    """Begin work in a thread of its own.

    Nobody has to wait for it: a program that ends before asks for nothing any more.

    Args:
        work: what is done once.

    Returns:
        What waits for the end of it, and gives its result, or raises what it has raised.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future.result
