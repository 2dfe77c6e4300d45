"""Report of a salvage: `report.jsonl`, and its summary for people.

The JSON lines go from the general to the specific: the log, its gaps, its databases, then lost and
unsure records. Records that are sure have no line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from je_tools.core.escaping import clean_text, counted, printable
from je_tools.core.masking import DataMode, Masking
from je_tools.formats.je.header import lsn_text
from je_tools.formats.je.internal.names import INTERNAL_PREFIX
from je_tools.formats.je.types import type_name
from je_tools.formats.rows import Cell, Form, lines_of, words
from je_tools.log.records import PIECE_ROWS
from je_tools.recovery.database import NAME_DB
from je_tools.salvage.choice import Confidence, LnOutcome
from je_tools.salvage.extents import NO_TYPE
from je_tools.salvage.gaps import GapKind, LogGap

if TYPE_CHECKING:
    from je_tools.formats.arrays import Mask
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.spans import Spans
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile, Misnamed
    from je_tools.salvage.batches import GradedRecords
    from je_tools.salvage.output import Output
    from je_tools.salvage.salvaged import LostPiece, Salvage, SalvagedDatabase

_UNSURE = (Confidence.SLOT_ONLY, Confidence.OLDER)


class Losses(NamedTuple):
    """Numbers of known losses, which match the lines of the report.

    Attributes:
        records: number of lost records; database names are among them only if internal databases
            are salvaged.
        names: number of database names without a known database.
        undecodable: number of record entries with a good checksum that cannot be decoded.
    """

    records: int
    names: int
    undecodable: int


def losses_of(salvaged: Salvage) -> Losses:
    """Count the losses: what the log names and no longer holds, and what cannot be decoded."""
    names = sum(1 for _ in _lost_names(salvaged))
    return Losses(salvaged.lost_count, names, salvaged.content.undecodable)


def write_report(
    salvaged: Salvage,
    databases: Sequence[SalvagedDatabase],
    output: Output,
    masking: Masking,
    out: BinaryIO,
) -> None:
    """Write the whole salvage report.

    Args:
        salvaged: the salvage.
        databases: the databases that have been written.
        output: their files.
        masking: masking of keys.
        out: stream to write to.
    """
    _write(out, {"kind": "log", **_log_row(salvaged)})
    for file in salvaged.environment.misnamed:
        _write(out, {"kind": "misnamed-file", **_misnamed_row(file)})
    for state in salvaged.states:
        if state.file.is_guessed:
            _write(out, {"kind": "guessed-version", **_guessed_row(state.file)})
    for gap in salvaged.gaps:
        _write(out, {"kind": "gap", **_gap_row(gap)})
    apart = {written.database.db_id: written.file for written in output.apart}
    for one, written in zip(databases, output.records, strict=True):
        files = {"file": written.file, "unfinished_file": apart.get(one.database.db_id)}
        row = _database_row(one) | {"left_out": written.left_out}
        if salvaged.now_ms is not None:
            row["expired"] = sum(one.records.values()) - written.records - written.left_out
        _write(out, {"kind": "database", **row, **files})
    for name in _lost_names(salvaged):
        _write(out, {"kind": "lost-name", **name})
    for one in databases:
        for lines in _record_lines(salvaged, one, masking):
            out.write(lines.data)


def _write(out: BinaryIO, row: dict[str, Any]) -> None:
    out.write(json.dumps(row, separators=(",", ":")).encode() + b"\n")


def _log_row(salvaged: Salvage) -> dict[str, Any]:
    content = salvaged.content
    return {
        "environment": clean_text(salvaged.environment.name),
        "mode": salvaged.mode.value,
        "files": len(content.states),
        "bytes": sum(state.size for state in content.states),
        "versions": len(content.lns),
        "undecodable": content.undecodable,
        "committed": content.committed.count,
        "aborted": content.aborted.count,
        "gaps": len(salvaged.gaps),
        "lost_bytes": sum(_size(gap) for gap in salvaged.gaps if gap.is_damage),
    }


def _misnamed_row(file: Misnamed) -> dict[str, Any]:
    return {
        "path": clean_text(str(file.path)),
        "name_no": file.name_no,
        "header_no": file.header_no,
        "file_no": file.file_no,
    }


def _guessed_row(file: LogFile) -> dict[str, Any]:
    return {
        "path": clean_text(str(file.path)),
        "file_no": file.file_no,
        "version": file.version,
        "by": file.by.value,
    }


def _gap_row(gap: LogGap) -> dict[str, Any]:
    row: dict[str, Any] = {
        "gap": gap.kind.value,
        "start": lsn_text(gap.start),
        "stop": lsn_text(gap.stop),
        "first_file": gap.start >> 32 & 0xFFFFFFFF,
    }
    if gap.kind is GapKind.NO_FILE:
        row["files"] = gap.file_count
    else:
        row["bytes"] = _size(gap)
    if gap.reason is not None:
        row["reason"] = clean_text(gap.reason)
    return row | {
        "before": None if gap.before == NO_TYPE else type_name(gap.before),
        "after": None if gap.after == NO_TYPE else type_name(gap.after),
        "dangling": gap.dangling,
        "lost_keys": gap.keys,
        "held": gap.held,
    }


def _size(gap: LogGap) -> int:
    return 0 if gap.kind is GapKind.NO_FILE else gap.stop - gap.start


def _database_row(one: SalvagedDatabase) -> dict[str, Any]:
    return {
        "db": one.database.shown,
        "db_id": one.database.db_id,
        "state": one.state,
        "duplicates": one.database.has_duplicates,
        "described": one.kind,
        "comparator": one.has_comparator,
        "versions": one.versions,
        "records": {grade.label: count for grade, count in one.records.items()},
        "unfinished": one.apart,
        "undecided": one.undecided,
        "lost_keys": one.lost,
    }


def _lost_names(salvaged: Salvage) -> Iterator[dict[str, Any]]:
    """Yield the database names that B-tree slots hold but whose database is unknown."""
    known = {name for each in salvaged.content.databases.values() for name in each.names}
    for piece in salvaged.lost_records(NAME_DB):
        records = piece.dangling.records
        for row in np.flatnonzero(~piece.dangling.gone).tolist():
            name = (records.key[row] or b"").decode("utf-8", "surrogateescape")
            if name not in known and not name.startswith(INTERNAL_PREFIX):
                lsn = lsn_text(int(records.lsn[row]))
                yield {"db": clean_text(name), "lsn": lsn}


def _record_lines(salvaged: Salvage, one: SalvagedDatabase, masking: Masking) -> Iterator[Bytes]:
    """Yield lines of a database: lost keys, then unsure records, then undecided ones."""
    line = _Line(one, masking)
    for piece in salvaged.lost_records(one.database.db_id):
        yield from _lost_lines(piece, line)
    for batch in salvaged.dangling_batches(one):
        yield line.of("record", batch)
    for kind, outcome, confidence in (
        ("record", LnOutcome.TAKEN, Confidence.OLDER),
        ("undecided", LnOutcome.UNDECIDED, None),
    ):
        for coming in salvaged.batches(one, outcome, confidence):
            yield line.of(kind, coming.read())


class _Line:
    """Encoder of report lines about the records of one database."""

    def __init__(self, one: SalvagedDatabase, masking: Masking) -> None:
        self.front = f'"db":{json.dumps(one.database.shown)},"key":'
        self.masking = masking

    def key_cell(self, kind: str, key: Spans) -> Cell:
        """Return the cell that every line begins with."""
        is_shown = self.masking.mode is DataMode.SHOW
        front = f'{{"kind":"{kind}",{self.front}'.encode()
        form = Form.HEX if is_shown else Form.TEXT
        return Cell(form, self.masking.column(key), front + b'"', b'"', front + b"null")

    def of(self, kind: str, records: GradedRecords) -> Bytes:
        """Encode a line for each record with its LSN and its confidence."""
        labels = words([grade.label.encode() for grade in Confidence], records.confidence)
        cells = [
            self.key_cell(kind, records.key),
            Cell(Form.LSN, records.lsn, b',"lsn":"', b'"'),
            Cell(Form.TEXT, labels, b',"confidence":"', b'"}\n'),
        ]
        return lines_of(cells)


def _lost_lines(piece: LostPiece, line: _Line) -> Iterator[Bytes]:
    index = np.flatnonzero(~piece.comes_back)
    for first in range(0, len(index), PIECE_ROWS):
        some = index[first : first + PIECE_ROWS]
        dangling = piece.dangling.select(some)
        cells = [
            line.key_cell("lost-key", dangling.records.key),
            Cell(Form.LSN, dangling.records.lsn, b',"lsn":"', b'"'),
            Cell(Form.LSN, dangling.by, b',"named_by":"', b'"'),
            _choice(dangling.by_slot, b',"by":"slot"', b',"by":"transaction"'),
            _choice(dangling.gone, b',"deletion":true', b',"deletion":false'),
            _choice(piece.has_older[some], b',"older":true}\n', b',"older":false}\n'),
        ]
        yield lines_of(cells)


def _choice(mask: Mask, yes: bytes, no: bytes) -> Cell:
    return Cell(Form.TEXT, words([no, yes], mask.astype(np.int64)))


def summary_text(salvaged: Salvage, databases: Sequence[SalvagedDatabase], output: Output) -> str:
    """Return the report as text for people, without single records."""
    row = _log_row(salvaged)
    lines = [
        f"{printable(salvaged.environment.name)}: {counted(row['files'], 'file')}, "
        f"{row['bytes']:,} bytes, "
        f"{row['versions']:,} versions of records, {row['committed']:,} commits",
        *_file_texts(salvaged.environment),
        *_gap_texts(salvaged.gaps),
        "",
    ]
    header = ("DATABASE", "STATE", "RECORDS", "UNSURE", "LOST", "FILE")
    rows = [header]
    for one, written in zip(databases, output.records, strict=True):
        unsure = sum(one.records.get(grade, 0) for grade in _UNSURE) + one.undecided
        counts = (f"{written.records:,}", f"{unsure:,}", f"{one.lost:,}")
        state = one.state if one.kind == "known" else f"{one.state} ({one.kind})"
        rows.append((printable(one.database.shown), state, *counts, written.file or ""))
    rows += [
        (printable(each.database.shown), "unfinished", f"{each.records:,}", "", "", each.file or "")
        for each in output.apart
    ]
    return "\n".join([*lines, *_aligned(rows)]) + "\n"


def _file_texts(environment: Environment) -> Iterator[str]:
    for each in environment.files:
        if each.is_guessed:
            yield f"guessed-version: {printable(str(each.path))} is {each.version_text}"
    for file in environment.misnamed:
        yield f"misnamed-file: {printable(str(file.path))} is {file.text}"


def _gap_texts(gaps: Sequence[LogGap]) -> Iterator[str]:
    for kind in GapKind:
        some = [gap for gap in gaps if gap.kind is kind]
        if not some:
            continue
        size = sum(map(_size, some))
        what = f"{size:,} bytes" if kind is not GapKind.NO_FILE else _files(some)
        dangling = sum(gap.dangling for gap in some)
        count = counted(len(some), "gap")
        yield f"{kind.value}: {count}, {what}, lost entries with references: {dangling:,}"


def _files(gaps: Sequence[LogGap]) -> str:
    return counted(sum(gap.file_count for gap in gaps), "file")


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        pads: list[Callable[[str, int], str]] = [
            str.rjust if 2 <= i < 5 else str.ljust for i in range(len(row))
        ]
        cells = (pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True))
        yield "  ".join(cells).rstrip()
