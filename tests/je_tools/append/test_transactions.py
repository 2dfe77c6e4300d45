"""Transactions that we encode have the bytes of those that engines have written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from je_tools.formats.je.entry.entries import Entry, decode_entry, encode_item
from je_tools.formats.je.flags import HeaderFlag, LnFlag
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.internal.names import REP_GROUP_DB, VLSN_MAP_DB
from je_tools.formats.je.types import BY_NAME
from je_tools.formats.je.write.transactions import (
    GroupAuthor,
    OldVersion,
    TransactionWriter,
    WrittenEntry,
)
from tests.corpus import Environment, environments, marked_beyond_fixtures
from tests.je_tools.snapshots import snapshot_of
from tests.truth.log_end import read_log

LNS = ("INS_LN_TX", "UPD_LN_TX", "DEL_LN_TX")
INTERNAL = (REP_GROUP_DB, VLSN_MAP_DB)


class Logged(NamedTuple):
    """An entry of a log, with its LSN and size."""

    lsn: int
    size: int
    entry: Entry


class Recorded:
    """A log that encodes one entry and keeps its bytes."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.item = b""
        self.flags = 0
        self.vlsn: int | None = None

    def entry(
        self, name: str, fields: Mapping[str, Any], *, flags: int = 0, vlsn: int | None = None
    ) -> WrittenEntry:
        self.item = encode_item(BY_NAME[name].no, self.version, fields)
        self.flags, self.vlsn = flags, vlsn
        return WrittenEntry(0, 0)


def logged(home: Path) -> Iterator[Logged]:
    log = read_log(home)
    for header, _ in log.entries():
        start = header.lsn & 0xFFFFFFFF
        data = log.files[header.lsn >> 32][start : start + header.size]
        yield Logged(header.lsn, header.size, decode_entry(data, header.version))


def nodes() -> list[Any]:
    return [
        pytest.param(each, id=each.name, marks=marked_beyond_fixtures(each))
        for each in environments()
        if each.name.endswith("/node1") and "-fe-hole" not in each.name
    ]


def again(found: Logged, old: OldVersion | None) -> Recorded:
    """Return what we make of the change that an entry makes."""
    fields, header, version = found.entry.fields, found.entry.header, found.entry.version
    record = Recorded(version)
    is_group = bool(header.flags & HeaderFlag.REPLICATED)
    author = None
    if is_group:
        author = GroupAuthor(
            fields.get("master_node_id", 1), fields.get("master_term", 0), fields.get("dtvlsn", 0)
        )
    now_ms = fields.get("modified_ms", fields.get("time_ms", 0))
    writer = TransactionWriter(
        record, fields["txn_id"], now_ms, author=author, next_vlsn=header.vlsn
    )
    writer.last_lsn = fields.get("txn_prev_lsn", fields.get("last_lsn", NULL_LSN))
    if found.entry.type_name in LNS:
        writer.write(fields["db_id"], fields["key"], fields["data"], old)
    else:
        writer.commit()
    return record


@pytest.mark.parametrize("node", nodes())
def test_entries_are_the_engines(node: Environment) -> None:
    """Each change to the group and to the VLSN index, and each Commit, is encoded again."""
    snapshot = snapshot_of(node.home)
    ids = {each.db_id for each in snapshot.databases.values() if each.name in INTERNAL}
    versions: dict[tuple[int, bytes], OldVersion] = {}
    counts = dict.fromkeys((*LNS, "Commit"), 0)
    for found in logged(node.home):
        name, fields = found.entry.type_name, found.entry.fields
        if name != "Commit" and not (name in LNS and fields["db_id"] in ids):
            continue
        key = (fields.get("db_id", 0), fields.get("key", b""))
        old = versions.get(key)
        # A transaction that writes a record twice names the version before it.
        if old is None or fields.get("abort_lsn") == old.lsn:
            made = again(found, old)
            header = found.entry.header
            assert made.item == encode_item(header.type_no, found.entry.version, fields), found
            assert (made.flags, made.vlsn) == (header.flags, header.vlsn)
            counts[name] += 1
        if fields.get("data") is None:
            versions.pop(key, None)
        else:
            versions[key] = OldVersion(found.lsn, found.size)
    assert counts["Commit"] > 100
    assert counts["INS_LN_TX"] >= 3
    assert counts["UPD_LN_TX"] >= 3


DELETING = ("v17-basic", "v17-embedded", "v15-embedded", "v26-basic", "v26-embedded", "v8-basic")


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(each, id=each.name, marks=marked_beyond_fixtures(each))
        for each in environments()
        if each.name in DELETING
    ],
)
def test_deletions_of_records_are_the_engines(log: Environment) -> None:
    """Records of applications may be embedded in BINs, and are deleted otherwise then."""
    versions: dict[tuple[int, bytes], OldVersion] = {}
    count = 0
    for found in logged(log.home):
        fields = found.entry.fields
        if found.entry.type_name not in LNS or "expiration" in fields:
            continue
        key = (fields["db_id"], fields["key"])
        old = versions.pop(key, None)
        if fields["data"] is not None:
            is_embedded = fields.get("flags", 0) & LnFlag.EMBEDDED
            versions[key] = OldVersion(
                found.lsn,
                found.size,
                fields["data"] if is_embedded else None,
                fields.get("modified_ms", 0),
            )
        elif old is not None and fields["abort_lsn"] == old.lsn:
            made = again(found, old)
            header = found.entry.header
            assert made.item == encode_item(header.type_no, found.entry.version, fields), found
            count += 1
    assert count > 50
