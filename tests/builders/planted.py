"""Logs with an entry of every type and version, in whose every key and value stands a secret."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from je_tools.formats.je.entries import Entry, decode_entry, encode_entry
from je_tools.formats.je.layout import SLOT_EMBEDDED, SLOT_NO_DATA
from tests.builders.logs import FILE_HEADER, LogFile, write_log
from tests.corpus import VECTORS

SECRET = b"Qz7-carol@home.example-4Wk"
NO_DATA_OF_PEOPLE = {"btree_comparator", "dup_comparator", "trigger"}
"""Names of classes."""

_NAME_LNS = {"NameLN", "NameLN_TX"}
_VERSION_MIN = 6


@functools.cache
def _vectors() -> dict[int, list[Entry]]:
    """Single entries by log version, as they were decoded."""
    found: dict[int, list[Entry]] = defaultdict(list)
    for line in VECTORS.read_text(encoding="utf-8").splitlines():
        vector = json.loads(line)
        version = vector["log_version"]
        if version >= _VERSION_MIN and vector["entry_type"] != FILE_HEADER:
            found[version].append(decode_entry(bytes.fromhex(vector["hex"]), version))
    return found


VERSIONS = sorted(_vectors())


def planted_log(folder: Path, version: int, secret: bytes = SECRET) -> Path:
    """A new folder with one log file of this version; every entry of the vectors is in it."""
    file = LogFile(0, version)
    for entry in _vectors()[version]:
        fields = {name: _planted(name, value, secret) for name, value in entry.fields.items()}
        if entry.type_name in _NAME_LNS:
            # This key is a database's name, which is shown.
            fields["key"] = entry.fields["key"]
        made = encode_entry(Entry(entry.header, version, fields))
        header = entry.header
        file.add(header.type_no, made[header.size :], flags=header.flags, vlsn=header.vlsn)
    return write_log(folder, [file])


def _planted(name: str, value: Any, secret: bytes) -> Any:
    if isinstance(value, bytes):
        return value if name in NO_DATA_OF_PEOPLE else secret
    if isinstance(value, list):
        return [_planted(name, item, secret) for item in value]
    if isinstance(value, dict):
        planted = {key: _planted(key, item, secret) for key, item in value.items()}
        if value.get("state", 0) & (SLOT_EMBEDDED | SLOT_NO_DATA) == SLOT_EMBEDDED:
            # Key and data in one, behind them the key's length.
            planted["key"] = secret + secret + bytes([len(secret)])
        return planted
    return value
