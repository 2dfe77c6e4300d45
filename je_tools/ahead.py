"""Work on items in order, done ahead of who takes the results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
T = TypeVar("T")


def ahead(work: Callable[[Item], T], items: Iterable[Item], threads: int) -> Iterator[T]:
    """What `work` makes of each item, in their order.

    Args:
        work: runs in several threads at once.
        items: are taken in the thread that takes the results.
        threads: how many; with one all is done where the results are taken. Two items more than
            that are in work or done at a time.
    """
    if threads == 1:
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
