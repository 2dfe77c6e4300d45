"""Log files of an environment: opened, unreadable or misnamed."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from je_tools.formats.je.header import FILE_HEADER_SIZE
from je_tools.formats.je.types import LOG_VERSION_MAX
from je_tools.log.file_names import home_of

DEFAULT_VERSION = LOG_VERSION_MAX
"""Log version assumed if a file's header, its entries and other files do not give it."""


class VersionBy(StrEnum):
    """Source of a file's log version, the most certain first."""

    HEADER = "header"
    """Its header, with a right checksum."""
    ENTRIES = "entries"
    """Its entries, which make sense in this version."""
    FILES = "files"
    """The nearest file whose version is known."""
    CLAIM = "claim"
    """A damaged header."""
    NOTHING = "nothing"


_BY_TEXTS = {
    VersionBy.HEADER: "as its header says",
    VersionBy.ENTRIES: "which its entries fit",
    VersionBy.FILES: "as a file beside it",
    VersionBy.CLAIM: "which a damaged header names",
    VersionBy.NOTHING: "the newest, since nothing shows which it is",
}


class FileHeader(Struct, frozen=True):
    """The first entry of a file, as far as it can be read.

    Attributes:
        good: True if type, size and checksum are right and the version is supported.
        file_no, created_ms, last_entry_in_prev_file_offset, version: as stored; None if the
            header does not decode.
        problem: description of what is wrong; None if good.
        is_unsupported: True if nothing is wrong except that the version is not supported.
        claim: version that a damaged header seems to name.
    """

    good: bool
    file_no: int | None = None
    created_ms: int | None = None
    last_entry_in_prev_file_offset: int | None = None
    version: int | None = None
    problem: str | None = None
    is_unsupported: bool = False
    claim: int | None = None


class LogFile(Struct, frozen=True):
    """One log file.

    Attributes:
        path: path of the file.
        file_no: number in its name, or in its header if the name has none.
        size: bytes when the environment was opened.
        header: its first entry.
        version: log version of its entries.
        by: source of the version.
        fits: if the header is bad, versions in which the file's entries make sense.
    """

    path: Path
    file_no: int
    size: int
    header: FileHeader
    version: int
    by: VersionBy = VersionBy.HEADER
    fits: frozenset[int] = frozenset()

    @property
    def is_guessed(self) -> bool:
        """True if the version is not that of a good header, and there is something to read."""
        return self.by is not VersionBy.HEADER and self.size > FILE_HEADER_SIZE

    @property
    def version_text(self) -> str:
        """The version and its source in words."""
        return f"read as log version {self.version}, {_BY_TEXTS[self.by]}"

    @property
    def is_begun(self) -> bool:
        """True unless the file's writer died before its header was complete."""
        return self.header.good or self.size > FILE_HEADER_SIZE

    @property
    def home(self) -> Path:
        """Home directory of the environment, derived from the file's path."""
        return home_of(self.path)


class UnreadableFile(Struct, frozen=True):
    """A log file that exists and cannot be opened.

    Attributes:
        path: path of the file.
        file_no: number in its name.
        size: bytes; 0 if unknown.
        reason: error of the operating system.
    """

    path: Path
    file_no: int
    size: int
    reason: str

    def as_log_file(self) -> LogFile:
        """Return the file as a log file without content."""
        header = FileHeader(good=False, problem=self.reason)
        by = VersionBy.NOTHING
        return LogFile(self.path, self.file_no, self.size, header, DEFAULT_VERSION, by)


class Misnamed(Struct, frozen=True):
    """A log file that was renamed or swapped.

    Attributes:
        path: path of the file.
        name_no, header_no: number in its name, and in its header.
        file_no: the one of the two under which it is read.
    """

    path: Path
    name_no: int
    header_no: int
    file_no: int

    @property
    def text(self) -> str:
        """The number under which it is read and the reason, in words."""
        if self.file_no == self.header_no:
            return f"read as file {self.file_no:#x}, as its header says"
        return (
            f"read as file {self.file_no:#x}, as its name says, because another file may be "
            f"{self.header_no:#x} too; if it is a copy, its content is older than it seems: "
            "salvage the other files without it"
        )
