"""Tables of an audit: their columns, declared once, for executors, Spark and readers.

LSNs are int64: the bits of file number and offset, negative from file 0x80000000 on. A column is
null if it has no value. `env` is the environment's path as found below the roots, and joins all
tables but `groups`, which `group_id` joins.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

_TEXT, _INT, _FLAG, _INTS, _TEXTS = (
    "string",
    "bigint",
    "boolean",
    "array<bigint>",
    "array<string>",
)


class ResultSource(StrEnum):
    """Origin of the results for a log file."""

    READ = "read"
    """The whole file was read in this run."""
    GROWN = "grown"
    """An earlier run read its beginning, and this run the rest."""
    KNOWN = "known"
    """An earlier run read it, and nothing has changed."""


class TableColumn(Struct, frozen=True):
    """One column of a table.

    Attributes:
        name: its name, the same everywhere.
        type: its type in Spark's DDL: `string`, `bigint`, `boolean`, `array<bigint>`
            or `array<string>`.
        text: description of its values.
    """

    name: str
    type: str
    text: str


class AuditTable(Struct, frozen=True):
    """One table; `order` has the columns by which readers sort its rows."""

    name: str
    text: str
    order: tuple[str, ...]
    columns: tuple[TableColumn, ...]

    @property
    def schema(self) -> Any:
        """Schema for pyarrow."""
        import pyarrow as pa

        types = {
            _TEXT: pa.string(),
            _INT: pa.int64(),
            _FLAG: pa.bool_(),
            _INTS: pa.list_(pa.int64()),
            _TEXTS: pa.list_(pa.string()),
        }
        return pa.schema([(column.name, types[column.type]) for column in self.columns])


def _table(
    name: str, text: str, order: tuple[str, ...], columns: tuple[tuple[str, str, str], ...]
) -> AuditTable:
    env = TableColumn("env", _TEXT, "the environment")
    return AuditTable(name, text, order, (env, *(TableColumn(*column) for column in columns)))


RUNS = AuditTable(
    "runs",
    "One row per run of the audit.",
    (),
    tuple(
        TableColumn(*column)
        for column in (
            ("started_ms", _INT, "time at which it started"),
            ("duration_ms", _INT, "how long it took"),
            ("roots", _TEXTS, "directories that were searched, as given"),
            ("version", _TEXT, "version of je-tools"),
            ("engine", _TEXT, "what ran it: spark or local"),
            ("spark_version", _TEXT, "version of Spark"),
            ("master", _TEXT, "Spark master"),
            ("environment_count", _INT, "environments"),
            ("error_env_count", _INT, "environments whose worst finding is an error"),
            ("warning_env_count", _INT, "environments whose worst finding is a warning"),
            ("note_env_count", _INT, "environments whose worst finding is a note"),
            ("file_count", _INT, "log files"),
            ("read_file_count", _INT, "log files that were read"),
            ("size", _INT, "bytes of all log files"),
            ("entry_count", _INT, "good entries"),
            ("damaged_size", _INT, "damaged bytes"),
            ("error_count", _INT, "findings that are errors"),
            ("warning_count", _INT, "findings that are warnings"),
            ("note_count", _INT, "findings that are notes"),
        )
    ),
)


ENVIRONMENTS = _table(
    "environments",
    "One row per environment.",
    ("env",),
    (
        (
            "severity",
            _TEXT,
            "its worst finding: error, warning or note; ok if it has none",
        ),
        (
            "file_count",
            _INT,
            "log files; of a store of Ignite, segments of the log and files of pages",
        ),
        ("size", _INT, "bytes of its log files; of a store of Ignite, of all its files"),
        ("entry_count", _INT, "good entries"),
        (
            "damaged_size",
            _INT,
            "bytes in damaged entries, gaps and ends of files, except tails that are only a note",
        ),
        ("error_count", _INT, "findings that are errors"),
        ("warning_count", _INT, "findings that are warnings"),
        ("note_count", _INT, "findings that are notes"),
        ("first_file_no", _INT, "lowest file number"),
        ("last_file_no", _INT, "highest file number"),
        ("versions", _INTS, "log versions that good file headers name, ascending"),
        ("first_created_ms", _INT, "time in the header of the first file"),
        ("last_created_ms", _INT, "time in the header of the last file"),
        ("first_vlsn", _INT, "lowest VLSN of the replication stream"),
        ("last_vlsn", _INT, "highest VLSN of the replication stream"),
        (
            "committed_count",
            _INT,
            "transactions with a Commit; null for a store of Ignite, and if nothing could be read",
        ),
        (
            "aborted_count",
            _INT,
            "transactions with an Abort; null for a store of Ignite, and if nothing could be read",
        ),
        (
            "unfinished_count",
            _INT,
            "transactions without an end, except rolled back ones; of a store of Ignite, those "
            "that recovery leaves out; null if unknown",
        ),
        ("checkpoint_count", _INT, "complete checkpoints"),
        ("last_checkpoint_lsn", _INT, "LSN of the last CkptEnd"),
        ("last_checkpoint_ms", _INT, "its time"),
        ("outcome", _TEXT, "what the engine would do with it, as `doctor` says; null if unknown"),
        ("verdict", _TEXT, "the same in a sentence, with the reasons"),
        ("lost_commit_count", _INT, "Commits that recovery would cut off"),
        ("lost_key_count", _INT, "different keys that are written after the end of the log"),
        (
            "missing_key_count",
            _INT,
            "keys that are lost, as `missing` counts them; null if not counted",
        ),
        (
            "lost_record_count",
            _INT,
            "of a store of Ignite: whole records after the first that cannot be read, which the "
            "next start does not apply",
        ),
        ("cut_size", _INT, "bytes after the end of the log, which recovery cuts off"),
        ("lost_first_lsn", _INT, "LSN from which entries would be lost"),
        ("lost_last_lsn", _INT, "LSN of the last lost entry"),
        ("lost_first_vlsn", _INT, "lowest VLSN among the lost entries"),
        ("lost_last_vlsn", _INT, "highest VLSN among them"),
        ("last_commit_ms", _INT, "time of the last Commit that recovery leaves"),
        ("last_commit_vlsn", _INT, "its VLSN"),
        ("index_first_vlsn", _INT, "first VLSN of the VLSN index after recovery"),
        ("index_vlsn", _INT, "last VLSN of the VLSN index after recovery"),
        ("total_size", _INT, "bytes of files in use that the engine has counted"),
        ("obsolete_size", _INT, "counted bytes that are obsolete"),
        ("expired_size", _INT, "counted bytes that have expired; some may be obsolete too"),
        ("used_size", _INT, "counted bytes that are not obsolete"),
        ("used_percent", _INT, "percentage in use, as `space` counts it"),
        ("uncounted_size", _INT, "bytes of files in use that the engine has not counted"),
        ("reserved_size", _INT, "bytes of reserved files"),
        ("group_name", _TEXT, "name of its replication group"),
        ("group_id", _TEXT, "UUID of the group"),
        ("kind", _TEXT, "what it is: je, or ignite for a store of Apache Ignite"),
        (
            "source",
            _TEXT,
            "for stores of Ignite: `read` in this run, or `known` from an earlier run; null if it "
            "could not be read",
        ),
    ),
)

FILES = _table(
    "files",
    "One row per log file, as `je-tools files` lists them.",
    ("env", "file_no", "name"),
    (
        ("file_no", _INT, "number in its name"),
        ("name", _TEXT, "its path inside the environment"),
        ("size", _INT, "bytes"),
        (
            "source",
            _TEXT,
            "read: in this run; grown: only what an earlier run has not read; known: not at all, "
            "since nothing has changed; null if it could not be read",
        ),
        ("log_version", _INT, "log version in its header; null if the header is bad"),
        ("created_ms", _INT, "time in its header"),
        ("entry_count", _INT, "good entries"),
        ("damage_count", _INT, "errors found in it"),
        ("first_lsn", _INT, "LSN of its first good entry, the header"),
        ("last_lsn", _INT, "LSN of its last good entry"),
        ("first_vlsn", _INT, "lowest VLSN in it"),
        ("last_vlsn", _INT, "highest VLSN in it"),
        ("old_delta_count", _INT, "old BIN-deltas in a file that JE 20.1 and later open"),
        ("written_by", _TEXT, "JE releases that write its log version"),
        ("opened_from", _TEXT, "lowest JE release that opens it"),
        ("not_opened_by", _TEXT, "later releases that must not open it, and why"),
    ),
)

ENTRY_STATS = _table(
    "entry_stats",
    "One row per file and entry type, as `je-tools summary` counts them.",
    ("env", "file_no", "type_no"),
    (
        ("file_no", _INT, "number of the file"),
        ("type", _TEXT, "name of the entry type"),
        ("type_no", _INT, "its number"),
        ("count", _INT, "good entries"),
        ("provisional_count", _INT, "provisional ones among them"),
        ("total_size", _INT, "bytes, headers included"),
        ("min_size", _INT, "bytes of the smallest"),
        ("max_size", _INT, "bytes of the largest"),
    ),
)

FINDINGS = _table(
    "findings",
    "One row per finding, as `je-tools verify` reports them.",
    ("env", "file_no", "offset", "code"),
    (
        ("code", _TEXT, "what was found: `je-tools explain finding:CODE`"),
        ("severity", _TEXT, "error, warning or note"),
        ("file_no", _INT, "number of the file; null if the finding concerns the directory"),
        ("offset", _INT, "offset of the first byte that the finding concerns"),
        ("length", _INT, "number of these bytes"),
        ("lsn", _INT, "LSN of the first byte"),
        ("resume_lsn", _INT, "LSN at which good entries resume"),
        ("expected", _TEXT, "what should be there"),
        ("found", _TEXT, "what is there"),
        ("hint", _TEXT, "what to do next"),
        ("node", _TEXT, "of a store of Ignite: the node"),
        ("file", _TEXT, "of a store of Ignite: path of the file in it"),
        ("segment", _INT, "of a store of Ignite: index of the segment of the log"),
        ("page", _INT, "of a store of Ignite: index of the first page in the file"),
    ),
)

VLSN_RANGES = _table(
    "vlsn_ranges",
    "One row per run of consecutive VLSNs in a file, in log order.",
    ("env", "file_no", "lsn"),
    (
        ("file_no", _INT, "number of the file"),
        ("lsn", _INT, "LSN of the run's first entry"),
        ("first_vlsn", _INT, "VLSN of its first entry"),
        ("last_vlsn", _INT, "VLSN of its last entry"),
        ("count", _INT, "entries in it"),
    ),
)

TXNS = _table(
    "txns",
    "One row per transaction; its entries in all files count.",
    ("env", "begin_lsn"),
    (
        (
            "txn_id",
            _INT,
            "its id; negative if replicated. After a rollback an id can be used again",
        ),
        ("begin_lsn", _INT, "LSN of its first entry in the log"),
        ("end_lsn", _INT, "LSN of its last entry, a Commit or Abort if it has one"),
        ("outcome", _TEXT, "committed, aborted, unfinished, prepared, undone or rolled back"),
        ("entry_count", _INT, "its entries"),
        ("size", _INT, "bytes of its entries"),
        ("databases", _INTS, "ids of the databases that it wrote to, ascending"),
        ("end_ms", _INT, "time of its Commit or Abort"),
    ),
)

TXN_STATS = _table(
    "txn_stats",
    "One row per environment and outcome: the sums of the table txns.",
    ("env", "outcome"),
    (
        ("outcome", _TEXT, "committed, aborted, unfinished, prepared, undone or rolled back"),
        ("count", _INT, "transactions"),
        ("entry_count", _INT, "their entries"),
        ("total_size", _INT, "bytes of these entries"),
        ("last_end_ms", _INT, "time of the last Commit or Abort"),
    ),
)

CHECKPOINTS = _table(
    "checkpoints",
    "One row per checkpoint interval, as `je-tools summary --checkpoints` lists them.",
    ("env", "end_lsn"),
    (
        ("end_lsn", _INT, "LSN of CkptEnd, or of the last entry if the log ends before one"),
        ("complete", _FLAG, "true if the interval ends with a CkptEnd"),
        ("start_lsn", _INT, "LSN of the last CkptStart in it"),
        ("start_ms", _INT, "its time"),
        ("end_ms", _INT, "time of CkptEnd"),
        ("invoker", _TEXT, "what requested the checkpoint, in the engine's words"),
        ("ln_count", _INT, "user records in it"),
        ("max_ln_replay", _INT, "user records that a recovery at its end would replay"),
        ("end_to_end", _INT, "bytes between the two CkptEnds, as the engine estimates them"),
    ),
)

SPACE = _table(
    "space",
    "One row per log file, as `je-tools space` lists them.",
    ("env", "file_no"),
    (
        ("file_no", _INT, "number of the file"),
        ("state", _TEXT, "active, last, reserved or behind-end"),
        ("size", _INT, "bytes"),
        ("counted_size", _INT, "bytes of entries that the engine has counted"),
        ("obsolete_size", _INT, "counted bytes that are obsolete"),
        ("expired_size", _INT, "counted bytes that have expired; some may be obsolete too"),
        ("used_percent", _INT, "percentage in use: the mean of the next two columns"),
        ("used_least_percent", _INT, "percentage in use if no expired bytes are obsolete"),
        ("used_most_percent", _INT, "percentage in use if all of them are"),
        ("pending_size", _INT, "bytes that will expire later"),
        ("reasons", _TEXT, "why the file still exists, separated by spaces"),
    ),
)

NODES = _table(
    "nodes",
    "One row per environment of a replicated node, compared as by `je-tools vlsn compare`.",
    ("env",),
    (
        ("group_name", _TEXT, "name of its group"),
        ("group_id", _TEXT, "UUID of the group"),
        ("node", _TEXT, "name of the node; null if no file beside the log has it"),
        ("node_type", _TEXT, "electable, secondary, monitor, arbiter or external"),
        ("copy_of", _TEXT, "environment that is a newer copy of the same node"),
        ("outcome", _TEXT, "leads, or what it would do to follow the node that leads"),
        (
            "group_lag_vlsn",
            _INT,
            "VLSNs that the leader has after the end of the node's log; for a copy, those that "
            "`copy_of` has",
        ),
        ("group_lag_ms", _INT, "the same for the times of the last Commits"),
        ("lost_end_vlsn", _INT, "VLSN that it once had, after the end of its log"),
        ("first_vlsn", _INT, "first VLSN that its index covers after recovery"),
        ("last_vlsn", _INT, "last VLSN in the log as recovery leaves it"),
        ("commit_vlsn", _INT, "VLSN of its last Commit"),
        ("commit_ms", _INT, "time of its last Commit"),
        ("master_node_id", _INT, "id of the master that wrote this Commit"),
        ("master_name", _TEXT, "name of this master"),
        ("master_term", _INT, "its term; null before log version 22"),
        ("durable_vlsn", _INT, "last VLSN that the master knew to be durable"),
        ("journal_id", _INT, "last journal id of a StarRocks or Doris front end"),
        ("problems", _TEXT, "codes of the errors that keep it from leading, separated by spaces"),
        ("matchpoint_vlsn", _INT, "VLSN up to which it has the same as the leader"),
        ("vlsn_count", _INT, "VLSNs after the matchpoint, which it would roll back"),
        ("record_count", _INT, "writes of records among them"),
        ("txn_count", _INT, "transactions among them"),
        ("commit_count", _INT, "Commits among them"),
    ),
)

GROUPS = AuditTable(
    "groups",
    "One row per replication group of which an environment was found.",
    ("group_name", "group_id"),
    tuple(
        TableColumn(*column)
        for column in (
            ("group_name", _TEXT, "name of the group"),
            ("group_id", _TEXT, "its UUID"),
            ("member_count", _INT, "members that its database names, without removed ones"),
            ("node_count", _INT, "nodes that were found, each once"),
            ("copy_count", _INT, "environments that are older copies of these nodes"),
            ("missing_count", _INT, "members with a log that were not found"),
            ("missing", _TEXT, "names of the members that may be missing, separated by spaces"),
            ("leader", _TEXT, "environment of the node that would become master; null if none can"),
            ("leads_by", _TEXT, "criterion by which it is before the next best node"),
            ("uncommitted_count", _INT, "VLSNs after its last Commit"),
            ("last_vlsn", _INT, "its last VLSN"),
            ("durable_vlsn", _INT, "last VLSN that a node of the group knew to be durable"),
            ("commit_ms", _INT, "time of its last Commit"),
            ("lagging_count", _INT, "other nodes whose logs end before the leader's"),
            ("group_lag_vlsn", _INT, "largest lag of them"),
            ("diverged_count", _INT, "nodes that would roll entries back to follow it"),
            ("rollback_txn_count", _INT, "transactions that these would roll back"),
            ("rollback_commit_count", _INT, "Commits among them"),
            ("lost_end_count", _INT, "nodes that have lost an end of their log"),
        )
    ),
)

TABLES = (
    ENVIRONMENTS,
    FILES,
    ENTRY_STATS,
    FINDINGS,
    VLSN_RANGES,
    TXNS,
    TXN_STATS,
    CHECKPOINTS,
    SPACE,
    NODES,
    GROUPS,
)
"""All tables but runs. Each has a partition `run=ID` for every run."""
