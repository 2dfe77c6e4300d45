"""Contents of databases: stored beside a log, or answered by an engine.

A line `#db TAB NAME` opens a database; each record is a line `KEY TAB DATA` in hexadecimal.
Duplicates are several lines with one key.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

Contents = dict[str, list[tuple[bytes, bytes]]]
"""Key and data of each record by database name, in the order of the database."""

_DATABASE, _REFUSED = "#db", "#refused"


@dataclass(frozen=True)
class Refusal:
    """An environment that could not be opened, or not read to its end.

    Attributes:
        stage: `open`, `read`, or the end of the process that was asked: `died`, `hung`.
        reason: kind of failure, as the engine or a tool names it.
        message: text of the failure.
    """

    stage: str
    reason: str
    message: str = ""


def read_contents(path: Path) -> Contents:
    """Read the records of a records.tsv.gz.

    Raises:
        ValueError: the file has a refusal, or a line of an unknown form.
    """
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        found = parse_contents(lines)
    if isinstance(found, Refusal):
        raise ValueError(f"{path}: {found}")
    return found


def parse_contents(lines: Iterable[str]) -> Contents | Refusal:
    """Parse records, or a refusal; records before a refusal are dropped.

    Raises:
        ValueError: a line has an unknown form, or a database occurs twice.
    """
    found: Contents = {}
    records: list[tuple[bytes, bytes]] | None = None
    for line in lines:
        head, *rest = line.removesuffix("\n").split("\t")
        if head == _DATABASE and len(rest) == 1 and rest[0] not in found:
            records = found[rest[0]] = []
        elif head == _REFUSED and len(rest) >= 2:
            return Refusal(rest[0], rest[1], "\t".join(rest[2:]))
        elif records is not None and len(rest) == 1:
            records.append((bytes.fromhex(head), bytes.fromhex(rest[0])))
        else:
            raise ValueError(f"not a record: {line!r:.200}")
    return found
