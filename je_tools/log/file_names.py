"""Names of log files and data directories.

Source: je-log.md "Files"; FileManager, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

import re
from pathlib import Path

MARKER_FILE_NO = 0x7FFFFFFF
"""Number of the file that an unfinished network restore or a detected corruption leaves."""

_LOG_NAME = re.compile(r"([0-9a-fA-F]{8})\.(jdb|del|bad|bup)(?:\.[0-9]+)?", re.IGNORECASE)

_DATA_DIRECTORY = re.compile(r"data[0-9]{3}")


def log_file_no(path: Path) -> int | None:
    """Return the file number in a log file's name, or None if it is not such a name."""
    match = _LOG_NAME.fullmatch(path.name)
    return int(match[1], 16) if match else None


def home_of(path: Path) -> Path:
    """Return the environment's home by the path of a file; symbolic links are not followed."""
    folder = path.parent
    if not is_data_directory_name(folder.absolute().name):
        return folder
    return folder.parent if folder.name else Path("..")


def is_data_directory_name(name: str) -> bool:
    """Return whether a folder of this name is a data directory of an environment."""
    return _DATA_DIRECTORY.fullmatch(name) is not None


def is_jdb_name(name: str) -> bool:
    """Return whether a file of this name is part of the log, not put aside as `.del` or `.bad`."""
    match = _LOG_NAME.fullmatch(name)
    return match is not None and match[2].lower() == "jdb"
