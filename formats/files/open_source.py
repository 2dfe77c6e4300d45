"""Files opened for scanning by their path, local or remote."""

from __future__ import annotations

from pathlib import Path

from je_tools.formats.files.remote_path import RemotePath
from je_tools.formats.files.source import Source


def open_source(path: Path) -> Source:
    """Open a file, local or remote.

    Raises:
        SourceError: it cannot be opened.
    """
    if not isinstance(path, RemotePath):
        return Source(path)
    from je_tools.formats.files.remote_source import RemoteSource

    return RemoteSource(path)
