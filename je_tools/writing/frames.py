"""Frames of an undo journal, and the check of their fields.

Undo acts on the names, offsets and sizes that a journal contains. So every field of every frame is
checked before anything is put back: every frame has its fields, and no name leads out of the
environment.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, NamedTuple

from msgspec import Struct

from je_tools.log.file_names import is_data_directory_name, is_jdb_name
from je_tools.writing.checksums import crc32c
from je_tools.writing.part_sums import part_count

BLOB_MAX = 16 << 20
"""Largest number of bytes after the JSON of a frame; a reader holds them in memory."""

FRAME_HEAD = struct.Struct("<4sIII")
"""Magic, checksum, size of the JSON object, size of the bytes."""

FRAME_MAGIC = b"JEU1"

Kinds = Mapping[str, Mapping[str, Callable[[Any], bool]]]
"""Kinds of frames: by kind and field, the check of the field's value."""

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


class RawFrame(NamedTuple):
    """A frame whose checksum is right, and whose fields are not checked.

    Attributes:
        head: parsed JSON.
        blob: bytes after it.
        blob_at: offset of these bytes in the journal.
    """

    head: Any
    blob: bytes
    blob_at: int


def encode_frame(head: Mapping[str, Any], blob: bytes = b"", magic: bytes = FRAME_MAGIC) -> bytes:
    """Return the bytes of a frame.

    Args:
        head: its JSON object.
        blob: bytes after the JSON.
        magic: first bytes of the frame.
    """
    text = json.dumps(head).encode()
    rest = struct.pack("<II", len(text), len(blob)) + text + blob
    return magic + struct.pack("<I", crc32c(rest)) + rest


def read_frame(file: BinaryIO, at: int, total: int, magic: bytes = FRAME_MAGIC) -> RawFrame | None:
    """Read the frame at an offset; return None if there is no complete one.

    Args:
        file: the journal.
        at: offset of the frame.
        total: size of the journal.
        magic: first bytes of a frame.

    Raises:
        JournalError: its checksum is right, but its head is not JSON.
    """
    file.seek(at)
    head = file.read(FRAME_HEAD.size)
    if len(head) < FRAME_HEAD.size:
        return None
    found, checksum, head_size, blob_size = FRAME_HEAD.unpack(head)
    # A torn frame may state any size: do not read past the end.
    is_within = at + FRAME_HEAD.size + head_size + blob_size <= total
    if found != magic or blob_size > BLOB_MAX + (1 << 20) or not is_within:
        return None
    rest = file.read(head_size + blob_size)
    if len(rest) < head_size + blob_size or crc32c(rest, crc32c(head[8:])) != checksum:
        return None
    try:
        fields = json.loads(rest[:head_size])
    except (ValueError, RecursionError) as error:
        raise JournalError("a frame that is not JSON") from error
    return RawFrame(fields, rest[head_size:], at + FRAME_HEAD.size + head_size)


def check_fields(head: Any, kinds: Kinds, version: int) -> str:
    """Return the kind of a frame, after checking that it has the fields of that kind.

    Args:
        head: its parsed JSON.
        kinds: the kinds; each journal begins with `begin`, which has a `version`.
        version: newest version that is known.

    Raises:
        NewerJournalError: it begins a journal of a later version.
        JournalError: no operation writes such a frame.
    """
    record = head.get("record") if isinstance(head, dict) else None
    fields = kinds.get(record) if isinstance(record, str) else None
    if record == "begin" and is_number(head.get("version")) and head["version"] > version:
        raise NewerJournalError(
            f"it is of version {head['version']}, and this je-tools knows {version}"
        )
    if fields is None:
        raise JournalError(f"a frame of no known kind, {str(record)[:40]!r}")
    if head.keys() != fields.keys() | {"record"}:
        raise JournalError(f"a frame {record!r} without its fields")
    for name, is_right in fields.items():
        if not is_right(head[name]):
            raise JournalError(f"a frame {record!r} with a wrong {name!r}")
    return str(record)


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
    record = check_fields(head, _FIELDS, VERSION)
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


def is_number(value: Any) -> bool:
    """Return True for an integer from 0 to 2^63 - 1."""
    return type(value) is int and 0 <= value <= _NUMBER_MAX


def is_sum(value: Any) -> bool:
    """Return True for an integer from 0 to 2^32 - 1."""
    return is_number(value) and value < 1 << 32


def is_text(value: Any) -> bool:
    """Return True for a string."""
    return isinstance(value, str)


def is_log_name(value: Any) -> bool:
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


def rows_of(*columns: Callable[[Any], bool]) -> Callable[[Any], bool]:
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


def is_size(value: Any) -> bool:
    """Return True for an integer from 1 to 2^63 - 1."""
    return is_number(value) and value > 0


def _is_hex(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"([0-9a-f]{2})+", value) is not None


def _are_flips(value: Any) -> bool:
    has_columns = rows_of(is_log_name, is_number, _is_hex, _is_hex)
    return has_columns(value) and all(len(old) == len(new) for _, _, old, new in value)


_FILES = rows_of(is_log_name, is_number, is_number)

_OWN_FIELDS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "begin": {
        "version": is_number,
        "operation": is_text,
        "tool": is_text,
        "time_ms": is_number,
        "takes_away": lambda value: isinstance(value, bool),
        "files": _FILES,
    },
    "saved": {"file": is_log_name, "offset": is_number},
    "cut": {"file": is_log_name, "size": is_number, "before": is_number},
    "rename": {"file": is_log_name, "target": is_text, "checksum": is_sum},
    "append": {"pieces": rows_of(is_log_name, is_number, is_size, is_sum)},
    "flip": {"flips": _are_flips},
    "done": {"time_ms": is_number, "files": _FILES},
    "undo": {},
    "back": {},
    "undone": {},
}
_FIELDS: Kinds = {record: {**fields, "sure": is_number} for record, fields in _OWN_FIELDS.items()}
"""Kinds of frames of an undo journal, without the field `record`, which all have."""
