"""The fields of every entry type in every log version, each declared once.

`layout(type_no, version)` returns the fields of an entry's item in byte order. Single entries
(`entries`) and columns (`columns`, `column_writer`) are decoded and encoded by this declaration.

A field's name gives its unit: `_lsn` a log sequence number, `_ms` milliseconds since 1970 (UTC),
`_count`, `_size` bytes, `_no` a file number. Expirations are as logged: days since 1970, or hours
if negative, 0 for none.

Source: the `readEntry`/`readFromLog` methods of the classes named in LogEntryType, JE 3.3 to 25.3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import IntEnum

from msgspec import Struct

from je_tools.formats.je.flags import (
    CkptEndFlag,
    LnFlag,
    LnFlag2,
    LnFlag3,
    NameOperation,
    NodeFlag,
    SlotState,
)
from je_tools.formats.je.types import ENTRY_TYPES, PAYLOAD_VERSION_MIN, Family


class Coding(IntEnum):
    """Encoding of a field."""

    U8 = 0
    I32 = 1
    U32 = 2
    I64 = 3
    PACKED = 4
    BYTES = 5
    """Packed length, then bytes; length -1 is null."""
    TEXT = 6
    """As BYTES, holding UTF-8."""
    REST = 7
    """Every byte up to the end of the item."""
    BYTES_I8 = 8
    """Signed byte length, then bytes; -1 is null."""
    BYTES_I32 = 9
    """Signed 32-bit length, then bytes."""
    COMPACT_LSN = 10
    """Signed byte to add to the node's base file number, three bytes of offset."""
    OFFSETS = 11
    """PackedOffsets: count, number of shorts, shorts of 15-bit differences."""
    GROUP = 12
    LIST = 13


class Op(IntEnum):
    """Operator of a condition on an earlier field."""

    SET = 0
    """Any bit of the operand is set."""
    CLEAR = 1
    """No bit of the operand is set."""
    NOT = 2
    """The value differs from the operand."""
    ONE_OF = 3
    """The value is the number of a bit that is set in the operand."""
    NOT_NULL = 4
    """The value is a byte string, possibly empty; the operand is unused."""


class Test(Struct, frozen=True):
    """A condition on the value of an earlier field of the same item."""

    field: str
    op: Op
    operand: int = 0


class Field(Struct, frozen=True):
    """One field. It is present if every test of `when` holds.

    `fields` are the fields of a GROUP or of one item of a LIST; `count` names the LIST's count
    field, and `most` is the largest count that an engine writes.
    """

    name: str
    coding: Coding
    when: tuple[Test, ...] = ()
    fields: tuple[Field, ...] = ()
    count: str = ""
    most: int = 0x7FFFFFFF


SLOTS_MAX = 32767
"""Largest number of slots of a node. Source: EnvironmentParams.NODE_MAX, JE 18.3.12 and 25.3.17."""

COMPACT_NULL_OFFSET = 0xFFFFFF
"""Offset that stands for NULL in a compact slot LSN."""

_UPDATES_AND_DELETES = (31, 32, 35, 36, 44, 45)
_DELETE_DUPS = (7, 8)
_KEY_LENGTH_IN_OLD = (3, 4, 9, 10, 11)
_WITH_BEFORE_IMAGE = (44, 45)
_DELTA, _DIN, _DBIN = 37, 14, 15
_BINS = (13, _DBIN, _DELTA)


def _u8(name: str, *when: Test) -> Field:
    return Field(name, Coding.U8, when)


def _packed(name: str, *when: Test) -> Field:
    return Field(name, Coding.PACKED, when)


def _bytes(name: str, *when: Test) -> Field:
    return Field(name, Coding.BYTES, when)


def _text(name: str, *when: Test) -> Field:
    return Field(name, Coding.TEXT, when)


def _list(name: str, count: str, *fields: Field) -> Field:
    return Field(name, Coding.LIST, (), fields, count)


def _slots(*fields: Field) -> Field:
    return Field("slots", Coding.LIST, (), fields, "slot_count", SLOTS_MAX)


@functools.cache
def layout(type_no: int, version: int) -> tuple[Field, ...]:
    """Return the fields of the item of an entry of this type in a file of this log version.

    An unknown type number, or a payload too old for this reader, is one field `item` with all
    bytes.
    """
    entry_type = ENTRY_TYPES.get(type_no)
    if entry_type is None:
        return (Field("item", Coding.REST),)
    if entry_type.family is Family.FILE_HEADER:
        return _FILE_HEADER
    if version < PAYLOAD_VERSION_MIN:
        known = entry_type.family is Family.LN
        return _ln_before_v6(type_no) if known else (Field("item", Coding.REST),)
    if entry_type.family in _LN_PAYLOADS:
        return _ln(type_no, version, entry_type.transactional)
    if entry_type.family is Family.NODE:
        return _node(type_no, version)
    others: Callable[[int], tuple[Field, ...]] = _OTHERS[entry_type.family]
    return others(version)


_FILE_HEADER = (
    Field("created_ms", Coding.I64),
    Field("header_file_no", Coding.U32),
    Field("last_entry_in_prev_file_offset", Coding.I64),
    Field("log_version", Coding.I32),
)


def _ln_before_v6(type_no: int) -> tuple[Field, ...]:
    transaction = (
        (
            Field("abort_lsn", Coding.I64),
            _u8("flags"),
            Field("txn_id", Coding.I64),
            Field("txn_prev_lsn", Coding.I64),
        )
        if ENTRY_TYPES[type_no].transactional
        else ()
    )
    return (
        Field("node_id", Coding.I64),
        _u8("data_exists"),
        Field("data", Coding.BYTES_I32, (Test("data_exists", Op.SET, 1),)),
        Field("db_id", Coding.I32),
        Field("key", Coding.BYTES_I32),
        *transaction,
    )


def _ln(type_no: int, version: int, transactional: bool) -> tuple[Field, ...]:
    if version >= 19:
        return _ln_since_v19(type_no, version, transactional)
    head: tuple[Field, ...]
    if version >= 12:
        head = _ln_head_v12(version, transactional)
    else:
        head = _ln_head_before_v12(version, transactional)
    return (
        *head,
        *_ln_payload(type_no, version),
        _ln_key_last(type_no, version),
        *_ln_suffix(type_no, version),
    )


def _ln_since_v19(type_no: int, version: int, transactional: bool) -> tuple[Field, ...]:
    created: tuple[Field, ...] = ()
    if version >= 26 and ENTRY_TYPES[type_no].user_ln:
        explicit = type_no not in _UPDATES_AND_DELETES
        tests = (Test("flags3", Op.SET, LnFlag3.CREATED_IN_INSERT),) if explicit else ()
        created = (_packed("created_ms", *tests),)
    transaction = (
        (
            _packed("abort_lsn", Test("flags", Op.SET, LnFlag.ABORT_LSN)),
            _packed("txn_id"),
            _packed("txn_prev_lsn"),
        )
        if transactional
        else ()
    )
    return (
        _u8("flags"),
        _u8("flags2"),
        *((_u8("flags3"),) if version >= 26 else ()),
        _packed("db_id"),
        _packed("expiration", Test("flags", Op.SET, LnFlag.EXPIRATION)),
        _packed("modified_ms"),
        *created,
        _bytes("key"),
        *_ln_payload(type_no, version),
        *transaction,
        *_ABORT_KEY_DATA_VLSN,
        _packed("abort_expiration", Test("flags", Op.SET, LnFlag.ABORT_EXPIRATION)),
        _packed("abort_modified_ms", Test("flags2", Op.SET, LnFlag2.ABORT_MODIFIED)),
        *(
            (_packed("abort_created_ms", Test("flags2", Op.SET, LnFlag2.ABORT_CREATED)),)
            if version >= 26
            else ()
        ),
        *_PRIOR,
        *_ln_suffix(type_no, version),
    )


_ABORT_KEY_DATA_VLSN = (
    _bytes("abort_key", Test("flags", Op.SET, LnFlag.ABORT_KEY)),
    _bytes("abort_data", Test("flags", Op.SET, LnFlag.ABORT_DATA)),
    _packed("abort_vlsn", Test("flags", Op.SET, LnFlag.ABORT_VLSN)),
)
_PRIOR = (
    _packed("prior_size", Test("flags2", Op.SET, LnFlag2.PRIOR_SIZE)),
    _packed("prior_file_no", Test("flags2", Op.SET, LnFlag2.PRIOR_FILE)),
)


def _ln_head_v12(version: int, transactional: bool) -> tuple[Field, ...]:
    transaction = (
        (
            _packed("abort_lsn", Test("flags", Op.SET, LnFlag.ABORT_LSN)),
            _packed("txn_id"),
            _packed("txn_prev_lsn"),
        )
        if transactional
        else ()
    )
    return (
        _u8("flags"),
        *((_u8("flags2"),) if version >= 16 else ()),
        _packed("db_id"),
        *transaction,
        *_ABORT_KEY_DATA_VLSN,
        _packed("abort_expiration", Test("flags", Op.SET, LnFlag.ABORT_EXPIRATION)),
        _packed("expiration", Test("flags", Op.SET, LnFlag.EXPIRATION)),
        *(_PRIOR if version >= 16 else ()),
    )


def _ln_head_before_v12(version: int, transactional: bool) -> tuple[Field, ...]:
    head: tuple[Field, ...]
    if transactional:
        head = (
            _packed("db_id"),
            _packed("abort_lsn"),
            _u8("flags"),
            _packed("txn_id"),
            _packed("txn_prev_lsn"),
        )
    else:
        head = (_packed("db_id"), *((_u8("flags"),) if version == 11 else ()))
    if version == 11:
        head = (*head, *_ABORT_KEY_DATA_VLSN)
    return head


def _ln_payload(type_no: int, version: int) -> tuple[Field, ...]:
    family = ENTRY_TYPES[type_no].family
    node_id = (_packed("node_id"),) if version < 8 else ()
    return (*node_id, _bytes("data"), *_LN_PAYLOADS[family](version))


def _no_payload(_version: int) -> tuple[Field, ...]:
    return ()


def _map_ln_payload(version: int) -> tuple[Field, ...]:
    return (Field("database", Coding.GROUP, (), _database(version)), _u8("deleted"))


def _name_ln_payload(_version: int) -> tuple[Field, ...]:
    return (_packed("name_db_id"), _u8("deleted"))


def _dup_count_payload(_version: int) -> tuple[Field, ...]:
    return (_packed("dup_count"),)


SUMMARY_TOTALS = (
    "total_count",
    "total_size",
    "total_in_count",
    "total_in_size",
    "total_ln_count",
    "total_ln_size",
    "max_ln_size",
    "obsolete_in_count",
    "obsolete_ln_count",
    "obsolete_ln_size",
    "obsolete_ln_size_counted",
)
"""Totals of a file summary, in byte order; `max_ln_size` exists since log version 8."""


def _file_summary_payload(version: int) -> tuple[Field, ...]:
    alive = Test("data", Op.NOT_NULL)
    summary = tuple(
        Field(name, Coding.I32) for name in SUMMARY_TOTALS if version >= 8 or name != "max_ln_size"
    )
    return (
        *((_packed("anchor_lsn"),) if version >= 19 else ()),
        Field("summary", Coding.GROUP, (alive,), summary),
        Field("obsolete_offsets", Coding.OFFSETS, (alive,)),
    )


_LN_PAYLOADS = {
    Family.LN: _no_payload,
    Family.DEL_DUP_LN: _no_payload,
    Family.MAP_LN: _map_ln_payload,
    Family.NAME_LN: _name_ln_payload,
    Family.DUP_COUNT_LN: _dup_count_payload,
    Family.FILE_SUMMARY_LN: _file_summary_payload,
}


def _ln_key_last(type_no: int, version: int) -> Field:
    family = ENTRY_TYPES[type_no].family
    has_suffix = family in (Family.NAME_LN, Family.DEL_DUP_LN)
    if has_suffix or (version < 8 and type_no in _KEY_LENGTH_IN_OLD):
        return _bytes("key")
    return Field("key", Coding.REST)


def _ln_suffix(type_no: int, version: int) -> tuple[Field, ...]:
    if ENTRY_TYPES[type_no].family is Family.NAME_LN:
        configured = Test(
            "operation", Op.ONE_OF, 1 << NameOperation.CREATE | 1 << NameOperation.CONFIGURE
        )
        truncated = Test("operation", Op.ONE_OF, 1 << NameOperation.TRUNCATE)
        return (
            _u8("operation"),
            Field("config", Coding.GROUP, (configured,), _database_config(version)),
            _packed("truncated_db_id", truncated),
        )
    if type_no in _DELETE_DUPS:
        return (_bytes("data_as_key"),)
    if type_no in _WITH_BEFORE_IMAGE:
        return (_packed("before_image_expiration"),)
    return ()


def _database_config(version: int) -> tuple[Field, ...]:
    return (
        _u8("db_flags"),
        _packed("max_entries"),
        *((_packed("max_dup_entries"),) if version < 8 else ()),
        _bytes("btree_comparator"),
        _bytes("dup_comparator"),
        *(_TRIGGERS if version >= 8 else ()),
    )


_TRIGGERS = (_packed("trigger_count"), _list("triggers", "trigger_count", _bytes("trigger")))


def _database(version: int) -> tuple[Field, ...]:
    """Return the fields of a database record.

    Source: DatabaseImpl.writeToLog, JE 7.5.11 and 25.3.17.
    """
    rooted = Test("tree_exists", Op.SET, 1)
    named = (Test("id", Op.NOT, 0), Test("id", Op.NOT, 1))
    utilization = (
        _packed("file_count"),
        _list(
            "file_utilization",
            "file_count",
            *(
                _packed(name)
                for name in (
                    "utilization_file_no",
                    "total_in_count",
                    "total_in_size",
                    "total_ln_count",
                    "total_ln_size",
                    "obsolete_in_count",
                    "obsolete_ln_count",
                    "obsolete_ln_size",
                    "obsolete_ln_size_counted",
                )
            ),
        ),
    )
    return (
        _packed("id"),
        *((_text("name", *named),) if version >= 16 else ()),
        _u8("tree_exists"),
        _bytes("root_key", rooted),
        _packed("root_lsn", rooted),
        _u8("root_state", rooted),
        _u8("db_flags"),
        _bytes("btree_comparator"),
        _bytes("dup_comparator"),
        _packed("max_entries"),
        *((_packed("max_dup_entries"),) if version < 8 else ()),
        _u8("created_at_log_version"),
        *(utilization if version < 16 else ()),
        *(_TRIGGERS if version >= 8 else ()),
    )


def _node(type_no: int, version: int) -> tuple[Field, ...]:
    """Return the fields of an IN, BIN, BIN-delta, DIN or DBIN.

    Source: IN.writeToLog, INLogEntry, JE 7.5.11 and 25.3.17.
    """
    is_bin = type_no in _BINS
    sized = version >= 21
    head = (
        _packed("db_id"),
        _packed("last_full_lsn"),
        *((_packed("last_full_size"),) if sized else ()),
        *((_packed("last_delta_lsn"),) if version >= 8 else ()),
        *((_packed("last_delta_size"),) if sized else ()),
        *((_packed("expiration_base"),) if is_bin and version >= 12 else ()),
        *((_packed("created_base_ms"),) if is_bin and version >= 26 else ()),
        *((_packed("modified_base_ms"),) if is_bin and version >= 19 else ()),
        _packed("node_id"),
        _bytes("identifier_key"),
        _u8("booleans"),
        _bytes("key_prefix", Test("booleans", Op.SET, NodeFlag.HAS_PREFIX)),
        *((_packed("compact_max_key_size"),) if version >= 18 else ()),
        _packed("slot_count"),
        _packed("level"),
        _packed("max_entries"),
        *(
            (
                _u8("compact_lsns"),
                Field("base_file_no", Coding.I32, (Test("compact_lsns", Op.SET, 1),)),
            )
            if version < 18
            else ()
        ),
    )
    slots = _slots(*_slot(is_bin, version))
    return (*head, slots, *_node_tail(type_no, version))


def _slot(is_bin: bool, version: int) -> tuple[Field, ...]:
    lsn = (
        (
            Field("compact_lsn", Coding.COMPACT_LSN, (Test("compact_lsns", Op.SET, 1),)),
            Field("lsn", Coding.I64, (Test("compact_lsns", Op.CLEAR, 1),)),
        )
        if version < 18
        else (Field("lsn", Coding.I64),)
    )
    embedded = Test("state", Op.SET, SlotState.EMBEDDED)
    not_embedded = Test("state", Op.CLEAR, SlotState.EMBEDDED)
    expires = Test("expiration_base", Op.NOT, -1)
    return (
        _bytes("key"),
        *lsn,
        _u8("state"),
        _packed("logged_size", Test("booleans", Op.SET, NodeFlag.HAS_SIZES), not_embedded),
        _packed("vlsn", Test("booleans", Op.SET, NodeFlag.HAS_VLSNS), embedded),
        *((_packed("expiration_offset", expires),) if is_bin and version >= 12 else ()),
        *((_packed("created_offset", embedded),) if is_bin and version >= 26 else ()),
        *((_packed("modified_offset", embedded),) if is_bin and version >= 19 else ()),
    )


def _node_tail(type_no: int, version: int) -> tuple[Field, ...]:
    if type_no == _DELTA and version == 9:
        return (_packed("delta_last_full_lsn"),)
    if type_no == _DELTA:
        return (
            _packed("full_slot_count"),
            _packed("full_max_entries"),
            _bytes("bloom_filter", Test("booleans", Op.SET, NodeFlag.HAS_BLOOM)),
        )
    if type_no == _DBIN:
        return (_bytes("dup_key"),)
    if type_no == _DIN:
        counted = Test("dup_count_exists", Op.SET, 1)
        return (
            _bytes("dup_key"),
            _u8("dup_count_exists"),
            _bytes("dup_count_key", counted),
            _packed("dup_count_lsn", counted),
            _u8("dup_count_state", counted),
        )
    return ()


def _old_delta(version: int) -> tuple[Field, ...]:
    return (
        _packed("db_id"),
        _packed("last_full_lsn"),
        *((_packed("last_delta_lsn"),) if version >= 8 else ()),
        _packed("slot_count"),
        _slots(_bytes("key"), _packed("lsn"), _u8("state")),
    )


def _db_tree(version: int) -> tuple[Field, ...]:
    id_coding = Coding.I64 if version >= 8 else Coding.I32
    return (
        Field("last_local_db_id", id_coding),
        Field("last_replicated_db_id", id_coding),
        Field("id_database", Coding.GROUP, (), _database(version)),
        Field("name_database", Coding.GROUP, (), _database(version)),
        _u8("flags"),
        *((_packed("initial_log_version"),) if version >= 15 else ()),
    )


def _txn_end(version: int) -> tuple[Field, ...]:
    master = _packed("master_node_id")
    if version < 12:
        return (_packed("txn_id"), _packed("time_ms"), _packed("last_lsn"), master)
    return (
        _packed("last_lsn"),
        _packed("txn_id"),
        _packed("time_ms"),
        master,
        *((_packed("dtvlsn"),) if version >= 13 else ()),
        *((_packed("master_term"),) if version >= 22 else ()),
    )


def _prepare(_version: int) -> tuple[Field, ...]:
    return (
        _packed("txn_id"),
        _packed("time_ms"),
        Field("format_id", Coding.I32),
        Field("global_txn_id", Coding.BYTES_I8),
        Field("branch_qualifier", Coding.BYTES_I8),
    )


def _ckpt_start(_version: int) -> tuple[Field, ...]:
    return (_packed("time_ms"), _packed("ckpt_id"), _text("invoker"))


def _ckpt_end(version: int) -> tuple[Field, ...]:
    adjustments = (
        _packed("cleaner_last_file_no"),
        _packed("cleaner_initial_adjustment_count"),
        _packed("cleaner_adjustment_count"),
        _list(
            "cleaner_adjustments",
            "cleaner_adjustment_count",
            *(
                _packed(name)
                for name in ("first_size", "first_count", "second_size", "second_count")
            ),
        ),
    )
    return (
        _text("invoker"),
        _packed("time_ms"),
        _packed("ckpt_start_lsn"),
        _u8("flags"),
        _packed("root_lsn", Test("flags", Op.SET, CkptEndFlag.ROOT_PRESENT)),
        _packed("first_active_lsn"),
        _packed("last_local_node_id"),
        _packed("last_replicated_node_id"),
        _packed("last_local_db_id"),
        _packed("last_replicated_db_id"),
        _packed("last_local_txn_id"),
        _packed("last_replicated_txn_id"),
        *(
            (_packed("last_local_extinction_id"), _packed("last_replicated_extinction_id"))
            if version >= 17
            else ()
        ),
        _packed("ckpt_id"),
        *(adjustments if 8 <= version <= 10 else ()),
        *(
            (
                _packed("completed_scan_count"),
                _list("completed_scans", "completed_scan_count", _packed("scan_id")),
            )
            if version >= 23
            else ()
        ),
    )


_OTHERS = {
    Family.OLD_DELTA: _old_delta,
    Family.DB_TREE: _db_tree,
    Family.TXN_END: _txn_end,
    Family.PREPARE: _prepare,
    Family.CKPT_START: _ckpt_start,
    Family.CKPT_END: _ckpt_end,
    Family.TRACE: lambda _: (_packed("time_ms"), _text("message")),
    Family.IN_DELETE: lambda _: (_packed("node_id"), _bytes("identifier_key"), _packed("db_id")),
    Family.IN_DUP_DELETE: lambda _: (
        _packed("node_id"),
        _bytes("main_key"),
        _bytes("dup_key"),
        _packed("db_id"),
    ),
    Family.ROLLBACK_START: lambda _: (
        _packed("matchpoint_vlsn"),
        _packed("matchpoint_lsn"),
        _packed("time_ms"),
        _packed("active_txn_count"),
        _list("active_txns", "active_txn_count", _packed("txn_id")),
    ),
    Family.ROLLBACK_END: lambda _: (
        _packed("matchpoint_lsn"),
        _packed("rollback_start_lsn"),
        _packed("time_ms"),
    ),
    Family.MATCHPOINT: lambda _: (_packed("time_ms"), _packed("master_node_id")),
    Family.IMMUTABLE_FILE: lambda _: (_u8("mark"),),
    Family.RESTORE_REQUIRED: lambda _: (
        _text("failure_type"),
        _packed("time_ms"),
        _text("properties"),
    ),
    Family.ERASED: lambda _: (Field("item", Coding.REST),),
}
