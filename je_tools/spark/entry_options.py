"""Options of the format `jelog`, and its columns."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from je_tools.core.masking import Masking
from je_tools.errors import UsageError
from je_tools.log.parsing import parse_bytes, parse_key, parse_lsn, parse_types
from je_tools.log.selection import Selection
from je_tools.log.time_filter import Window, parse_time
from je_tools.output.encoders.entry_batches import entry_schema
from je_tools.spark.columns import spark_schema
from je_tools.spark.entry_plan import EntryQuery
from je_tools.spark.option_texts import OptionTexts, one_value, whole_number
from je_tools.spark.query import COLUMNS, MASKS, PLACES, TASKS, UNREADABLE, Relation, parse_common

if TYPE_CHECKING:
    import pyarrow as pa

_FILE_NO = r"0[xX][0-9a-fA-F]{1,8}|[0-9]{1,10}"
_FILE_NOS = re.compile(rf"({_FILE_NO})(?:-({_FILE_NO}))?")

OPTIONS: Mapping[str, str] = {
    **PLACES,
    "file_no": "Files by number, as a list: `7`, `0x1f`, or a range `5-7`.",
    **COLUMNS,
    "type": "Entry types by the engine's names, or groups, as a list.",
    "db": "Databases by name or id (`id:7`), as a list.",
    "txn": "Transaction ids, as a list.",
    "key": "Key of an LN: text, `hex:0a1b`, `hex:0a*` (prefix), `long:5485`, `int:7`, `str:name`.",
    "grep": "Bytes in a key or value: text, or `hex:0a1b`.",
    "from_lsn": "First LSN, `0xFILE/0xOFFSET`.",
    "to_lsn": "Last LSN, inclusive.",
    "from_vlsn": "First VLSN.",
    "to_vlsn": "Last VLSN, inclusive.",
    "since": "First time, UTC: `2026-11-20T10:00:00`, or since 1970: `1795168800s`, `…ms`.",
    "until": "Last time, UTC, inclusive.",
    "replicated": "`true`: only entries of the replication stream.",
    **MASKS,
    "ignore_checksum": "`true`: checksums are not verified.",
    **TASKS,
    **UNREADABLE,
}
"""Every option, and its description."""


def parse_entry_query(texts: OptionTexts) -> EntryQuery:
    """Parse the options of `jelog`.

    Raises:
        UsageError: a value is not valid.
    """
    types = texts.listed("type", str)
    txns = texts.listed("txn", whole_number)
    since, until = texts.parsed("since", parse_time), texts.parsed("until", parse_time)
    return EntryQuery(
        common=parse_common(texts),
        selection=Selection(
            types=texts.checked("type", lambda: parse_types(types)) if types else None,
            from_lsn=texts.parsed("from_lsn", parse_lsn),
            to_lsn=texts.parsed("to_lsn", parse_lsn),
            from_vlsn=texts.number("from_vlsn"),
            to_vlsn=texts.number("to_vlsn"),
            replicated=texts.flag("replicated"),
            txn_ids=frozenset(txns) if txns else None,
            keys=one_value(texts.parsed("key", parse_key)),
            greps=one_value(texts.parsed("grep", parse_bytes)),
            window=None if since is None and until is None else Window(since, until),
        ),
        masking=Masking(texts.mode()),
        databases=texts.listed("db", str),
        file_nos=texts.listed("file_no", _file_nos),
        check=not texts.flag("ignore_checksum"),
    )


def _file_nos(text: str) -> tuple[int, int]:
    match = _FILE_NOS.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is neither the number of a file nor a range of such")
    first = int(match[1], 0)
    return first, first if match[2] is None else int(match[2], 0)


@functools.cache
def _schema() -> pa.Schema:
    """Return the columns of all log versions, so that a union of logs and a stream has them all."""
    return spark_schema(entry_schema())


ENTRIES = Relation("jelog", OPTIONS, _schema, parse_entry_query)
"""The format `jelog`."""
