"""Messages about replication groups.

Every text was compared with the engine's source, in JE 7.5.11 and 25.3.21 unless a case says
otherwise.
"""

from __future__ import annotations

from je_tools.explain.message_case import (
    CHECK_INDEX,
    COMPARE_NODES,
    FILES,
    REBUILD_INDEX,
    RECOVER,
    RESET_GROUP,
    SHOW_GROUP,
    SHOW_NODE,
    VERIFY,
    Case,
    NextStep,
)

_REASONS = "EnvironmentFailureReason, JE 7.5.11 and 25.3.21"
_GENERAL = ("unexpected-state", "uncaught-exception")
_AROUND = NextStep(
    "dump ENV --from-vlsn VLSN --limit 5",
    "shows the entries of the replication stream from that VLSN on",
)

_ROLLBACKS = (
    Case(
        name="rollback-prohibited",
        title="A rollback is larger than the limit",
        phrases=("RollbackProhibitedException", "ROLLBACK_PROHIBITED"),
        replaces=("rollback",),
        meaning="This node has transactions that its group does not have. They are more than "
        "je.rep.txnRollbackLimit allows (10 by default), or rollbacks are disabled. The text names "
        "the file and the offset to cut the log back to; both are hexadecimal.",
        misread="It does not mean that the log is damaged. It does not say which node is right "
        "either: if the rest of the group is older, this node may be the one to keep.",
        steps=(
            NextStep("recover ENV --to-lsn LSN", "shows which commits and keys the cut would lose"),
            COMPARE_NODES,
            NextStep(
                "dump ENV --from-lsn LSN --type TXN", "lists the transactions that would be lost"
            ),
        ),
        sources=(
            "RollbackProhibitedException.makeMessage, JE 7.5.11 and 25.3.21",
            "RepParams.TXN_ROLLBACK_LIMIT, JE 7.5.11",
        ),
        sample="com.sleepycat.je.rep.RollbackProhibitedException: (JE 7.5.11) Node n1 must "
        "rollback  12 total commits(11 of which were durable) to the earliest point indicated by "
        "transaction id=-40 time=2024-01-24 01:20:58.389 vlsn=81 lsn=0x3/0x1b00 durable=true in "
        "order to rejoin the replication group, but  the transaction rollback limit of 10 "
        "prohibits this. To do manual removal, truncate the log to file 00000003.jdb, offset "
        "0x1a2f, vlsn 80 ROLLBACK_PROHIBITED: Node would like to roll back past committed "
        "transactions",
    ),
    Case(
        name="rollback",
        title="The node rolls back transactions that its group does not have",
        phrases=("RollbackException", "HARD_RECOVERY", "must rollback"),
        meaning="The new master does not have the last transactions of this node. The node rolls "
        "them back and must open its environment again. `Log files were truncated to` names the "
        "last entry that node and group share, and `lsn=` the first transaction that is rolled "
        "back. JE up to 18.3 prints the digits after `truncated to file 0x` in decimal; `je-tools "
        "explain` corrects them.",
        misread="It does not mean that the log is damaged: opening the environment again is "
        "enough. `durable` counts transactions that a majority had confirmed; if it is not 0, "
        "members of the group have lost logs or were restored from older copies.",
        steps=(
            NextStep(
                "dump ENV --from-lsn LSN --type TXN --limit 20",
                "lists the transactions from that LSN on",
            ),
            RECOVER,
            COMPARE_NODES,
        ),
        sources=(
            "RollbackException.makeMessage, JE 7.5.11 (decimal) and 25.3.21 (hexadecimal)",
            "MatchpointSearchResults.getRollbackMsg, JE 7.5.11",
            "apache/doris#17475 (JE 18.3.12), apache/doris#6582 (JE 18.1.11)",
            "StarRocks/starrocks#39871 (JE 18.3.16), StarRocks/starrocks#4977 (JE 7.3.7)",
        ),
        sample="com.sleepycat.je.rep.RollbackException: (JE 18.3.12) Node fe1(1):/doris-meta/bdb "
        "must rollback 1 total commits(1 of which were durable) to the earliest point indicated by "
        "transaction id=-4812378 time=2023-03-05 18:24:01.739 vlsn=9,528,445 lsn=0xfb/0x426da3 "
        "durable=false in order to rejoin the replication group. Log files were truncated to file "
        "0x251, offset 0x4353230, vlsn 9,528,443 HARD_RECOVERY: Rolled back past transaction "
        "commit or abort. Must run recovery by re-opening Environment handles",
    ),
)

_STREAM = (
    Case(
        name="insufficient-log-npe",
        title="The node is too far behind, and its restore fails",
        phrases=("InsufficientLogException.initRepImpl",),
        also=("NullPointerException",),
        replaces=("insufficient-log", "uncaught-exception"),
        meaning="The node needs a network restore (see insufficient-log). The application used the "
        "InsufficientLogException after it closed the environment. The exception then has no node "
        "any more, so the restore fails with a NullPointerException.",
        misread="The NullPointerException is not the cause, and does not mean that the log is "
        "damaged. A second start often restores the node; newer releases of StarRocks and Doris "
        "avoid the exception.",
        steps=(COMPARE_NODES, SHOW_GROUP),
        sources=(
            "InsufficientLogException.initRepImpl, JE 7.5.11",
            "StarRocks/starrocks#5642 (JE 7.3.8), StarRocks/starrocks#17659 (JE 7.5.17)",
            "apache/doris#18766",
        ),
        sample="java.lang.NullPointerException: null\n"
        "\tat com.sleepycat.je.rep.InsufficientLogException.initRepImpl"
        "(InsufficientLogException.java:244)",
    ),
    Case(
        name="insufficient-log",
        title="The node is too far behind its group",
        phrases=("InsufficientLogException", "INSUFFICIENT_LOG"),
        replaces=("uncaught-exception",),
        meaning="The node was away for so long that the other members have deleted the files that "
        "it would have to read. It needs a network restore, which copies the log of another "
        "member.",
        misread="It does not mean that this log is damaged: it is old. Its records can still be "
        "read.",
        steps=(COMPARE_NODES, FILES),
        sources=(
            "InsufficientLogException, JE 7.5.11",
            _REASONS,
            "StarRocks/starrocks#5642, apache/doris#12256 (JE 7.3.7)",
        ),
        sample="com.sleepycat.je.rep.InsufficientLogException: (JE 7.3.7) /doris-meta/bdb "
        "INSUFFICIENT_LOG: Log files at this node are obsolete. Environment is invalid and must be "
        "closed.",
    ),
    Case(
        name="vlsn-index-gap",
        title="The VLSN index does not reach the log",
        phrases=("recoveryTracker should overlap or follow on disk last VLSN of",),
        replaces=_GENERAL,
        meaning="The part of the VLSN index that recovery builds does not follow the stored part: "
        "VLSNs between them are missing from the index, usually exactly one. This is a bug of old "
        "engine releases; the log usually has all entries.",
        misread="It does not mean that a transaction is lost. Check that the VLSN between the two "
        "numbers is in the log before the directory is removed and copied from another node.",
        steps=(CHECK_INDEX, REBUILD_INDEX, _AROUND),
        sources=(
            "VLSNIndex.merge, JE 7.5.11 and 25.3.21",
            "StarRocks/starrocks#4969, apache/doris#10436",
            "StarRocks documentation, Metadata Recovery",
        ),
        sample="(JE 7.3.7) recoveryTracker should overlap or follow on disk last VLSN of 6,684,650 "
        "recoveryFirst= 6,684,652 UNEXPECTED_STATE_FATAL: Unexpected internal state, unable to "
        "continue. Environment is invalid and must be closed.",
    ),
    Case(
        name="vlsn-bucket-missing",
        title="The VLSN index lacks a bucket for a VLSN in its range",
        phrases=("Couldn't find bucket for LTE VLSN", "Couldn't find bucket for GTE VLSN"),
        replaces=_GENERAL,
        meaning="A VLSN is in the range of the VLSN index, but there is no bucket at or below it "
        "(LTE), or at or above it (GTE). With LTE the node does not open its log; with GTE a "
        "master dies when the first replica joins. The log usually has all entries.",
        misread="It does not mean that entries of the log are lost.",
        steps=(CHECK_INDEX, REBUILD_INDEX),
        sources=("VLSNIndex.getLTEBucket and getGTEBucket, JE 18.3.12",),
        sample="com.sleepycat.je.EnvironmentFailureException: (JE 18.3.12) Couldn't find bucket "
        "for GTE VLSN 11,150 in database. EndBucket=null UNEXPECTED_STATE: Unexpected internal "
        "state, may have side effects.",
    ),
    Case(
        name="vlsn-bucket-overlap",
        title="The VLSN index reaches further than the log",
        phrases=("target bucket overlaps previous bucket",),
        replaces=_GENERAL,
        meaning="Recovery adds the VLSNs logged since the last checkpoint to the VLSN index, but "
        "the index already goes beyond them. The index belongs to another state of the log: files "
        "of two copies were mixed, or the log was cut and the index was not.",
        misread="It does not mean that the entries of the log are damaged.",
        steps=(CHECK_INDEX, REBUILD_INDEX, VERIFY),
        sources=("VLSNTracker.merge, JE 18.3.12",),
        sample="(JE 18.3.12) target bucket overlaps previous bucket. currentLastVLSN= 11,189 "
        "UNEXPECTED_STATE_FATAL: Unexpected internal state, unable to continue.",
    ),
    Case(
        name="commit-in-rollback",
        title="A rollback goes back past a Commit",
        phrases=("is within rollback period",),
        replaces=(*_GENERAL, "integrity"),
        meaning="A Commit lies between a RollbackStart and the matchpoint that it names. The "
        "engine never writes such a log: it cuts the log instead. Something else wrote the "
        "rollback, or its bytes are wrong.",
        misread="It does not mean that the Commit is damaged.",
        steps=(CHECK_INDEX, COMPARE_NODES, RECOVER),
        sources=("RollbackTracker.checkCommit, JE 18.3.12",),
        sample="(JE 18.3.12) Commit at 0x0/0x1f983 is within rollback period. LOG_INTEGRITY: Log "
        "information is incorrect, problem is likely persistent. Environment is invalid and must "
        "be closed.",
    ),
    Case(
        name="vlsn-passed",
        title="A node does not find a VLSN in its log",
        phrases=("but reader at",),
        also=("want to read",),
        replaces=_GENERAL,
        meaning="A node searched its log for a VLSN, to send the entry or to find the last one "
        "that it shares with another node, and found another VLSN first. Either the entry is "
        "missing, or it comes after a later one.",
        misread="It does not mean that the receiving node is at fault, or that bytes are damaged.",
        steps=(CHECK_INDEX, REBUILD_INDEX, _AROUND),
        sources=(
            "FeederReader, FeederSyncupReader, ReplicaSyncupReader, JE 7.5.11; FeederReader, "
            "JE 25.3.21",
            "StarRocks/starrocks#8236 (JE 7.3.8)",
        ),
        sample="com.sleepycat.je.EnvironmentFailureException: (JE 7.3.8) want to read 242,587,394 "
        "but reader at 242,587,395 UNEXPECTED_STATE: Unexpected internal state, may have side "
        "effects. MasterFeederSource fetching vlsn=242,587,394 Uncaught exception in feeder thread "
        "UNCAUGHT_EXCEPTION: Uncaught Exception in internal thread, unable to continue.",
    ),
)

_MEMBERS = (
    Case(
        name="duplicate-node-id",
        title="Two nodes have the same id",
        phrases=("were equal. But names:",),
        replaces=_GENERAL,
        meaning="A node was started without its helper, formed a group of its own with id 1, and "
        "was then added to this group; or a directory was copied to a second node.",
        misread="It does not mean that the log is damaged. The master fails, but the node to "
        "correct is the one that was added.",
        steps=(SHOW_GROUP,),
        sources=(
            "NameIdPair.equals, JE 7.5.11 and 25.3.21",
            "StarRocks/starrocks#7498 (JE 7.3.7)",
        ),
        sample="com.sleepycat.je.EnvironmentFailureException: (JE 7.3.7) Ids: 1 were equal. But "
        "names: fe1_9010_1637138716667, fe4_9010_1655704310986 weren't! UNEXPECTED_STATE: "
        "Unexpected internal state, may have side effects. UNCAUGHT_EXCEPTION: Uncaught Exception "
        "in internal thread, unable to continue.",
    ),
    Case(
        name="clock-difference",
        title="The clocks of two nodes differ",
        phrases=("exceeds max permissible delta", "TIME_OUT_OF_SYNC"),
        replaces=("handshake",),
        meaning="The difference is more than the group allows (je.rep.maxClockDelta, 2 seconds by "
        "default; Doris and StarRocks set 5), so the node does not join. Synchronise the clocks, "
        "and start the node again.",
        misread="It does not say anything about the log.",
        steps=(SHOW_GROUP,),
        sources=(
            "ReplicaFeederHandshake.checkClockSkew, RepParams.MAX_CLOCK_DELTA, JE 7.5.11",
            "apache/doris#11071 (JE 18.3.12)",
        ),
        sample="(JE 18.3.12) /doris-meta/bdb Clock delta: 28667 ms. between Feeder: fe1 and this "
        "Replica exceeds max permissible delta: 5000 ms. HANDSHAKE_ERROR: Error during the "
        "handshake between two nodes.",
    ),
    Case(
        name="already-active",
        title="The group still sees the node's old connection",
        phrases=("is already active with",),
        replaces=("handshake",),
        meaning="The master still serves a connection of a node with this name. The node lost "
        "contact and came back before the master noticed (long garbage collections cause this), or "
        "two processes use one name.",
        misread="It does not say anything about the log.",
        steps=(SHOW_GROUP,),
        sources=(
            "FeederReplicaHandshake, ReplicaFeederHandshake.negotiateProtocol, JE 7.5.11",
            "StarRocks/starrocks#21228 (JE 7.3.7)",
            "apache/doris-thirdparty#356 (JE 18.3.12)",
        ),
        sample="(JE 7.3.7) /meta/bdb A replica with the name: fe4(4) is already active with the "
        "Feeder:null HANDSHAKE_ERROR: Error during the handshake between two nodes.",
    ),
    Case(
        name="other-group",
        title="The node belongs to another group, or has another address",
        phrases=(
            "but represent different environment instances",
            "Conflicting hostnames for replica id",
            "belongs to the group:",
        ),
        replaces=("handshake",),
        meaning="The node's log and the group contradict each other: the group was created anew, "
        "the directory belongs to another cluster, or the host name changed (for example from an "
        "IP address to a name).",
        misread="It does not mean that the log is damaged. The directory may be the only copy of "
        "the older group: examine it before you remove it.",
        steps=(
            SHOW_GROUP,
            SHOW_NODE,
            NextStep("databases ENV", "lists the databases that the log holds"),
        ),
        sources=(
            "FeederReplicaHandshake, JE 7.5.11",
            "apache/doris#25141 (JE 18.3.12), StarRocks/starrocks#17267 (JE 7.3.7)",
        ),
        sample="(JE 18.3.12) /doris-meta/bdb The environments have the same name: "
        "PALO_JOURNAL_GROUP but represent different environment instances. The environment at the "
        "master has UUID 1dd6dcc8. HANDSHAKE_ERROR: Error during the handshake between two nodes.",
    ),
    Case(
        name="handshake",
        title="The handshake between two nodes failed",
        phrases=("HANDSHAKE_ERROR",),
        meaning="A node could not join its group, because a check between it and the master "
        "failed. The words before HANDSHAKE_ERROR say which check.",
        misread="It does not mean that the log is damaged.",
        steps=(SHOW_GROUP, FILES),
        sources=("FeederReplicaHandshake, ReplicaFeederHandshake, JE 7.5.11", _REASONS),
        sample="(JE 7.5.11) /bdb HANDSHAKE_ERROR: Error during the handshake between two nodes. "
        "Some validity or compatibility check failed, preventing further communication.",
    ),
)

_WRITES = (
    Case(
        name="replica-write",
        title="A write on a node that is not the master",
        phrases=("ReplicaWriteException",),
        meaning="The application wrote on a node that is a replica, or that knows no master at the "
        "moment. `The current state is` says which. After an election, the old master reports this "
        "for writes that were under way; a single node reports it while it waits for an election.",
        misread="It does not mean that the log is damaged. The write was not committed.",
        steps=(
            SHOW_NODE,
            NextStep("summary ENV --txns", "lists transactions that have no end in the log"),
        ),
        sources=(
            "ReplicaWriteException, StateChangeException.makeMessage, JE 7.5.11",
            "apache/doris#28939, apache/doris#31079 (JE 18.3.12)",
        ),
        sample="com.sleepycat.je.rep.ReplicaWriteException: (JE 18.3.12) Problem closing "
        "transaction 27. The current state is:REPLICA. The node transitioned to this state at:Sun "
        "Dec 24 23:26:06 CST 2023",
    ),
    Case(
        name="master-changed",
        title="The node stopped being the master",
        phrases=("MASTER_TO_REPLICA_TRANSITION", "MasterReplicaTransitionException"),
        meaning="Another node was elected. This one must close its environment and open it again "
        "as a replica.",
        misread="It does not mean that the log is damaged.",
        steps=(SHOW_NODE,),
        sources=(_REASONS,),
        sample="(JE 7.5.11) /bdb MASTER_TO_REPLICA_TRANSITION: This node was a master and must "
        "reinitialize internal state to become a replica.",
    ),
    Case(
        name="insufficient-replicas",
        title="Too few replicas to begin a transaction",
        phrases=("InsufficientReplicasException", "But none were active with this master"),
        meaning="The policy of the group asks for more replicas than are connected, so the master "
        "does not begin the transaction.",
        misread="Nothing was written.",
        steps=(SHOW_GROUP, COMPARE_NODES),
        sources=(
            "InsufficientReplicasException.makeMsg, JE 7.5.11",
            "apache/doris#27709",
        ),
        sample="com.sleepycat.je.rep.InsufficientReplicasException: (JE 18.3.12) Commit policy: "
        "SIMPLE_MAJORITY required 1 replica. But none were active with this master.",
    ),
    Case(
        name="insufficient-acks",
        title="Too few replicas confirmed a commit",
        phrases=("InsufficientAcksException", "Insufficient acks for policy"),
        meaning="The transaction is committed in the log of the master, but too few replicas "
        "confirmed it in time. If a node that does not have it becomes master, the transaction is "
        "rolled back (see rollback).",
        misread="It does not mean that the transaction failed: its Commit is in the master's log.",
        steps=(_AROUND, COMPARE_NODES),
        sources=("InsufficientAcksException, JE 7.5.11", "apache/doris#10403 (JE 18.3.12)"),
        sample="com.sleepycat.je.rep.InsufficientAcksException: (JE 18.3.12) Transaction: -430221  "
        "VLSN: 860,132, initiated at: 16:00:38.  Insufficient acks for policy:SIMPLE_MAJORITY. "
        "Need replica acks: 1. Missing replica acks: 1. Timeout: 10000ms.",
    ),
    Case(
        name="unknown-master",
        title="No master is known",
        phrases=("UnknownMasterException",),
        meaning="The node found no master: no majority of the group is up, or the node cannot "
        "reach it. If the other nodes are gone for good, this one can continue as a new group.",
        misread="It does not mean that the log is damaged.",
        steps=(SHOW_GROUP, COMPARE_NODES, RESET_GROUP),
        sources=("UnknownMasterException, RepImpl.checkIfMaster, JE 7.5.11",),
        sample="com.sleepycat.je.rep.UnknownMasterException: (JE 7.5.11) Could not determine "
        "master from helpers at:[fe1:9010]",
    ),
)

GROUP_MESSAGES = (*_ROLLBACKS, *_STREAM, *_MEMBERS, *_WRITES)
"""Cases about replication groups; the specific ones before the general ones."""
