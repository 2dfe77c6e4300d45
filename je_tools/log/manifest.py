"""Manifest of an examination: the bytes that were read, the program, and the times."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO

from je_tools import __version__
from je_tools.core.escaping import clean_text
from je_tools.errors import InputError, StoppedError
from je_tools.formats.files.open_source import open_source
from je_tools.formats.files.source import SourceChangedError

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile

_PIECE = 1 << 20


def write_manifest(
    out: BinaryIO,
    environment: Environment,
    command: Sequence[str],
    started: datetime,
    *,
    threads: int,
) -> None:
    """Write the inputs with size and SHA-256, the version, the command and the times, as JSON.

    A file that grows is hashed up to its size when the environment was opened. A file with
    unreadable sectors has no SHA-256.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read any more.
    """
    files = list(environment.files)
    if environment.marker is not None and environment.marker not in files:
        files.append(environment.marker)
    with ThreadPoolExecutor(threads) as pool:
        inputs = list(pool.map(_input, files))
    manifest = {
        "tool": "je-tools",
        "version": __version__,
        "command": [clean_text(word) for word in command],
        "started_utc": _time(started),
        "finished_utc": _time(datetime.now(UTC)),
        "inputs": inputs,
    }
    out.write(json.dumps(manifest, indent=2).encode() + b"\n")


def _input(file: LogFile) -> dict[str, Any]:
    path = file.path.resolve()
    try:
        digest = _digest(file)
        modified = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (SourceChangedError, FileNotFoundError) as error:
        raise StoppedError(str(error)) from error
    except OSError as error:
        raise InputError(f"{file.path}: {error.strerror}") from error
    return {
        "path": clean_text(str(path)),
        "size": file.size,
        "sha256": digest,
        "modified_utc": _time(modified),
    }


def _digest(file: LogFile) -> str | None:
    """Return the SHA-256 of a file up to its size when opened; None if not all can be read."""
    digest = hashlib.sha256()
    with open_source(file.path) as source:
        if source.size < file.size:
            raise StoppedError(f"{file.path}: shrank while it was read")
        for start in range(0, file.size, _PIECE):
            digest.update(source.read(start, min(start + _PIECE, file.size)).data)
        source.check_unchanged()
        return None if source.unreadable else digest.hexdigest()


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
