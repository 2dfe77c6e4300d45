"""Field descriptions: the meaning of fields in words, for `explain` and the format's page.

Source: the classes named in `formats.je.layout`.
"""

from __future__ import annotations

from collections.abc import Mapping

from je_tools.formats.je.flags import (
    CkptEndFlag,
    DatabaseFlag,
    DbTreeFlag,
    LnFlag,
    LnFlag2,
    LnFlag3,
    NameOperation,
    NodeFlag,
    SlotState,
)
from je_tools.formats.je.layout import Coding, Op, Test
from je_tools.formats.je.types import Family

CODINGS: dict[Coding, str] = {
    Coding.U8: "u8",
    Coding.I32: "i32",
    Coding.U32: "u32",
    Coding.I64: "i64",
    Coding.PACKED: "packed",
    Coding.BYTES: "bytes",
    Coding.TEXT: "text",
    Coding.REST: "rest",
    Coding.BYTES_I8: "bytes/i8",
    Coding.BYTES_I32: "bytes/i32",
    Coding.COMPACT_LSN: "compact LSN",
    Coding.OFFSETS: "offsets",
    Coding.GROUP: "group",
    Coding.LIST: "list",
}
"""Short name of each coding."""

CODING_MEANINGS: dict[Coding, str] = {
    Coding.U8: "one byte, unsigned",
    Coding.I32: "four bytes, little endian, signed",
    Coding.U32: "four bytes, little endian, unsigned",
    Coding.I64: "eight bytes, little endian, signed",
    Coding.PACKED: "1 to 9 bytes: -119 to 119 in one byte; otherwise the first byte gives the sign "
    "and the number of bytes that follow; these hold the magnitude less 119, little endian",
    Coding.BYTES: "a packed length, then that many bytes; length -1 is null",
    Coding.TEXT: "as bytes, holding UTF-8",
    Coding.REST: "every byte up to the end of the entry",
    Coding.BYTES_I8: "an i8 length, then that many bytes; length -1 is null",
    Coding.BYTES_I32: "an i32 length, then that many bytes",
    Coding.COMPACT_LSN: "a signed byte to add to base_file_no, then three bytes of offset, "
    "little endian; offset ffffff is NULL",
    Coding.OFFSETS: "packed count, packed number of shorts, then little-endian shorts: ascending "
    "offsets as differences, each in groups of 15 bits, the low group first; a group that is "
    "followed by another is stored as -1 minus the group",
    Coding.GROUP: "the fields below it, one after the other",
    Coding.LIST: "the fields below it, repeated as often as the count before it says",
}
"""Description of the bytes of each coding."""

_TRUE = {0x01: "yes"}

_BITS: dict[str, dict[int, str]] = {
    "flags": LnFlag.texts(),
    "flags2": LnFlag2.texts(),
    "flags3": LnFlag3.texts(),
    "booleans": NodeFlag.texts(),
    "state": SlotState.texts(),
    "root_state": SlotState.texts(),
    "dup_count_state": SlotState.texts(),
    "db_flags": DatabaseFlag.texts(),
    "tree_exists": _TRUE,
    "deleted": _TRUE,
    "compact_lsns": _TRUE,
    "data_exists": _TRUE,
    "dup_count_exists": _TRUE,
}

NAME_OPERATIONS: dict[int, str] = {each.value: each.text for each in NameOperation}
"""Operations of a NameLN on its database."""


def bits_of(family: Family | None, name: str) -> Mapping[int, str] | None:
    """Return the names of the bits of a field, or None if it is not a set of bits."""
    if name == "flags" and family is Family.DB_TREE:
        return DbTreeFlag.texts()
    if name == "flags" and family is Family.CKPT_END:
        return CkptEndFlag.texts()
    return _BITS.get(name)


def bits_text(value: int, bits: Mapping[int, str]) -> str:
    """Return the names of the bits that are set, as text; `none` without any."""
    if bits is _TRUE:
        return "yes" if value & 1 else "no"
    return ", ".join(bit_names(value, bits)) or "none"


def bit_names(value: int, bits: Mapping[int, str]) -> list[str]:
    """Return the names of the bits that are set, and unnamed ones as one hexadecimal number."""
    names = [name for bit, name in bits.items() if value & bit]
    rest = value & ~sum(bits)
    return [*names, f"0x{rest:02x}"] if rest else names


def condition_text(tests: tuple[Test, ...], family: Family) -> str:
    """Return the condition under which a field is present, in words; empty for always."""
    return " and ".join(_test_text(test, family) for test in tests)


def _test_text(test: Test, family: Family) -> str:
    if test.op in (Op.SET, Op.CLEAR):
        bits = bits_of(family, test.field)
        named = "" if not bits or bits is _TRUE else f" ({bits[test.operand]})"
        wanted = "set" if test.op is Op.SET else "clear"
        return f"{test.field} 0x{test.operand:02x}{named} {wanted}"
    if test.op is Op.NOT:
        return f"{test.field} is not {test.operand}"
    if test.op is Op.ONE_OF:
        numbers = [i for i in range(test.operand.bit_length()) if test.operand >> i & 1]
        return f"{test.field} is " + " or ".join(map(str, numbers))
    return f"{test.field} is not null"


_BY_FAMILY: dict[tuple[Family, str], str] = {
    (Family.FILE_HEADER, "created_ms"): "when the file was begun",
    (Family.OLD_DELTA, "last_full_lsn"): "full version that these slots change",
    (Family.OLD_DELTA, "last_delta_lsn"): "delta before this one on the same full version",
    (Family.IN_DUP_DELETE, "dup_key"): "a key of the removed duplicate tree",
    (Family.ERASED, "item"): "what is left of the entry: zeros, unless the eraser was stopped",
    (Family.CKPT_END, "flags"): "bits about this checkpoint",
    (Family.DB_TREE, "flags"): "bits about the environment",
    (Family.MATCHPOINT, "master_node_id"): "node that was master",
}
"""Descriptions of fields that are specific to one family."""

FIELDS: dict[str, str] = {
    "abort_created_ms": "creation time of the version to go back to",
    "abort_data": "data of the version to go back to, where it was embedded",
    "abort_expiration": "expiration of the version to go back to",
    "abort_key": "key of the version to go back to, where a comparator lets it differ",
    "abort_lsn": "version to go back to when the transaction aborts; NULL for none",
    "abort_modified_ms": "modification time of the version to go back to",
    "abort_vlsn": "VLSN of the version to go back to",
    "active_txn_count": "how many transactions were active",
    "active_txns": "transactions that were active",
    "anchor_lsn": "last entry of the log when this was made; erasing uses it after a checkpoint",
    "base_file_no": "file number that compact LSNs count from",
    "before_image_expiration": "when the before image expires",
    "bloom_filter": "which keys the full BIN may hold",
    "booleans": "bits about the node and its fields",
    "branch_qualifier": "XA branch qualifier",
    "btree_comparator": "serialized comparator of keys; empty for byte order",
    "ckpt_id": "number of the checkpoint",
    "ckpt_start_lsn": "CkptStart of this checkpoint: recovery reads from there",
    "cleaner_adjustment_count": "how many adjustments follow",
    "cleaner_adjustments": "sizes and counts of LNs that the cleaner saw; for JE 5.0 to 6.2",
    "cleaner_initial_adjustment_count": "how many adjustments there were at first",
    "cleaner_last_file_no": "last file when the cleaner last adjusted; -1 for never",
    "compact_lsn": "LSN of the child, short form",
    "compact_lsns": "slots hold compact LSNs",
    "compact_max_key_size": "for the cache only; -1 for none",
    "completed_scan_count": "how many scan ids follow",
    "completed_scans": "record scans that are complete",
    "config": "configuration of the database",
    "created_at_log_version": "log version that the database was created at",
    "created_base_ms": "base of the slots' creation times; -1 for none",
    "created_ms": "when the record was created; 0 for unknown",
    "created_offset": "creation time: base + this - 1; 0 for none",
    "data": "data of the record; null for a deletion",
    "data_as_key": "the duplicate that was deleted",
    "data_exists": "data follows",
    "database": "descriptor of the database",
    "db_flags": "bits about the database",
    "db_id": "database",
    "deleted": "the database is deleted",
    "delta_last_full_lsn": "full version that this delta changes",
    "dtvlsn": "VLSN up to which a majority had everything, as the master knew",
    "dup_comparator": "serialized comparator of duplicates; empty for byte order",
    "dup_count": "number of duplicates",
    "dup_count_exists": "a reference to a DupCountLN follows",
    "dup_count_key": "key of the DupCountLN",
    "dup_count_lsn": "LSN of the DupCountLN",
    "dup_count_state": "state of the DupCountLN",
    "dup_key": "key that the duplicates of this tree share",
    "expiration": "days since 1970, or hours where negative; 0 for none",
    "expiration_base": "base of the slots' expirations; -1 for none",
    "expiration_offset": "expiration: base + this - 1; 0 for none",
    "failure_type": "why the environment must not be opened",
    "file_count": "how many files' utilization follows",
    "file_utilization": "utilization of the database in each file",
    "first_active_lsn": "first entry of the oldest transaction that was open",
    "first_count": "count of the first kind",
    "first_size": "bytes of the first kind",
    "flags": "bits about the record and the fields that follow",
    "flags2": "bits about the record and the fields that follow",
    "flags3": "bits about the record and the fields that follow",
    "format_id": "XA format",
    "full_max_entries": "slots that the full BIN has room for",
    "full_slot_count": "slots of the full BIN",
    "global_txn_id": "XA global transaction id",
    "header_file_no": "file number; the file's name must say the same",
    "id": "database id",
    "id_database": "descriptor of the database of database ids (0)",
    "identifier_key": "a key of this node, by which its parent is found",
    "initial_log_version": "log version that the environment was created at; -1 for unknown",
    "invoker": "what requested the checkpoint",
    "item": "bytes that this log version does not explain",
    "key": "key of the record",
    "key_prefix": "what all slot keys begin with",
    "last_delta_lsn": "delta before this one on the same full version; NULL for none",
    "last_delta_size": "bytes of that delta; 0 for none",
    "last_entry_in_prev_file_offset": "where the last entry of the file before begins",
    "last_full_lsn": "full version before this one, for a delta the one that it changes",
    "last_full_size": "bytes of that full version; 0 for none",
    "last_local_db_id": "highest id of a local database",
    "last_local_extinction_id": "highest id of a local scan over removed records",
    "last_local_node_id": "highest id of a local node",
    "last_local_txn_id": "highest id of a local transaction",
    "last_lsn": "last record that the transaction wrote; NULL for none",
    "last_replicated_db_id": "lowest id of a replicated database",
    "last_replicated_extinction_id": "lowest id of a replicated scan over removed records",
    "last_replicated_node_id": "lowest id of a replicated node",
    "last_replicated_txn_id": "lowest id of a replicated transaction",
    "level": "height above the leaves: 1 for a BIN; 0x10000 main trees, 0x20000 the id database",
    "log_version": "log version of every entry in this file",
    "logged_size": "bytes of the child's entry; 0 for unknown",
    "lsn": "LSN of the child; NULL for none",
    "main_key": "key whose duplicate tree was removed",
    "mark": "always 2a",
    "master_node_id": "node that was master; 0 or -1 without replication",
    "master_term": "term of the master; 0 without replication",
    "matchpoint_lsn": "entry that the nodes agree on; everything after it is rolled back",
    "matchpoint_vlsn": "VLSN of the entry that the nodes agree on",
    "max_dup_entries": "slots a node of a duplicate tree has room for",
    "max_entries": "slots a node has room for",
    "max_ln_size": "bytes of the longest LN",
    "message": "text of the message",
    "modified_base_ms": "base of the slots' modification times; -1 for none",
    "modified_ms": "when the record was written; 0 for unknown",
    "modified_offset": "modification time: base + this - 1; 0 for none",
    "name": "name of the database",
    "name_database": "descriptor of the database of database names (1)",
    "name_db_id": "database that has this name",
    "node_id": "node",
    "obsolete_in_count": "obsolete nodes",
    "obsolete_ln_count": "obsolete LNs",
    "obsolete_ln_size": "bytes of obsolete LNs whose size is known",
    "obsolete_ln_size_counted": "obsolete LNs whose size is known",
    "obsolete_offsets": "where obsolete entries begin",
    "operation": "what was done to the database: "
    + ", ".join(f"{no} {text}" for no, text in NAME_OPERATIONS.items()),
    "prior_file_no": "file of the version before",
    "prior_size": "bytes of the version before",
    "properties": "more about the failure, as Java properties",
    "rollback_start_lsn": "RollbackStart of this rollback",
    "root_key": "key of the root's slot; empty",
    "root_lsn": "root of the tree; in a CkptEnd the DbTree",
    "root_state": "state of the root's slot",
    "scan_id": "record scan",
    "second_count": "count of the second kind",
    "second_size": "bytes of the second kind",
    "slot_count": "how many slots follow",
    "slots": "children, in key order",
    "state": "state of the slot",
    "summary": "what the file holds, and what of it is obsolete",
    "time_ms": "when it was written",
    "total_count": "entries",
    "total_in_count": "nodes",
    "total_in_size": "bytes of nodes",
    "total_ln_count": "LNs",
    "total_ln_size": "bytes of LNs",
    "total_size": "bytes",
    "tree_exists": "the database has a root",
    "trigger": "a serialized trigger",
    "trigger_count": "how many triggers follow",
    "triggers": "serialized triggers",
    "truncated_db_id": "database that was emptied, under its old id",
    "txn_id": "transaction: above 0 local, below 0 replicated",
    "txn_prev_lsn": "record that the transaction wrote before; NULL for its first",
    "utilization_file_no": "file",
    "vlsn": "VLSN of the embedded record",
}
"""Description of each field, by name."""

HEADER_FIELDS: dict[str, str] = {
    "checksum": "Adler-32 of everything after it, with the invisible bit counted as clear",
    "type": "entry type",
    "flags": "bits about the entry",
    "prev_offset": "where the entry before begins in this file; 0 is the file header",
    "item_size": "bytes after the header",
    "vlsn": "number in the replication stream, the same on every node",
}
"""Description of each field of an entry's header."""


def field_meaning(name: str, family: Family | None) -> str:
    """Return the description of a field in entries of `family`; without one, its name in words."""
    own = _BY_FAMILY.get((family, name)) if family else None
    return own or FIELDS.get(name) or name.replace("_", " ")
