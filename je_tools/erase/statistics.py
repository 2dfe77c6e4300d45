"""Statistics of an erasure, under the names that the engine's eraser gives them.

Source: je-log.md "Data eraser"; EraserStatDefinition, JE 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.erase.done_files import vanished_files

if TYPE_CHECKING:
    from je_tools.erase.results import ErasureResult
    from je_tools.formats.je.internal.cleaner import EraserState


class EraserStatistics(Struct, frozen=True, rename="camel"):
    """The eleven statistics of the engine's eraser.

    Attributes:
        eraser_cycle_start, eraser_cycle_end: times in milliseconds since 1970; 0 without a cycle.
        eraser_files_remaining: files still to be processed in the cycle.
        eraser_files_erased: files processed, also if nothing in them was erased.
        eraser_files_deleted: reserved files deleted.
        eraser_files_already_deleted: files of the cycle that were deleted by others.
        eraser_f_syncs, eraser_reads, eraser_read_bytes, eraser_writes, eraser_write_bytes: work
            done to overwrite entries.
    """

    eraser_cycle_start: int = 0
    eraser_cycle_end: int = 0
    eraser_files_remaining: int = 0
    eraser_files_erased: int = 0
    eraser_files_deleted: int = 0
    eraser_files_already_deleted: int = 0
    eraser_f_syncs: int = 0
    eraser_reads: int = 0
    eraser_read_bytes: int = 0
    eraser_writes: int = 0
    eraser_write_bytes: int = 0


def statistics_of(result: ErasureResult, state: EraserState | None) -> EraserStatistics:
    """Return the statistics of an erasure.

    Args:
        result: the erasure.
        state: the eraser's record after it; None without a cycle.
    """
    counts = result.counts
    return EraserStatistics(
        eraser_cycle_start=0 if state is None else state.start_ms,
        eraser_cycle_end=0 if state is None else state.end_ms,
        eraser_files_remaining=len(result.pending) if state is None else len(state.pending),
        eraser_files_erased=len(result.erased),
        eraser_files_deleted=len(result.deleted),
        eraser_files_already_deleted=len(vanished_files(result)),
        eraser_f_syncs=counts.fsync_count,
        eraser_reads=counts.read_count,
        eraser_read_bytes=counts.read_size,
        eraser_writes=counts.write_count,
        eraser_write_bytes=counts.write_size,
    )


def state_statistics(state: EraserState | None, existing: frozenset[int]) -> EraserStatistics:
    """Return the statistics that the eraser's record gives.

    Args:
        state: the record; None if there is none.
        existing: numbers of the files of the log.
    """
    if state is None:
        return EraserStatistics()
    return EraserStatistics(
        eraser_cycle_start=state.start_ms,
        eraser_cycle_end=state.end_ms,
        eraser_files_remaining=len(state.pending),
        eraser_files_erased=len(existing & set(state.completed)),
        eraser_files_already_deleted=len(set(state.pending) - existing),
    )
