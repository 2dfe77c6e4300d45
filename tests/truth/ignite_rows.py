"""Rows of Ignite's caches as the engine gave them after its own recovery."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.corpus import IgniteNode


class EngineRow(NamedTuple):
    """One row of a cache; keys and values as JSON are empty if the engine's tool gave none."""

    cache: str
    partition: int
    key: str
    value: str
    key_type: int
    key_bytes: str
    value_type: int
    value_size: int
    value_sha256: str
    version: str
    expire_ms: int


def engine_rows(node: IgniteNode) -> list[EngineRow]:
    """Return the rows of a node; empty if the corpus has none for it."""
    case = node.store.parent
    own = case / node.node / "records.tsv.gz"
    return read_rows(own if own.exists() else case / "records.tsv.gz")


def read_rows(path: Path) -> list[EngineRow]:
    """Return the rows in a `records.tsv.gz`."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        next(lines)
        found = [EngineRow(*line.rstrip("\n").split("\t")) for line in lines]  # type: ignore[arg-type]
    numbers = ("partition", "key_type", "value_type", "value_size", "expire_ms")
    return [row._replace(**{name: int(getattr(row, name)) for name in numbers}) for row in found]


def comparable(value: Any) -> Any:
    """Return decoded JSON without what the engine's tool left out: bytes of Java's objects."""
    if isinstance(value, dict):
        if "java" in value:
            return {"java": value["java"]}
        return {name: comparable(each) for name, each in value.items()}
    return [comparable(each) for each in value] if isinstance(value, list) else value


def is_same(text: str, expected: str) -> bool:
    """Return True if a text of ours is what the engine's tool shows, or what it cannot show."""
    if not expected or "undecoded" in expected:
        return True
    return bool(comparable(json.loads(text)) == json.loads(expected))
