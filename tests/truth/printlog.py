r"""A lenient reader of DbPrintLog output, of JE 3.3, 5.0, 7.5, 18.3, its forks, and 25.3.

The output resembles XML, but is not: texts and database names are not escaped, VLSN tags stand
inside a tag and are not closed, attributes lack a quote or have one too many. So the reader finds
entries by the beginning of their line, and their parts by the words around them.

The printers do NOT show the following, so that they cannot test it:

* flag bytes as such: the bits of LNs and nodes are shown one by one, except bits that only
  determine which fields follow; of databases only duplicates, replicated and (before 25.3)
  temporary;
* the unit, hours or days, in which JE 7.5 and 18.3 logged an expiration, and any expiration of 0;
* the creation time of a record that JE 25.3 inserted: only that it was not the modification time;
* `deleted` of MapLN and NameLN except through their data, which are missing then; `maxEntries`,
  `createdAtLogVersion`, key prefixing, bytes of comparators and triggers of a database;
* flags and `initialLogVersion` of DbTree;
* configuration and truncated database of a NameLN whose operation has none: those of an earlier
  entry are printed;
* the one of prior size and prior file that was logged, if only one was: the other is printed as 0
  or as 4294967295;
* a node's `compactMaxKeySize`, and before 25.3 sizes of its earlier versions (JE 3.3: the earlier
  versions at all); the compactness of LSNs, and the base file of those not compact; slots' dirty
  bits of full nodes (cleared when read); logged sizes of slots of upper INs before 25.3 and of
  BINs if the node stores none (printed as 0); before 7.5, bits of slots except the deleted ones,
  and the keys' common prefix in the slots;
* the header version of a FileHeader by JE 5.0 (printed as -1), VLSNs of 0, which JE 25.3 prints
  for every entry without one; header sizes;
* incomplete entries, and that there was one;
* items of Erased, except that all bytes are zero or not.

Source: the dumpLog and dumpEntry methods of entry classes, LogEntryHeader.dumpLogNoTag,
PrintFileReader.processEntry, JE 7.5.11 and 25.3.17; output of JE 3.3.98, 5.0.73, 18.3.12, 18.3.20.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.truth.bodies import read_body

_HEAD = re.compile(
    r'<entry lsn="0x([0-9a-f]+)/0x([0-9a-f]+)" type="([^/"]*)/(-?\d+)"'
    r'(?: prov="(\w+)")?(?: <vlsn v="(-?[\d,]+)"/?>)?( isReplicated="1")?( isInvisible="1")?'
    r' prev="0x([0-9a-f]+)" size="(\d+)" cksum="(\d+)">'
)
_LINE_START = '\n<entry lsn="0x'
_END = "</entry>"
_FIRST_LINE, _LAST_LINE = "<DbPrintLog>", "\n</DbPrintLog>\n"


@dataclass(slots=True)
class Printed:
    """One printed entry.

    Attributes:
        lsn: file number in the upper 32 bits, offset in the lower.
        type: name as this engine prints it, except DbTree for JE 3.3's Root.
        version: log version; None if the printer does not know it.
        provisional: YES, BEFORE_CKPT_END or NO.
        vlsn: None for an entry without one.
        prev_offset, item_size, checksum: as in the header.
        db_id, txn_id, key, data: None if absent; `data` also for a deleted record.
        fields: everything else that is printed, by name; nothing that is not printed. Bytes are
            hexadecimal, LSNs as printed, times milliseconds since 1970 (UTC).
    """

    lsn: int
    type: str
    version: int | None
    provisional: str
    replicated: bool
    invisible: bool
    vlsn: int | None
    prev_offset: int
    item_size: int
    checksum: int
    db_id: int | None = None
    txn_id: int | None = None
    key: str | None = None
    data: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def lsn_text(self) -> str:
        """The LSN as the engines print it."""
        return f"0x{self.lsn >> 32:x}/0x{self.lsn & 0xFFFFFFFF:x}"


class PrintlogError(Exception):
    """Text of an unknown form: the reader has to be extended, and must not skip it."""


def read_printlog(path: Path, payload: bool = True) -> Iterator[Printed]:
    """Yield the entries of a printlog.xml or printlog.xml.gz, in its order.

    Args:
        path: standard output of DbPrintLog.
        payload: if False, only headers are read.

    Raises:
        PrintlogError: the output has text of an unknown form.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="surrogateescape", newline="") as file:
        text = file.read()
    yield from parse_printlog(text, payload)


def parse_printlog(text: str, payload: bool = True) -> Iterator[Printed]:
    """Yield entries like `read_printlog`, from the output itself."""
    for part in _split(text):
        head = _HEAD.match(part)
        if head is None:
            raise PrintlogError(f"not an entry: {part[:200]!r}")
        entry = _printed(head)
        if payload:
            body = part[head.end() : -len(_END)]
            try:
                found = read_body(entry.type, body)
            except (KeyError, ValueError) as error:
                raise PrintlogError(f"{entry.lsn_text} {entry.type}: {error!r}") from error
            entry.db_id, entry.txn_id = found.db_id, found.txn_id
            entry.key, entry.data, entry.fields = found.key, found.data, found.fields
        yield entry


def _split(text: str) -> Iterator[str]:
    """Yield the text of every entry; a line inside a traced message may look like an entry."""
    if not text.startswith(_FIRST_LINE) or not text.endswith(_END + _LAST_LINE):
        raise PrintlogError(f"not a whole print: {text[:80]!r} … {text[-80:]!r}")
    start, stop = len(_FIRST_LINE), len(text) - len(_LAST_LINE)
    while start < stop:
        end = text.find(_LINE_START, start + 1, stop)
        while end >= 0 and not text.endswith(_END, start, end):
            end = text.find(_LINE_START, end + 1, stop)
        end = stop if end < 0 else end
        yield text[start + 1 : end]
        start = end


def _printed(head: re.Match[str]) -> Printed:
    file, offset, name, version, provisional, vlsn, replicated, invisible = head.groups()[:8]
    sequence = int(vlsn.replace(",", "")) if vlsn else 0
    return Printed(
        lsn=int(file, 16) << 32 | int(offset, 16),
        type="DbTree" if name == "Root" else name,
        version=int(version) if int(version) > 0 else None,
        provisional=provisional or "NO",
        replicated=replicated is not None,
        invisible=invisible is not None,
        vlsn=sequence if sequence > 0 else None,
        prev_offset=int(head[9], 16),
        item_size=int(head[10]),
        checksum=int(head[11]),
    )
