"""Deferred writes: the first bytes of a checkpoint, held until it is likely to succeed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from je_tools.writing.session import Session

_DEFERRED_MAX = 8 << 20


class DeferredWrites:
    """An `Emit` that buffers the first bytes of a checkpoint.

    The log is cut when the first bytes are appended. So if the checkpoint turns out to be
    impossible before that, the log stays as it was.
    """

    def __init__(
        self, session: Session | None, cut: Callable[[Session], None], cut_size: int
    ) -> None:
        self._session = session
        self._cut_size = cut_size
        self._cut: Callable[[Session], None] | None = cut
        self._pieces: list[tuple[int, int, bytes]] = []
        self._size = 0

    def __call__(self, file_no: int, offset: int, data: bytes) -> None:
        """Hold bytes back while they are few, or append them."""
        if self._session is None:
            return
        self._size += len(data)
        self._pieces.append((file_no, offset, data))
        if self._size > _DEFERRED_MAX:
            self.release()

    def release(self) -> None:
        """Append the buffered bytes; the first call cuts the log before that.

        Raises:
            RefusedError: there is not enough room on the disk.
        """
        if self._session is None:
            return
        cut, self._cut = self._cut, None
        size = sum(len(data) for _, _, data in self._pieces)
        self._session.check_space(size if cut is None else size + self._cut_size)
        if cut is not None:
            cut(self._session)
        for piece in self._pieces:
            self._session.append(*piece)
        self._pieces.clear()
