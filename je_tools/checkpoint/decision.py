"""Decide whether a log needs a checkpoint, and whether it may be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from je_tools.checkpoint.checks import check_openable, check_writable
from je_tools.checkpoint.judged_versions import VERSION_MIN
from je_tools.checkpoint.log_end import is_to_cut
from je_tools.checkpoint.pending_work import is_needed
from je_tools.checkpoint.truncation import (
    FORCE_ADVICE,
    check_reached,
    check_state,
    group_refusal,
    was_cut_there,
)
from je_tools.core.escaping import quoted
from je_tools.errors import InputError, RefusedError

if TYPE_CHECKING:
    from je_tools.checkpoint.options import CheckpointOptions
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.recovery.snapshot import Snapshot


def is_at_rest(snapshot: Snapshot) -> bool:
    """Return True if the engine would open the log and leave it as it is."""
    return not (snapshot.refusals or is_to_cut(snapshot) or is_needed(snapshot))


def without_second_cut(
    environment: Environment, scanner: Scanner, options: CheckpointOptions
) -> CheckpointOptions:
    """Drop `to_lsn` if the log was already cut back to that entry."""
    if options.to_lsn is not None and was_cut_there(environment, scanner, options.to_lsn):
        return replace(options, to_lsn=None)
    return options


def has_work(snapshot: Snapshot, options: CheckpointOptions) -> bool:
    """Return True if anything has to be written, in place or to a copy.

    Args:
        snapshot: the log. With `to_lsn`, it ends with that entry, and all its records are read.
        options: options.

    Raises:
        RefusedError: a checkpoint cannot be written, or the engine would not open the log.
        InputError: the log version can only be read.
    """
    check_openable(snapshot)
    if options.to_lsn is not None:
        check_reached(snapshot, options.to_lsn)
    if not (options.before_erasure or is_to_cut(snapshot) or is_needed(snapshot)):
        return False
    name, version = snapshot.environment.name, snapshot.end.files[-1].version
    if version < VERSION_MIN:
        raise InputError(
            f"{name}: je-tools does not write a log of version {version}, only of {VERSION_MIN} "
            f"or later. `je-tools export --all {quoted(name)}` gets its records out."
        )
    if options.to_lsn is not None:
        check_state(snapshot)
    if options.cuts and not options.force:
        refusal = group_refusal(snapshot)
        if refusal is not None:
            raise RefusedError(f"{refusal} {FORCE_ADVICE}")
    check_writable(snapshot, cuts=options.cuts, accept_loss=options.accept_loss)
    return True
