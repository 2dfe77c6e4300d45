"""Frames of the undo journal of a store, and the check of their fields.

The journal has the form of all undo journals (`writing/journal.py`), with other frames. All edits
are known before the first is made. So what they overwrite (`saved`) and what they write (`write`)
is recorded first, and `ready` follows. A journal without `ready` belongs to an operation that
changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from je_tools.ignite.repairs.node_files import is_store_name
from je_tools.writing.frames import (
    FOLDER,
    REMOVED,
    VERSION,
    JournalError,
    Kinds,
    check_fields,
    is_number,
    is_size,
    is_sum,
    is_text,
    rows_of,
)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


_FILES = rows_of(is_store_name, is_number, is_number)

_OWN_FIELDS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "begin": {
        "version": is_number,
        "operation": is_text,
        "tool": is_text,
        "time_ms": is_number,
        "takes_away": _is_bool,
        "files": _FILES,
    },
    "saved": {"file": is_store_name, "offset": is_number},
    "write": {"file": is_store_name, "offset": is_number},
    "zero": {"file": is_store_name, "offset": is_number, "size": is_size},
    "create": {"file": is_store_name, "size": is_number},
    "rename": {"file": is_store_name, "target": is_text, "checksum": is_sum},
    "ready": {},
    "done": {"time_ms": is_number, "files": _FILES},
    "undo": {},
    "undone": {},
}
_FIELDS: Kinds = {record: {**fields, "sure": is_number} for record, fields in _OWN_FIELDS.items()}


def check_store_frame(head: Any, blob_size: int, number: int) -> None:
    """Make sure that an operation on a store may have written a frame; see `check_frame`.

    Raises:
        NewerJournalError: it begins a journal of a later version.
        JournalError: no operation writes such a frame.
    """
    record = check_fields(head, _FIELDS, VERSION)
    if blob_size and record not in ("saved", "write"):
        raise JournalError(f"a frame {record!r} with {blob_size:,} bytes instead of 0")
    if record == "rename" and head["target"] != moved_name(head["file"], number):
        raise JournalError(f"a frame {record!r} with a wrong 'target'")


def moved_name(name: str, number: int) -> str:
    """Return the name of a file that an operation sets aside.

    It lies in the folder of the journal's number, below the folder of the node in which the file
    was, so that a rename copies nothing.
    """
    root, _, rest = name.partition("/")
    return f"{root}/{FOLDER}/{number:06d}/{rest.replace('/', '--')}{REMOVED}"
