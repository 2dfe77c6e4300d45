"""A directory with a secret of its own in each place that may hold a person's data."""

from __future__ import annotations

from pathlib import Path

from je_tools.erase.proof.hit_places import Where
from je_tools.formats.je.btree.keys import join_two_part
from je_tools.formats.je.flags import LnFlag, NodeFlag, SlotState
from tests.builders.logs import CREATED_MS, ERASED, TRACE, LogFile, text
from tests.builders.trees import DUPLICATES, FIRST_ID, TreeLog, slot

DUPLICATES_ID, IMAGES_ID = 7, -1
PREFIX = b"Qz7-pre"


def secret(where: str) -> bytes:
    """Return the secret of a place."""
    return b"Qz7-" + where.encode() + b"-4Wk"


IN_LOG = [
    Where.KEY,
    Where.TWO_PART_KEY,
    Where.DATA,
    Where.BEFORE_IMAGE,
    Where.ABORT_KEY,
    Where.ABORT_DATA,
    Where.SLOT_KEY,
    Where.PREFIXED_KEY,
    Where.KEY_PREFIX,
    Where.IDENTIFIER_KEY,
    Where.EMBEDDED,
    Where.DATABASE_NAME,
    Where.TRACE,
    Where.ERASED,
    Where.FIELD,
]
"""Places in the entries of a log; that of `PREFIXED_KEY` is `PREFIX` and the rest of a key."""

ASIDE = ["bad", "del", "bup"]


def planted_tree(home: Path) -> Path:
    """Write the directory, and return it."""
    log = _log()
    log.write(home)
    for suffix in ASIDE:
        file = LogFile(9, 17)
        file.add(TRACE, _trace(secret(suffix)))
        (home / f"00000009.{suffix}").write_bytes(file.data)
    for folder in ("data001", "old/copies", ".je-tools-undo/000001"):
        (home / folder).mkdir(parents=True)
    file = log.file.follower()
    file.add(TRACE, _trace(secret("data001")))
    (home / "data001" / file.name).write_bytes(file.data)
    (home / "je.info.0").write_bytes(b"2026 SEVERE " + secret("info"))
    (home / "je.properties").write_bytes(b"# " + secret("properties"))
    (home / "old/copies/notes").write_bytes(bytes(3_000_000) + secret("notes"))
    (home / ".je-tools-undo/000001/journal").write_bytes(b"JEU1" + secret("journal"))
    (home / secret("name").decode()).touch()
    (home / "link").symlink_to(secret("target").decode())
    return home


def _trace(message: bytes) -> bytes:
    stamp = b"\x7d" + CREATED_MS.to_bytes(8, "little")[:6]
    return stamp + text(message.decode())


def _log() -> TreeLog:
    log = TreeLog()
    lsn = log.ln(secret(Where.KEY), b"1")
    log.ln(b"data", secret(Where.DATA))
    log.ln(b"image", secret(Where.BEFORE_IMAGE), db=IMAGES_ID)
    log.ln(
        b"abort",
        b"2",
        txn=3,
        abort_lsn=lsn,
        flags=LnFlag.ABORT_KEY | LnFlag.ABORT_DATA,
        abort_key=secret(Where.ABORT_KEY),
        abort_data=secret(Where.ABORT_DATA),
    )
    log.ln(join_two_part(b"city", secret(Where.TWO_PART_KEY)), b"", db=DUPLICATES_ID)
    embedded = join_two_part(b"em", secret(Where.EMBEDDED))
    bin_lsn = log.node(
        [slot(secret(Where.SLOT_KEY), lsn), slot(embedded, lsn, SlotState.EMBEDDED)],
        identifier_key=secret(Where.IDENTIFIER_KEY),
    )
    prefixed(log, PREFIX, b"fixed-4Wk")
    prefixed(log, secret(Where.KEY_PREFIX), b"rest")
    log.file.add(TRACE, _trace(secret(Where.TRACE)))
    log.file.add(ERASED, b"\x01\x02" + secret(Where.ERASED))
    invoker = secret(Where.FIELD).decode()
    log.put("CkptStart", {"time_ms": CREATED_MS, "ckpt_id": 1, "invoker": invoker})
    root = log.node([slot(b"", bin_lsn)], level=2, is_root=True)
    log.database(secret(Where.DATABASE_NAME), root, db=FIRST_ID)
    dup = log.tree([slot(b"kd\x01", lsn)], db=DUPLICATES_ID)
    log.database(b"dup", dup, db=DUPLICATES_ID, db_flags=DUPLICATES)
    log.checkpoint()
    return log


def prefixed(log: TreeLog, prefix: bytes, rest: bytes, *, level: int = 1) -> int:
    """Append a node, a BIN if the level is 1, with one slot, whose key a prefix cuts in two."""
    return log.node(
        [slot(rest, 100)],
        level=level,
        key_prefix=prefix,
        booleans=NodeFlag.HAS_PREFIX,
        identifier_key=b"other",
    )
