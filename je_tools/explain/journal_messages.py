"""Messages of StarRocks and Doris about the journals of a front end.

Every text was compared with the source of the application.
"""

from __future__ import annotations

from je_tools.explain.message_case import ENTRY, JOURNAL, RECOVER, VERIFY, Case, NextStep

JOURNAL_MESSAGES = (
    Case(
        name="journal-key-not-found",
        title="StarRocks or Doris does not find a journal entry",
        phrases=("Can not find the key:", "fail to get journal cursor", "Failed to find key"),
        meaning="The front end must replay the journal from an id that the journal does not have: "
        "no database of the journal begins at or before it, or its database lacks it. Each "
        "database is named by its first id. The image is older than the journal, the journal was "
        "emptied, or an entry was never committed because the master changed. If no node has the "
        "id, `je-tools journal truncate` goes back to the one before it, and loses all later "
        "changes.",
        misread="It does not mean that the log is damaged. Emptying the metadata directory loses "
        "what no other node has: check the other nodes first.",
        steps=(JOURNAL, VERIFY),
        sources=(
            "BDBJournalCursor (constructor and next), apache/doris",
            "BDBJournalCursor (constructor), StarRocks/starrocks",
            "apache/doris#24994, apache/doris#22714, apache/doris#6428",
        ),
        sample="[BDBJournalCursor.<init>():84] Can not find the key:819177629, fail to get journal "
        "cursor. will exit.",
    ),
    Case(
        name="journal-entry-unreadable",
        title="StarRocks or Doris cannot decode a journal entry",
        phrases=("fail to read journal entity key",),
        meaning="The engine returned the record, but the front end could not decode its value. "
        "Usually another release wrote it.",
        misread="It does not mean that the log is damaged: the engine verified the checksum of "
        "what it read from disk.",
        steps=(JOURNAL, VERIFY, ENTRY),
        sources=(
            "BDBJournalCursor.next, apache/doris",
            "BDBJournalCursor.deserializeData, StarRocks/starrocks",
        ),
        sample="[BDBJournalCursor.next():120] fail to read journal entity key=5485, will exit",
    ),
    Case(
        name="journal-names",
        title="StarRocks or Doris cannot list the databases of its journal",
        phrases=("failed to get DB names", "failed to get db names"),
        meaning="The front end asked the engine for the names of its databases, and the engine "
        "failed. The exception that follows is the cause; the front end tries again, and then "
        "exits.",
        misread="It does not mean that names or databases are lost.",
        steps=(
            JOURNAL,
            NextStep("databases ENV", "lists the databases as recovery would find them"),
            RECOVER,
        ),
        sources=(
            "BDBJournalCursor.wrapDatabaseException, StarRocks/starrocks",
            "StarRocks/starrocks#39871, StarRocks/starrocks#10137",
        ),
        sample="com.starrocks.journal.JournalException: failed to get DB names for 3 times!",
    ),
)
"""Cases of StarRocks and Doris, whose cause is usually a case of the engine."""
