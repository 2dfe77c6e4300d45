"""Logs with entries of every type of a version, in which every key and value is a secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from je_tools.formats.je.entry.entries import Entry, encode_entry, holds
from je_tools.formats.je.flags import SlotState
from je_tools.formats.je.header import Header
from je_tools.formats.je.layout import Coding, Field, layout
from je_tools.formats.je.types import ENTRY_TYPES, Family
from tests.builders.logs import CREATED_MS, FILE_HEADER, LogFile, write_log

SECRET = b"Qz7-carol@home.example-4Wk"
NO_DATA_OF_PEOPLE = {"btree_comparator", "dup_comparator", "trigger"}
"""Fields that hold names of classes."""

VERSIONS = [6, 7, 8, 9, 11, 14, 15, 17, 18, 19, 22, 26]
"""Versions between which every field of every type is added or removed."""

VARIANTS = [
    {
        "flags": 0xFF,
        "booleans": 0xFF,
        "state": SlotState.EMBEDDED,
        "compact_lsns": 0,
        "operation": 1,
    },
    {
        "flags": 0xFE,
        "booleans": 0x00,
        "state": SlotState.NO_DATA | SlotState.EMBEDDED,
        "compact_lsns": 1,
    },
    {"flags": 0x00, "booleans": 0x04, "state": 0x02, "compact_lsns": 1, "operation": 3},
]
"""Bytes that determine which fields an entry has."""

_LIST_SIZE = 2


def planted_log(folder: Path, version: int, secret: bytes = SECRET) -> Path:
    """Write a new folder with one log file of this version, with entries of each of its types."""
    return write_log(folder, [planted_file(version, secret)])


def planted_file(version: int, secret: bytes = SECRET) -> LogFile:
    """Return a log file of this version with entries of each of its types."""
    file = LogFile(0, version)
    for made in _entries(version, secret):
        header = made.header
        data = encode_entry(made)
        file.add(header.type_no, data[header.size :], flags=header.flags, vlsn=header.vlsn)
    return file


def _entries(version: int, secret: bytes) -> Iterator[Entry]:
    number = 0
    for entry_type in ENTRY_TYPES.values():
        known = entry_type.first_version <= version <= entry_type.last_version
        if not known or entry_type.no == FILE_HEADER:
            continue
        for variant in VARIANTS:
            number += 1
            flags, vlsn = (0x28, number) if number % 2 and version >= 8 else (0, None)
            fields = made_fields(layout(entry_type.no, version), [], Maker(secret, variant, number))
            if entry_type.family is Family.NAME_LN:
                # This key is a database's name, which masking shows.
                fields["key"] = f"people{number}".encode()
            header = Header(0, entry_type.no, flags, 0, 0, vlsn)
            yield Entry(header, version, fields)


class Maker:
    """A maker of values of single fields."""

    def __init__(self, secret: bytes, variant: Mapping[str, int], number: int) -> None:
        self.secret = secret
        self.variant = variant
        self.number = number

    def value(self, field: Field, scopes: Sequence[Mapping[str, Any]]) -> Any:
        if field.coding in (Coding.BYTES, Coding.REST, Coding.BYTES_I8, Coding.BYTES_I32):
            return (
                b"example.Class" if field.name in NO_DATA_OF_PEOPLE else self._bytes(field, scopes)
            )
        if field.coding is Coding.TEXT:
            return f"a text, {self.number}"
        if field.coding is Coding.COMPACT_LSN:
            return (1, 100 + self.number)
        if field.coding is Coding.OFFSETS:
            return [10, 20, 70_000]
        if field.name.endswith("_ms"):
            return CREATED_MS + self.number
        if field.coding is Coding.U8:
            name = "flags" if field.name.startswith("flags") else field.name
            return self.variant.get(name, 0 if name == "deleted" else 1)
        return self.number

    def _bytes(self, field: Field, scopes: Sequence[Mapping[str, Any]]) -> bytes:
        is_slot_key = field.name == "key" and len(scopes) > 1 and "slots" in scopes[0]
        if is_slot_key and self.variant["state"] == SlotState.EMBEDDED:
            # Key and data in one, followed by the key's length.
            return self.secret + self.secret + bytes([len(self.secret)])
        return self.secret


def made_fields(
    fields: Sequence[Field], outer: list[Mapping[str, Any]], maker: Maker
) -> dict[str, Any]:
    counts = {field.count for field in fields if field.coding is Coding.LIST}
    made: dict[str, Any] = {}
    scopes = [*outer, made]
    for field in fields:
        if not all(holds(test, scopes) for test in field.when):
            continue
        if field.coding is Coding.GROUP:
            made[field.name] = made_fields(field.fields, scopes, maker)
        elif field.coding is Coding.LIST:
            made[field.name] = []
            for _ in range(_LIST_SIZE):
                item = made_fields(field.fields, scopes, maker)
                made[field.name].append(
                    item if len(field.fields) > 1 else next(iter(item.values()))
                )
        else:
            made[field.name] = _LIST_SIZE if field.name in counts else maker.value(field, scopes)
    return made


def write_planted(root: Path) -> None:
    """Write logs with secrets in all keys and values, whole ones and damaged ones."""
    for version in (6, 8, 17, 26):
        write_log(root / f"{version}", [planted_file(version)])
        for at in range(3):
            file = planted_file(version)
            for placed in file.placed[1 + at :: 3]:
                file.data[placed.start + 14 + at] ^= 0x55
            write_log(root / f"{version}-{at}", [file])
