"""Undo journals: records of the bytes that a command has cut off, moved, appended and flipped.

A journal is a folder in the environment whose name the engine ignores: `.je-tools-undo/000001`. Its
file `journal` is a list of frames, each a JSON object and bytes. Files that were taken out of the
log lie beside it, or in a folder of the same name in the data directory that they come from. So a
journal holds data of the log.

| offset | size | field of a frame |
|---|---|---|
| 0 | 4 | `JEU1` |
| 4 | 4 | CRC-32C of all that follows, little endian |
| 8 | 4 | size of the JSON object |
| 12 | 4 | size of the bytes |
| 16 | | the object, then the bytes |

A frame is durable before the step that it records begins. Its field `sure` states how many bytes of
the journal were durable when it was written. The folder gets its final name once the first frame is
durable. So a power cut can only tear frames after the last `sure` byte, and leaves each of their
sectors as written, as zeros, or missing. Any other incomplete frame is damage.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from je_tools.writing.frames import VERSION, encode_frame
from je_tools.writing.journal_folders import (
    BEGUN,
    FILE_NAME,
    clear_begun,
    journal_folder,
    make_folder,
    taken_numbers,
)

if TYPE_CHECKING:
    from je_tools.writing.disk import Disk


class Journal:
    """A journal that is being written.

    Attributes:
        home: home of the environment.
        number: number of the journal, from 1.
        folder: folder of the journal.
    """

    def __init__(self, home: Path, number: int, disk: Disk, size: int = 0) -> None:
        """Continue a journal; see `create` for a new one.

        Args:
            home: home of the environment.
            number: number of the journal.
            disk: disk to write to.
            size: offset at which the next frame is written.
        """
        self.home = home
        self.number = number
        self.folder = journal_folder(home, number)
        self._disk = disk
        self._size = size
        self._sure = 0

    @classmethod
    def create(cls, home: Path, disk: Disk, like: os.stat_result, **fields: Any) -> Journal:
        """Create a journal; its first frame is durable on return.

        Args:
            home: home of the environment.
            disk: disk to write to.
            like: status of a log file, whose owner, group and mode the journal gets.
            fields: fields of the first frame.

        Raises:
            OSError: it cannot be created; nothing is left of it.
            RefusedError: as `journal_numbers`.
        """
        clear_begun(home, disk)
        journal = cls(home, max((0, *taken_numbers(home))) + 1, disk)
        folder = journal.folder
        journal.folder = folder.with_name(folder.name + BEGUN)
        try:
            make_folder(disk, journal.folder)
            disk.create(journal.folder / FILE_NAME, like)
            journal.add("begin", version=VERSION, **fields)
            journal.sync()
            disk.sync_folder(journal.folder)
            disk.rename(journal.folder, folder)
            disk.sync_folder(folder.parent)
        except (OSError, MemoryError, KeyboardInterrupt, SystemExit):
            with suppress(OSError):
                if folder.is_dir():
                    disk.rename(folder, journal.folder)
                clear_begun(home, disk)
            raise
        journal.folder = folder
        return journal

    def add(self, record: str, blob: bytes = b"", **fields: Any) -> None:
        """Write a frame; it is durable after `sync`."""
        frame = encode_frame({"record": record, "sure": self._sure, **fields}, blob)
        self._disk.write(self.folder / FILE_NAME, self._size, frame)
        self._size += len(frame)

    def sync(self) -> None:
        """Make all frames durable."""
        self._disk.sync(self.folder / FILE_NAME)
        self._sure = self._size
