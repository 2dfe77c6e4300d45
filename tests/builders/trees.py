"""Whole environments with trees, entry by entry: good ones, and ones that no engine writes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from je_tools.formats.je.entry.entries import Entry, encode_entry
from je_tools.formats.je.header import Header
from je_tools.formats.je.types import BY_NAME, PAYLOAD_VERSION_MIN
from tests.builders.logs import CREATED_MS, LogFile, write_log

VERSION = 17
NULL = -1
FIRST_ID = 6
LEVEL = 0x10000
"""Bits that are set in levels of nodes; twice this value in the database of ids."""

DUPLICATES = 1

OTHER_VERSIONS = {"node_id": 0, "flags3": 0, "modified_ms": CREATED_MS, "created_ms": CREATED_MS}
OTHER_VERSIONS |= {"last_full_size": 0, "last_delta_size": 0, "compact_max_key_size": -1}
OTHER_VERSIONS |= {"created_base_ms": CREATED_MS, "modified_base_ms": CREATED_MS, "master_term": 0}
"""Fields that entries have before log version 8, or from 18 on."""

OTHER_SLOTS = {"created_offset": 0, "modified_offset": 0}
"""Fields that embedded records have from log version 19 on."""

PROVISIONAL, BEFORE_CKPT_END = 0x80, 0x40


def lsn_of(file_no: int, offset: int) -> int:
    """Return an LSN as a signed 64-bit number, as slots hold it."""
    lsn = file_no << 32 | offset
    return lsn - (1 << 64) if lsn >> 63 else lsn


def slot(key: bytes, lsn: int, state: int = 0) -> dict[str, Any]:
    """Return a slot without an embedded record."""
    return {"key": key, "lsn": lsn, "state": state, "logged_size": 0}


@dataclass
class TreeLog:
    """A log that grows; methods that append an entry return its LSN.

    Attributes:
        files: files of the log; the last one grows.
        mapped, named: slots of the databases' descriptors and names.
    """

    files: list[LogFile] = field(default_factory=lambda: [LogFile(0, VERSION)])
    mapped: list[dict[str, Any]] = field(default_factory=list)
    named: list[dict[str, Any]] = field(default_factory=list)
    _node_id: int = 100

    @property
    def file(self) -> LogFile:
        """The file that grows."""
        return self.files[-1]

    @property
    def here(self) -> int:
        """The LSN of the next entry."""
        return lsn_of(self.file.no, len(self.file.data))

    def next_file(self, version: int | None = None) -> None:
        """Begin another file, of the same log version unless one is given."""
        self.files.append(self.file.follower(version))

    def put(
        self, name: str, fields: Mapping[str, Any], *, flags: int = 0, vlsn: int | None = None
    ) -> int:
        """Append an entry."""
        lsn = self.here
        header = Header(0, BY_NAME[name].no, flags, 0, 0, None)
        fields = {**OTHER_VERSIONS, **fields}
        if "slots" in fields:
            fields["slots"] = [{**OTHER_SLOTS, **each} for each in fields["slots"]]
        if self.file.version < PAYLOAD_VERSION_MIN:
            fields = {"item": b"fields of that version are not known"}
        item = encode_entry(Entry(header, self.file.version, fields))[14:]
        self.file.add(header.type_no, item, flags=flags, vlsn=vlsn)
        return lsn

    def ln(
        self, key: bytes, data: bytes | None, *, txn: int = 0, db: int = FIRST_ID, **more: Any
    ) -> int:
        """Append a record or its deletion, in a transaction if one is given."""
        head = {"flags": 0, "flags2": 0, "db_id": db, "abort_lsn": more.pop("abort_lsn", NULL)}
        head["flags"] = (0 if head["abort_lsn"] == NULL else 0x20) | more.pop("flags", 0)
        if head["abort_lsn"] == NULL:
            del head["abort_lsn"]
        kind = "UPD_LN" if data is not None else "DEL_LN"
        entry = {"flags": more.pop("entry_flags", 0), "vlsn": more.pop("vlsn", None)}
        ends: dict[str, Any] = {"data": data, "key": key}
        if txn:
            kind += "_TX"
            head |= {"txn_id": txn, "txn_prev_lsn": NULL}
        return self.put(kind, head | more | ends, **entry)

    def end(
        self, txn: int, *, name: str = "Commit", time_ms: int = CREATED_MS, flags: int = 0
    ) -> int:
        """Append a Commit or an Abort."""
        return self.put(
            name,
            {
                "last_lsn": NULL,
                "txn_id": txn,
                "time_ms": time_ms,
                "master_node_id": 0,
                "dtvlsn": 0,
            },
            flags=flags,
        )

    def node(
        self,
        slots: Sequence[Mapping[str, Any]],
        *,
        level: int = 1,
        db: int = FIRST_ID,
        is_root: bool = False,
        node_id: int | None = None,
        flags: int = 0,
        **more: Any,
    ) -> int:
        """Append a node: an IN, or a BIN if the level is 1."""
        self._node_id += 1
        is_bin = level == 1
        fields: dict[str, Any] = {"db_id": db, "last_full_lsn": NULL, "last_delta_lsn": NULL}
        fields |= {"expiration_base": -1} if is_bin else {}
        fields |= {
            "node_id": self._node_id if node_id is None else node_id,
            "identifier_key": more.get("key_prefix", b"") + slots[0]["key"] if slots else b"",
            "booleans": int(is_root),
            "slot_count": len(slots),
            "level": level | (LEVEL if db else 2 * LEVEL),
            "max_entries": 128,
            "compact_lsns": 0,
        }
        kept = [dict(each) for each in slots]
        for each in kept if not is_bin else ():
            each.pop("logged_size", None)
        return self.put("BIN" if is_bin else "IN", fields | more | {"slots": kept}, flags=flags)

    def delta(
        self,
        slots: Sequence[Mapping[str, Any]],
        full_lsn: int,
        *,
        node_id: int,
        full_slot_count: int,
        db: int = FIRST_ID,
        booleans: int = 8,
        expiration_base: int = -1,
        **more: Any,
    ) -> int:
        """Append a BIN-delta."""
        fields = {"db_id": db, "last_full_lsn": full_lsn, "last_delta_lsn": NULL}
        fields |= {"expiration_base": expiration_base, "node_id": node_id}
        fields |= {
            "identifier_key": slots[0]["key"],
            "booleans": booleans,
            "slot_count": len(slots),
            "level": LEVEL | 1,
            "max_entries": 31,
        }
        fields |= {"compact_lsns": 0, "slots": [dict(each) for each in slots]}
        fields |= {"full_slot_count": full_slot_count, "full_max_entries": 128}
        return self.put("NewBINDelta", fields | {"bloom_filter": None}, **more)

    def rollback(self, matchpoint: int, txns: Sequence[int], *, ends: bool = False) -> int:
        """Append a RollbackStart, with its RollbackEnd if `ends`."""
        fields = {"matchpoint_vlsn": 1, "matchpoint_lsn": matchpoint, "time_ms": CREATED_MS}
        start = self.put(
            "RollbackStart",
            fields | {"active_txn_count": len(txns), "active_txns": list(txns)},
        )
        if ends:
            named = {"matchpoint_lsn": matchpoint, "rollback_start_lsn": start}
            self.put("RollbackEnd", named | {"time_ms": CREATED_MS})
        return start

    def tree(self, slots: Sequence[Mapping[str, Any]], *, db: int = FIRST_ID, **more: Any) -> int:
        """Append a root with one BIN, and return the LSN of the root."""
        child = self.node(slots, db=db, **more)
        return self.node([slot(b"", child)], level=2, db=db, is_root=True)

    def database(self, name: bytes, root_lsn: int, *, db: int = FIRST_ID, **more: Any) -> None:
        """Append a database's descriptor and name."""
        ident = str(db).encode()
        lsn = self.put("MapLN", descriptor_ln(name, root_lsn, db, **more))
        self.mapped.append(slot(ident, lsn))
        fields = {"flags": 0, "flags2": 0, "db_id": 1, "data": b"", "name_db_id": db}
        named = self.put("NameLN", fields | {"deleted": 0, "key": name, "operation": 0})
        self.named.append(slot(name, named))

    def checkpoint(self, *, first_active_lsn: int | None = None, ends: bool = True) -> int:
        """Append a checkpoint of the databases' descriptors and names; return its CkptStart."""
        start = self.put("CkptStart", {"time_ms": CREATED_MS, "ckpt_id": 1, "invoker": "test"})
        self.mapped.sort(key=lambda each: bytes(each["key"]))
        self.named.sort(key=lambda each: bytes(each["key"]))
        root = self.db_tree(self.tree(self.mapped, db=0), self.tree(self.named, db=1))
        if ends:
            self.ckpt_end(start, root, first_active_lsn)
        return start

    def db_tree(self, ids_root: int, names_root: int, *, flags: int = 4) -> int:
        """Append the root of all databases, with the flags of the environment."""
        return self.put(
            "DbTree",
            {
                "last_local_db_id": 6,
                "last_replicated_db_id": -256,
                "id_database": descriptor(None, ids_root, 0),
                "name_database": descriptor(None, names_root, 1),
                "flags": flags,
                "initial_log_version": VERSION,
            },
        )

    def ckpt_end(
        self, start: int, root: int, first_active_lsn: int | None = None, **more: int
    ) -> int:
        """Append the end of a checkpoint."""
        kinds = ("node", "db", "txn", "extinction")
        last = {f"last_{where}_{kind}_id": 0 for kind in kinds for where in ("local", "replicated")}
        fields = {"invoker": "test", "time_ms": CREATED_MS, "ckpt_start_lsn": start, "flags": 1}
        fields |= {"root_lsn": root, "first_active_lsn": start, "ckpt_id": 1}
        # Fields of log versions 8 to 10 for the cleaner.
        counts = ("initial_adjustment_count", "adjustment_count", "adjustments")
        fields |= {"cleaner_last_file_no": -1} | {f"cleaner_{name}": 0 for name in counts}
        fields |= {"cleaner_adjustments": [], "completed_scan_count": 0, "completed_scans": []}
        if first_active_lsn is not None:
            fields["first_active_lsn"] = first_active_lsn
        return self.put("CkptEnd", fields | last | more)

    def write(self, folder: Path) -> Path:
        """Write the files, and return the environment's home."""
        return write_log(folder, self.files)


def descriptor(name: bytes | None, root_lsn: int, db: int, **more: Any) -> dict[str, Any]:
    """Return the description of a database in a DbTree or MapLN."""
    fields: dict[str, Any] = {"id": db}
    if name is not None:
        fields["name"] = name.decode()
    if root_lsn != NULL:
        fields |= {"tree_exists": 1, "root_key": b"", "root_lsn": root_lsn, "root_state": 0}
    else:
        fields |= {"tree_exists": 0}
    fields |= {"db_flags": 0, "btree_comparator": b"", "dup_comparator": b"", "max_entries": 128}
    fields |= {"created_at_log_version": VERSION, "trigger_count": 0, "triggers": []}
    # Fields that only old log versions have.
    fields |= {"max_dup_entries": 128, "file_count": 0, "file_utilization": []}
    return fields | more


def descriptor_ln(name: bytes, root_lsn: int, db: int, **more: Any) -> dict[str, Any]:
    """Return the fields of a MapLN."""
    head = {"flags": 0, "flags2": 0, "db_id": 0, "data": b"", "deleted": 0}
    key = str(db).encode()
    return head | {"database": descriptor(name, root_lsn, db, **more), "key": key}


@dataclass
class OldDuplicates(TreeLog):
    """A log of a version before 8, in which the duplicates of a key have their own tree."""

    files: list[LogFile] = field(default_factory=lambda: [LogFile(0, 7)])

    def duplicates(self, key: bytes, *values: bytes) -> int:
        """Append records that are duplicates of a key, and their bottom node."""
        slots = [
            slot(data, self.put("LN", {"db_id": FIRST_ID, "key": key, "data": data}))
            for data in values
        ]
        return self.duplicate_node(key, slots)

    def duplicate_node(
        self, key: bytes, slots: Sequence[Mapping[str, Any]], *, level: int = 1, **more: Any
    ) -> int:
        """Append a node of a key's tree of duplicates: a DIN, or a DBIN if the level is 1."""
        self._node_id += 1
        fields = {"db_id": FIRST_ID, "last_full_lsn": NULL, "node_id": self._node_id}
        fields |= {"identifier_key": slots[0]["key"], "booleans": 0, "slot_count": len(slots)}
        fields |= {"level": level, "max_entries": 128, "compact_lsns": 0, "slots": list(slots)}
        fields |= {"dup_key": key, "dup_count_exists": 0}
        return self.put("DBIN" if level == 1 else "DIN", fields | more)


def rooted(file: LogFile) -> LogFile:
    """Append the root of a log without databases, with which a new log begins; return the file.

    The environment is replicated, so that entries may be.
    """
    TreeLog([file]).db_tree(NULL, NULL, flags=5)
    return file


def simple(records: Mapping[bytes, bytes]) -> TreeLog:
    """Return a log with one database, `db`, whose records a checkpoint contains."""
    log = TreeLog()
    slots = [slot(key, log.ln(key, data)) for key, data in sorted(records.items())]
    log.database(b"db", log.tree(slots))
    log.checkpoint()
    return log


def rich(rng: random.Random, *, version: int = VERSION, is_ended: bool = False) -> TreeLog:
    """Return a small log that exercises every part of recovery.

    If `is_ended`, all its transactions have ended, and it is not of a group.
    """
    log = TreeLog([LogFile(0, version)])
    keys = [b"%03d" % i for i in range(rng.choice([3, 12, 30]))]
    slots = [slot(key, log.ln(key, b"v" + key)) for key in keys]
    half = len(slots) // 2
    left = log.node(slots[:half], node_id=11)
    right = log.node(slots[half:], node_id=12)
    children = [slot(b"", left), slot(keys[half], right)]
    log.database(b"db", log.node(children, level=2, is_root=True, node_id=10))
    both = b"kd\x01"
    log.database(
        b"dup", log.tree([slot(both, log.ln(both, b"", db=7))], db=7), db=7, db_flags=DUPLICATES
    )
    start = log.checkpoint()
    if rng.random() < 0.4:
        log.next_file()
    log.ln(keys[0], b"new", txn=3, abort_lsn=slots[0]["lsn"])
    if not is_ended:
        log.ln(b"zz", b"new", txn=-4, vlsn=5)
    log.end(3)
    changed = log.ln(keys[1], b"open", txn=5, abort_lsn=slots[1]["lsn"])
    log.delta([slot(keys[1], changed)], left, node_id=11, full_slot_count=half)
    if is_ended:
        log.end(5, name=rng.choice(["Commit", "Abort"]))
    else:
        log.rollback(start, [-4])
    return log
