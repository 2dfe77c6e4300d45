"""Results as Arrow record batches, read while they are taken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from je_tools.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa


class Closable(ABC):
    """Context manager that closes itself at the end of the block."""

    @abstractmethod
    def close(self) -> None:
        """End reading."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class ArrowBatches(Closable):
    """An iterator of `pyarrow.RecordBatch` that reads a log only as far as its batches are taken.

    It holds a few ranges of the log, whatever the size of the result. Threads may read ahead; they
    end when the iterator is exhausted, fails, is closed, or is no longer referred to. Also a
    context manager, which closes it. Only one thread may use it at a time.

    Anything that reads Arrow streams takes it (`polars.from_arrow`, DuckDB, `pyarrow.table`), by
    `__arrow_c_stream__`. An error then comes as an error of Arrow.

    Attributes:
        schema: `pyarrow.Schema` of the batches.
    """

    def __init__(self, opened: Generator[Any, None, None]) -> None:
        """Start reading.

        Args:
            opened: yields the schema when it is ready to read, then the batches.
        """
        self._opened = opened
        self.schema: pa.Schema = next(opened)
        self._is_done = False
        self._is_closed = False

    def __iter__(self) -> ArrowBatches:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._is_closed:
            raise UsageError("these batches are closed; call the method again for new ones")
        try:
            return next(self._opened)
        except StopIteration:
            self._is_done = True
            raise
        except BaseException:
            # Otherwise a second attempt would look like the end of the log.
            self._is_closed = True
            raise

    def to_table(self) -> pa.Table:
        """Return the batches that have not been taken yet as one `pyarrow.Table`, in memory.

        Raises:
            StoppedError: a file shrank, vanished or was replaced meanwhile.
            InputError: a file cannot be read.
            UsageError: the batches are closed.
        """
        import pyarrow as pa

        return pa.Table.from_batches(list(self), schema=self.schema)

    def close(self) -> None:
        """End reading; batches already taken stay valid."""
        self._is_closed = not self._is_done
        self._opened.close()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the batches as a capsule of an Arrow stream; pyarrow converts the schema."""
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_batches(self.schema, self)
        return reader.__arrow_c_stream__(requested_schema)
