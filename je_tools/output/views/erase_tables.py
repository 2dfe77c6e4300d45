"""Erasures as tables and as rows: what is overwritten in each file, what stays, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins

from je_tools.erase.in_kind.resuming import RedoState
from je_tools.erase.reasons import FIRST_ERASE, REASONS, EraseReason
from je_tools.log.file_names import log_file_no
from je_tools.output.views.sections import Cell, Column, Kind, Section, fact_section, section_of

if TYPE_CHECKING:
    from je_tools.erase.completion import Completion, MarkedFile
    from je_tools.erase.in_kind.resuming import UnfinishedInKind
    from je_tools.erase.judging import ReasonTotals
    from je_tools.erase.plan import ErasurePlan, FileErasure
    from je_tools.erase.results import ErasureResult
    from je_tools.erase.statistics import EraserStatistics

_DONE_FACT = (Column("what", "done", Kind.TEXT), Column("value", ""))


class ReasonCount(Struct, frozen=True):
    """Entries of a file that are treated alike.

    Attributes:
        file_no: number of the file; None for all files.
        action: `erase` or `keep`.
        reason, why: name of the reason, and its text.
        count, size: number of entries, and their bytes.
    """

    file_no: int | None
    action: str
    reason: str
    why: str
    count: int
    size: int


_REASONS = (
    Column("file_no", "file", Kind.FILE),
    Column("action", "action", Kind.TEXT),
    Column("reason", "reason", Kind.TEXT),
    Column("count", "entries"),
    Column("size", "bytes"),
    Column("why", "why", Kind.TEXT, rank=1, wraps=True),
)


def _action(file: FileErasure) -> str:
    if file.is_deleted:
        return "delete"
    if file.kept is not None:
        return "keep"
    return "erase" if file.totals.erase_count else "nothing"


def _kept(file: FileErasure) -> str | None:
    if file.is_deleted:
        return "reserved by the cleaner"
    return None if file.kept is None else file.kept.text


_FILES = (
    Column("file_no", "file", Kind.FILE, cell=lambda each: each.file.file_no),
    Column("action", "action", Kind.TEXT, cell=_action),
    Column("file_size", "bytes", rank=1, cell=lambda each: each.file.size),
    Column("erase_count", "to erase", cell=lambda each: each.totals.erase_count),
    Column("erase_size", "bytes to erase", cell=lambda each: each.totals.erase_size),
    Column("fsync_count", "fsyncs", rank=2),
    Column(
        "created_ms", "created", Kind.TIME, rank=3, cell=lambda each: each.file.header.created_ms
    ),
    Column("why", "why", Kind.TEXT, wraps=True, cell=_kept),
)
_PLAN = (
    Column("applied", "applied", Kind.FLAG),
    Column("needs_checkpoint", "checkpoint first", Kind.FLAG),
    Column("erase_count", "entries"),
    Column("erase_size", "bytes"),
    Column("delete_count", "files to delete"),
    Column("delete_size", "bytes in them"),
    Column("fsync_count", "fsyncs"),
    Column("cutoff_lsn", "erased up to", Kind.LSN),
    Column("first_vlsn", "first VLSN", Kind.ID),
    Column("new_first_vlsn", "new first VLSN", Kind.ID),
    Column("vlsn_limit", "limit", Kind.TEXT),
    Column("cycle_start_ms", "cycle from", Kind.TIME),
    Column("cycle_end_ms", "cycle to", Kind.TIME),
    Column("throttled_ms", "time", Kind.DURATION),
)
_OBSTACLES = (
    Column("kind", "obstacle", Kind.TEXT, cell=lambda each: each.kind.value),
    Column("text", "text", Kind.TEXT, wraps=True),
)
_UNFINISHED = (
    Column("file_no", "file", Kind.FILE),
    Column("action", "action", Kind.TEXT),
    Column("entry_count", "entries"),
    Column("left_size", "bytes left"),
    Column("why", "why", Kind.TEXT, wraps=True),
)


def _left_count(result: ErasureResult) -> int | None:
    return None if result.left is None else result.left.totals.erase_count


_DONE = (
    Column("entry_count", "entries", cell=lambda each: each.counts.entry_count),
    Column("entry_size", "bytes", cell=lambda each: each.counts.entry_size),
    Column("erased_file_count", "files erased", cell=lambda each: len(each.erased)),
    Column("deleted_file_count", "files deleted", cell=lambda each: len(each.deleted)),
    Column("pending_file_count", "files left", cell=lambda each: len(each.pending)),
    Column("fsync_count", "fsyncs", cell=lambda each: each.counts.fsync_count),
    Column("read_count", "reads", cell=lambda each: each.counts.read_count),
    Column("read_size", "bytes read", cell=lambda each: each.counts.read_size),
    Column("write_count", "writes", cell=lambda each: each.counts.write_count),
    Column("write_size", "bytes written", cell=lambda each: each.counts.write_size),
    Column("left_count", "left to erase", cell=_left_count),
)


def plan_sections(
    plan: ErasurePlan, *, applied: bool, as_facts: bool, seconds: float | None = None
) -> list[Section]:
    """Return the sums of a plan, its files, and their entries by reason.

    Args:
        plan: the plan.
        applied: True if it is carried out.
        seconds: time that a throttle gives it; None without one.
        as_facts: True for people: the sums as a list of facts, and reasons of all files together.
    """
    files = section_of("files", "Files", _FILES, plan.files)
    obstacles = section_of("obstacles", "What prevents it", _OBSTACLES, plan.obstacles)
    if not as_facts:
        counts = [each for file in plan.files for each in _counts(file.file.file_no, file.totals)]
        reasons = section_of("reasons", "", _REASONS, counts)
        return [
            Section("plan", "", _PLAN, [_plan_row(plan, applied, seconds)]),
            files,
            reasons,
            obstacles,
        ]
    facts = fact_section("erasure", _facts(plan, seconds))
    reasons = section_of("", "Entries", _REASONS[1:], _counts(None, plan.totals))
    sections = [facts, files, reasons]
    return [*sections, obstacles] if plan.obstacles else sections


def result_sections(
    result: ErasureResult, statistics: EraserStatistics, *, as_facts: bool
) -> list[Section]:
    """Return what was done, and for machines also the statistics under the engine's names.

    Args:
        result: the erasure.
        statistics: its statistics.
        as_facts: True for people.
    """
    if as_facts:
        facts: list[list[Cell]] = [[each.title, each.cell_of(result)] for each in _DONE]
        return [Section("", "", _DONE_FACT, facts)]
    done = section_of("done", "Done", _DONE, [result])
    named: dict[str, int] = to_builtins(statistics)
    columns = tuple(Column(name, name) for name in named)
    return [done, Section("statistics", "", columns, [list(named.values())])]


def completion_section(found: Completion, *, applied: bool) -> Section:
    """Return the files with entries that are marked as erased and still have their bytes.

    Args:
        found: these entries.
        applied: True if they are overwritten.
    """

    def action(each: MarkedFile | UnfinishedInKind) -> str:
        if each.kept is not None:
            return "keep"
        return "overwritten" if applied else "overwrite"

    rows: list[list[Cell]] = [
        [
            each.file.file_no,
            "stopped" if applied and each.left_count and each.kept is None else action(each),
            len(each.entries),
            int(each.entries.item_size.sum()),
            None if each.kept is None else each.kept.text,
        ]
        for each in found.marked
    ]
    in_kind = found.in_kind
    if in_kind is not None:
        # How many bytes are left can only be known by reading the file, which is not worth it.
        word = "gone" if in_kind.state is RedoState.FILE_GONE else action(in_kind)
        why = None if in_kind.kept is None else in_kind.kept.text
        rows.append([log_file_no(in_kind.log_path), word, in_kind.entry_count, None, why])
    return Section("unfinished", "Entries with bytes left", _UNFINISHED, rows)


def _counts(file_no: int | None, totals: ReasonTotals) -> Iterator[ReasonCount]:
    """Yield the reasons that apply to any entry: first those to erase."""
    numbers = [*range(FIRST_ERASE, len(REASONS)), *range(FIRST_ERASE)]
    for number in numbers:
        count, size, reason = int(totals.counts[number]), int(totals.sizes[number]), REASONS[number]
        if count:
            action = "erase" if isinstance(reason, EraseReason) else "keep"
            yield ReasonCount(file_no, action, reason.value, reason.text, count, size)


def _plan_row(plan: ErasurePlan, applied: bool, seconds: float | None) -> list[Cell]:
    totals, head, cycle = plan.totals, plan.head, plan.cycle
    vlsns: list[Cell] = [None, None, None]
    if head is not None:
        vlsns = [head.before.range.first, head.after.range.first, head.limit]
    times: list[Cell] = [None, None]
    if cycle is not None:
        times = [cycle.state.start_ms, cycle.state.end_ms]
    deleted = plan.deleted
    return [
        applied,
        plan.needs_checkpoint,
        totals.erase_count,
        totals.erase_size,
        len(deleted),
        sum(file.size for file in deleted),
        plan.fsync_count,
        plan.rules.cutoff_lsn,
        *vlsns,
        *times,
        None if seconds is None else int(seconds * 1000),
    ]


def _facts(plan: ErasurePlan, seconds: float | None) -> Iterable[tuple[str, str]]:
    totals, head = plan.totals, plan.head
    yield "entries to erase", f"{totals.erase_count:,} with {totals.erase_size:,} bytes"
    yield "fsyncs", f"{plan.fsync_count:,}"
    if plan.deleted:
        size = sum(file.size for file in plan.deleted)
        yield (
            "files to delete",
            f"{len(plan.deleted):,} with {size:,} bytes, reserved by the cleaner",
        )
    if plan.is_in_kind:
        yield "in kind", "engines of this log version know no erased entries: types stay"
    if plan.needs_checkpoint and not plan.obstacles:
        yield "checkpoint", "one is written first"
    if head is not None:
        first, new = head.before.range.first, head.after.range.first
        given = f"{first} to {new - 1}, so that {new} is the first" if head.last_gone else "none"
        yield "VLSNs to give up", f"{given} ({head.limit})"
    if plan.cycle is not None:
        done, left = len(plan.cycle.state.completed), len(plan.cycle.state.pending)
        word = "resumed" if plan.cycle.is_resumed else "new"
        yield "cycle", f"{word}: {done:,} files done, {left:,} left"
    if seconds is not None:
        yield "time", f"about {timedelta(seconds=round(seconds))}, as the work is throttled"
