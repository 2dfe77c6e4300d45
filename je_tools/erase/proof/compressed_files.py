"""Recognise compressed files and archives, whose contents a search of their bytes does not find."""

from __future__ import annotations

from pathlib import Path

from je_tools.formats.files.open_source import open_source

_MAGICS = {
    b"\x1f\x8b": "gzip",
    b"\x1f\x9d": "compress",
    b"\x78\x01": "zlib",
    b"\x78\x9c": "zlib",
    b"\x78\xda": "zlib",
    b"LZIP": "lzip",
    b"\x5d\x00\x00": "lzma",
    b"\xff\x06\x00\x00sNaPpY": "snappy",
    b"\x02\x21\x4c\x18": "lz4",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"\x04\x22\x4d\x18": "lz4",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
}
_TAR_MAGIC, _TAR_OFFSET = b"ustar", 257
_HEAD_SIZE = _TAR_OFFSET + len(_TAR_MAGIC)


def compressed_problem(path: Path) -> str | None:
    """Return why the content of a file was not searched; None if it does not look compressed."""
    try:
        with open_source(path) as source:
            head = source.read_bytes(0, _HEAD_SIZE)
    except OSError:
        # The search of its bytes reports the error.
        return None
    if head[_TAR_OFFSET:] == _TAR_MAGIC:
        return (
            "it is an archive (tar): what compressed files in it hold was not searched; unpack it, "
            "or delete it"
        )
    found = next((name for magic, name in _MAGICS.items() if head.startswith(magic)), None)
    if found is None:
        return None
    return f"it is compressed ({found}): what it holds was not searched; unpack it, or delete it"
