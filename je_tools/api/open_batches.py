"""Batches that are still being read from an opened log or store, and are closed with it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from weakref import WeakSet

from je_tools.api.batches import ArrowBatches, Closable


class OpenBatches(Closable):
    """Context manager that closes the batches that calls have opened in it."""

    def __init__(self) -> None:
        self._batches: WeakSet[ArrowBatches] = WeakSet()
        self._is_closed = False

    def close(self) -> None:
        """Close the batches that are still being read; calls after this raise `UsageError`."""
        self._is_closed = True
        for batches in list(self._batches):
            batches.close()

    def _reading(self, opened: Generator[Any, None, None]) -> ArrowBatches:
        """Return batches that are closed with this object; `opened` is as for `ArrowBatches`."""
        batches = ArrowBatches(opened)
        self._batches.add(batches)
        return batches
