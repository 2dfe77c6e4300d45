r"""A lenient reader of what DbPrintLog printed, of JE 3.3, 5.0, 7.5, 18.3, its forks, and 25.3.

The output looks like XML and is none: texts and database names are not escaped, VLSN tags stand
inside of a tag and are not closed, attributes lack a quote or have one too many. So entries are
found by the beginning of their line and their parts by the words around them.

What the printers do NOT show, and so cannot be judged by them:

* flags of LNs as such (embedded, known-deleted, tombstone and the like are shown one by one), and
  of nodes (`booleans`): only the root bit; whether an expiration of JE 7.5 and 18.3 is in hours or
  days, and any expiration of 0;
* `deleted` of MapLN and NameLN (their data are missing instead), root state of a database, its
  `maxEntries`, `createdAtLogVersion`, key prefixing, bytes of comparators and triggers;
* flags and `initialLogVersion` of DbTree; `cleanedFilesToDelete` of CkptEnd before 25.3;
* which prior size or prior file was logged when only one was: the other is printed as 0 or as
  4294967295;
* a node's `compactMaxKeySize`, and before 25.3 sizes of its earlier versions; the file numbers of
  compact LSNs; slots' dirty bits of full nodes (cleared when read); logged sizes of slots of upper
  INs before 25.3 and of BINs where the node stores none (printed as 0);
* the header version of a FileHeader by JE 5.0 (printed as -1), VLSNs of 0, which JE 25.3 prints
  for every entry without one;
* entries that end inside: neither a torn one, nor that there was one;
* items of Erased: only whether all bytes are zero.

Source: the dumpLog and dumpEntry methods of entry classes, LogEntryHeader.dumpLogNoTag,
PrintFileReader.processEntry, JE 7.5.11 and 25.3.17; output of JE 3.3.98, 5.0.73, 18.3.12, 18.3.20.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.truth import bodies

_HEAD = re.compile(
    r'<entry lsn="0x([0-9a-f]+)/0x([0-9a-f]+)" type="([^/"]*)/(-?\d+)"'
    r'(?: prov="(\w+)")?(?: <vlsn v="(-?[\d,]+)"/?>)?( isReplicated="1")?( isInvisible="1")?'
    r' prev="0x([0-9a-f]+)" size="(\d+)" cksum="(\d+)">'
)
_LINE_START = '\n<entry lsn="0x'
_END = "</entry>"


@dataclass(slots=True)
class Printed:
    """One printed entry.

    Attributes:
        lsn: file number in the upper 32 bits, offset in the lower.
        type: the name as printed by this engine; DbTree for what JE 3.3 calls Root.
        version: log version; None where the printer does not know it.
        provisional: YES, BEFORE_CKPT_END or NO.
        vlsn: None for an entry without one.
        prev_offset, item_size, checksum: as in the header.
        db_id, txn_id, key, data: None where there is none; `data` also for a deleted record.
        fields: everything else that is printed, by name; what is not printed is not in it. LSNs
            are numbers, or None for the null LSN; times are milliseconds since 1970 (UTC).
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
    key: bytes | None = None
    data: bytes | None = None
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def lsn_text(self) -> str:
        """The LSN as the engines spell it."""
        return f"0x{self.lsn >> 32:x}/0x{self.lsn & 0xFFFFFFFF:x}"


class PrintlogError(Exception):
    """Something in the output is not understood: the reader has to learn it, not to skip it."""


def read_printlog(path: Path, payload: bool = True) -> Iterator[Printed]:
    """The entries of a printlog.xml or printlog.xml.gz, in its order.

    Args:
        path: what DbPrintLog wrote to standard output.
        payload: without it, only what the header tells is read.

    Raises:
        PrintlogError: the output holds something that this reader does not know.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="surrogateescape", newline="") as file:
        text = file.read()
    yield from parse_printlog(text, payload)


def parse_printlog(text: str, payload: bool = True) -> Iterator[Printed]:
    """As `read_printlog`, of the output itself."""
    for part in _split(text):
        head = _HEAD.match(part)
        if head is None:
            raise PrintlogError(f"not an entry: {part[:200]!r}")
        entry = _printed(head)
        if payload:
            body = part[head.end() : part.rindex(_END)]
            try:
                _PAYLOADS[entry.type](entry, body)
            except (KeyError, AttributeError, ValueError) as error:
                raise PrintlogError(f"{entry.lsn_text} {entry.type}: {error!r}") from error
        yield entry


def _split(text: str) -> Iterator[str]:
    """The text of every entry; a line inside a traced message may look like one."""
    start = text.find(_LINE_START)
    while start >= 0:
        end = text.find(_LINE_START, start + 1)
        while end >= 0 and not text.endswith(_END, start, end):
            end = text.find(_LINE_START, end + 1)
        yield text[start + 1 : end if end >= 0 else len(text)]
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


def _ln(tag: str) -> Callable[[Printed, str], None]:
    """A reader of LNs; `tag` is around what the class of the LN prints itself."""

    def read(entry: Printed, body: str) -> None:
        inside, outside = bodies.cut(body, tag)
        record = bodies.record(inside, outside)
        entry.db_id, entry.key, entry.data, entry.txn_id = record[:4]
        entry.fields = record[4] | bodies.LN_EXTRAS[tag](inside, outside)

    return read


def _node(entry: Printed, body: str) -> None:
    entry.db_id, entry.fields = bodies.node(body)


def _old_delta(entry: Printed, body: str) -> None:
    entry.db_id, entry.fields = bodies.old_delta(body)


def _txn_end(entry: Printed, body: str) -> None:
    entry.txn_id, entry.fields = bodies.txn_end(body)


def _plain(parse: Callable[[str], dict[str, Any]]) -> Callable[[Printed, str], None]:
    def read(entry: Printed, body: str) -> None:
        entry.fields = parse(body)

    return read


_USER_LN = _ln("ln")
_PAYLOADS: dict[str, Callable[[Printed, str], None]] = {
    **dict.fromkeys(("LN_TX", "LN", "DelDupLN_TX", "DelDupLN"), _USER_LN),
    **dict.fromkeys(("INS_LN_TX", "INS_LN", "UPD_LN_TX", "UPD_LN"), _USER_LN),
    **dict.fromkeys(("DEL_LN_TX", "DEL_LN", "ReservedFileLN"), _USER_LN),
    **dict.fromkeys(("ExtinctScanLN", "ExtinctScanLN_TX"), _USER_LN),
    **dict.fromkeys(("UPD_LN_TX_WITH_BEFORE_IMAGE", "DEL_LN_TX_WITH_BEFORE_IMAGE"), _USER_LN),
    **dict.fromkeys(("MapLN", "MapLN_TX"), _ln("mapLN")),
    **dict.fromkeys(("NameLN", "NameLN_TX"), _ln("nameLN")),
    **dict.fromkeys(("DupCountLN", "DupCountLN_TX"), _ln("dupCountLN")),
    "FileSummaryLN": _ln("fileSummaryLN"),
    **dict.fromkeys(("IN", "BIN", "DIN", "DBIN", "NewBINDelta"), _node),
    **dict.fromkeys(("BINDelta", "DupBINDelta"), _old_delta),
    **dict.fromkeys(("Commit", "Abort"), _txn_end),
    "DbTree": _plain(bodies.db_tree),
    "CkptStart": _plain(bodies.ckpt_start),
    "CkptEnd": _plain(bodies.ckpt_end),
    "Trace": _plain(bodies.trace),
    "FileHeader": _plain(bodies.file_header),
    "RollbackStart": _plain(bodies.rollback_start),
    "RollbackEnd": _plain(bodies.rollback_end),
    "Matchpoint": _plain(bodies.matchpoint),
    "RestoreRequired": _plain(bodies.restore_required),
    "ImmutableFile": _plain(lambda body: {"empty": "<Empty/>" in body}),
    "Erased": _plain(bodies.erased),
}
