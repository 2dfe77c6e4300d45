"""The parts of a diagnosis in words: whether the engine opens the log, and what would be lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from je_tools.core.escaping import counted, printable
from je_tools.doctor.facts import OpenOutcome
from je_tools.doctor.verdict import is_tree_code
from je_tools.findings import Severity
from je_tools.log.field_texts import null_or_lsn
from je_tools.output.views.missing_tables import lost_text
from je_tools.output.views.sections import utc_text
from je_tools.recovery.end import EndReason

if TYPE_CHECKING:
    from je_tools.doctor.facts import Diagnosis, Recovered
    from je_tools.missing.losses import DatabaseLoss
    from je_tools.recovery.lost_content import LostKeys

_DATABASES = 10
"""Largest number of databases in the text of a loss."""

Facts = Iterator[tuple[str, str]]
"""Names and values."""

_ANSWERS = {
    OpenOutcome.UNSAFE: "do not let it",
    OpenOutcome.REFUSES: "no",
    OpenOutcome.FAILS: "perhaps, and it then fails or misses records",
    OpenOutcome.STOPS: "yes, but the front end that uses it stops",
    OpenOutcome.LOSES: "yes, and it cuts off whole entries",
    OpenOutcome.LOCKED: "not while another process has it open",
    OpenOutcome.OPENS: "yes",
}


def opening_facts(diagnosis: Diagnosis) -> Facts:
    """Yield the facts about opening the log."""
    yield "answer", _ANSWERS[diagnosis.outcome]
    if diagnosis.outcome is not OpenOutcome.LOSES:
        for reason in diagnosis.reasons:
            yield "because", reason
    releases = diagnosis.releases
    if releases is not None and releases.opened_from is not None:
        yield "releases", f"JE {releases.opened_from} and later, by the log version"
        for each in releases.not_opened_by:
            yield "not", f"JE {each}"
    state = diagnosis.state
    if state is None:
        return
    first, last = state.plan.files_needed
    yield "recovery", f"reads {first:08x}.jdb to {last:08x}.jdb"
    yield "last entry", null_or_lsn(state.end.last_lsn)
    if diagnosis.outcome in (OpenOutcome.LOCKED, OpenOutcome.OPENS):
        yield "writes", "nothing" if state.is_at_rest else "a checkpoint"


def loss_facts(diagnosis: Diagnosis) -> Facts:
    """Yield the losses, or the reason why they are not known."""
    state = diagnosis.state
    if state is None:
        yield "not known", "recovery leaves nothing to compare with: salvage lists what survives"
        return
    found = [*_cut_facts(state), *_file_facts(state), *_journal_facts(state)]
    yield from found
    is_hurt = diagnosis.log is not None and diagnosis.log.totals.damaged_size
    is_broken = diagnosis.outcome in (OpenOutcome.UNSAFE, OpenOutcome.REFUSES, OpenOutcome.FAILS)
    if not found and is_broken and _are_trees_whole(diagnosis, state):
        more = ", so the damage is in entries that no record needs" if is_hurt else ""
        yield "no record", f"every node, slot and record of the B-trees was checked{more}"
    elif not found and is_broken:
        yield "not known", "nothing was counted, but the log is not whole: more may be lost"
    elif not found:
        looked = "the end of the log, the files in use"
        looked += ", the slots of the B-trees" if state.missing is not None else ""
        looked += ", the B-trees" if state.has_trees else ""
        yield "nothing found", f"examined: {looked}"
    if is_hurt and not state.has_trees and state.end.reason is not EndReason.DAMAGED:
        yield "not counted", "records in damaged entries; --tree finds them"


def _are_trees_whole(diagnosis: Diagnosis, state: Recovered) -> bool:
    """Return True if all B-trees were checked without an error, and recovery would not stop."""
    is_hurt = any(
        each.severity is Severity.ERROR and is_tree_code(each.code) for each in diagnosis.findings
    )
    is_open = not state.plan.refusals and not state.plan.missing
    return state.has_trees and is_open and not is_hurt


def _cut_facts(state: Recovered) -> Facts:
    """Yield what the engine would cut off."""
    lost = state.lost
    if lost.newest_ms is not None:
        yield "Commits", f"{len(lost.transactions):,} of {counted(lost.txn_count, 'transaction')}"
        yield "newest Commit", f"{utc_text(lost.newest_ms)} UTC"
    if not lost.transactions and not lost.databases:
        return
    yield "bytes", f"{lost.size:,} after the end of the log"
    written = [each for each in lost.databases if each.key_count]
    yield "keys", f"{lost.key_count:,} written, in {counted(len(written), 'database')}"
    for each in written[:_DATABASES]:
        yield "database", f"{_name(each)}: {_keys_text(each)}"
    if len(written) > _DATABASES:
        yield "database", f"{len(written) - _DATABASES:,} more; `je-tools recover` lists them"


def _journal_facts(state: Recovered) -> Facts:
    """Yield the number of ids that are missing from the journals of a front end."""
    journals = state.replication.journals if state.replication is not None else None
    if journals is None or not journals.continuity.hole_count:
        return
    continuity = journals.continuity
    holes = counted(continuity.hole_count, "hole")
    yield "journal ids", f"{continuity.missing_count:,} missing, in {holes}"


def _name(lost: LostKeys) -> str:
    return f"id:{lost.db_id}" if lost.name is None else printable(lost.name)


def _keys_text(lost: LostKeys) -> str:
    text = f"{counted(lost.key_count, 'key')} in {counted(lost.ln_count, 'LN')}"
    return f"{text}; the database itself is lost" if lost.is_lost else text


def _file_facts(state: Recovered) -> Facts:
    """Yield what is lost with missing and unreadable files."""
    losses = state.missing.losses if state.missing is not None else ()
    shown = [loss for loss in losses if not loss.is_internal]
    for loss in shown[:_DATABASES]:
        yield "database", f"{printable(loss.name)}: {_loss_text(loss)}"
    if len(shown) > _DATABASES:
        yield "database", f"{len(shown) - _DATABASES:,} more; `je-tools missing` lists them"
    internal = len(losses) - len(shown)
    if internal:
        yield "internal", f"parts of {counted(internal, 'internal database')}"


def _loss_text(loss: DatabaseLoss) -> str:
    keys = "an unknown number of keys"
    if loss.key_count is not None:
        keys = counted(loss.key_count, "key")
    kept = f"; salvage gets {counted(loss.kept_count, 'record')} of them from the other files"
    return f"{lost_text(loss)}: {keys}{kept}"
