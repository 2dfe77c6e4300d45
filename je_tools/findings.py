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
        name: name, the same in every output.
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
        "Only zeros follow the last entry: space that was allocated to the file but not written "
        "before the writer or the machine stopped. This is an error in every file but the last, "
        "because such a file was complete once.",
        "In the last file, do nothing: the engine cuts the zeros off when it opens the log. In "
        "another file, entries are lost: look for a copy of the file in a backup of the same node, "
        "or in the log's directory with the suffix .del or .bad.",
    ),
    (
        "torn-tail",
        Severity.NOTE,
        "The last file ends inside an entry: the writer died, or is writing now. The bytes after "
        "the last whole entry were never a complete entry. This is an error if the file ends "
        "inside its header: engines write headers whole, so the rest of the file was cut off.",
        "If it is a note, do nothing: the engine cuts the tail off when it opens the log. If it is "
        "an error: look for a copy of the file in a backup of the same node, or in the log's "
        "directory with the suffix .del or .bad.",
    ),
    (
        "truncated-file",
        Severity.ERROR,
        "The file ends too early, and it is not the last one: it ends inside an entry, or before "
        "the entry that the next file's header names as its last. A file is complete before the "
        "next one begins, so bytes were lost later.",
        "Look for a copy of the file in a backup of the same node, or in the log's directory with "
        "the suffix .del or .bad. The network restore of JE replaces the whole log of a node with "
        "that of another one.",
    ),
    (
        "damaged-entry",
        Severity.ERROR,
        "The bytes of one entry do not match its checksum, or its header gives a wrong size, but "
        "the next entry points back to it. The entries around it are readable.",
        "Inspect it with `je-tools explain LSN --env ENV`, and compare the file with a backup of "
        "the same node. In the last file the engine takes the entry for the end of the log, and "
        "cuts off everything after it: copy the log first.",
    ),
    (
        "damaged-gap",
        Severity.ERROR,
        "A range of bytes has no readable entries: an unknown number of entries is lost, or the "
        "bytes never were entries.",
        "Compare the file with a backup of the same node. In the last file the engine takes the "
        "gap for the end of the log, and cuts off everything after it: copy the log first.",
    ),
    (
        "unread",
        Severity.ERROR,
        "The audit could not read a directory, an environment or a file completely: a permission "
        "is missing, a file vanished or became shorter, or there is no log.",
        "Fix the cause, and run the audit again. The other findings are valid.",
    ),
    (
        "unknown-type",
        Severity.ERROR,
        "An entry has a correct checksum, but a type that does not exist in the log version of "
        "its file.",
        "Try a newer je-tools. An engine that does not know the type treats the entry as damage.",
    ),
    (
        "bad-file-header",
        Severity.ERROR,
        "The first entry of a file is not a file header with a correct checksum. je-tools derives "
        "the log version from its entries, or from the files around it. If the last file ends "
        "inside its header, this is a torn tail instead, unless no file has a whole header: then "
        "the engine finds no log. An empty file that the engine does not need is a warning: the "
        "engine skips it.",
        "If it is an error, the engine does not open the log: look for a copy of the file in a "
        "backup of the same node, or in the log's directory with the suffix .del or .bad. If "
        "nothing but this file was ever written, move it aside, and the engine creates a new log.",
    ),
    (
        "unsupported-version",
        Severity.ERROR,
        "The file's header is whole, but names a log version that this je-tools does not know.",
        "Use a newer je-tools.",
    ),
    (
        "wrong-file-number",
        Severity.ERROR,
        "The number in a file's header differs from the number in its name: the file was renamed "
        "or swapped.",
        "The engine refuses the file. Rename it to the number in its header.",
    ),
    (
        "duplicate-file",
        Severity.ERROR,
        "Two files in the home directory or in data directories have the same number.",
        "Only one of them belongs to this log. Find out which one, and move the other away before "
        "the engine opens the log.",
    ),
    (
        "misplaced-file",
        Severity.ERROR,
        "A file is in the wrong data directory. With several data directories, file f belongs in "
        "the one with number (f modulo their count) + 1.",
        "Move the file there: the engine refuses to open the log until then.",
    ),
    (
        "missing-file",
        Severity.NOTE,
        "A file number is missing between two others. The cleaner leaves such gaps. It is an "
        "error if the log counts the file as in use or recovery has to read it, and a warning if "
        "no tree shows whether it is in use.",
        "If it is an error: look for a copy of the file in a backup of the same node, or in the "
        "log's directory with the suffix .del or .bad. The network restore of JE replaces the "
        "whole log of a node with that of another one.",
    ),
    (
        "last-entry-mismatch",
        Severity.ERROR,
        "A file's header names a last entry of the previous file that differs from the one in "
        "that file: one of the two files was replaced, restored from another time, or belongs to "
        "another log.",
        "Compare both files with a backup of the same node. Files of the same number differ "
        "between the nodes of a group.",
    ),
    (
        "foreign-file",
        Severity.ERROR,
        "A file belongs to the log of another node, or to another time: its content contradicts "
        "the files beside it. If only the creation times are wrong, it is a warning, because a "
        "clock that was set back does the same. The engine may open such a log without an error, "
        "and fail or lose records later.",
        "Replace the file with the one of the same number from a backup of the same node, or "
        "restore the whole node (network restore). Never use a file of another node: files of the "
        "same number differ between the nodes of a group.",
    ),
    (
        "impossible-flags",
        Severity.ERROR,
        "An entry's header has flags that engines do not write there. The flag invisible is an "
        "error if no rollback has undone the entry: the engine skips the entry in recovery, and "
        "fails when a tree leads to it. The checksum does not cover this flag. It covers the "
        "others, and they are a warning: provisional or replicated on a type that never is, or "
        "replicated in an environment without replication.",
        "If the entry is invisible, compare the file with a backup of the same node. The other "
        "bytes of the entry are right.",
    ),
    (
        "version-step",
        Severity.NOTE,
        "The log version changes at this file: the engine was upgraded. An older version after a "
        "newer one is a warning, because no engine writes such a log.",
        "`je-tools files` shows which releases open the log.",
    ),
    (
        "restore-marker",
        Severity.ERROR,
        "The engine has left a RestoreRequired entry: a network restore did not finish, or the "
        "engine found damage in the log. The engine refuses to open the log.",
        "Finish the network restore, or restore a backup. If the marker is deleted, the engine "
        "opens a log that may be incomplete.",
    ),
    (
        "erased-not-zero",
        Severity.WARNING,
        "Entries of type Erased have bytes that are not zero: the eraser stopped between its two "
        "steps, and the erased data is still readable. A damaged type byte looks the same.",
        "`je-tools erase resume` overwrites the bytes; the engine's eraser does so in a later "
        "cycle. Until then, treat the file and its copies as if they hold the data.",
    ),
    (
        "erasure-unfinished",
        Severity.WARNING,
        "The directory has the redo journal of an erasure in kind. Unless the erasure still runs, "
        "it was interrupted: entries of one file may be overwritten only in part, so that their "
        "checksums are wrong.",
        "`je-tools erase resume ENV --apply` completes it. Until then, do not open the log with an "
        "engine, and do not copy it as a backup.",
    ),
    (
        "vlsn-duplicate",
        Severity.ERROR,
        "Replicated entries have VLSNs that were used before, and no rollback has undone the "
        "earlier ones.",
        "Do not rebuild the VLSN index of this node. Restore the whole node from another one "
        "(network restore).",
    ),
    (
        "vlsn-backward",
        Severity.ERROR,
        "VLSNs of replicated entries go back to numbers that did not occur before, and no "
        "rollback explains it: files of several logs are mixed, or are in the wrong order.",
        "Compare the files with a backup of the same node: files of the same number differ "
        "between the nodes of a group. If that does not help, restore the whole node from another "
        "one (network restore).",
    ),
    (
        "vlsn-gap",
        Severity.WARNING,
        "VLSNs are skipped, although no file is missing and nothing is damaged between them.",
        "Compare the files with a backup of the same node. If entries are lost, restore the whole "
        "node from another one (network restore).",
    ),
    (
        "vlsn-index-lost",
        Severity.ERROR,
        "The VLSN index of a replicated node is missing, or a record of it cannot be read. Without "
        "any record, or without the record of the range, the engine begins a new index: a replica "
        "asks for the whole stream a second time. A bucket that cannot be read stops the node when "
        "it needs a VLSN of that bucket.",
        "Do not start the node before the index is whole. `je-tools vlsn rebuild` builds it anew "
        "from the log. Or restore the whole node from another one (network restore).",
    ),
    (
        "vlsn-index-bucket",
        Severity.ERROR,
        "A bucket of the VLSN index breaks a rule of the engine: buckets are in VLSN order, do not "
        "overlap, lie in one file each, and begin with a mapping. Gaps between buckets are "
        "allowed.",
        "A master dies when it feeds a replica from such a bucket. `je-tools vlsn rebuild` builds "
        "the index anew from the log.",
    ),
    (
        "vlsn-index-gap",
        Severity.WARNING,
        "No bucket of the VLSN index covers some VLSNs between two buckets. When recovery cuts a "
        "bucket, the engine leaves a gap of fewer VLSNs than the stride; this one is wider, so a "
        "bucket is missing. The node works: a feeder reads more of the log to find these VLSNs.",
        "`je-tools vlsn rebuild` adds the bucket.",
    ),
    (
        "vlsn-index-mapping",
        Severity.ERROR,
        "A mapping of the VLSN index leads to a place without the visible entry of its VLSN. The "
        "engine notices when it feeds a replica from there, and the master dies.",
        "`je-tools vlsn rebuild` builds the index anew from the log. If the entry itself is "
        "damaged, compare the file with a backup of the same node first.",
    ),
    (
        "vlsn-index-range",
        Severity.ERROR,
        "The range of the VLSN index does not match its buckets or the log: its first or last "
        "VLSN, its last sync point or its last end of a transaction. The engine fails when it "
        "opens the node or feeds a replica, or the node loses elections.",
        "`je-tools vlsn rebuild` builds the index anew from the log.",
    ),
    (
        "vlsn-index-short",
        Severity.ERROR,
        "The VLSN index, as recovery would leave it, ends before the last VLSN of the log. A "
        "master continues after the end of its index, so it uses VLSNs twice, without a message. "
        "If this happens on two nodes of three, the nodes of the group end up with different "
        "records under the same VLSNs.",
        "Keep the node closed. `je-tools vlsn rebuild` builds the index anew from the log. Check "
        "all nodes of the group with `je-tools vlsn check` before any of them is opened.",
    ),
    (
        "vlsn-index-refused",
        Severity.ERROR,
        "Recovery extends the VLSN index by the VLSNs that were logged since the last checkpoint "
        "began. Here the two do not fit together, so the engine does not open the node. It reports "
        "that recoveryTracker should overlap or follow the last VLSN on disk, or that a bucket "
        "overlaps the one before it.",
        "`je-tools vlsn rebuild` builds the index anew from the log.",
    ),
    (
        "vlsn-rollback",
        Severity.ERROR,
        "A rollback is not as engines write it: it overlaps another one in part, its matchpoint is "
        "not the entry of that VLSN, or it undoes the Commit of a transaction. The engine refuses "
        "a Commit inside a rollback.",
        "Restore the whole node from another one (network restore).",
    ),
    (
        "vlsn-unmarked",
        Severity.WARNING,
        "A rollback has ended, but entries that it undid are not marked invisible. The engine sets "
        "these marks before it ends a rollback, and never later. If their transaction began before "
        "the matchpoint, a replica dies when it gets the VLSNs again.",
        "Restore the whole node from another one (network restore) if it does not start.",
    ),
    (
        "group-unreadable",
        Severity.WARNING,
        "The database of the replication group is missing, or a record of it cannot be read, so "
        "the node's group, or the names of its members, are unknown.",
        "`je-tools verify --tree` reports damaged records. Restore the whole node from another one "
        "(network restore).",
    ),
    (
        "prev-offset-mismatch",
        Severity.ERROR,
        "A whole entry does not point back to the entry before it: entries were copied there, "
        "bytes were inserted, or bytes are missing.",
        "The engine reads such a log differently forward and backward. Compare the file with a "
        "backup of the same node.",
    ),
    (
        "more-damage",
        Severity.ERROR,
        "A file has more damaged places than are reported one by one: this finding counts the "
        "others. It is a warning if none of them is an error.",
        "Little of the file is readable: look for a copy of the file in a backup of the same node, "
        "or in the log's directory with the suffix .del or .bad.",
    ),
    (
        "unreadable",
        Severity.ERROR,
        "The device could not deliver these bytes. They were read as zeros.",
        "Copy the disk first, with a tool that keeps every byte at its offset.",
    ),
    (
        "unreadable-file",
        Severity.ERROR,
        "The system cannot open a log file (permissions, or a failing device). Or a directory, a "
        "pipe or a link without a target has the name of a log file: the engine tries to read it, "
        "and fails or waits. Or a file is larger than 4 GiB: no engine writes such a file, since "
        "offsets have 32 bits. The log is read without the file.",
        "Run the command as a user who may read the file. Repair the disk. Mount the volume to "
        "which the link leads. Move away what is not a file. In a copy of the log, cut a file of "
        "more than 4 GiB to its former size.",
    ),
    (
        "old-delta-in-v8",
        Severity.WARNING,
        "A file of log version 8 holds old BIN-deltas (type 22). JE 25.3 accepts the file, takes "
        "the first of them for the end of the log, and cuts off everything after it without a "
        "message.",
        "First open the log with JE 7.5 or 18.3, which can read it and write newer files.",
    ),
    (
        "old-form-to-replay",
        Severity.WARNING,
        "After the start of the last checkpoint, where recovery begins, the log holds entries of "
        "databases with duplicates, or BIN-deltas, in the form of log versions before 8. JE 5.0 "
        "and later refuse to open it.",
        "Run DbPreUpgrade_4_1 of JE 4.1.20 or a later 4.1 on it (DbRepPreUpgrade_4_1 if it is "
        "replicated), and then open it with JE 5.0 or later.",
    ),
    (
        "old-form-left-out",
        Severity.ERROR,
        "After the start of the last checkpoint, records of a database with duplicates were "
        "written in the form of log versions before 8. je-tools does not replay them: it shows "
        "the database as it was at the checkpoint.",
        "`je-tools salvage` gets the records that were written. DbPreUpgrade_4_1 of JE 4.1.20 or "
        "a later 4.1 ends the log so that nothing is left to replay.",
    ),
    (
        "recovery-refused",
        Severity.ERROR,
        "The engine would refuse to open the log as it is. The command still shows what the log "
        "holds.",
        "`je-tools verify` reports the damage. `je-tools salvage` gets records out.",
    ),
    (
        "backward-jump",
        Severity.ERROR,
        "An entry at the end of the log does not point back to the entry before it: entries were "
        "copied there from elsewhere in the log. Recovery follows these pointers backward, and "
        "jumps over the entries between. A transaction does not count as committed if recovery "
        "jumps over its Commit.",
        "Copy the log before the engine opens it. `je-tools recover --to-lsn LSN --apply`, with "
        "the last entry before the copied ones, cuts the log back to there, and keeps those "
        "Commits.",
    ),
    (
        "lost-tail",
        Severity.ERROR,
        "The log ends at the first damaged entry of the last file, but whole Commits follow. The "
        "engine cuts all of them off when it opens the log, without a message.",
        "Copy the log before the engine opens it. `je-tools recover` lists what would be lost.",
    ),
    (
        "damaged-end",
        Severity.ERROR,
        "The log ends at a damaged entry of the last file, and whole entries follow, but no "
        "Commit. The engine cuts all of them off when it opens the log, without a message. The "
        "damaged entry may have been a Commit itself.",
        "Copy the log before the engine opens it. `je-tools salvage --mode everything` gets the "
        "entries after the damage.",
    ),
    (
        "tree-damage",
        Severity.ERROR,
        "A node of a B-tree, or the record that a slot points to, is not readable: its file is "
        "missing, its bytes are damaged, or it is an entry of another kind (the file may belong to "
        "another log).",
        "`je-tools verify` reports whether the file is damaged or belongs to another log. Look for "
        "a copy of the file in a backup of the same node, or in the log's directory with the "
        "suffix .del or .bad. `je-tools salvage` gets records out without the tree.",
    ),
    (
        "more-tree-damage",
        Severity.ERROR,
        "The B-trees have more damage than is reported one by one. This finding counts the rest. "
        "It is a warning if none of it is an error.",
        "If files are missing, `je-tools missing` lists what is lost with them. Otherwise fix the "
        "reported damage first.",
    ),
    (
        "tree-node",
        Severity.ERROR,
        "A slot of an upper node, or a database's descriptor, does not lead to the right node: "
        "the file is missing, or the entry is damaged, erased, no node, a node of another "
        "database, or a node for other keys. The keys below that slot are out of reach.",
        "Look for a copy of the file in a backup of the same node, or in the log's directory with "
        "the suffix .del or .bad. `je-tools salvage` gets records out without the tree.",
    ),
    (
        "tree-level",
        Severity.ERROR,
        "A node has the wrong level for its place in the tree, or is marked as a root but is "
        "none, or is a root without the mark.",
        "Inspect it with `je-tools explain LSN --env ENV`. `je-tools salvage` gets records out "
        "without the tree.",
    ),
    (
        "tree-delta",
        Severity.ERROR,
        "A BIN-delta holds the changed slots of a BIN. The full version that it names is not "
        "readable, or belongs to another BIN. Only the changed slots are left.",
        "Look for a copy of the file with the full version in a backup of the same node, or in the "
        "log's directory with the suffix .del or .bad.",
    ),
    (
        "tree-record",
        Severity.ERROR,
        "A slot's LSN does not lead to the record of its key: the file is missing, or the entry "
        "is damaged, erased, no record, a deletion, or a record of another database or key.",
        "Look for a copy of the file in a backup of the same node, or in the log's directory with "
        "the suffix .del or .bad. `je-tools salvage` may find an older version of the record.",
    ),
    (
        "tree-order",
        Severity.ERROR,
        "The keys of a node are not in ascending order. The engine's searches miss some of them.",
        "`je-tools salvage` gets the records out without searches. Load them into a new database.",
    ),
    (
        "tree-bounds",
        Severity.ERROR,
        "A node holds a key outside the key range that its parents give it. The engine's searches "
        "do not find the key, and the log holds no newer version of the record, or the slot does "
        "not lead to the record of the key. If a crash leaves stray slots, the engine's recovery "
        "can put records out of reach.",
        "`je-tools salvage` gets the records out without searches. Load them into a new database.",
    ),
    (
        "tree-stray",
        Severity.WARNING,
        "A node holds a key outside the key range that its parents give it. The slot is a stale "
        "copy: the newest version of the record is in another node, or is a deletion. A crash can "
        "leave such slots, and the engine keeps them when it opens and closes the log. Searches "
        "never reach them, but a scan by the engine may return records twice, return deleted "
        "records, skip others, or fail.",
        "Export the database with `je-tools export`, which omits such slots, and compare it with "
        "a scan by the engine.",
    ),
    (
        "tree-identifier",
        Severity.ERROR,
        "Recovery finds the place of a node in the tree by the node's identifier key. This key is "
        "outside the node's range, or in none of its slots. The records are readable, but "
        "recovery may put the node in a wrong place, or fail.",
        "Export the database and load it into a new one.",
    ),
    (
        "tree-node-id",
        Severity.ERROR,
        "Two nodes have the same id, or a node from before the last checkpoint has an id that is "
        "larger than the last id of the checkpoint. Recovery takes the newer of two nodes with one "
        "id for the newest version of both.",
        "Export the databases and load them into a new environment.",
    ),
    (
        "tree-state",
        Severity.ERROR,
        "A slot has a state that engines do not write: no LSN although it is not deleted, "
        "embedded data where none is allowed, or a state of bottom nodes in an upper node.",
        "Inspect the node with `je-tools explain LSN --env ENV`.",
    ),
    (
        "tree-expiration",
        Severity.WARNING,
        "The expiration in a slot differs from that of its record, or a node gives its "
        "expirations in the wrong unit (hours or days). Engines up to 18.3 leave such slots. "
        "Records expire too early, too late, or never.",
        "Write the records again with the right time to live.",
    ),
    (
        "tree-name",
        Severity.ERROR,
        "A name of a database leads to a descriptor that does not exist. It is a warning in a log "
        "that was not closed: a crash during the creation of the database causes this. The engine "
        "does not open, rename or remove the database, and fails if an application creates one "
        "of that name.",
        "Look for the missing file in a backup of the same node. If there is none, export the "
        "other databases and load them into a new environment, or use another name.",
    ),
    (
        "tree-obsolete",
        Severity.ERROR,
        "The cleaner counts an entry as obsolete, but a tree still needs it. The cleaner will "
        "delete the file without moving the entry.",
        "Copy the log before the engine's cleaner runs. Export the database and load it into a "
        "new one.",
    ),
    (
        "tree-reserved",
        Severity.ERROR,
        "A tree needs an entry in a reserved file: the file was cleaned, and the engine deletes it "
        "when it needs space.",
        "Copy the file before the engine deletes it. Export the database and load it into a new "
        "one.",
    ),
    (
        "utilization",
        Severity.WARNING,
        "The engine's totals of entries and bytes of a file differ from the content of the file. "
        "The cleaner chooses files by these totals. No record depends on them.",
        "If the difference is small, do nothing. `je-tools space --recount` shows the right "
        "figures.",
    ),
    (
        "stray-slots",
        Severity.WARNING,
        "Bottom nodes hold keys outside the key range that their parents give them. A crash can "
        "leave such slots, as stale copies. je-tools does not show them. The engine's cursors read "
        "them, and may return records twice, return deleted records, or skip a whole node.",
        "`je-tools verify --tree` tells whether all of them are stale copies. If so, trust the "
        "output of je-tools; if the engine must serve the data, load the output into a new "
        "database.",
    ),
    (
        "expiration-unit",
        Severity.WARNING,
        "Bottom nodes give the expirations of records in the wrong unit (hours or days), as JE "
        "7.5 and 18.3 write them. je-tools derives the unit from the numbers. These engines "
        "treat such records as expired, or as records that never expire.",
        "No record is lost. JE 25.3 reads them correctly.",
    ),
    (
        "transaction-in-doubt",
        Severity.WARNING,
        "A transaction was prepared (XA), but has neither a Commit nor an Abort. The engine keeps "
        "its records locked until the application's transaction manager decides. je-tools shows "
        "the records as they were before the transaction.",
        "Open the environment with the application, which decides (XAEnvironment.recover). "
        "je-tools can write to the log only after that.",
    ),
    (
        "root-split-cut-short",
        Severity.WARNING,
        "The log ends in the middle of a split: a root has one slot, and the node below it is "
        "full. At every open, the engine may fail to insert a record there, with 'should have been "
        "split'.",
        "If the engine fails, `je-tools export` gets the records for a new environment.",
    ),
    (
        "creation-cut-short",
        Severity.WARNING,
        "The log ends during the creation of one of the engine's internal databases. Oracle "
        "NoSQL's engine creates it again with the same id, waits for itself, and fails after some "
        "minutes. No application has a record in such a log yet.",
        "Create the environment again.",
    ),
    (
        "group-diverged",
        Severity.ERROR,
        "The node has entries that the leader, the node of the group that would become master, "
        "does not have. To follow the leader, it rolls them back, and Commits are lost. This is a "
        "warning if only Aborts are lost: the engine cuts the log then too. It is a note if only "
        "entries of transactions without an end are lost, as after every change of the master.",
        "Keep a copy of the node. `je-tools vlsn compare` with all nodes of the group lists the "
        "transactions, databases and keys.",
    ),
    (
        "group-end-missing",
        Severity.ERROR,
        "The log ends before a VLSN that the node once had. Other members of its group show this: "
        "the node wrote the Commit at that VLSN as master, or the group database says so, or the "
        "VLSN was durable and too few other members can have it. The log itself does not show it: "
        "its last files are gone, an older copy was put back, or the machine lost what was not yet "
        "on the disk.",
        "Look for the newer files, or a newer backup of the same node. Start it only while the "
        "other nodes run, so that it does not become master: it then gets the entries from them.",
    ),
    (
        "group-lag",
        Severity.NOTE,
        "The log ends before that of the leader, the node of the group that would become master. "
        "This is a warning if the last Commit is more than 15 minutes older, or if the node needs "
        "a network restore, because the other log no longer has the next VLSN.",
        "Running nodes, and nodes read one after the other, lag by seconds. If it is a warning, "
        "find out why the node does not follow its master. Its master keeps files for it: "
        "`je-tools space`.",
    ),
    (
        "group-uncompared",
        Severity.NOTE,
        "The audit could not compare the node with the leader, the node of the group that would "
        "become master: the common part of their logs is too far back.",
        "Compare them with `je-tools vlsn compare`, which reads as far back as necessary.",
    ),
    (
        "group-member-missing",
        Severity.WARNING,
        "The audit found logs of the group, but none of this member. A member that is away for "
        "long keeps its master from deleting files.",
        "Add its directory to the roots. If the member is gone for good, remove it from the group "
        "with the engine's or the front end's own means.",
    ),
    (
        "group-copy",
        Severity.NOTE,
        "The audit found two copies of one node. This is the older one, such as a backup, and is "
        "not counted as a member of the group. It is a warning if this copy has Commits that the "
        "newer one does not have, because they were rolled back or cut off.",
        "If it is a backup, do nothing. If it is the live node, the other copy has entries that it "
        "lacks: compare them with `je-tools diff`.",
    ),
    (
        "group-record",
        Severity.ERROR,
        "A record of the group database (_jeRepGroupDB) is unreadable, contradicts another one, or "
        "is missing. The engine reads these records to find the other nodes of the group.",
        "Compare it with the records of another node (`je-tools group show`). Restore the node "
        "from a backup, or from another node (network restore).",
    ),
    (
        "journal-hole",
        Severity.ERROR,
        "Journal ids of a StarRocks or Doris front end are missing: inside a journal, between two "
        "journals, or between the newest image and the first journal. Front ends remove journals "
        "only as whole databases. A front end that has to replay these ids stops at the first. It "
        "is a warning if the newest image already has the ids, because they are not replayed.",
        "Run `je-tools journal` on the other nodes: one that has the ids should become the leader. "
        "If none has them, an image with a higher id (image.N) lets a front end begin after the "
        "hole. Without such an image, `je-tools journal truncate --above ID`, with the last id "
        "before the hole, goes back to there and loses all later changes. StarRocks can also skip "
        "ids (metadata_journal_skip_bad_journal_ids), and then loses only these.",
    ),
    (
        "journal-record",
        Severity.ERROR,
        "A record of a front end's journal does not decode: its key is not a journal id, its value "
        "has no op code, or its payload has another size than its op code requires.",
        "Compare it with the same id on another node: `je-tools journal ENV --show ID`.",
    ),
    (
        "journal-order",
        Severity.ERROR,
        "A front end's journal holds ids below the number in its name, or ids that belong to the "
        "next journal. It is a warning if only the VLSNs are out of order: the record of one id "
        "was written again after the record of the next id.",
        "Compare the journals with those of another node: `je-tools journal`.",
    ),
    (
        "front-end-mismatch",
        Severity.ERROR,
        "The files `image/ROLE` and `image/VERSION` of a front end do not fit the group database "
        "of its log: the node is a follower but no electable member, or the reverse, or a file "
        "cannot be read. It is a warning if only the group's name is not the one that front ends "
        "give it, or if the newest image is newer than the journals.",
        "The `image` or the `bdb` directory may come from another node or another time. Compare "
        "with the other nodes before the front end starts.",
    ),
    (
        "unknown-order",
        Severity.NOTE,
        "A database has a comparator that only the application's classes know. je-tools shows its "
        "records in the order of its tree. Records whose place is unknown come last.",
        "If the order of records does not matter, do nothing.",
    ),
    (
        "live-writer",
        Severity.NOTE,
        "An engine has the log open, or the log grew while je-tools read it. The log is shown up "
        "to where it ended when its files were opened for reading.",
        "Nothing. To verify the last entries, run the command again when the engine is closed.",
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
        low, high: lost keys, [low, high); None if open; equal for one key.
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
            "db": self.database,
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
        """LSN of the entry where reading resumed, or None."""
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
            parts.append(f"reading resumes at {lsn_text(self.resume_lsn)}")
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
