"""Findings: the damage of a log, as rows. Damage is data, never an exception."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from je_tools.core.masking import SHOWN, Masking
from je_tools.formats.je.header import lsn_of, lsn_text


class Severity(StrEnum):
    """Severity of a finding: an error is damage, a note is worth knowing."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class Code(Struct, frozen=True):
    """A finding code and its meaning.

    Attributes:
        name: spelling in every output.
        severity: usual severity; a finding may differ and then says why.
        meaning: description of what was seen.
        hint: next step for the user.
    """

    name: str
    severity: Severity
    meaning: str
    hint: str


_TABLE: tuple[tuple[str, Severity, str, str], ...] = (
    (
        "clean-end",
        Severity.NOTE,
        "The file ends where its last entry ends.",
        "Nothing to do.",
    ),
    (
        "zero-tail",
        Severity.NOTE,
        "Behind the last entry there are only zeros: space that was given to the file and not yet "
        "written when the writer or the machine stopped. In a file that others follow it is an "
        "error, since that one was complete once.",
        "In the last file nothing: the engine cuts the zeros off when it opens the log. In another "
        "file the entries that stood there are lost; look for a copy of the file.",
    ),
    (
        "torn-tail",
        Severity.NOTE,
        "The last file ends inside an entry: the writer died, or is writing at this moment. What "
        "is behind the last whole entry was never complete. It is an error where the file ends "
        "inside its header: engines write headers whole, so the rest of the file was cut off.",
        "Nothing, where it is a note: the engine cuts the tail off when it opens the log. Where it "
        "is an error, look for a copy of the file.",
    ),
    (
        "truncated-file",
        Severity.ERROR,
        "A file that others follow ends too early: inside an entry, or before the entry that the "
        "next file's header names as its last. A file is complete before the next one begins, so "
        "bytes have been lost since.",
        "Look for a copy of the file (a backup, another node) that is as long as it should be.",
    ),
    (
        "damaged-entry",
        Severity.ERROR,
        "One entry whose bytes do not have its checksum, or whose header leads nowhere, while the "
        "entry behind it names it. All others around it can be read.",
        "Look at it with `je-tools explain LSN --env ENV`; compare with a backup or another node. "
        "In the last file the engine takes it for the end of the log and cuts off all behind it.",
    ),
    (
        "damaged-gap",
        Severity.ERROR,
        "Bytes in which entries have been lost, how many cannot be told, or bytes that never were "
        "entries.",
        "Compare with a backup or another node. In the last file the engine takes the place for "
        "the end of the log and cuts off all behind it.",
    ),
    (
        "unread",
        Severity.ERROR,
        "A directory, an environment or a file that an audit could not read, or not to its end: "
        "permissions, a file that vanished or shrank meanwhile, no log at all.",
        "Mend what keeps it from being read, and audit it again; what else was found still holds.",
    ),
    (
        "unknown-type",
        Severity.ERROR,
        "An entry with a right checksum and a type that files of its log version do not have.",
        "A newer je-tools may know it; an engine that does not know it takes it for damage.",
    ),
    (
        "bad-file-header",
        Severity.ERROR,
        "The first entry of a file is not a file header with a right checksum. Its log version is "
        "the one that its entries fit, or that of the files around it. A last file that ends "
        "inside its header is a torn tail, but not where no file has a whole one: the engine finds "
        "no log then. An empty file of which nothing is in use is a warning: the engine passes it "
        "over.",
        "Look for a copy of the file: an error keeps the engine from opening the log. Where "
        "nothing was ever written but this file, move it aside, and the engine makes a new log.",
    ),
    (
        "unsupported-version",
        Severity.ERROR,
        "The file's header is whole, and names a log version that this je-tools does not know.",
        "Look for a newer je-tools.",
    ),
    (
        "wrong-file-number",
        Severity.ERROR,
        "A file's header holds another number than its name: it was renamed, or swapped.",
        "The engine refuses it. Give the file the name of the number in its header.",
    ),
    (
        "duplicate-file",
        Severity.ERROR,
        "Two files have the same number, in the home directory and in data directories.",
        "Only one belongs to this log; find out which before the engine does.",
    ),
    (
        "misplaced-file",
        Severity.ERROR,
        "With several data directories file f belongs into number (f modulo their count) + 1.",
        "The engine refuses to open the log until the file is moved.",
    ),
    (
        "missing-file",
        Severity.NOTE,
        "The numbers of the files have a gap. The cleaner leaves such gaps; it is an error where "
        "the log still accounts for the file as in use, or where recovery would have to read it, "
        "and a warning where there is no tree that tells.",
        "Where it is an error, look for the file in a backup or under the names .del and .bad.",
    ),
    (
        "last-entry-mismatch",
        Severity.ERROR,
        "A file's header names another last entry of the file before it than that file has: one of "
        "the two was replaced, restored from another time, or belongs to another log.",
        "Compare both files with a backup or another node.",
    ),
    (
        "version-step",
        Severity.NOTE,
        "From this file on the log version is another: the engine was upgraded. An older version "
        "behind a newer one is a warning, since no engine writes such a log.",
        "See which releases open the log with `je-tools files`.",
    ),
    (
        "restore-marker",
        Severity.ERROR,
        "The engine has left a RestoreRequired entry: a network restore did not come to its end, "
        "or it found its log damaged. It refuses to open the log.",
        "Finish the network restore or restore a backup. Deleting the marker makes the engine open "
        "a log that may have holes.",
    ),
    (
        "erased-not-zero",
        Severity.WARNING,
        "Entries of type Erased whose bytes are not all zero: the eraser was stopped between its "
        "two steps, and what should be gone can still be read. A damaged type byte looks the same.",
        "The engine's eraser completes it in a later cycle. Until then treat the file and copies "
        "of it as holding the data.",
    ),
    (
        "vlsn-duplicate",
        Severity.ERROR,
        "Replicated entries have VLSNs that were used before, and no rollback took those back.",
        "Do not rebuild the VLSN index of this node; restore it from another node.",
    ),
    (
        "vlsn-backward",
        Severity.ERROR,
        "VLSNs of replicated entries go back to numbers that had not been seen, and no rollback "
        "explains it: files of several logs are mixed, or are in the wrong order.",
        "Compare the files with those of another node.",
    ),
    (
        "vlsn-gap",
        Severity.WARNING,
        "VLSNs are left out although no file is missing and nothing is damaged in between.",
        "Compare the files with those of another node.",
    ),
    (
        "prev-offset-mismatch",
        Severity.ERROR,
        "A whole entry does not name the one in front of it as the one before it: entries were "
        "copied there, bytes were inserted, or bytes are missing.",
        "The engine reads such a log differently forward and backward. Compare with a backup.",
    ),
    (
        "more-damage",
        Severity.ERROR,
        "A file has more damaged places than are told one by one: between the first and the last "
        "of the others there are as many as this says. It is a warning where none of them is an "
        "error.",
        "Little of such a file is a log: look for a copy of it.",
    ),
    (
        "unreadable",
        Severity.ERROR,
        "The device could not deliver these bytes; they were taken as zeros.",
        "Copy the disk before anything else, with a tool that keeps the places of bytes.",
    ),
    (
        "unreadable-file",
        Severity.ERROR,
        "A log file exists and the system does not open it (permissions, or a failing device), or "
        "a directory, a pipe or a link without a target has the name of a log file. The log is "
        "read without it. The engine takes all of these for log files: it fails, or waits.",
        "Run the command as a user who may read the file; repair the disk; mount the volume to "
        "which the link leads; or move away what is not a file.",
    ),
    (
        "old-delta-in-v8",
        Severity.WARNING,
        "A file of log version 8 holds old BIN-deltas (type 22). JE 25.3 accepts the file, takes "
        "the first of them for the end of the log, and cuts off all behind it without a message.",
        "Open the log with JE 7.5 or 18.3 first, which can read it and write newer files.",
    ),
    (
        "old-form-to-replay",
        Severity.WARNING,
        "Behind the start of the last checkpoint, where recovery begins, the log holds entries of "
        "databases with duplicates, or BIN-deltas, in the form of log versions before 8. JE 5.0 "
        "and later refuse to open it.",
        "Run DbPreUpgrade_4_1 of JE 4.1.20 or a later 4.1 on it (DbRepPreUpgrade_4_1 where it is "
        "replicated); then open it with JE 5.0 or later.",
    ),
    (
        "old-form-left-out",
        Severity.ERROR,
        "Behind the start of the last checkpoint records of a database with duplicates were "
        "written in the form of log versions before 8. They are not replayed here: the database "
        "is shown as it was at the checkpoint.",
        "`je-tools salvage` gets the records that were written; DbPreUpgrade_4_1 of JE 4.1.20 or "
        "a later 4.1 ends the log so that nothing is left to be replayed.",
    ),
    (
        "recovery-refused",
        Severity.ERROR,
        "The engine would refuse to open the log as it is. What is shown is what the log holds "
        "all the same.",
        "See what `je-tools verify` says of the log; `je-tools salvage` gets records out.",
    ),
    (
        "backward-jump",
        Severity.ERROR,
        "An entry at the end of the log does not name the entry before it: entries were copied "
        "there from elsewhere in the log. Recovery goes backward along these names and jumps over "
        "the entries between. Transactions whose Commit it jumps over do not count as committed.",
        "Copy the log before the engine opens it. `je-tools recover --to-lsn` before the copied "
        "entries cuts the log back to there, and keeps those Commits.",
    ),
    (
        "lost-tail",
        Severity.ERROR,
        "Behind the end of the log, which is the first damaged entry of the last file, there are "
        "whole Commits. The engine cuts all of it off when it opens the log, without a message.",
        "Copy the log before the engine opens it. `je-tools recover` lists what would be lost.",
    ),
    (
        "damaged-end",
        Severity.ERROR,
        "The log ends at a damaged entry of the last file, and whole entries follow, though no "
        "Commit. The engine cuts all of it off when it opens the log, without a message. What was "
        "damaged may have been a Commit itself.",
        "Copy the log before the engine opens it. `je-tools salvage --mode everything` gets what "
        "is behind.",
    ),
    (
        "tree-damage",
        Severity.ERROR,
        "A node of a B-tree, or the record that a slot of one names, cannot be read: its file is "
        "missing, its bytes are damaged, or it is something else than it should be.",
        "Look for the file in a backup. `je-tools salvage` gets records out without the tree.",
    ),
    (
        "more-tree-damage",
        Severity.ERROR,
        "There is more damage in B-trees than is told one by one. It is a warning where nothing "
        "of it is an error.",
        "`je-tools missing` lists what is lost with files; else mend what is told first.",
    ),
    (
        "tree-node",
        Severity.ERROR,
        "A slot of an upper node, or a database's descriptor, does not lead to the node that it "
        "should: the file is missing, the entry is damaged, erased, no node, a node of another "
        "database, or one for other keys. The keys that it held cannot be reached.",
        "Look for the file in a backup or on another node. `je-tools salvage` gets records out "
        "without the tree.",
    ),
    (
        "tree-level",
        Severity.ERROR,
        "A node has another level than its place in the tree asks for, or is marked as a root "
        "without being one, or the reverse.",
        "Look at it with `je-tools explain LSN --env ENV`. `je-tools salvage` gets records out "
        "without the tree.",
    ),
    (
        "tree-delta",
        Severity.ERROR,
        "A BIN-delta, which holds the changed slots of a BIN, names a full version that cannot be "
        "read, or that is one of another node. Only the changed slots are left.",
        "Look for the file of the full version in a backup or on another node.",
    ),
    (
        "tree-record",
        Severity.ERROR,
        "A slot's LSN does not lead to the record of its key: the file is missing, the entry is "
        "damaged, erased, no record, or one of another database or key, or a deletion.",
        "Look for the file in a backup or on another node; `je-tools salvage` may find an older "
        "version of the record.",
    ),
    (
        "tree-order",
        Severity.ERROR,
        "The keys of a node do not ascend. The engine's searches miss keys on either side.",
        "`je-tools salvage` gets the records out without searches; load them into a new database.",
    ),
    (
        "tree-bounds",
        Severity.ERROR,
        "A node holds a key outside of the range that its parents' slots give to it. The engine's "
        "searches do not find it.",
        "`je-tools salvage` gets the records out without searches; load them into a new database.",
    ),
    (
        "tree-stray",
        Severity.WARNING,
        "A node holds a key outside of the range that its parents' slots give to it, in a log "
        "that was not closed: a crash can leave such slots, which are stale copies. Searches "
        "never see them, but a scan by the engine may return records twice, bring deleted ones "
        "back, pass over others, or fail.",
        "Export the database with `je-tools export`, which leaves such slots out, and compare it "
        "with a scan by the engine.",
    ),
    (
        "tree-identifier",
        Severity.ERROR,
        "The identifier key of a node, by which recovery finds its place in the tree, is outside "
        "of the node's range, or in none of its slots. Its records can be read, but recovery may "
        "put the node in a wrong place, or fail.",
        "Export the database and load it into a new one.",
    ),
    (
        "tree-node-id",
        Severity.ERROR,
        "Two nodes have the same id, or one has an id that the last checkpoint does not know yet. "
        "Recovery takes the newer of two nodes for the newest version of both.",
        "Export the databases and load them into a new environment.",
    ),
    (
        "tree-state",
        Severity.ERROR,
        "A slot is in a state that engines do not write: without an LSN and not deleted, embedded "
        "data where there can be none, or a bottom node's state in an upper node.",
        "Look at the node with `je-tools explain LSN --env ENV`.",
    ),
    (
        "tree-expiration",
        Severity.WARNING,
        "The expiration in a slot is not that of its record, or a node says that its expirations "
        "are in hours while they are in days, or the reverse. Engines up to 18.3 leave such slots "
        "behind; records expire too early, too late, or never.",
        "Write the records anew with the time to live that they should have.",
    ),
    (
        "tree-name",
        Severity.ERROR,
        "A name of a database leads to a descriptor that is not there. It is a warning in a log "
        "that was not closed: a crash while the database was made leaves that.",
        "Remove the database by its name, or look for what is missing in a backup.",
    ),
    (
        "tree-obsolete",
        Severity.ERROR,
        "The cleaner has noted an entry as obsolete that a tree still needs. It will delete the "
        "file without moving the entry.",
        "Copy the log before the engine's cleaner runs. Export what is concerned and load it anew.",
    ),
    (
        "tree-reserved",
        Severity.ERROR,
        "A tree needs an entry in a file that is reserved: cleaned, and to be deleted as soon as "
        "space is wanted.",
        "Copy the file before the engine deletes it. Export what is concerned and load it anew.",
    ),
    (
        "utilization",
        Severity.WARNING,
        "The totals of entries and bytes that the engine keeps of a file are not those that the "
        "file has. The cleaner chooses files by them; no record depends on them.",
        "Nothing, where the difference is small; `je-tools space --recount` has the right figures.",
    ),
    (
        "stray-slots",
        Severity.WARNING,
        "Bottom nodes hold keys that the nodes above them do not give them: a crash has left stale "
        "copies there. They are not shown. The engine's cursors walk over them: it returns "
        "records twice, deleted ones, or passes over a whole node.",
        "Trust what is shown here, and load it into a new database if the engine must serve it.",
    ),
    (
        "expiration-unit",
        Severity.WARNING,
        "Bottom nodes count the expirations of records in another unit, hours or days, than they "
        "say, as JE 7.5 and 18.3 have left them. The unit is taken from the numbers here; the "
        "engine takes such records for expired, or for ones that never expire.",
        "Nothing is lost. JE 25.3 reads them right.",
    ),
    (
        "transaction-in-doubt",
        Severity.WARNING,
        "A transaction was prepared (XA), and has neither a Commit nor an Abort. The engine keeps "
        "its records locked until the application's transaction manager decides; here they are as "
        "they were before.",
        "Open the environment with the application (XAEnvironment.recover), which decides. Only "
        "then can je-tools write to it.",
    ),
    (
        "root-split-cut-short",
        Severity.WARNING,
        "A full node under the only slot of a root, or above others: the log ends in the middle of "
        "a split. The engine can fail to insert a record there, at every open, with 'should have "
        "been split'.",
        "If the engine fails, `je-tools export` gets the records for a new environment.",
    ),
    (
        "creation-cut-short",
        Severity.WARNING,
        "The log ends while one of the engine's own databases was being created. Oracle NoSQL's "
        "engine gives the same id to the one that it creates anew, waits for itself, and fails "
        "after some minutes. No application has a record in such a log yet.",
        "Create the environment anew.",
    ),
    (
        "unknown-order",
        Severity.NOTE,
        "A database has a comparator of the application, which only its classes know. Its records "
        "are shown in the order of its tree; those whose place nobody knows come last.",
        "Nothing, where the order of records does not matter.",
    ),
    (
        "live-writer",
        Severity.NOTE,
        "An engine has the log open, or the log grew while it was read. Its end is where it was "
        "when the file was opened for reading.",
        "Nothing; for a verdict on the last entries, look again when the engine is closed.",
    ),
)

CODES: dict[str, Code] = {row[0]: Code(*row) for row in _TABLE}
"""Every finding code, in the order of the documentation."""


class TreePlace(Struct, frozen=True):
    """Place of damage in a B-tree, and the keys that it costs.

    Attributes:
        database: its name, or `id:7` if it has none.
        parent_lsn: LSN of the node whose slot leads there, or is at fault; None for a root.
        slot: index in that node; None for the whole node.
        low, high: lost keys, from `low` up to and without `high`; None if open; equal for one key.
        loses: True if keys are lost.
        masking: masking of these keys.
    """

    database: str
    parent_lsn: int | None
    slot: int | None
    low: bytes | None
    high: bytes | None
    loses: bool
    masking: Masking = SHOWN

    @property
    def path(self) -> str:
        """The place in words."""
        if self.parent_lsn is None:
            return f"database {self.database}"
        slot = "" if self.slot is None else f"slot {self.slot} of "
        return f"database {self.database}, {slot}the node at {lsn_text(self.parent_lsn)}"

    @property
    def lost(self) -> str:
        """The lost keys in words; empty for none."""
        if not self.loses:
            return ""
        if self.low is not None and self.low == self.high:
            return f"key {self.masking.key_text(self.low)}"
        low, high = "the first key", "the last key"
        if self.low is not None:
            low = f"key {self.masking.key_text(self.low)}"
        if self.high is not None:
            high = f"before key {self.masking.key_text(self.high)}"
        return f"from {low} to {high}"

    def row(self) -> dict[str, str | int | None]:
        """Return the place as columns of text outputs, keys in hexadecimal or masked."""
        row: dict[str, str | int | None] = {
            "database": self.database,
            "parent_lsn": None if self.parent_lsn is None else lsn_text(self.parent_lsn),
            "slot": self.slot,
        }
        if self.loses:
            ends = {"lost_from": self.low, "lost_to": self.high}
            for name, key in ends.items():
                row[name] = None if key is None else self.masking.text_of(key)
            row["is_one_key"] = self.low is not None and self.low == self.high
        return row


class Finding(Struct, frozen=True):
    """One finding; the same columns in every output.

    Attributes:
        code: a key of CODES.
        severity: severity of this finding.
        env: the environment as named on the command line; the file concerned if files were named.
        file_no: number of the file; None if the finding concerns the directory.
        offset, length: byte range in the file.
        resume_offset: offset of the next good entry after it, or None.
        expected, found: expected and actual content.
        hint: next step for the user.
        tree: place in a B-tree, if a tree is damaged.
    """

    code: str
    severity: Severity
    env: str
    file_no: int | None = None
    offset: int | None = None
    length: int | None = None
    resume_offset: int | None = None
    expected: str | None = None
    found: str | None = None
    hint: str | None = None
    tree: TreePlace | None = None

    @property
    def lsn(self) -> int | None:
        """LSN of the first byte concerned, or None."""
        if self.file_no is None or self.offset is None:
            return None
        return lsn_of(self.file_no, self.offset)

    @property
    def resume_lsn(self) -> int | None:
        """LSN of the entry where reading goes on, or None."""
        if self.file_no is None or self.resume_offset is None:
            return None
        return lsn_of(self.file_no, self.resume_offset)

    @property
    def where(self) -> str:
        """The place in words: LSN and length, or the file; empty for the whole directory."""
        if self.lsn is not None:
            size = "" if self.length is None else f", {self.length:,} bytes"
            return lsn_text(self.lsn) + size
        return "" if self.file_no is None else f"{self.file_no:08x}.jdb"

    def text(self) -> str:
        """Return the finding in one line: code, place, expected and found content, next step."""
        parts = [f"{self.severity.value}: {self.code}"]
        parts[0] += f" at {self.where}" if self.where else ""
        if self.tree is not None:
            parts.append(f"in {self.tree.path}")
        if self.expected:
            parts.append(f"expected {self.expected}")
        if self.found:
            parts.append(f"found {self.found}")
        if self.tree is not None and self.tree.lost:
            parts.append(f"lost {self.tree.lost}")
        if self.resume_lsn is not None:
            parts.append(f"entries go on at {lsn_text(self.resume_lsn)}")
        return "; ".join([*parts, self.hint] if self.hint else parts)

    def row(self) -> dict[str, str | int | None]:
        """Return the finding as columns of text outputs, LSNs formatted as 0x…/0x…."""
        return {
            "code": self.code,
            "severity": self.severity.value,
            "env": self.env,
            "file_no": self.file_no,
            "offset": self.offset,
            "length": self.length,
            "lsn": None if self.lsn is None else lsn_text(self.lsn),
            "resume_lsn": None if self.resume_lsn is None else lsn_text(self.resume_lsn),
            "expected": self.expected,
            "found": self.found,
            "hint": self.hint,
            **({} if self.tree is None else self.tree.row()),
        }
