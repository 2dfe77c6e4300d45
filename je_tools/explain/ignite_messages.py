"""Messages of nodes of Apache Ignite about their persistent store.

Every text was compared with the classes of Ignite 2.18.0. Most were printed by a node that was
started on a damaged copy of a store.
"""

from __future__ import annotations

from je_tools.explain.message_case import Case, NextStep

_CHECKPOINTS = NextStep(
    "ignite checkpoints ENV",
    "pairs the checkpoint markers, and shows the part of the log that recovery needs, and what is "
    "missing from it",
)
_WAL = NextStep(
    "ignite wal verify ENV",
    "finds every damaged byte range of the log, missing segments, and copies with the same bytes "
    "undamaged",
)
_PAGES = NextStep(
    "ignite pages verify ENV",
    "checks every page, distinguishes torn pages, which recovery repairs, from damage, and gives "
    "advice for each file",
)
_INFO = NextStep("ignite info ENV", "shows the nodes, folders and segments, and who holds the lock")
_RECOVER = NextStep(
    "ignite recover ENV",
    "shows what the next start does and loses, and the edits that let the node start; it writes "
    "nothing without --apply",
)
_POINTER = NextStep(
    "explain POINTER --env ENV",
    "shows the record there, or what is there instead, and whether recovery reads it",
)
_PAGE = NextStep(
    "explain PAGE --env ENV",
    "shows the page in its file, and the records of the log that concern it",
)
_MARKER = "Never remove the begin marker of a checkpoint that has written pages."

IGNITE_MESSAGES = (
    Case(
        name="ignite-marker-unreadable",
        title="Ignite cannot read a checkpoint marker",
        phrases=("Failed to read checkpoint pointer from marker file",),
        meaning="A file in the node's folder cp does not have the 16 bytes of a pointer: the disk "
        "was full, or someone cut or made the file by hand. The node reads the newest marker of "
        "each kind and does not start without it.",
        misread=f"It does not mean that pages or the log are damaged. {_MARKER} `je-tools ignite "
        "recover` sets the marker aside if no page can have been written under it.",
        steps=(_RECOVER, _CHECKPOINTS, _PAGES),
        sources=("CheckpointMarkersStorage.readPointer, Ignite 2.18.0",),
        sample="class org.apache.ignite.IgniteCheckedException: Failed to read checkpoint pointer "
        "from marker file: /var/lib/ignite/db/node1/cp/1795218499541-5b2e-START.bin",
    ),
    Case(
        name="ignite-checkpoint-record-missed",
        title="Ignite does not find the record of an unfinished checkpoint",
        phrases=("but checkpoint record is missed in WAL",),
        meaning="The node died while a checkpoint wrote pages, so it must replay the log from the "
        "end of the previous checkpoint to the record of this one. The log ended before that "
        "record: a segment between them is missing or damaged. The page files are a mix of old and "
        "new pages, and the node does not start.",
        misread=f"It does not mean that all data is lost. {_MARKER} The node would then start on "
        "the mix and halt later.",
        steps=(_RECOVER, _CHECKPOINTS, _WAL, _PAGES),
        sources=(
            "GridCacheDatabaseSharedManager.performBinaryMemoryRestore, Ignite 2.18.0",
            "a node of Ignite 2.18.0 started without a segment that it needs",
        ),
        sample="StorageException: Failed to restore memory state (checkpoint marker is present on "
        "disk, but checkpoint record is missed in WAL) [cpStatus=CheckpointStatus "
        "[cpStartId=5b2e], lastRead=WALPointer [idx=2, fileOff=330750, len=37]]",
    ),
    Case(
        name="ignite-checkpoint-record-unreadable",
        title="Ignite does not find the log of its last checkpoint",
        phrases=("Failed to read checkpoint record from WAL",),
        meaning="Neither folder of the log has the segment to which the newest begin marker "
        "points. The folders were emptied or moved, or are not mounted, or the configuration names "
        "others.",
        misread="It does not mean that the segment is damaged. The page files may be whole: after "
        "a clean stop they have all rows.",
        steps=(_CHECKPOINTS, _INFO, _PAGES),
        sources=(
            "GridCacheDatabaseSharedManager.performBinaryMemoryRestore, Ignite 2.18.0",
            "a node of Ignite 2.18.0 started without its log",
        ),
        sample="StorageException: Failed to read checkpoint record from WAL, persistence "
        "consistency cannot be guaranteed. Make sure configuration points to correct WAL folders "
        "and WAL folder is properly mounted [ptr=WALPointer [idx=4, fileOff=474461, len=0]]",
    ),
    Case(
        name="ignite-marker-elsewhere",
        title="A checkpoint marker of Ignite points to another record",
        phrases=("Checkpoint marker doesn't point to checkpoint record",),
        meaning="The newest begin marker points to a record that does not begin a checkpoint: the "
        "marker or the segments come from another node or time.",
        misread="It does not mean that the log is damaged.",
        steps=(_CHECKPOINTS, _POINTER, _INFO),
        sources=("GridCacheDatabaseSharedManager.performBinaryMemoryRestore, Ignite 2.18.0",),
        sample="StorageException: Checkpoint marker doesn't point to checkpoint record "
        "[ptr=WALPointer [idx=4, fileOff=474461, len=0], rec=DataRecord]",
    ),
    Case(
        name="ignite-recovery-files",
        title="Ignite does not find the recovery files of a checkpoint",
        phrases=("Checkpoint recovery files are expected to exist",),
        meaning="The node died during a checkpoint, and now the recovery files are gone, or the "
        "option writeRecoveryDataOnCheckpoint has changed since. With this option, the log has no "
        "changes of pages, so only the recovery files can repair them.",
        misread="It does not mean that the files were lost: perhaps only the option has changed.",
        steps=(_RECOVER, _CHECKPOINTS, _PAGES),
        sources=("GridCacheDatabaseSharedManager, Ignite 2.18.0",),
        sample="Failed to restore memory state. Checkpoint recovery files are expected to exist, "
        "but not found (this can happen due to WriteRecoveryDataOnCheckpoint property change right "
        "after node crash or if files were manually deleted)",
    ),
    Case(
        name="ignite-checkpoint-entry",
        title="Ignite cannot write a checkpoint marker",
        phrases=("Failed to write checkpoint entry",),
        meaning="The marker that the node wants to write could not be created. At a start, the "
        "cause may be that a marker of this name exists: someone removed the begin marker of the "
        "newest checkpoint and left its end marker. Otherwise the next exception in the text names "
        "the cause, such as a full disk.",
        misread="It does not mean that the checkpoint is damaged.",
        steps=(_CHECKPOINTS, _INFO),
        sources=(
            "CheckpointMarkersStorage.writeCheckpointEntry, Ignite 2.18.0",
            "a node of Ignite 2.18.0 started without the begin marker of a finished checkpoint",
        ),
        sample="StorageException: Failed to write checkpoint entry [ptr=WALPointer [idx=1, "
        "fileOff=120530, len=1017], cpTs=1795218496427, cpId=5b2e, type=END]",
    ),
    Case(
        name="ignite-wal-record-unreadable",
        title="Ignite cannot read a record of its log",
        phrases=("Failed to read WAL record at position",),
        meaning="The record at this place has a wrong checksum or does not decode. If recovery "
        "needs it and its segment is archived, the node does not start. If it is in the newest "
        "segment, the node takes it for the end of the log, starts, and loses all later updates "
        "without a message.",
        misread="It does not mean that the log ends there. Good records may follow, and the work "
        "ring often has an undamaged copy of the segment.",
        steps=(_RECOVER, _WAL, _POINTER),
        sources=(
            "RecordV1Serializer.readWithCrc, Ignite 2.18.0",
            "a node of Ignite 2.18.0 started on a log with one bit changed",
        ),
        sample="IgniteCheckedException: Failed to read WAL record at position: 380580, size: "
        "523951, expectedPtr: WALPointer [idx=1, fileOff=380580, len=0]",
    ),
    Case(
        name="ignite-wal-tail-in-archive",
        title="The log of Ignite seems to end in an archived segment",
        phrases=(
            "WAL tail reached in archive directory",
            "WAL tail reached not in the last available segment",
        ),
        meaning="The records of an archived segment end too early: the bytes after them are no "
        "record of that place, and later segments exist. A segment in the archive was complete "
        "once, so bytes were lost or overwritten.",
        misread="It does not mean that later segments are damaged.",
        steps=(_RECOVER, _WAL, _CHECKPOINTS),
        sources=(
            "AbstractWalRecordsIterator.validateTailReachedException and "
            "StandaloneWalRecordsIterator, Ignite 2.18.0",
        ),
        sample="IgniteCheckedException: WAL tail reached in archive directory, WAL segment file is "
        "corrupted.",
    ),
    Case(
        name="ignite-wal-missing",
        title="Segments of the log of Ignite are missing",
        phrases=(
            "The critical part of WAL archive is missing",
            "WAL history is too short",
            "WAL history is corrupted",
        ),
        meaning="The log begins after the place from which it is needed, or a segment between two "
        "others is in no folder: the archive was cleaned by hand, or segments were moved away.",
        misread="It does not mean that the page files are damaged.",
        steps=(_CHECKPOINTS, _WAL, _INFO),
        sources=(
            "GridCacheDatabaseSharedManager.startMemoryRestore and "
            "FileWriteAheadLogManager.RecordsIterator, Ignite 2.18.0",
        ),
        sample="StorageException: The memory cannot be restored. The critical part of WAL archive "
        "is missing [tailWalPtr=null, endPtr=WALPointer [idx=3, fileOff=84, len=1017]]",
    ),
    Case(
        name="ignite-page-broken",
        title="Ignite cannot repair a damaged page",
        phrases=("Page is broken. Can't restore it from WAL",),
        replaces=("ignite-page-damaged",),
        meaning="The checksum of a page is wrong, and the log has no image of the page with a "
        "checkpoint after it. The node does not start, or halts.",
        misread="It does not mean that the log has nothing of the page. The node uses only images "
        "of whole pages. It ignores the records that initialise a page, although the page could be "
        "rebuilt from them too.",
        steps=(_RECOVER, _PAGE, _PAGES),
        sources=(
            "PageMemoryImpl.tryToRestorePage, Ignite 2.18.0",
            "a node of Ignite 2.18.0 started on a store with one bit of a data page changed",
        ),
        sample="StorageException: Page is broken. Can't restore it from WAL. (grpId = 3004753, "
        "pageId = 1000000000008).",
    ),
    Case(
        name="ignite-page-damaged",
        title="Ignite found a damaged page and tries to repair it",
        phrases=("data integrity violation encountered, will try to restore using existing WAL",),
        meaning="The checksum of a page is wrong. The node searches its whole log for the page. If "
        "no other message follows, the page was repaired.",
        misread="A repaired page is not always right: after a crash, the newest image may be newer "
        "than the checkpoint, and the node then applies updates twice.",
        steps=(_PAGES, _PAGE),
        sources=("PageMemoryImpl.readPageFromStore, Ignite 2.18.0",),
        sample="Failed to read page (data integrity violation encountered, will try to restore "
        "using existing WAL) [fullPageId=FullPageId [pageId=0001000000000008, "
        "effectivePageId=0000000000000008, grpId=3004753]]",
    ),
    Case(
        name="ignite-tree-corrupted",
        title="A B+tree of Ignite is corrupted",
        phrases=("B+Tree is corrupted", "Runtime failure on search row"),
        meaning="An operation on a tree found unexpected content in a page. The page may be "
        "damaged or zeros, the page files and the log may come from different times, or it is a "
        "bug of the engine (concurrent removes, before 2.18).",
        misread="It does not mean that rows are lost. If the tree is in index.bin, stop the node "
        "and remove the file: the next start rebuilds it. Do not remove partition files: they are "
        "not rebuilt.",
        steps=(_PAGES, _CHECKPOINTS, _PAGE),
        sources=("CorruptedTreeException, Ignite 2.18.0", "apache/ignite#10491"),
        sample="CorruptedTreeException: B+Tree is corrupted [groupId=3004753, "
        "pageIds=[281474976710664], cacheId=3004753, cacheName=atom, indexName=null, msg=Runtime "
        "failure on search row]",
    ),
    Case(
        name="ignite-locked",
        title="Another process uses the folder of the Ignite node",
        phrases=("Unable to acquire lock to file", "Failed to acquire file lock. Will try again"),
        meaning="A running node holds the lock of the folder db/NODE, or the file system does not "
        "support locks.",
        misread="The file named lock is not the cause: it may stay after a crash, but only a "
        "running process holds the lock. Do not remove it.",
        steps=(_INFO,),
        sources=(
            "GridCacheDatabaseSharedManager.NodeFileLockHolder and "
            "PdsConsistentIdProcessor, Ignite 2.18.0",
        ),
        sample="Failed to acquire file lock. Will try again in 1s [nodeId=7b0c, holder=node1, "
        "path=/var/lib/ignite/db/node1/lock]",
    ),
)
"""Cases of the store of Ignite."""
