"""Options of an erasure, and limits of the engine's eraser."""

from __future__ import annotations

from msgspec import Struct

from je_tools.core.escaping import quoted

MIN_VLSNS = 1000
"""Smallest number of VLSNs that the index keeps. Source: RepParams.MIN_VLSN_INDEX_SIZE,
JE 25.3.17, `je.rep.minVLSNIndexSize`."""


BATCH_MAX = 5120
"""Largest number of entries that are marked before they are overwritten. Source:
DataEraser.MAX_ERASE_OFFSETS, JE 25.3.17."""


class ErasureOptions(Struct, frozen=True):
    """Options of an erasure.

    Attributes:
        checkpoint_first: True to write a checkpoint first, so that everything before it can be
            erased.
        force: True to let the VLSN index become smaller than MIN_VLSNS.
        vlsn_below: keep entries from this VLSN on; None for no limit.
        period_ms: erase in cycles of this length, and only files that are at least as old; None
            to erase all files at once.
        keep_reserved: True to leave reserved files, which are deleted otherwise.
        protected: numbers of files that stay as they are.
        interrupted: numbers of files whose erased entries are overwritten once more; see
            `control_files.interrupted_names`.
        rewritten: names of databases whose trees the checkpoint writes anew, so that no keys of
            deleted records are left in them.
    """

    checkpoint_first: bool = False
    force: bool = False
    vlsn_below: int | None = None
    period_ms: int | None = None
    keep_reserved: bool = False
    protected: frozenset[int] = frozenset()
    interrupted: frozenset[int] = frozenset()
    rewritten: frozenset[str] = frozenset()

    @property
    def words(self) -> str:
        """The options as words of a command line, each after a space."""
        words = " --checkpoint-first" if self.checkpoint_first else ""
        words += " --force" if self.force else ""
        words += f" --vlsn-below {self.vlsn_below}" if self.vlsn_below is not None else ""
        words += f" --period {_period_text(self.period_ms)}" if self.period_ms is not None else ""
        words += " --keep-reserved" if self.keep_reserved else ""
        return words + "".join(f" --rewrite {quoted(name)}" for name in sorted(self.rewritten))


UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
"""Units of periods on the command line, in milliseconds."""


def _period_text(period_ms: int) -> str:
    size, unit = max((size, unit) for unit, size in UNITS_MS.items() if period_ms % size == 0)
    return f"{period_ms // size}{unit}"
