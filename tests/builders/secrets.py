"""A log with a person's data in every place from which an erasure removes them."""

from __future__ import annotations

from pathlib import Path

from je_tools.formats.je.btree.keys import join_two_part
from je_tools.formats.je.flags import LnFlag, LnFlag2, NodeFlag, SlotState
from tests.builders.logs import LogFile
from tests.builders.trees import FIRST_ID, NULL, TreeLog, slot

PREFIX, SUFFIX = b"Qz7-", b"-4Wk"
"""The beginning and the end of every secret."""

DATABASE, OTHER = b"people", (b"zz", b"stays")
"""The database, and its only record that is not the person's."""

BEFORE_IMAGES_ID, REMOVED_ID = -1, 50

LIVE = ("key", "value", "embedded", "prefixed")
"""Places in records that exist."""

OLD = (
    "version",
    "deleted",
    "aborted-key",
    "aborted-value",
    "abort-key",
    "abort-data",
    "before-image",
    "delta",
    "old-slot",
    "old-prefixed",
    "identifier",
    "slot",
    "routing",
    "removed",
    "removed-slot",
)
"""Places that hold the data of no record."""

WITH_IMAGES = ("imaged-key", "imaged-value", "image")
"""Places in an update with a before-image, from log version 25 on."""


def places(version: int) -> tuple[str, ...]:
    """Return all places in a log of this version."""
    return (*LIVE, *OLD, *(WITH_IMAGES if version >= _IMAGES_SINCE else ()))


_IMAGES_SINCE = 25


def secret(where: str) -> bytes:
    """Return the secret of a place."""
    return PREFIX + where.encode() + SUFFIX


def secrets_log(folder: Path, version: int) -> Path:
    """Write a log in which all transactions have ended, and return its folder."""
    log = TreeLog([LogFile(0, version)])
    _old_records(log)
    _old_nodes(log)
    log.next_file()
    _database(log)
    log.checkpoint()
    return log.write(folder)


def _old_records(log: TreeLog) -> None:
    older = log.ln(b"k1", secret("version"))
    log.ln(secret("deleted"), None)
    log.ln(
        secret("aborted-key"),
        secret("aborted-value"),
        txn=3,
        abort_lsn=older,
        flags=LnFlag.ABORT_KEY | LnFlag.ABORT_DATA,
        abort_key=secret("abort-key"),
        abort_data=secret("abort-data"),
    )
    log.end(3, name="Abort")
    log.ln(b"image", secret("before-image"), db=BEFORE_IMAGES_ID)
    log.ln(b"x", secret("removed"), db=REMOVED_ID)
    if log.file.version >= _IMAGES_SINCE:
        fields = {"flags": LnFlag.ABORT_DATA, "flags2": LnFlag2.BEFORE_IMAGE, "db_id": FIRST_ID}
        fields |= {"key": secret("imaged-key"), "data": secret("imaged-value")}
        fields |= {"abort_data": secret("image"), "before_image_expiration": 1}
        fields |= {"txn_id": 4, "txn_prev_lsn": NULL}
        log.put("UPD_LN_TX_WITH_BEFORE_IMAGE", fields)
        log.end(4)


def _old_nodes(log: TreeLog) -> None:
    def embedded(where: str) -> dict[str, object]:
        return slot(join_two_part(b"em", secret(where)), NULL, SlotState.EMBEDDED)

    full = log.node([embedded("old-slot")], node_id=11, identifier_key=secret("identifier"))
    log.delta([embedded("delta")], full, node_id=11, full_slot_count=1)
    log.node(
        [slot(b"old-prefixed" + SUFFIX, NULL, SlotState.KNOWN_DELETED)],
        key_prefix=PREFIX,
        booleans=NodeFlag.HAS_PREFIX,
    )
    log.node([embedded("removed-slot")], db=REMOVED_ID)


def _database(log: TreeLog) -> None:
    """Append a tree of two BINs; keys in the first one have a prefix."""
    key, prefixed = secret("key"), secret("prefixed")
    first = [
        slot(b"key" + SUFFIX, log.ln(key, b"1")),
        slot(b"prefixed" + SUFFIX, log.ln(prefixed, b"2")),
        slot(b"slot" + SUFFIX, NULL, SlotState.KNOWN_DELETED),
    ]
    data = secret("embedded")
    second = [
        slot(
            join_two_part(b"em", data),
            log.ln(b"em", data, flags=LnFlag.EMBEDDED),
            SlotState.EMBEDDED,
        ),
        slot(b"k1", log.ln(b"k1", secret("value"))),
        slot(OTHER[0], log.ln(*OTHER)),
    ]
    low = log.node(
        first,
        node_id=21,
        key_prefix=PREFIX,
        booleans=NodeFlag.HAS_PREFIX,
        identifier_key=key,
    )
    high = log.node(second, node_id=22, identifier_key=b"em")
    children = [slot(b"", low), slot(secret("routing"), high)]
    log.database(DATABASE, log.node(children, level=2, is_root=True, node_id=20))
