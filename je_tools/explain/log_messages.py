"""Messages about the log, the disk and the process: one case for each kind of failure.

Every text was compared with the engine's source, in JE 7.5.11 and 25.3.21 unless a case says
otherwise. The reasons in capitals come from EnvironmentFailureReason; EnvironmentFailureException
puts the name of the environment before the message and the reason after it.
"""

from __future__ import annotations

from je_tools.explain.message_case import (
    ENTRY,
    FILES,
    LOCK,
    MISSING,
    RECOVER,
    SALVAGE,
    SPACE,
    TREE,
    VERIFY,
    Case,
    NextStep,
)

_REASONS = "EnvironmentFailureReason, JE 7.5.11 and 25.3.21"
_GENERAL = ("unexpected-state", "uncaught-exception")

_DAMAGE = (
    Case(
        name="restore-marker",
        title="The log must be restored first",
        phrases=(
            "persistent data corruption that was detected earlier",
            "<RestoreRequired failureType=",
            "handleRestoreRequired",
        ),
        replaces=("checksum", "btree-corruption", "file-not-found", *_GENERAL),
        meaning="The directory holds the marker file 7fffffff.jdb. The engine wrote it when it "
        "found persistent damage, or when it began a network restore. It refuses to open the log "
        "until the restore is complete or the marker is gone.",
        misread="It does not mean that the damage is still there: after an interrupted network "
        "restore the marker is the only fault. Deleting the marker repairs nothing.",
        steps=(VERIFY, RECOVER, SALVAGE),
        sources=(
            "EnvironmentImpl.handleRestoreRequired, JE 7.5.11 and 25.3.21",
            "VerifierUtils.getRestoreRequiredMessage, JE 7.5.11 and 25.3.21",
            "RestoreRequired.toString, JE 18.3.12, after an interrupted network restore",
        ),
        sample="(JE 25.3.21) /kvroot/env The environment may not be opened due to persistent data "
        "corruption that was detected earlier. The marker file (7fffffff.jdb) may be deleted. "
        "LOG_CHECKSUM: Checksum invalid on read, log is likely invalid.",
    ),
    Case(
        name="commit-after-damage",
        title="Commits after the damage",
        phrases=("FOUND_COMMITTED_TXN", "Found committed txn after the corruption point"),
        replaces=("checksum",),
        meaning="The last file is damaged, and at least one Commit follows the damage. The engine "
        "stopped so that it does not cut off that Commit. It stops only if "
        "je.haltOnCommitAfterChecksumException is set.",
        misread="It does not say how many Commits follow, and it does not mean that they are lost: "
        "they are still in the file.",
        steps=(RECOVER, VERIFY, SALVAGE),
        sources=(
            "LastFileReader.readNextEntry, JE 7.5.11 and 25.3.21",
            _REASONS,
        ),
        sample="(JE 18.3.12) /db/userRoot Found committed txn after the corruption point "
        "FOUND_COMMITTED_TXN: One committed transaction has been found after a corrupted log "
        "entry.",
    ),
    Case(
        name="checksum",
        title="A checksum is wrong",
        phrases=("LOG_CHECKSUM", "ChecksumException", "Checksum invalid on read"),
        meaning="The bytes of an entry do not match the checksum in its header, or its header "
        "makes no sense. `expected` is the checksum in the header, `got` that of the bytes; both "
        "are decimal. Disks, file systems, copies of a running log, and two processes in one "
        "directory cause this.",
        misread="It does not say how much is damaged: the engine stops at the first bad entry that "
        "it reads. It does not mean that everything after it is lost. Switching off the check "
        "(je.log.checksumRead, Doris ignore_bdbje_log_checksum_read) hides damage and repairs "
        "nothing.",
        steps=(VERIFY, ENTRY, RECOVER, SALVAGE),
        sources=(
            "ChecksumValidator.validate, JE 7.5.11 and 25.3.21",
            "LogEntryHeader (constructor) and LogManager.getLogEntryFromLogSource, JE 7.5.11",
            _REASONS,
            "OpenIdentityPlatform/OpenDJ#515 (JE 18.3.12)",
            "apache/doris#31247",
        ),
        sample="(JE 18.3.12) /db/userRoot com.sleepycat.je.log.ChecksumException: Location "
        "0x1fa/0x2013734 expected 678337235 got 1219402483 LOG_CHECKSUM: Checksum invalid on read, "
        "log is likely invalid. Environment is invalid and must be closed.",
    ),
    Case(
        name="btree-corruption",
        title="A B-tree is damaged",
        phrases=("BTREE_CORRUPTION", "Btree corruption is detected"),
        meaning="The engine's verifier found a node or a slot that leads nowhere, or to the wrong "
        "record.",
        misread="It does not mean that records are lost: the log may still hold them although the "
        "tree does not lead to them.",
        steps=(TREE, SALVAGE),
        sources=("BtreeVerifier, VerifierUtils, JE 7.5.11", _REASONS),
        sample="(JE 7.5.11) /db BTREE_CORRUPTION: Btree corruption is detected, log is likely "
        "invalid. Environment is invalid and must be closed.",
    ),
    Case(
        name="file-not-found",
        title="A log file is missing",
        phrases=(
            "LOG_FILE_NOT_FOUND",
            "LogFileNotFoundException",
            "Log file missing, log is likely invalid",
        ),
        meaning="The tree leads to an entry in a file that is not there. The first LSN of the text "
        "(`fetchLN of`, `fetchTarget of`) is that of the missing entry; lastFullLsn and "
        "lastLoggedLsn are those of the node that leads to it. Files go missing when someone "
        "deletes .jdb files to free space, when a backup is incomplete, when two processes use one "
        "directory, or when the engine deleted a file that was still in use.",
        misread="It does not say how much is lost: the engine stops at the first missing record "
        "that it needs. All records of that file may be missing, or only this one.",
        steps=(MISSING, FILES, VERIFY, SALVAGE),
        sources=(
            "IN.fetchTarget and IN.makeFetchErrorMsg, FileManager.getFileHandle, JE 7.5.11",
            _REASONS,
            "OpenIdentityPlatform/OpenDJ#379 (JE 18.3.12)",
            "CrawlScript/WebCollector#19 (JE 5.0.73), two processes in one directory",
            "yasserg/crawler4j#305 (JE 3.2.23)",
        ),
        sample="(JE 18.3.12) fetchLN of 0x507a/0x43f08b6 parent IN=1703427 IN "
        "class=com.sleepycat.je.tree.BIN lastFullLsn=0x50c1/0x5aa3cc9 "
        "lastLoggedLsn=0x5178/0x297941a LOG_FILE_NOT_FOUND: Log file missing, log is likely "
        "invalid. Environment is invalid and must be closed.",
    ),
    Case(
        name="file-deleted",
        title="A log file was deleted while the engine ran",
        phrases=("LOG_UNEXPECTED_FILE_DELETION", "was deleted unexpectedly"),
        meaning="The engine watches its directory. A .jdb file disappeared that it had not "
        "deleted: a clean-up script, a second process, or a person removed it.",
        misread="It does not mean that the file was in use: it may have held only obsolete "
        "entries. Nothing in the other files is damaged.",
        steps=(MISSING, FILES, LOCK, SALVAGE),
        sources=("FileDeletionDetector, JE 7.5.11 and 25.3.21", _REASONS),
        sample="(JE 7.5.11) /db Log file 0000001f.jdb was deleted unexpectedly. "
        "LOG_UNEXPECTED_FILE_DELETION: A log file was unexpectedly deleted, log is likely invalid.",
    ),
    Case(
        name="wrong-file-number",
        title="A log file has another file's name",
        phrases=("Wrong filenum in header for file",),
        replaces=("integrity",),
        meaning="The number in the header of a file is not the number in its name. Both numbers in "
        "the text are decimal; the name is hexadecimal. The file was renamed, or copied over "
        "another one.",
        misread="It does not mean that the content is damaged.",
        steps=(FILES, VERIFY),
        sources=("FileHeader.validate, JE 7.5.11 and 25.3.21",),
        sample="(JE 7.5.11) /db Wrong filenum in header for file /db/00000010.jdb expected 16 got "
        "17 LOG_INTEGRITY: Log information is incorrect, problem is likely persistent.",
    ),
    Case(
        name="integrity",
        title="Log entries contradict each other",
        phrases=("LOG_INTEGRITY", "Log information is incorrect, problem is likely persistent"),
        meaning="The checksum of an entry is right, but the entry does not fit the rest of the "
        "log: a slot leads to an entry of another kind, a database id is unknown, or an exception "
        "was thrown while a node was read.",
        misread="It does not mean that bytes were changed: checksums may all be right. "
        "LOG_INTEGRITY alone says little; the words before it and the cause in the stack trace say "
        "what happened.",
        steps=(VERIFY, TREE, ENTRY, SALVAGE),
        sources=(
            "IN.fetchTarget, DbTree, FileProcessor, FileManager, JE 7.5.11",
            _REASONS,
        ),
        sample="(JE 7.5.11) /db fetchTarget of 0x3/0x1a2f parent IN=12 LOG_INTEGRITY: Log "
        "information is incorrect, problem is likely persistent.",
    ),
)

_DISK = (
    Case(
        name="no-space",
        title="The disk is full",
        phrases=("No space left on device",),
        also=("LOG_WRITE",),
        replaces=("log-write",),
        meaning="The file system had no room for a write, so the engine closed the environment. "
        "The last file may end inside an entry; the engine cuts off that entry when it opens the "
        "log again.",
        misread="It does not mean that the log is damaged. Committed transactions are safe. "
        "Deleting .jdb files to make room loses data.",
        steps=(SPACE, VERIFY, RECOVER),
        sources=(
            "LogWriteException, FileManager, JE 7.5.11",
            "StarRocks/starrocks#10137 (JE 7.3.7)",
        ),
        sample="com.sleepycat.je.LogWriteException: (JE 7.3.7) /meta/bdb java.io.IOException: No "
        "space left on device LOG_WRITE: IOException on write, log is likely incomplete.",
    ),
    Case(
        name="log-write",
        title="A write failed",
        phrases=("LOG_WRITE", "LogWriteException"),
        meaning="The operating system refused a write, an fsync, a rename or a deletion in the "
        "log. The IOException in the text says why: permissions, a quota, a read-only file "
        "system, or a device that fails.",
        misread="It does not mean that earlier commits are lost.",
        steps=(VERIFY, RECOVER, SPACE),
        sources=("LogWriteException, FileManager, Cleaner, JE 7.5.11", _REASONS),
        sample="com.sleepycat.je.LogWriteException: (JE 18.3.12) /meta/bdb java.io.IOException: "
        "Read-only file system LOG_WRITE: IOException on write, log is likely incomplete.",
    ),
    Case(
        name="log-read",
        title="A read failed",
        phrases=("LOG_READ", "IOException on read, log is likely invalid"),
        meaning="The operating system could not read a log file. The fault is in the device, the "
        "file system, or the connection to it.",
        misread="It does not mean that the bytes are wrong: the engine never got them.",
        steps=(VERIFY, SALVAGE),
        sources=(_REASONS,),
        sample="(JE 7.5.11) /db java.io.IOException: Input/output error LOG_READ: IOException on "
        "read, log is likely invalid.",
    ),
    Case(
        name="disk-limit",
        title="A disk limit of the engine is reached",
        phrases=(
            "DiskLimitException",
            "Disk usage is not within",
            "and write operations are prohibited:",
        ),
        meaning="The disk has less free space than je.freeDisk asks for, or the log is larger than "
        "je.maxDisk. The engine refuses writes until there is room again, but allows reads. "
        "freeDiskShortage and maxDiskOverage in the text say by how many bytes. The default of "
        "je.freeDisk is 5 GiB, even for small disks.",
        misread="It does not mean that the disk is full, or that the log is damaged. If "
        "activeLogSize is small, something else fills the disk; if protectedLogSize is large, a "
        "backup or a member of the group keeps files from being deleted.",
        steps=(
            SPACE,
            NextStep(
                "space ENV --free 1000", "lists reserved files whose deletion gives that many MB"
            ),
        ),
        sources=(
            "Cleaner, DiskLimitException, JE 7.5.11 and 25.3.21",
            "internetarchive/heritrix3#340 (JE 7.5.11)",
            "OpenIdentityPlatform/OpenDJ#53",
            "dCache/dcache#5810 (JE 7.5.11)",
            "StarRocks/starrocks#23615",
        ),
        sample="com.sleepycat.je.DiskLimitException: (JE 7.5.11) Disk usage is not within "
        "je.maxDisk or je.freeDisk limits and write operations are prohibited: maxDiskLimit=0 "
        "freeDiskLimit=5,368,709,120 freeDiskShortage=10,711,040 activeLogSize=1,266",
    ),
    Case(
        name="version-mismatch",
        title="The log was written by another JE version",
        phrases=("VersionMismatchException", "VERSION_MISMATCH", "Expected log version"),
        meaning="A log file has a log version that this release does not read. Usually the "
        "application was downgraded: a newer JE wrote to the log, and an older one opens it. JE "
        "20.1 and newer also refuse log versions before 8.",
        misread="It does not mean that the log is damaged. No release converts a log to an older "
        "version.",
        steps=(
            FILES,
            NextStep(
                "export ENV --all --output DIRECTORY", "writes the records as text for DbLoad"
            ),
        ),
        sources=(
            "FileHeader.validate, JE 7.5.11 and 25.3.21, in different words",
            "StarRocks/starrocks#20679 (JE 7.3.7)",
        ),
        sample="com.sleepycat.je.VersionMismatchException: (JE 7.3.7) /meta/bdb Expected log "
        "version 14 or earlier but found 17 VERSION_MISMATCH: The existing log was written with a "
        "version of JE that is later than the running version of JE, the log cannot be read. "
        "Couldn't open file /meta/bdb/00000003.jdb",
    ),
    Case(
        name="environment-locked",
        title="Another process has the environment open",
        phrases=(
            "EnvironmentLockedException",
            "ENV_LOCKED",
            "The environment cannot be locked for",
        ),
        meaning="A process holds the lock on je.lck: the application is already running, an old "
        "process has not ended, or a tool of the engine has the environment open.",
        misread="The file je.lck is not the cause: the file alone locks nothing, and the lock ends "
        "with its process. Deleting je.lck lets two processes write one log, which damages it.",
        steps=(LOCK,),
        sources=(
            "FileManager constructor, JE 7.5.11 and 25.3.21",
            "JanusGraph/janusgraph#1166",
        ),
        sample="com.sleepycat.je.EnvironmentLockedException: (JE 7.3.7) /db/berkeley The "
        "environment cannot be locked for single writer access. ENV_LOCKED: The je.lck file could "
        "not be locked.",
    ),
    Case(
        name="environment-not-found",
        title="There is no log in the directory",
        phrases=("ENV_NOT_FOUND", "EnvironmentNotFoundException"),
        meaning="The engine was not allowed to create a log, and the directory holds no .jdb file. "
        "Usually the path is wrong, a volume is not mounted, or the files are in subdirectories "
        "(data001 and so on).",
        misread="It does not mean that a log was deleted.",
        steps=(FILES,),
        sources=(_REASONS,),
        sample="com.sleepycat.je.EnvironmentNotFoundException: (JE 7.5.11) /db Home directory: /db "
        "ENV_NOT_FOUND: EnvironmentConfig.setAllowCreate is false",
    ),
)

_PROCESS = (
    Case(
        name="thread-interrupted",
        title="A thread was interrupted",
        phrases=("THREAD_INTERRUPTED", "ThreadInterruptedException"),
        meaning="The application interrupted a thread (Thread.interrupt) while it was inside the "
        "engine. The engine no longer trusts its state, and closes the environment. The "
        "application must open it again.",
        misread="It does not mean that the log is damaged, or that the disk failed.",
        steps=(VERIFY, RECOVER),
        sources=(
            "ThreadInterruptedException, JE 7.5.11",
            _REASONS,
            "OpenIdentityPlatform/OpenDJ#157 (JE 18.3.12)",
            "apache/doris#47874",
            "dCache/dcache#4157 (JE 7.3.7)",
        ),
        sample="com.sleepycat.je.ThreadInterruptedException: (JE 7.3.7) /pool/meta "
        "java.lang.InterruptedException THREAD_INTERRUPTED: InterruptedException may cause "
        "incorrect internal state, unable to continue.",
    ),
    Case(
        name="lock-timeout",
        title="A record lock was not free in time",
        phrases=("LockTimeoutException", "TransactionTimeoutException", "expired. Locker"),
        meaning="A transaction waited for a record that another one had locked. The text names the "
        "database, the LSN of the record, and the owners of the lock. On a StarRocks or Doris "
        "follower, the owner replays a transaction whose Commit has not arrived yet, and the next "
        "attempt succeeds.",
        misread="It does not mean that the log or the record is damaged.",
        steps=(
            ENTRY,
            NextStep("summary ENV --txns", "lists transactions that have no end in the log"),
        ),
        sources=(
            "LockManager.getTimeoutInfo, JE 7.5.11 and 25.3.21",
            "apache/doris#10705 (JE 7.3.7)",
        ),
        sample="com.sleepycat.je.LockTimeoutException: (JE 7.3.7) Lock expired. Locker 497486454 "
        "-1_replayer_ReplicaThreadLocker: waited for lock on database=1150001 LockAddr:1459556016 "
        "LSN=0x43/0x6648b type=READ grant=WAIT_NEW timeoutMillis=1000",
    ),
    Case(
        name="out-of-memory",
        title="Recovery needs more memory",
        phrases=("OutOfMemoryError",),
        also=("com.sleepycat.je.recovery",),
        replaces=("java-error", "uncaught-exception"),
        meaning="The Java heap was too small for recovery. The engine keeps part of what it "
        "replays in memory. If the last checkpoint is far from the end of the log, there is much "
        "to replay.",
        misread="It does not mean that the log is damaged. Every start fails in the same way until "
        "the heap is larger or there is less to replay.",
        steps=(
            RECOVER,
            NextStep("checkpoint ENV", "plans a checkpoint, after which little is left to replay"),
            NextStep(
                "summary ENV --checkpoints --txns",
                "shows checkpoint intervals and large transactions",
            ),
        ),
        sources=("RecoveryManager, JE 7.5.11; Java's own error",),
        sample="java.lang.OutOfMemoryError: Java heap space\n"
        "\tat com.sleepycat.je.recovery.RecoveryManager.redoLNs(RecoveryManager.java:1402)",
    ),
    Case(
        name="java-error",
        title="A Java error stopped the engine",
        phrases=("JAVA_ERROR", "Java Error occurred, recovery may not be possible"),
        meaning="A Java Error (out of memory, stack overflow, missing class) passed through the "
        "engine, which closed the environment. The stack trace names the error.",
        misread="`recovery may not be possible` is about the running process. The next start "
        "recovers the log as after any crash.",
        steps=(VERIFY, RECOVER),
        sources=(_REASONS,),
        sample="(JE 7.5.11) JAVA_ERROR: Java Error occurred, recovery may not be possible.",
    ),
    Case(
        name="unexpected-state",
        title="An internal check of the engine failed",
        phrases=("UNEXPECTED_STATE", "UNEXPECTED_STATE_FATAL"),
        replaces=("uncaught-exception",),
        meaning="The engine was in a state that it does not expect. The words before "
        "UNEXPECTED_STATE say which check failed. UNEXPECTED_STATE_FATAL also closes the "
        "environment.",
        misread="It does not mean that the log is damaged: a fault of the engine or of the "
        "replication group looks the same.",
        steps=(VERIFY, TREE, RECOVER),
        sources=("EnvironmentFailureException.unexpectedState, JE 7.5.11", _REASONS),
        sample="(JE 7.5.11) /db NULL_LSN in upper IN UNEXPECTED_STATE_FATAL: Unexpected internal "
        "state, unable to continue. Environment is invalid and must be closed.",
    ),
    Case(
        name="unexpected-exception",
        title="The engine did not expect an exception",
        phrases=("UNEXPECTED_EXCEPTION", "UNEXPECTED_EXCEPTION_FATAL"),
        replaces=("uncaught-exception",),
        meaning="Code of the engine, or of the application inside it (a comparator, a listener), "
        "threw an exception. The stack trace names it.",
        misread="It does not mean that the log is damaged.",
        steps=(VERIFY,),
        sources=("EnvironmentFailureException.unexpectedException, JE 7.5.11", _REASONS),
        sample="(JE 7.3.7) /sleepyCat java.lang.IllegalArgumentException "
        "UNEXPECTED_EXCEPTION: Unexpected internal Exception, may have side effects.",
    ),
    Case(
        name="uncaught-exception",
        title="A thread of the engine ended with an exception",
        phrases=("UNCAUGHT_EXCEPTION",),
        meaning="The thread was one of the engine's own (a feeder, a cleaner), so the engine "
        "closed the environment. The text names the exception before UNCAUGHT_EXCEPTION.",
        misread="It does not say where the fault is: read the first exception in the text.",
        steps=(VERIFY,),
        sources=(_REASONS,),
        sample="(JE 7.3.8) /bdb Uncaught exception in feeder thread:Thread[Feeder Output,5,main] "
        "UNCAUGHT_EXCEPTION: Uncaught Exception in internal thread, unable to continue.",
    ),
)

LOG_MESSAGES = (*_DAMAGE, *_DISK, *_PROCESS)
"""Cases about the log, the disk and the process; the specific ones before the general ones."""
