"""Records of Ignite's write-ahead log as the engine's own iterator gave them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple


class EngineRecord(NamedTuple):
    """One record: its pointer, its length, the name of its type, and fields as text."""

    segment: int
    offset: int
    length: int
    type_name: str
    detail: str


def engine_records(path: Path) -> list[EngineRecord]:
    """Return the records in a `wal.tsv.gz`, up to where the engine gave up."""
    found = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#"):
                continue
            segment, offset, length, name, detail = line.rstrip("\n").split("\t", 4)
            found.append(EngineRecord(int(segment), int(offset), int(length), name, detail))
    return found


def fields_of(detail: str) -> dict[str, str]:
    """Return the `name=value` pairs of a detail, or of one entry in it."""
    return dict(pair.split("=", 1) for pair in detail.split(" ") if "=" in pair)
