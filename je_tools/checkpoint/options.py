"""Options and results of commands that write a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.checkpoint.comparison import Compared
    from je_tools.checkpoint.contents import CheckpointContents


class CheckpointOptions(Struct, frozen=True):
    """Options of a checkpoint.

    Attributes:
        cuts: True to cut off everything after the end of the log, as recovery does.
        file_max: maximum size of a file in bytes; None for the environment's setting.
        to_lsn: LSN of the last entry to keep; None for the end of the log.
        force: True to cut off even what a replication group has committed.
        accept_loss: True to write although files are missing that are in use.
        before_erasure: True to write even if the log needs no checkpoint, and to mark it: a node
            whose log would be cut back past this checkpoint then does a network restore instead.
        first_vlsn: first VLSN that the VLSN index keeps; None for all.
        rewritten: ids of databases whose trees are written anew: all nodes in full, and without
            keys of deleted records.
        begins_file: True to begin a new file, even if the last one has room.
        part_of: name of the operation to which the checkpoint belongs, for the undo journal; empty
            if it is an operation of its own.
    """

    cuts: bool = False
    file_max: int | None = None
    to_lsn: int | None = None
    force: bool = False
    accept_loss: bool = False
    before_erasure: bool = False
    first_vlsn: int | None = None
    rewritten: frozenset[int] = frozenset()
    begins_file: bool = False
    part_of: str = ""


class CheckpointResult(Struct, frozen=True):
    """Result of a checkpoint that is written or planned.

    Attributes:
        checkpoint: None if none is needed.
        cut_size: bytes that are cut off the last file.
        set_aside: names of files that are renamed.
        removed: names of files that are removed because they follow the end of the log.
        journal_no: number of the undo journal; None if nothing was written in place.
        compared: comparison of the records before and after; None if nothing was written.
    """

    checkpoint: CheckpointContents | None
    cut_size: int
    set_aside: tuple[str, ...]
    removed: tuple[str, ...] = ()
    journal_no: int | None = None
    compared: Compared | None = None

    @property
    def changes(self) -> bool:
        """True if anything is written, cut, renamed or removed."""
        return self.checkpoint is not None or bool(self.cut_size or self.set_aside or self.removed)


NOTHING = CheckpointResult(None, 0, ())
"""Result for a log that needs no checkpoint."""
