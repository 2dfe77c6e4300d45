"""Refusals: the reasons why the engine would not open a log, and what to do then.

Source: je-log.md "Recovery"; RecoveryManager, FileManager, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Mapping

from je_tools.findings import Code, Severity
from je_tools.recovery.end import Refusal

_TEXTS = {
    Refusal.NO_FILES: (
        "No file holds an entry, so there is nothing to open.",
        "Look for the files in a backup of the same node, or in the log's directory with the "
        "suffix .del or .bad.",
    ),
    Refusal.BAD_FILE_HEADER: (
        "The header of the last file is damaged, and the file holds more than its header.",
        "Look for a copy of that file in a backup of the same node. `je-tools salvage` gets "
        "records out without it.",
    ),
    Refusal.NO_ROOT: (
        "No entry in the rest of the log leads to a root of the databases.",
        "Look for missing files in a backup of the same node. `je-tools salvage` gets records "
        "out without a root.",
    ),
    Refusal.MISSING_FILE: (
        "A file is missing between the first active entry and the end of the log. Recovery has "
        "to read it.",
        "Look for the file in a backup of the same node, or in the log's directory with the suffix "
        ".del or .bad. A file of the same number from another node does not fit: the network "
        "restore of JE replaces the whole log of a node with that of another one. `je-tools "
        "missing` lists what is lost with the file, and `je-tools salvage` gets the other records "
        "out.",
    ),
    Refusal.RESTORE_REQUIRED: (
        "The file 7fffffff.jdb, or an entry, says that the log must be restored first: a network "
        "restore did not finish, or the engine found persistent damage.",
        "Finish the network restore, or restore a backup. The files may belong to two different "
        "logs. `je-tools verify` reports why the engine requires the restore.",
    ),
    Refusal.DAMAGED_INTERVAL: (
        "The log is damaged between the first active entry and its end, in a file before the last "
        "one. The engine does not cut off the log there.",
        "`je-tools verify` reports the damaged file: look for a copy of it in a backup of the same "
        "node. If there is none, `je-tools recover --to-lsn LSN --apply`, with an LSN before the "
        "damage, cuts the log back to there, and `je-tools salvage` gets out the records after it.",
    ),
    Refusal.COMMIT_ROLLED_BACK: (
        "A rollback undoes the Commit of a transaction of the replication group.",
        "Restore the whole node from another one of its group (network restore).",
    ),
    Refusal.OWN_DATABASE_LOST: (
        "The engine cannot read the name or the descriptor of one of its internal databases, or a "
        "record that it needs at each open (_jeExpiration).",
        "`je-tools verify --tree` reports the damaged or missing file: look for it in a backup "
        "of the same node. `je-tools export` still reads the databases of applications.",
    ),
    Refusal.HALT_CHOSEN: (
        "Commits follow the damage at which the log ends, and je.properties sets "
        "je.haltOnCommitAfterChecksumException: the engine stops instead of cutting them "
        "off without a message.",
        "`je-tools recover` lists the Commits. Restore a backup, or restore the whole node from "
        "another one (network restore). If you remove the line from je.properties, the "
        "engine cuts off everything after the damage.",
    ),
    Refusal.BROKEN_CHAIN: (
        "A whole entry between the first active entry and the end of the log does not point back "
        "to the entry before it: entries were copied there from elsewhere. Recovery follows "
        "these pointers backward, and this one leads nowhere. JE 18.3 also checks them "
        "before recovery.",
        "`je-tools verify` reports the place. `je-tools recover --to-lsn LSN --apply`, with an LSN "
        "before that entry, cuts the log back to there, and `je-tools salvage` gets out the "
        "records after it.",
    ),
    Refusal.NAMELESS_TEMPORARY: (
        "A crash interrupted the removal of a temporary database: its descriptor exists, but no "
        "name leads to it. The engine looks for the name to remove it, and fails.",
        "`je-tools recover --apply` finishes the removal. Then the engine opens the log.",
    ),
    Refusal.UNLOGGED_ROOT: (
        "A crash occurred between the first root of a database and the descriptor that names it: "
        "the existing descriptor says that the database has a root, but not where. The engine "
        "fails when it compares the two.",
        "`je-tools recover --apply` writes the descriptor. Then the engine opens the log.",
    ),
}

REFUSALS: Mapping[str, Code] = {
    str(refusal): Code(str(refusal), Severity.ERROR, *texts) for refusal, texts in _TEXTS.items()
}
"""Description of each refusal, by its name."""

WHY: Mapping[Refusal, str] = {
    Refusal.NO_FILES: "no file holds an entry",
    Refusal.BAD_FILE_HEADER: "the header of the last file is damaged",
    Refusal.NO_ROOT: "no entry leads to a root of the databases",
    Refusal.MISSING_FILE: "a file is missing between the last checkpoint and the end of the log",
    Refusal.RESTORE_REQUIRED: "an entry says that the log must be restored first",
    Refusal.DAMAGED_INTERVAL: "damage in a file that recovery reads",
    Refusal.COMMIT_ROLLED_BACK: "a rollback undoes a Commit of the group",
    Refusal.OWN_DATABASE_LOST: "the name, the descriptor or a record of an internal database is "
    "lost",
    Refusal.BROKEN_CHAIN: "an entry does not point back to the one before it",
    Refusal.NAMELESS_TEMPORARY: "a temporary database has a descriptor but no name",
    Refusal.UNLOGGED_ROOT: "the descriptor of a database does not say where its root is",
    Refusal.HALT_CHOSEN: "Commits follow the damage, and je.properties makes the engine halt then",
}
"""Reason of each refusal in a few words."""
