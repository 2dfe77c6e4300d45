"""Logs of front ends, made entry by entry, and the truth of those that engines wrote."""

from __future__ import annotations

import csv
import json
import struct
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from je_tools.formats.je.internal.replication import NODE_TYPES, RepGroup, RepNode
from je_tools.formats.je.tuples import long_key
from je_tools.journal.series import GROUP_NAME
from tests.builders.trees import FIRST_ID, TreeLog, slot

GROUP_DB = b"_jeRepGroupDB"


def text_value(op: int, text: str) -> bytes:
    """Return a value with an op code and a text."""
    content = text.encode()
    return struct.pack(">hi", op, len(content)) + content


def json_value(op: int, content: Any) -> bytes:
    """Return a value with an op code and JSON."""
    return text_value(op, json.dumps(content))


def time_value(time_ms: int) -> bytes:
    """Return a value with a timestamp."""
    return struct.pack(">hq", 70, time_ms)


def values_of(ids: Sequence[int], op: int = 100) -> dict[int, bytes]:
    """Return a JSON value for each id."""
    return {each: json_value(op, {"id": each}) for each in ids}


class MadeLog(NamedTuple):
    """A log, and the LSNs of its records by database and id."""

    log: TreeLog
    lsns: dict[str, dict[int, int]]


def front_end_log(
    journals: Mapping[str, Mapping[int, bytes]],
    *,
    group: Mapping[str, str] | None = None,
    group_name: str = GROUP_NAME,
    ends: bool = True,
    **vlsns: int,
) -> MadeLog:
    """Return a log with journals, in its first file; a checkpoint is in the second one.

    Args:
        journals: values by id, by the name of the database.
        group: type of each node of the group database, or `removed`; None for no group database.
        group_name: name of the group.
        ends: False to leave the second file, and the checkpoint, to the caller.
        vlsns: VLSN of a record, by its id as text after an underscore.
    """
    log = TreeLog()
    lsns: dict[str, dict[int, int]] = {}
    db = FIRST_ID
    for name, values in journals.items():
        lsns[name] = {}
        slots = []
        for journal_id, value in sorted(values.items()):
            vlsn = vlsns.get(f"_{journal_id}")
            more: dict[str, Any] = {} if vlsn is None else {"entry_flags": 0x28, "vlsn": vlsn}
            lsns[name][journal_id] = log.ln(long_key(journal_id), value, db=db, **more)
            slots.append(slot(long_key(journal_id), lsns[name][journal_id]))
        log.database(name.encode(), log.tree(slots, db=db), db=db)
        db += 1
    if group is not None:
        slots = []
        for key, data in sorted(group_records(group, group_name)):
            slots.append(slot(key, log.ln(key, data, db=db)))
        log.database(GROUP_DB, log.tree(slots, db=db), db=db)
    if ends:
        log.next_file()
        log.checkpoint()
    return MadeLog(log, lsns)


def group_records(group: Mapping[str, str], group_name: str) -> list[tuple[bytes, bytes]]:
    """Return the records of a group database."""
    records = [RepGroup(group_name, uuid.UUID(int=7), 3, 1, len(group), "7.5.0").encode()]
    for number, (name, kind) in enumerate(group.items()):
        node = RepNode(
            name=name,
            node_id=number + 1,
            format_version=3,
            node_type=NODE_TYPES.index("electable" if kind == "removed" else kind),
            quorum_ack=True,
            is_removed=kind == "removed",
            host="127.0.0.1",
            port=9010,
            barrier_vlsn=-1,
            barrier_ms=0,
            change_version=1,
            je_version="18.3.20",
        )
        records.append(node.encode())
    return records


class JournalTruth(NamedTuple):
    """A line of `journals.tsv`."""

    database: str
    first: int
    last: int
    entries: int
    ops: dict[int, int]


def truth_of(path: Path) -> dict[str, JournalTruth]:
    """Return what `journals.tsv` says, by the name of the database."""
    found = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            pairs = (pair.split("=") for pair in (row["ops"] or "").split(",") if pair)
            ops = {int(code): int(count) for code, count in pairs}
            numbers = (int(row[name]) for name in ("first", "last", "entries"))
            found[row["database"]] = JournalTruth(row["database"], *numbers, ops)
    return found
