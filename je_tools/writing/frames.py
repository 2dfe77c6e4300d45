"""Frames of an undo journal, and the check of their fields.

Undo acts on the names, offsets and sizes that a journal contains. So every field of every frame is
checked before anything is put back: no name leads out of the environment, and every frame is
complete.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from je_tools.log.file_names import is_data_directory_name, is_jdb_name
from je_tools.writing.parts import part_count

BLOB_MAX = 16 << 20
"""Largest number of bytes in a frame, which a reader holds in memory."""

FRAME_HEAD = struct.Struct("<4sIII")
"""Magic, checksum, size of the JSON object, size of the bytes."""

FRAME_MAGIC = b"JEU1"

VERSION = 1
"""Version of the format; each journal begins with it."""

FOLDER = ".je-tools-undo"
"""Name of the folder of all journals, in the home of an environment and in its data directories."""

REMOVED = ".removed"
"""Suffix of a log file that was taken out of the log, in a journal's folder."""

_BAD = re.compile(r"\.bad(\.[0-9]+)?")
_NUMBER_MAX = (1 << 63) - 1


class JournalError(ValueError):
    """A frame, or a sequence of frames, that no operation writes."""


class NewerJournalError(JournalError):
    """A journal of a later version than this je-tools knows."""


class Frame(Struct, frozen=True):
    """One frame.

    Attributes:
        head: JSON object; `record` is the kind of the frame.
        blob_at, blob_size: offset and size of its bytes in the journal.
        blob_sum: CRC-32C of these bytes.
    """

    head: Mapping[str, Any]
    blob_at: int
    blob_size: int
    blob_sum: int

    @property
    def record(self) -> str:
        """Kind of the frame."""
        return str(self.head["record"])


def check_frame(head: Any, blob_size: int, number: int) -> None:
    """Make sure that an operation may have written a frame.

    Args:
        head: its parsed JSON.
        blob_size: number of bytes after the JSON.
        number: number of the journal.

    Raises:
        NewerJournalError: it begins a journal of a later version.
        JournalError: no operation writes such a frame.
    """
    record = head.get("record") if isinstance(head, dict) else None
    fields = _FIELDS.get(record) if isinstance(record, str) else None
    if record == "begin" and _is_number(head.get("version")) and head["version"] > VERSION:
        raise NewerJournalError(
            f"it is of version {head['version']}, and this je-tools knows {VERSION}"
        )
    if fields is None:
        raise JournalError(f"a frame of no known kind, {str(record)[:40]!r}")
    if head.keys() != fields.keys() | {"record", "sure"} or not _is_number(head["sure"]):
        raise JournalError(f"a frame {record!r} that has not its fields")
    for name, is_right in fields.items():
        if not is_right(head[name]):
            raise JournalError(f"a frame {record!r} with a wrong {name!r}")
    expected = _blob_size(head)
    if expected is not None and blob_size != expected:
        raise JournalError(f"a frame {record!r} with {blob_size:,} bytes instead of {expected:,}")
    if record == "rename" and not _is_moved_name(head["file"], head["target"], number):
        raise JournalError(f"a frame {record!r} with a wrong 'target'")


def _blob_size(head: Mapping[str, Any]) -> int | None:
    """Return the number of bytes that must follow an object; None if any number may."""
    if head["record"] == "saved":
        return None
    if head["record"] == "append":
        return sum(4 * part_count(offset, size) for _, offset, size, _ in head["pieces"])
    return 0


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _NUMBER_MAX


def _is_sum(value: Any) -> bool:
    return _is_number(value) and value < 1 << 32


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_log_name(value: Any) -> bool:
    """Return True if a path relative to the home can be that of a log file."""
    if not isinstance(value, str):
        return False
    *folders, name = value.split("/")
    return is_jdb_name(name) and (
        not folders or (len(folders) == 1 and is_data_directory_name(folders[0]))
    )


def _is_moved_name(source: str, target: str, number: int) -> bool:
    """Return True if `target` is the name of a log file set aside or taken out of the log."""
    folder, name = source[: source.rindex("/") + 1] if "/" in source else "", source.split("/")[-1]
    if target == f"{folder}{FOLDER}/{number:06d}/{name}{REMOVED}":
        return True
    stem = f"{folder}{name.split('.')[0]}"
    return target.startswith(stem) and _BAD.fullmatch(target[len(stem) :]) is not None


def _rows(*columns: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check that a value is a non-empty list of rows with such columns."""

    def is_right(value: Any) -> bool:
        return (
            isinstance(value, list)
            and bool(value)
            and all(
                isinstance(row, list)
                and len(row) == len(columns)
                and all(column(each) for column, each in zip(columns, row, strict=True))
                for row in value
            )
        )

    return is_right


def _is_size(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_hex(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"([0-9a-f]{2})+", value) is not None


def _are_flips(value: Any) -> bool:
    has_columns = _rows(_is_log_name, _is_number, _is_hex, _is_hex)
    return has_columns(value) and all(len(old) == len(new) for _, _, old, new in value)


_FILES = _rows(_is_log_name, _is_number, _is_number)

_FIELDS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "begin": {
        "version": _is_number,
        "operation": _is_text,
        "tool": _is_text,
        "time_ms": _is_number,
        "takes_away": lambda value: isinstance(value, bool),
        "files": _FILES,
    },
    "saved": {"file": _is_log_name, "offset": _is_number},
    "cut": {"file": _is_log_name, "size": _is_number, "before": _is_number},
    "rename": {"file": _is_log_name, "target": _is_text, "checksum": _is_sum},
    "append": {"pieces": _rows(_is_log_name, _is_number, _is_size, _is_sum)},
    "flip": {"flips": _are_flips},
    "done": {"time_ms": _is_number, "files": _FILES},
    "undo": {},
    "back": {},
    "undone": {},
}
"""Fields of each kind of frame besides `record` and `sure`, and their checks."""
