"""Recovery plans as tables and as rows of JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from je_tools.core.escaping import counted
from je_tools.findings import Severity
from je_tools.formats.je.header import NULL_LSN
from je_tools.log.field_texts import null_or_lsn
from je_tools.output.views.section_formats import Report
from je_tools.output.views.sections import Column, Kind, Section, fact_section, section_of, utc_text
from je_tools.recovery.end import EndReason
from je_tools.recovery.findings import snapshot_findings

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.recovery.lost_content import LostContent
    from je_tools.recovery.plan import Plan
    from je_tools.recovery.snapshot import Snapshot

LISTED = 50
"""Number of transactions that a table lists; JSON lines have all."""

_REASONS = {
    EndReason.CLEAN: "the file ends there",
    EndReason.ZEROS: "zeros follow that were never written",
    EndReason.TORN: "an incomplete entry follows",
    EndReason.DAMAGED: "a damaged entry follows",
    EndReason.CHOSEN: "chosen by an option",
}

_PASSES = (
    Column("name", "pass", Kind.TEXT, wraps=True),
    Column("entry_count", "entries"),
    Column("applied_count", "applied"),
)
_OPEN = (
    Column("txn_id", "transaction", Kind.ID),
    Column("ln_count", "LNs"),
    Column("first_lsn", "first LSN", Kind.LSN),
    Column("last_lsn", "last LSN", Kind.LSN, rank=2),
    Column("outcome", "outcome", Kind.TEXT),
)
_CHANGES = (
    Column("db", "database", Kind.TEXT, cell=lambda each: each.name),
    Column("db_id", "id", Kind.ID),
    Column("what", "change", Kind.TEXT),
)
_PERIODS = (
    Column("matchpoint_lsn", "matchpoint", Kind.LSN),
    Column("start_lsn", "RollbackStart", Kind.LSN),
    Column("end_lsn", "RollbackEnd", Kind.LSN),
    Column("txn_count", "transactions", cell=lambda each: len(each.txn_ids or ())),
)
_LOST = (
    Column("txn_id", "transaction", Kind.ID),
    Column("time_ms", "committed (UTC)", Kind.TIME),
    Column("lsn", "Commit", Kind.LSN),
    Column("ln_count", "LNs"),
)
_LOST_KEYS = (
    Column("db_id", "id", Kind.ID),
    Column("db", "database", Kind.TEXT, cell=lambda each: each.name),
    Column("is_lost", "also lost", Kind.TEXT, cell=lambda each: "yes" if each.is_lost else "no"),
    Column("ln_count", "LNs"),
    Column("key_count", "keys"),
)


def recovery_sections(plan: Plan) -> list[Section]:
    """Return tables for people, without empty ones: the loss of committed transactions first."""
    loss = fact_section("would be lost", _loss(plan))
    tables = [loss, fact_section("recovery", _facts(plan)), *_lists(plan, LISTED)]
    return [table for table in tables if table.rows]


def _lists(plan: Plan, most: int | None) -> list[Section]:
    lost = plan.lost.transactions
    opened = plan.open_transactions
    return [
        section_of("passes", "Passes over the log", _PASSES, plan.passes),
        section_of(
            "open_transactions",
            _title("Transactions without an end", len(opened), most),
            _OPEN,
            opened[:most],
        ),
        section_of("database_changes", "Database names", _CHANGES, plan.database_changes),
        section_of("rollbacks", "Rollbacks", _PERIODS, plan.periods),
        section_of(
            "lost_transactions",
            _title("Committed after the end, and lost", len(lost), most),
            _LOST,
            lost[:most],
        ),
        section_of("lost_records", "Records after the end", _LOST_KEYS, plan.lost.databases),
    ]


def _title(title: str, count: int, most: int | None) -> str:
    return title if most is None or count <= most else f"{title} (the first {most} of {count:,})"


def _loss(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the loss in words; nothing if no Commit would be lost."""
    lost = plan.lost
    if lost.newest_ms is None:
        return
    yield "Commits", f"{len(lost.transactions):,}"
    yield "transactions", f"{lost.txn_count:,}"
    written = sum(1 for each in lost.databases if each.key_count)
    yield "keys", f"{lost.key_count:,} written, in {counted(written, 'database')}"
    yield "bytes", f"{lost.size:,} after the end of the log"
    yield "newest Commit", f"{utc_text(lost.newest_ms)} UTC"


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the single facts of a recovery, in words."""
    snapshot, end, checkpoint = plan.snapshot, plan.snapshot.end, plan.snapshot.checkpoint
    yield "last entry", null_or_lsn(end.last_lsn)
    yield "end of the log", f"{null_or_lsn(end.next_lsn)}: {_REASONS[end.reason]}"
    yield "cut off", f"{plan.lost.size:,} bytes"
    for skipped in end.skipped:
        what = "renamed to .bad" if skipped.put_aside else "skipped"
        yield skipped.file.path.name, f"{skipped.file.size:,} bytes, {what}"
    if checkpoint.end_lsn == NULL_LSN:
        yield "checkpoint", "none: the whole log is replayed"
    else:
        start, stop = null_or_lsn(checkpoint.start_lsn), null_or_lsn(checkpoint.end_lsn)
        yield "checkpoint", f"{start} to {stop}"
        yield "first active entry", null_or_lsn(checkpoint.first_active_lsn)
    if checkpoint.partial_start_lsn != NULL_LSN:
        yield "checkpoint without an end", null_or_lsn(checkpoint.partial_start_lsn)
    yield "root of databases", null_or_lsn(checkpoint.root_lsn)
    first, last = plan.files_needed
    older = sum(file.file_no < first for file in end.files)
    more = f"; {older:,} older files also hold records" if older else ""
    yield "files replayed", f"{first:08x}.jdb to {last:08x}.jdb{more}"
    yield from check_facts(snapshot)
    yield (
        "transactions",
        (
            f"{plan.committed_count:,} committed, {plan.aborted_count:,} aborted, "
            f"{len(plan.open_transactions):,} without an end"
        ),
    )
    if plan.unfinished_removals:
        ids = ", ".join(map(str, plan.unfinished_removals))
        lost = len(snapshot.lost_names)
        what = f"no name, {lost:,} lost" if lost else "unfinished removals"
        yield what, f"databases of id {ids}"
    yield "log version", _versions(plan)
    refusals = ", ".join(refusal.value for refusal in snapshot.refusals)
    yield "the engine", _verdict(plan, refusals)


def check_facts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield whether the files that recovery does not read were checked; nothing without any."""
    if snapshot.is_verified:
        yield "files checked", "all: --verify has checked their checksums"
        return
    files = snapshot.unchecked_files
    if files:
        size = sum(file.size for file in files)
        what = f"{counted(len(files), 'older file')}, {counted(size, 'byte')}"
        yield "files not checked", f"{what}: --verify checks their checksums"


def check_row(snapshot: Snapshot) -> dict[str, Any]:
    """Return whether all files are checked, and number and bytes of the others, for JSON."""
    files = snapshot.unchecked_files
    return {
        "is_verified": snapshot.is_verified,
        "unchecked_file_count": len(files),
        "unchecked_size": sum(file.size for file in files),
    }


def _versions(plan: Plan) -> str:
    """Return the log versions of the files that recovery reads."""
    first, last = plan.files_needed
    files = [f for f in plan.snapshot.end.files if first <= f.file_no <= last]
    versions = sorted({file.version for file in files})
    text = f"{versions[0]} to {versions[-1]}" if len(versions) > 1 else str(versions[0])
    return f"{text}; `je-tools files` shows which engines open it"


def _verdict(plan: Plan, refusals: str) -> str:
    if refusals:
        return f"would refuse to open it: {refusals}"
    if plan.missing:
        names = ", ".join(f"{file_no:08x}.jdb" for file_no in plan.missing)
        return f"lacks files that are in use: {names}"
    if plan.snapshot.environment.unreadable:
        names = ", ".join(each.path.name for each in plan.snapshot.environment.unreadable)
        return f"may fail to open it: {names} cannot be read"
    found = snapshot_findings(plan.snapshot)
    if any(each.code.startswith("tree-") and each.severity is Severity.ERROR for each in found):
        return "may fail to open it: its trees are damaged"
    is_done = plan.is_clean and not plan.unfinished_removals and not plan.snapshot.temporary
    work = "has nothing to write" if is_done else "writes a checkpoint"
    commits = counted(len(plan.lost.transactions), "Commit")
    if plan.end.reason is EndReason.DAMAGED:
        what = commits if plan.lost.transactions else counted(plan.lost.size, "byte")
        return f"cuts off {what} without a message, opens the log, and {work}"
    if plan.lost.transactions:
        return f"after a cut that removes {commits}: opens the log, and {work}"
    return f"opens it, and {work}"


def recovery_report(plan: Plan, masking: Masking) -> Report:
    """Return a plan for JSON: its facts, the loss if any, the complete lists, and lost keys."""
    return Report(
        _row(plan),
        "recovery",
        {"loss": loss_row(plan.lost)},
        _lists(plan, None),
        {"lost_keys": _lost_keys(plan, masking)},
    )


def _row(plan: Plan) -> dict[str, Any]:
    snapshot, end, checkpoint = plan.snapshot, plan.snapshot.end, plan.snapshot.checkpoint
    return {
        "env": snapshot.environment.name,
        "last_lsn": null_or_lsn(end.last_lsn),
        "next_lsn": null_or_lsn(end.next_lsn),
        "end_reason": end.reason.value,
        "cut_size": plan.lost.size,
        "skipped": [skipped.file.path.name for skipped in end.skipped],
        "ckpt_start_lsn": null_or_lsn(checkpoint.start_lsn),
        "ckpt_end_lsn": null_or_lsn(checkpoint.end_lsn),
        "partial_ckpt_start_lsn": null_or_lsn(checkpoint.partial_start_lsn),
        "first_active_lsn": null_or_lsn(checkpoint.first_active_lsn),
        "root_lsn": null_or_lsn(checkpoint.root_lsn),
        "first_file_no": plan.files_needed[0],
        "last_file_no": plan.files_needed[1],
        "committed_count": plan.committed_count,
        "aborted_count": plan.aborted_count,
        "open_count": len(plan.open_transactions),
        "unfinished_removals": list(plan.unfinished_removals),
        "refusals": [refusal.value for refusal in snapshot.refusals],
        "is_clean": plan.is_clean,
        "missing": list(plan.missing),
        **check_row(snapshot),
    }


def loss_row(lost: LostContent) -> dict[str, Any] | None:
    """Return the totals of what a cut of the log would lose; None if that is nothing."""
    if lost.newest_ms is None:
        return None
    return {
        "commit_count": len(lost.transactions),
        "txn_count": lost.txn_count,
        "key_count": lost.key_count,
        "size": lost.size,
        "newest_ms": lost.newest_ms,
    }


def _lost_keys(plan: Plan, masking: Masking) -> Iterator[dict[str, Any]]:
    """Yield the keys of lost records, in hexadecimal or masked, by database.

    The key of a database with duplicates includes the data.
    """
    for lost in plan.lost.databases:
        for row in range(len(lost.keys)):
            key = masking.text_of(lost.keys[row] or b"")
            yield {"db_id": lost.db_id, "db": lost.name, "key": key}
