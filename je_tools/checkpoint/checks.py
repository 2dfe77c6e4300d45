"""Checks before a checkpoint: that the engine would open the log, and that it can be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.btree.fault_kinds import FaultKind
from je_tools.checkpoint.directories import check_layout
from je_tools.checkpoint.log_end import is_to_cut
from je_tools.checkpoint.rollbacks import missing_invisible_marks
from je_tools.checkpoint.utilization_tracker import track_utilization
from je_tools.checkpoint.vlsn_records import is_outdated, recovered_vlsn_index
from je_tools.core.escaping import quoted
from je_tools.errors import RefusedError
from je_tools.formats.je.header import lsn_text
from je_tools.recovery.end import REPAIRED_REFUSALS
from je_tools.recovery.utilization import missing_in_use

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.recovery.snapshot import Snapshot


def check_readable(environment: Environment) -> None:
    """Check that everything with the name of a log file can be read.

    Raises:
        RefusedError: something with such a name is no file, or cannot be opened.
    """
    for file in environment.unreadable:
        raise RefusedError(
            f"{file.path}: {file.reason}. The engine takes it for a file of the log. Mount the "
            "volume on which it should lie, or move it away, and run the command again."
        )


def check_openable(snapshot: Snapshot) -> None:
    """Check that the engine would open the log, at least after a checkpoint.

    Raises:
        RefusedError: it would not. The message says why.
    """
    check_layout(snapshot.environment)
    check_readable(snapshot.environment)
    fatal = [each for each in snapshot.refusals if each not in REPAIRED_REFUSALS]
    if fatal:
        name = snapshot.environment.name
        listed = ", ".join(str(each) for each in fatal)
        steps = " and ".join(f"`je-tools explain refusal:{each}`" for each in fatal)
        raise RefusedError(
            f"{name}: the engine would refuse to open this log ({listed}), and a checkpoint would "
            f"not change that. Run {steps} to see what to do. `je-tools recover {quoted(name)}` "
            "shows the state of the log."
        )


def check_writable(snapshot: Snapshot, *, cuts: bool, accept_loss: bool = False) -> None:
    """Check that a checkpoint can be written.

    Args:
        snapshot: the log as recovery leaves it.
        cuts: True if everything after the end of the log is cut off first.
        accept_loss: True to write although files are missing that are in use.

    Raises:
        RefusedError: it cannot; the message says why and what to do.
    """
    name = snapshot.environment.name
    for database in snapshot.databases.values():
        snapshot.overlay(database.db_id)
        snapshot.read_upper_nodes(database)
    check_openable(snapshot)
    if snapshot.interval.in_doubt:
        listed = ", ".join(map(str, sorted(snapshot.interval.in_doubt)))
        raise RefusedError(
            f"{name}: transactions are prepared (XA), but neither committed nor aborted: {listed}. "
            "A checkpoint would undo them. Open the environment with the application, whose "
            "transaction manager decides."
        )
    # After a crash, an identifier key may be out of range. A rewritten node gets another one.
    bad = [
        each
        for each in snapshot.faults.damage
        if not (snapshot.was_crashed and each.kind is FaultKind.OTHER_RANGE)
    ]
    if bad:
        raise RefusedError(
            f"{name}: the trees are damaged, first at {lsn_text(bad[0].lsn)} ({bad[0].kind}), and "
            f"a checkpoint would make the loss permanent. `je-tools verify --tree {quoted(name)}` "
            f"reports what is lost, and `je-tools salvage {quoted(name)} --output DIR` gets the "
            "records out."
        )
    if not accept_loss:
        _check_files(snapshot)
    for database in snapshot.databases.values():
        if database.comparators and snapshot.is_changed(database.db_id):
            raise RefusedError(
                f"{name}: database {database.name} has a comparator of its application, so only "
                "the engine, with the application's classes, can put changed records in order. "
                "Open the environment with the application. `je-tools export` reads the database "
                "as it is."
            )
    recover = f"`je-tools recover {quoted(name)} --apply`"
    if not cuts and is_to_cut(snapshot):
        raise RefusedError(
            f"{name}: other bytes follow the last entry of the log, and must be cut off first. "
            f"{recover} cuts them off, and writes a checkpoint. Without --apply, it shows what "
            "would be lost."
        )
    if not cuts and missing_invisible_marks(snapshot):
        raise RefusedError(f"{name}: a rollback was not finished. {recover} finishes it.")
    if is_outdated(snapshot):
        recovered_vlsn_index(snapshot, track_utilization(snapshot, frozenset()).stream)


def _check_files(snapshot: Snapshot) -> None:
    """Check that no file is missing that the engine counts as in use.

    Reading the upper nodes does not show this: the BINs and records below may be missing.
    """
    used = missing_in_use(snapshot)
    if used:
        name = snapshot.environment.name
        listed = ", ".join(f"{file_no:08x}.jdb" for file_no in used[:5])
        more = f" and {len(used) - 5} more" if len(used) > 5 else ""
        raise RefusedError(
            f"{name}: files in use are missing: {listed}{more}. So records are lost; `je-tools "
            f"missing {quoted(name)}` lists them. First look for the files in a backup of the "
            "same node. --accept-loss writes without them."
        )
