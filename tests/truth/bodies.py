"""Payloads as DbPrintLog prints them, by entry type.

Every reader consumes the payload from its first character to its last, so that unknown text is an
error. Fields have the names of the project's own dump if a printed value is a logged one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.truth.cursor import Cursor, snake_case, time_ms, truth
from tests.truth.databases import database
from tests.truth.nodes import node, old_delta
from tests.truth.records import Record, record

_LSN = r'<DbLsn val="(\S+?)"/>'
_TXN_END = re.compile(
    r'<Txn(?:Commit|Abort) id="(-?\d+)" time="([^"]*)" master="(-?\d+)"'
    rf'(?: masterTerm="(-?\d+)")?(?: dtvlsn="(-?[\d,]+)")?>{_LSN}</Txn(?:Commit|Abort)>'
)
_TREE_BEGIN = re.compile(r'<dbtree lastLocalDbId = "(-?\d+)" lastReplicatedDbId = "(-?\d+)"><idDb>')
_TREE_MIDDLE = re.compile(r"</idDb><nameDb>")
_TREE_END = re.compile(r"</nameDb></dbtree>")
_CKPT_START = re.compile(r'<CkptStart invoker="([^"]*)" time="([^"]*)" id="(\d+)"/>')
_CKPT_END = re.compile(r"<CkptEnd ([^>]*)>")
_CKPT_END_LSNS = re.compile(
    rf"<ckptStart>{_LSN}</ckptStart>(?:<root>{_LSN}</root>)?<firstActive>{_LSN}</firstActive>"
)
_CLEANER = re.compile(
    r'<CleanerLogSummary endFileNumAtLastAdjustment="0x([0-9a-f]+)"'
    r' initialAdjustments="(\d+)" recentLNSizesAndCounts="">'
)
_CKPT_END_END = re.compile(r"</CkptEnd>")
_PAIR = re.compile(r'(\w+)="([^"]*)" ?')
_TRACE = re.compile(r'<Dbg time="([^"]*)"><msg val="(.*)"/></Dbg>', re.DOTALL)
_FILE_HEADER = re.compile(
    r'<FileHeader num="0x([0-9a-f]+)" lastEntryInPrevFileOffset="0x([0-9a-f]+)"'
    r' logVersion="0x([0-9a-f]+)" time="([^"]*)"/>'
)
_ROLLBACK_START = re.compile(
    r" matchpointVLSN=([\d,]+) matchpointLSN=(\S+) activeTxnIds=\[([-\d, ]*)\]\" time=\"(.*)"
)
_ROLLBACK_END = re.compile(r" matchpointLSN=(\S+) rollbackStartLSN=(\S+) time=(.*)")
_ERASED = re.compile(r'<Erased allZeros="(\w+)"/>')


def _txn_end(cursor: Cursor) -> Record:
    match = cursor.need(_TXN_END)
    fields: dict[str, Any] = {
        "time_ms": time_ms(match[2]),
        "master_node_id": int(match[3]),
        "last_lsn": match[6],
    }
    if match[4] is not None:
        fields["master_term"] = int(match[4])
    if match[5] is not None:
        fields["dtvlsn"] = int(match[5].replace(",", ""))
    return Record(txn_id=int(match[1]), fields=fields)


def _db_tree(cursor: Cursor) -> Record:
    ids = cursor.need(_TREE_BEGIN)
    fields = {"last_local_db_id": int(ids[1]), "last_replicated_db_id": int(ids[2])}
    fields["id_database"] = database(cursor)
    cursor.need(_TREE_MIDDLE)
    fields["name_database"] = database(cursor)
    cursor.need(_TREE_END)
    return Record(fields=fields)


def _ckpt_start(cursor: Cursor) -> Record:
    match = cursor.need(_CKPT_START)
    fields = {"invoker": match[1], "time_ms": time_ms(match[2]), "ckpt_id": int(match[3])}
    return Record(fields=fields)


_CKPT_END_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "invoker": ("invoker", str),
    "time": ("time_ms", time_ms),
    "id": ("ckpt_id", int),
    "rootExists": ("root_exists", truth),
    "cleanedFilesToDelete": ("cleaned_files_to_delete", truth),
    "completedScanIds": (
        "completed_scans",
        lambda text: [int(number) for number in text.split(",") if number],
    ),
}


def _ckpt_end(cursor: Cursor) -> Record:
    fields: dict[str, Any] = {}
    pairs = Cursor(cursor.need(_CKPT_END)[1])
    while (pair := pairs.take(_PAIR)) is not None:
        name, read = _CKPT_END_READERS.get(pair[1], (snake_case(pair[1]), int))
        fields[name] = read(pair[2])
    pairs.end()
    lsns = cursor.need(_CKPT_END_LSNS)
    fields |= {"ckpt_start_lsn": lsns[1], "root_lsn": lsns[2], "first_active_lsn": lsns[3]}
    if (cleaner := cursor.take(_CLEANER)) is not None:
        last = int(cleaner[1], 16)
        fields["cleaner_last_file_no"] = last - (1 << 64) if last >> 63 else last
        fields["cleaner_initial_adjustment_count"] = int(cleaner[2])
        fields["cleaner_adjustments"] = []
    cursor.need(_CKPT_END_END)
    return Record(fields=fields)


def _trace(cursor: Cursor) -> Record:
    match = cursor.need(_TRACE)
    return Record(fields={"time_ms": time_ms(match[1]), "message": match[2]})


def _file_header(cursor: Cursor) -> Record:
    match = cursor.need(_FILE_HEADER)
    fields = {
        "header_file_no": int(match[1], 16),
        "last_entry_in_prev_file_offset": int(match[2], 16),
        "log_version": int(match[3], 16),
        "created_ms": time_ms(match[4]),
    }
    return Record(fields=fields)


def _rollback_start(cursor: Cursor) -> Record:
    match = cursor.need(_ROLLBACK_START)
    fields = {
        "matchpoint_vlsn": int(match[1].replace(",", "")),
        "matchpoint_lsn": match[2],
        "active_txns": [int(number) for number in match[3].split(",") if number],
        "time_ms": time_ms(match[4]),
    }
    return Record(fields=fields)


def _rollback_end(cursor: Cursor) -> Record:
    match = cursor.need(_ROLLBACK_END)
    fields = {
        "matchpoint_lsn": match[1],
        "rollback_start_lsn": match[2],
        "time_ms": time_ms(match[3]),
    }
    return Record(fields=fields)


def _erased(cursor: Cursor) -> Record:
    return Record(fields={"all_zeros": truth(cursor.need(_ERASED)[1])})


def _of_database(
    read: Callable[[Cursor], tuple[int, dict[str, Any]]],
) -> Callable[[Cursor], Record]:
    def reader(cursor: Cursor) -> Record:
        db_id, fields = read(cursor)
        return Record(db_id=db_id, fields=fields)

    return reader


def _ln(tag: str) -> Callable[[Cursor], Record]:
    return lambda cursor: record(cursor, tag)


RECORDS = (
    *("LN_TX", "LN", "INS_LN_TX", "INS_LN", "UPD_LN_TX", "UPD_LN", "DEL_LN_TX", "DEL_LN"),
    *("ReservedFileLN", "ExtinctScanLN", "ExtinctScanLN_TX"),
)
NODES = ("IN", "BIN", "DIN", "DBIN", "NewBINDelta")
OLD_DELTAS = ("BINDelta", "DupBINDelta")

READERS: dict[str, Callable[[Cursor], Record]] = {
    **dict.fromkeys(RECORDS, _ln("ln")),
    **dict.fromkeys(("MapLN", "MapLN_TX"), _ln("mapLN")),
    **dict.fromkeys(("NameLN", "NameLN_TX"), _ln("nameLN")),
    **dict.fromkeys(("DupCountLN", "DupCountLN_TX"), _ln("dupCountLN")),
    "FileSummaryLN": _ln("fileSummaryLN"),
    **dict.fromkeys(NODES, _of_database(node)),
    **dict.fromkeys(OLD_DELTAS, _of_database(old_delta)),
    **dict.fromkeys(("Commit", "Abort"), _txn_end),
    "DbTree": _db_tree,
    "CkptStart": _ckpt_start,
    "CkptEnd": _ckpt_end,
    "Trace": _trace,
    "FileHeader": _file_header,
    "RollbackStart": _rollback_start,
    "RollbackEnd": _rollback_end,
    "Erased": _erased,
}
"""Reader for each type that a print in the corpus has; any other type is an error."""


def read_body(type_name: str, text: str) -> Record:
    """Parse the payload of an entry.

    Raises:
        KeyError, ValueError: the type, or a part of the text, is unknown.
    """
    cursor = Cursor(text)
    found = READERS[type_name](cursor)
    cursor.end()
    return found
