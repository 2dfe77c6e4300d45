"""Findings on the log, the markers and the recovery of a node, as rows."""

from __future__ import annotations

from msgspec import Struct

from je_tools.findings import Code, Severity

_TABLE: tuple[tuple[str, Severity, str, str], ...] = (
    (
        "wal-gap",
        Severity.ERROR,
        "Bytes of a segment are no records, and records of the same segment follow them. The "
        "engine stops reading there: it refuses to start, or starts without everything that "
        "follows.",
        "Copy the store before a node starts. `ignite recover` takes the bytes from another copy "
        "of the segment, or bridges them if recovery does not need their records. It does not "
        "change bytes that recovery does not read.",
    ),
    (
        "wal-early-end",
        Severity.ERROR,
        "The records of a segment end before the segment does, and a later segment exists. "
        "Segments before the last one were complete once.",
        "Look for another copy of the segment, in the archive or a backup of the same node.",
    ),
    (
        "wal-torn-tail",
        Severity.NOTE,
        "The last segment ends inside a record: the node died while it wrote. It is an error if "
        "all bytes of the record were written: then they are damaged.",
        "If it is a note, do nothing: the engine continues before this record.",
    ),
    (
        "wal-missing-segment",
        Severity.ERROR,
        "A segment between two others is in no folder.",
        "Look for it in a backup of the same node. The log before it cannot be replayed.",
    ),
    (
        "wal-copies-differ",
        Severity.ERROR,
        "Two copies of a segment hold different records, each with a right checksum: one of them "
        "comes from another node or time, or was changed on purpose.",
        "Keep both. Compare each with the segments before and after it. `wal dump` reads the first "
        "copy; its column `file` names it.",
    ),
    (
        "wal-header",
        Severity.ERROR,
        "The first record of a segment is damaged, so the engine does not read the file. If only "
        "the checksum of that record is wrong, the engine reads it.",
        "Look for another copy of the segment. je-tools reads the other records if the first of "
        "them gives the index of the segment.",
    ),
    (
        "wal-misnamed",
        Severity.ERROR,
        "The name of an archived segment is not the index in its header: the file was renamed, "
        "or belongs to another node or time.",
        "Compare it with the segments beside it before a node starts.",
    ),
    (
        "wal-unreadable",
        Severity.ERROR,
        "A segment, or a part of it, cannot be read or unpacked, or has an unsupported version.",
        "Copy the file from a healthy device, or from a backup.",
    ),
    (
        "wal-directory",
        Severity.NOTE,
        "The directory at the end of a compacted segment is damaged. A node does not read it, but "
        "other programs cannot unpack the file.",
        "The node needs nothing. To unpack the file elsewhere, copy it from a backup.",
    ),
    (
        "wal-unsearched",
        Severity.ERROR,
        "The rest of a segment was not searched, because too many places in it look like records "
        "and are none.",
        "This does not happen by accident: find out who made the file.",
    ),
    (
        "wal-end",
        Severity.NOTE,
        "The records of a segment end here, and nothing is wrong.",
        "Nothing to do.",
    ),
    (
        "marker-bad",
        Severity.ERROR,
        "A checkpoint marker does not have the 16 bytes of a pointer, or no valid time and id in "
        "its name. A node does not start if it is the newest of its kind, or has no valid name.",
        "Copy the store, and do not delete the marker. `ignite recover` writes its content anew, "
        "or sets it aside if its checkpoint cannot have written a page.",
    ),
    (
        "marker-differs",
        Severity.ERROR,
        "The begin and the end marker of one checkpoint point to different places of the log.",
        "Compare both with the record of the checkpoint in the log.",
    ),
    (
        "marker-no-begin",
        Severity.ERROR,
        "A checkpoint has an end marker but no begin marker. The engine never leaves this.",
        "Look for the marker in a backup of the same node. A node that recovers from an older "
        "begin marker halts.",
    ),
    (
        "marker-unfinished",
        Severity.NOTE,
        "A checkpoint began and did not end: the node died while it wrote pages, or is running. If "
        "it is the newest, the page files are a mix until recovery has replayed the log.",
        "Keep the marker and the log: the node finishes the checkpoint when it starts.",
    ),
    (
        "marker-leftover",
        Severity.NOTE,
        "A marker file that was never finished is beside the markers. The engine ignores or "
        "deletes it.",
        "Nothing to do.",
    ),
    (
        "checkpoint-no-record",
        Severity.ERROR,
        "A marker points to a place in the log that does not have the record of its checkpoint. It "
        "is a note if recovery does not need the record and its segment is gone: the engine "
        "removes old segments.",
        "Look for the segment in a backup of the same node.",
    ),
    (
        "checkpoint-unmarked",
        Severity.WARNING,
        "The log has a checkpoint newer than all begin markers. Either the node died before it "
        "wrote the marker, or the marker was removed: then page files can be a mix of two "
        "checkpoints that the engine takes for complete.",
        "Look for the marker in a backup. Do not start the node without a copy of the store.",
    ),
    (
        "checkpoint-missing-wal",
        Severity.ERROR,
        "Segments that recovery reads are missing.",
        "Look for them in a backup of the same node. The node refuses to start, or loses updates.",
    ),
    (
        "recovery-refused",
        Severity.ERROR,
        "The node does not start, or halts soon after: the engine does not accept the damage to a "
        "marker, the log or a page.",
        "Copy the store before anything else. `ignite recover --apply` writes what the node "
        "accepts, if the log has enough.",
    ),
    (
        "recovery-loss",
        Severity.ERROR,
        "The node starts, but loses data without a message: the records after damage in its last "
        "segment, a missing segment, or a partition whose file is missing.",
        "Copy the store before you start the node. `ignite recover` shows what can be repaired.",
    ),
    (
        "recovery-page",
        Severity.ERROR,
        "Pages are damaged. It is a note if recovery writes them anew.",
        "If it is an error, the finding says what to do.",
    ),
    (
        "recovery-unclear",
        Severity.WARNING,
        "The files do not show the outcome of the start: the log has a checkpoint later than all "
        "markers, or records that do not decode.",
        "Start the node on a copy of the store, and compare.",
    ),
    (
        "metadata-damaged",
        Severity.ERROR,
        "The description of a type (`binary_meta`), the name of a class (`marshaller`), the "
        "configuration of a cache (`cache_data.dat`) or `cpMapSnapshot.bin` is damaged, or cannot "
        "be read. Values of the type may be shown with wrong names.",
        "Copy the file from a backup, or from another node: all nodes of a cluster have the same "
        "types and classes. The engine removes a `cpMapSnapshot.bin` that it cannot read.",
    ),
)

CODES = {row[0]: Code(*row) for row in _TABLE}
"""Every finding code, in the order of the documentation."""


class NodeFinding(Struct, frozen=True):
    """One finding on a node; the same columns in every output.

    Attributes:
        code: a key of CODES.
        severity: severity of this finding.
        node: name of the node.
        file: path below the store.
        segment: index of the segment; None if unknown.
        offset, length: byte range in the file, or in the unpacked segment.
        resume_offset: offset of the next record after it.
        expected, found: expected and actual content.
        hint: next step, if it differs from that of the code.
    """

    code: str
    severity: Severity
    node: str
    file: str | None = None
    segment: int | None = None
    offset: int | None = None
    length: int | None = None
    resume_offset: int | None = None
    expected: str | None = None
    found: str | None = None
    hint: str | None = None
