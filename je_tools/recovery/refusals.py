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
        "Look for the files in a backup, or under the names .del and .bad.",
    ),
    Refusal.BAD_FILE_HEADER: (
        "The header of the last file is no good, and more lies behind it.",
        "Look for a copy of that file. `je-tools salvage` gets records out without it.",
    ),
    Refusal.NO_ROOT: (
        "What is left of the log leads to no root of the databases.",
        "Look for missing files in a backup. `je-tools salvage` gets records out without a root.",
    ),
    Refusal.MISSING_FILE: (
        "A file is missing between the first active entry and the end of the log, and recovery "
        "has to read it.",
        "Look for the file in a backup, on another node, or under the names .del and .bad. "
        "`je-tools missing` tells what is lost with it, `je-tools salvage` gets out what is left.",
    ),
    Refusal.RESTORE_REQUIRED: (
        "The file 7fffffff.jdb, or an entry, says that the log must be restored first: a network "
        "restore did not come to its end, or the engine has found damage that lasts.",
        "Finish the network restore, or restore a backup. What is there may be half of one log and "
        "half of another; `je-tools verify` tells why the engine asks for it.",
    ),
    Refusal.DAMAGED_INTERVAL: (
        "Something is damaged between the first active entry and the end of the log, in a file "
        "before the last, where the engine does not cut.",
        "Look for a copy of that file; `je-tools verify` tells which. Where there is none, "
        "`je-tools recover --to-lsn` in front of the damage cuts the log back to there, and "
        "`je-tools salvage` gets out what is behind it.",
    ),
    Refusal.COMMIT_ROLLED_BACK: (
        "The Commit of a transaction of the group lies in what a rollback takes back.",
        "Restore the node from another of its group (network restore).",
    ),
    Refusal.OWN_DATABASE_LOST: (
        "The name or the descriptor of one of the engine's own databases cannot be read, or one of "
        "the records that it reads at each open (_jeExpiration).",
        "Look for the damaged or missing file in a backup; `je-tools verify --tree` tells which. "
        "`je-tools export` reads the databases of applications all the same.",
    ),
    Refusal.HALT_CHOSEN: (
        "Commits lie behind the damage at which the log ends, and je.properties sets "
        "je.haltOnCommitAfterChecksumException, so that they are not cut off without a word.",
        "`je-tools recover` tells which Commits. Restore a backup or another node's log, or take "
        "the line out of je.properties, and what lies behind the damage is cut off.",
    ),
    Refusal.BROKEN_CHAIN: (
        "A whole entry between the first active entry and the end of the log does not name the "
        "entry before it: entries were copied there from elsewhere. Recovery goes backward along "
        "these names, and this one leads nowhere; or the engine checks them beforehand, as JE 18.3 "
        "does.",
        "`je-tools verify` tells where. `je-tools recover --to-lsn` before that entry cuts the log "
        "back to there; `je-tools salvage` gets out what lies after it.",
    ),
    Refusal.NAMELESS_TEMPORARY: (
        "A crash has cut short the removal of a temporary database: its descriptor is there, and "
        "no name leads to it. The engine looks for the name to remove it, and fails.",
        "`je-tools recover --apply` finishes the removal; then the engine opens the log.",
    ),
    Refusal.UNLOGGED_ROOT: (
        "A crash fell between the first root of a database and the descriptor that would name it: "
        "the descriptor there is says that the database has a root, and not where. The engine "
        "fails when it compares the two.",
        "`je-tools recover --apply` writes the descriptor; then the engine opens the log.",
    ),
}

REFUSALS: Mapping[str, Code] = {
    str(refusal): Code(str(refusal), Severity.ERROR, *texts) for refusal, texts in _TEXTS.items()
}
"""Description of each refusal, by its name."""

WHY: Mapping[Refusal, str] = {
    Refusal.NO_FILES: "no file holds an entry",
    Refusal.BAD_FILE_HEADER: "the header of the last file is no good",
    Refusal.NO_ROOT: "no root of the databases",
    Refusal.MISSING_FILE: "a file is missing between the last checkpoint and the end of the log",
    Refusal.RESTORE_REQUIRED: "an entry says that the log must be restored first",
    Refusal.DAMAGED_INTERVAL: "damage in a file that recovery reads",
    Refusal.COMMIT_ROLLED_BACK: "a Commit of the group lies in what a rollback takes back",
    Refusal.OWN_DATABASE_LOST: "name, descriptor or a record of one of its own databases is lost",
    Refusal.BROKEN_CHAIN: "an entry does not name the one before it",
    Refusal.NAMELESS_TEMPORARY: "a temporary database has a descriptor and no name",
    Refusal.UNLOGGED_ROOT: "the descriptor of a database does not say where its root is",
    Refusal.HALT_CHOSEN: "Commits lie behind damage, and je.properties asks it to halt then",
}
"""Reason of each refusal in a few words."""
