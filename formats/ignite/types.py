"""Record types of the write-ahead log, and the fields of each.

Source: WALRecord.RecordType, RecordDataV1Serializer, RecordDataV2Serializer, Ignite 2.18.0.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

from msgspec import Struct

TYPE_COUNT = 83
"""Number of record types that any release of Ignite 2 or GridGain declares."""

SWITCH_NO = 40
"""Type that ends a segment: a single byte, without pointer and checksum."""


class Purpose(StrEnum):
    """Part of recovery that a record is for."""

    PHYSICAL = "physical"
    """Changes of pages."""
    LOGICAL = "logical"
    """Changes of entries and of the cluster's metadata."""
    MIXED = "mixed"
    """Both parts read it."""
    INTERNAL = "internal"
    """Framing of segments."""
    CUSTOM = "custom"
    """Recovery ignores it."""


class FieldCoding(IntEnum):
    """Encoding of a field; numbers are in the byte order of the store."""

    U1 = 0
    U2 = 1
    I2 = 2
    I4 = 3
    I8 = 4
    PAGE = 5
    """8 bytes: page index, partition, flag, and rotation or item."""
    TIME = 6
    """8 bytes: milliseconds since 1970."""
    VERSION = 7
    """A version of 17 or 33 bytes, or one byte 0 for none."""
    BYTES2 = 8
    """2 bytes of length, and the bytes."""
    BYTES4 = 9
    """4 bytes of length, and the bytes; a negative length is null."""
    UUID = 10
    """16 bytes."""
    NODES = 11
    """A list of nodes of a transaction, each with a list of backups."""
    REST = 12
    """All bytes up to the checksum."""


COLUMN_COUNTS = {
    FieldCoding.VERSION: 4,
    FieldCoding.BYTES2: 2,
    FieldCoding.BYTES4: 2,
    FieldCoding.UUID: 2,
    FieldCoding.NODES: 2,
    FieldCoding.REST: 2,
}
"""Number of columns of the codings that have more than one.

Those of a version are the number of its parts, topology version, node order and order. Those of
bytes are start and size.
"""


class RecordField(Struct, frozen=True):
    """One field of a payload."""

    name: str
    coding: FieldCoding


class RecordType(Struct, frozen=True):
    """One record type.

    Attributes:
        no: the engine's index; the byte in the log is one more.
        name: the engine's name.
        purpose: part of recovery that it is for.
        since: first release.
        fields: its payload.
    """

    no: int
    name: str
    purpose: Purpose
    since: str
    fields: tuple[RecordField, ...]

    @property
    def is_of_page(self) -> bool:
        """True if the payload begins with a group and a page."""
        return [field.name for field in self.fields[:2]] == ["group_id", "page_id"]


_P, _L, _M = Purpose.PHYSICAL, Purpose.LOGICAL, Purpose.MIXED
_I, _C = Purpose.INTERNAL, Purpose.CUSTOM
_PG = "group_id:i4 page_id:page"
_IO = "io_type:u2 io_version:u2"
_COUNTERS = (
    f"{_PG} update_counter:i8 global_remove_id:i8 size:i4 counters_page:page state:u1 "
    "candidate_count:i4"
)
_ROOT = f"{_PG} root:page"

_TABLE = (
    (0, "TX_RECORD", _L, "2.1", "state:u1 near:version write:version nodes:nodes time_ms:time"),
    (1, "PAGE_RECORD", _P, "2.1", f"{_PG} page:rest"),
    (2, "DATA_RECORD", _L, "2.1", "entry_count:i4 time_ms:time entries:rest"),
    (3, "CHECKPOINT_RECORD", _P, "2.1", "checkpoint:uuid states:rest"),
    (4, "HEADER_RECORD", _I, "2.1", "magic:i8 serializer:i4"),
    (5, "INIT_NEW_PAGE_RECORD", _P, "2.1", f"{_PG} {_IO} new_page:page"),
    (6, "DATA_PAGE_INSERT_RECORD", _P, "2.1", f"{_PG} row:bytes2"),
    (7, "DATA_PAGE_INSERT_FRAGMENT_RECORD", _P, "2.1", f"{_PG} link:page fragment:bytes4"),
    (8, "DATA_PAGE_REMOVE_RECORD", _P, "2.1", f"{_PG} item:u1"),
    (9, "DATA_PAGE_SET_FREE_LIST_PAGE", _P, "2.1", f"{_PG} free_list_page:page"),
    (10, "BTREE_META_PAGE_INIT_ROOT", _P, "2.1", _ROOT),
    (11, "BTREE_META_PAGE_ADD_ROOT", _P, "2.1", _ROOT),
    (12, "BTREE_META_PAGE_CUT_ROOT", _P, "2.1", _PG),
    (
        13,
        "BTREE_INIT_NEW_ROOT",
        _P,
        "2.1",
        f"{_PG} new_root:page {_IO} left_child:page right_child:page row:rest",
    ),
    (14, "BTREE_PAGE_RECYCLE", _P, "2.1", f"{_PG} new_page:page"),
    (15, "BTREE_PAGE_INSERT", _P, "2.1", f"{_PG} {_IO} index:u2 right_child:page row:rest"),
    (16, "BTREE_FIX_LEFTMOST_CHILD", _P, "2.1", f"{_PG} right_child:page"),
    (17, "BTREE_FIX_COUNT", _P, "2.1", f"{_PG} count:u2"),
    (18, "BTREE_PAGE_REPLACE", _P, "2.1", f"{_PG} {_IO} index:u2 row:rest"),
    (19, "BTREE_PAGE_REMOVE", _P, "2.1", f"{_PG} index:u2 count:u2"),
    (
        20,
        "BTREE_PAGE_INNER_REPLACE",
        _P,
        "2.1",
        f"{_PG} index:u2 source_page:page source_index:u2 remove_id:i8",
    ),
    (21, "BTREE_FIX_REMOVE_ID", _P, "2.1", f"{_PG} remove_id:i8"),
    (
        22,
        "BTREE_FORWARD_PAGE_SPLIT",
        _P,
        "2.1",
        f"{_PG} forward:page {_IO} source_page:page middle:u2 count:u2",
    ),
    (23, "BTREE_EXISTING_PAGE_SPLIT", _P, "2.1", f"{_PG} middle:u2 forward:page"),
    (
        24,
        "BTREE_PAGE_MERGE",
        _P,
        "2.1",
        f"{_PG} parent:page parent_index:u2 right_page:page is_empty_branch:u1",
    ),
    (25, "PAGES_LIST_SET_NEXT", _P, "2.1", f"{_PG} next:page"),
    (26, "PAGES_LIST_SET_PREVIOUS", _P, "2.1", f"{_PG} previous:page"),
    (
        27,
        "PAGES_LIST_INIT_NEW_PAGE",
        _P,
        "2.1",
        f"{_PG} io_type:i4 io_version:i4 new_page:page previous:page added_page:page",
    ),
    (28, "PAGES_LIST_ADD_PAGE", _P, "2.1", f"{_PG} listed_page:page"),
    (29, "PAGES_LIST_REMOVE_PAGE", _P, "2.1", f"{_PG} listed_page:page"),
    (30, "META_PAGE_INIT", _P, "2.1", f"{_PG} {_IO} tree_root:page reuse_list_root:page"),
    (31, "PARTITION_META_PAGE_UPDATE_COUNTERS", _P, "2.1", _COUNTERS),
    (32, "MEMORY_RECOVERY", _C, "2.1", "time_ms:time"),
    (
        33,
        "TRACKING_PAGE_DELTA",
        _P,
        "2.1",
        f"{_PG} marked_page:page next_snapshot_tag:i8 last_snapshot_tag:i8",
    ),
    (
        34,
        "META_PAGE_UPDATE_LAST_SUCCESSFUL_SNAPSHOT_ID",
        _M,
        "2.1",
        f"{_PG} snapshot_id:i8 snapshot_tag:i8",
    ),
    (
        35,
        "META_PAGE_UPDATE_LAST_SUCCESSFUL_FULL_SNAPSHOT_ID",
        _M,
        "2.1",
        f"{_PG} snapshot_id:i8",
    ),
    (36, "META_PAGE_UPDATE_NEXT_SNAPSHOT_ID", _M, "2.1", f"{_PG} snapshot_id:i8"),
    (37, "META_PAGE_UPDATE_LAST_ALLOCATED_INDEX", _M, "2.1", f"{_PG} page_count:i4"),
    (
        38,
        "PART_META_UPDATE_STATE",
        _M,
        "2.1",
        "group_id:i4 partition:i4 state:u1 update_counter:i8",
    ),
    (39, "PAGE_LIST_META_RESET_COUNT_RECORD", _P, "2.1", _PG),
    (SWITCH_NO, "SWITCH_SEGMENT_RECORD", _I, "2.1", ""),
    (41, "DATA_PAGE_UPDATE_RECORD", _P, "2.1", f"{_PG} item:i4 row:bytes2"),
    (42, "BTREE_META_PAGE_INIT_ROOT2", _P, "2.1", f"{_ROOT} inline_size:i2"),
    (43, "PARTITION_DESTROY", _P, "2.4", "group_id:i4 partition:i4"),
    (44, "SNAPSHOT", _C, "2.4", "snapshot_id:i8 is_full:u1"),
    (45, "METASTORE_DATA_RECORD", _L, "2.4", "key:bytes4 value:bytes4"),
    (46, "EXCHANGE", _C, "2.4", "event:i4 node:i2 time_ms:time"),
    (47, "RESERVED", _C, "2.4", "body:rest"),
    (48, "ROTATED_ID_PART_RECORD", _P, "2.7", f"{_PG} rotated_id:u1"),
    (
        49,
        "MVCC_DATA_PAGE_MARK_UPDATED_RECORD",
        _P,
        "2.7",
        f"{_PG} item:i4 new_coordinator:i8 new_counter:i8 new_operation:i4",
    ),
    (50, "MVCC_DATA_PAGE_TX_STATE_HINT_UPDATED_RECORD", _P, "2.7", f"{_PG} item:i4 state:u1"),
    (
        51,
        "MVCC_DATA_PAGE_NEW_TX_STATE_HINT_UPDATED_RECORD",
        _P,
        "2.7",
        f"{_PG} item:i4 state:u1",
    ),
    (52, "ENCRYPTED_RECORD", _M, "2.7", "group_id:i4 size:i4 plain_type:u1 cipher:rest"),
    (53, "ENCRYPTED_DATA_RECORD", _L, "2.7", "entry_count:i4 time_ms:time entries:rest"),
    (54, "MVCC_DATA_RECORD", _L, "2.7", "entry_count:i4 time_ms:time entries:rest"),
    (55, "MVCC_TX_RECORD", _L, "2.7", "state:u1 near:version write:version body:rest"),
    (56, "CONSISTENT_CUT", _C, "2.8", "body:rest"),
    (57, "ROLLBACK_TX_RECORD", _L, "2.8", "group_id:i4 partition:i4 start:i8 range:i8"),
    (
        58,
        "PARTITION_META_PAGE_UPDATE_COUNTERS_V2",
        _P,
        "2.8",
        f"{_COUNTERS} gaps_link:page",
    ),
    (
        59,
        "BTREE_META_PAGE_INIT_ROOT_V3",
        _P,
        "2.8",
        f"{_ROOT} inline_size:i2 flags:i8 major:u1 minor:u1 maintenance:u1 release_time:i8 "
        "release_hash:rest",
    ),
    (60, "MASTER_KEY_CHANGE_RECORD", _L, "2.9", "name:bytes4 keys:rest"),
    (61, "TRACKING_PAGE_REPAIR_DELTA", _P, "2.9", _PG),
    (62, "OUT_OF_ORDER_UPDATE", _L, "2.10", "body:rest"),
    (
        63,
        "ENCRYPTED_RECORD_V2",
        _M,
        "2.10",
        "group_id:i4 size:i4 plain_type:u1 key_id:u1 cipher:rest",
    ),
    (64, "ENCRYPTED_DATA_RECORD_V2", _L, "2.10", "entry_count:i4 time_ms:time entries:rest"),
    (65, "MASTER_KEY_CHANGE_RECORD_V2", _L, "2.10", "name:bytes4 keys:rest"),
    (66, "REENCRYPTION_START_RECORD", _L, "2.10", "group_count:i4 groups:rest"),
    (
        67,
        "PARTITION_META_PAGE_DELTA_RECORD_V3",
        _P,
        "2.10",
        f"{_COUNTERS} gaps_link:page encrypted_index:i4 encrypted_count:i4",
    ),
    (
        68,
        "INDEX_META_PAGE_DELTA_RECORD",
        _P,
        "2.10",
        f"{_PG} encrypted_index:i4 encrypted_count:i4",
    ),
    (69, "PARTITION_META_PAGE_DELTA_RECORD_V4", _P, "2.12", f"{_PG} body:rest"),
    (70, "DATA_RECORD_V2", _L, "2.12", "entry_count:i4 time_ms:time entries:rest"),
    (71, "ENCRYPTED_DATA_RECORD_V3", _L, "2.12", "entry_count:i4 time_ms:time entries:rest"),
    (
        72,
        "INDEX_ROOT_PAGE_RENAME_RECORD",
        _L,
        "2.12",
        "cache_id:i4 segment_count:i4 old_name:bytes4 new_name:bytes4",
    ),
    (
        73,
        "PARTITION_CLEARING_START_RECORD",
        _L,
        "2.13",
        "partition:i4 group_id:i4 clear_version:i8",
    ),
    (74, "ENCRYPTED_OUT_OF_ORDER_UPDATE", _L, "2.14", "body:rest"),
    (75, "CLUSTER_SNAPSHOT", _L, "2.14", "name:bytes4"),
    (76, "INCREMENTAL_SNAPSHOT_START_RECORD", _L, "2.15", "snapshot:uuid"),
    (77, "INCREMENTAL_SNAPSHOT_FINISH_RECORD", _L, "2.15", "snapshot:uuid transactions:rest"),
    (78, "CDC_DATA_RECORD", _C, "2.15", "entry_count:i4 time_ms:time entries:rest"),
    (79, "CDC_MANAGER_RECORD", _C, "2.16", "segment:i8 offset:i4 length:i4 entry:i4"),
    (80, "CDC_MANAGER_STOP_RECORD", _C, "2.16", ""),
    (81, "DATA_PAGE_FRAGMENTED_UPDATE_RECORD", _P, "2.17", f"{_PG} body:rest"),
    (82, "RESERVED_IDX2", _C, "2.17", "body:rest"),
)


def _fields(text: str) -> tuple[RecordField, ...]:
    pairs = (each.split(":") for each in text.split())
    return tuple(RecordField(name, FieldCoding[coding.upper()]) for name, coding in pairs)


RECORD_TYPES = {row[0]: RecordType(*row[:4], _fields(row[4])) for row in _TABLE}
"""Every record type by its index."""

NUMBERS = {each.name: each.no for each in RECORD_TYPES.values()}
"""Index of each record type by its name."""

DATA_NOS = frozenset({2, 53, 54, 64, 70, 71, 78})
"""Types whose payload is a list of entries of caches."""


class TransactionState(IntEnum):
    """State of a transaction. Source: TransactionState, Ignite 2.18.0."""

    ACTIVE = 0
    PREPARING = 1
    PREPARED = 2
    MARKED_ROLLBACK = 3
    COMMITTING = 4
    COMMITTED = 5
    ROLLING_BACK = 6
    ROLLED_BACK = 7
    UNKNOWN = 8
    SUSPENDED = 9


class EntryOperation(IntEnum):
    """Operation of an entry. Source: GridCacheOperation, Ignite 2.18.0."""

    READ = 0
    CREATE = 1
    UPDATE = 2
    DELETE = 3
    TRANSFORM = 4
    RELOAD = 5
    NOOP = 6


class PartitionState(IntEnum):
    """State of a partition. Source: GridDhtPartitionState, Ignite 2.18.0."""

    MOVING = 0
    """A rebalance fills it."""
    OWNING = 1
    """It has all records."""
    RENTING = 2
    """Other nodes own it; it will be removed."""
    EVICTED = 3
    LOST = 4
    """No node owned it."""
    UNKNOWN = 255


_PARTITION_STATES = frozenset(map(int, PartitionState))


def partition_state_name(number: int) -> str:
    """Return the name of a state; the number if no release has it."""
    return PartitionState(number).name if number in _PARTITION_STATES else str(number)


def type_name(no: int) -> str:
    """Return the name of a type; `TYPE_99` if no release has it."""
    found = RECORD_TYPES.get(no)
    return f"TYPE_{no}" if found is None else found.name
