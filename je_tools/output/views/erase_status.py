"""Status of the eraser as a table of facts, as JSON, and as metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from je_tools.core.escaping import counted, metric_label, quoted
from je_tools.erase.statistics import EraserStatistics
from je_tools.log.field_texts import time_text
from je_tools.output.views.section_formats import write_document, write_sections
from je_tools.output.views.sections import fact_section

if TYPE_CHECKING:
    from je_tools.erase.status import EraserStatus

_SHOWN_MAX = 10


def write_status(status: EraserStatus, form: str, out: BinaryIO, width: int | None) -> None:
    """Write the status of the eraser.

    Args:
        status: the status.
        form: `table`, `json` or `prometheus`.
        out: the output.
        width: characters in a line of a table; None for no limit.
    """
    if form == "prometheus":
        out.write("".join(_metrics(status)).encode())
    elif form == "json":
        write_document(_document(status), out)
    else:
        write_sections("table", [fact_section("eraser", _facts(status))], out, width)


def _document(status: EraserStatus) -> dict[str, Any]:
    state, unfinished = status.state, status.unfinished
    cycle: dict[str, Any] | None = None
    if state is not None:
        cycle = {"completed": list(state.completed), "pending": list(state.pending)}
        cycle["outside"] = list(status.outside)
        cycle["is_over"] = status.is_over
    in_kind: dict[str, Any] | None = None
    if status.in_kind_problem is not None:
        in_kind = {"state": "unusable", "problem": status.in_kind_problem}
    elif unfinished.in_kind is not None:
        in_kind = {
            "state": unfinished.in_kind.state.value,
            "file": unfinished.in_kind.log_path.name,
            "entry_count": unfinished.in_kind.entry_count,
        }
    return {
        **msgspec.to_builtins(status.statistics),
        "cycle": cycle,
        "cycle_problem": status.state_problem,
        "unfinished_count": unfinished.entry_count + status.in_kind_count,
        "in_kind": in_kind,
        "unread": [
            {"file": each.path.name, "count": each.count, "size": each.size}
            for each in unfinished.unread
        ],
        "protected": list(status.protected),
        "working": status.working,
        "writer": status.writer,
    }


def _metrics(status: EraserStatus) -> Iterator[str]:
    """Yield a metric for each statistic, with the environment as its label."""
    label = metric_label(status.home)
    values = {name: getattr(status.statistics, name) for name in EraserStatistics.__struct_fields__}
    values["eraser_unfinished_entries"] = status.unfinished.entry_count + status.in_kind_count
    values["eraser_in_kind_unfinished"] = int(status.is_in_kind)
    values["eraser_unread_places"] = sum(each.count for each in status.unfinished.unread)
    values["eraser_record_unread"] = int(status.state_problem is not None)
    for name, value in values.items():
        metric = f"je_tools_{name}"
        yield f'# TYPE {metric} gauge\n{metric}{{env="{label}"}} {value}\n'


def _facts(status: EraserStatus) -> Iterator[tuple[str, str]]:
    yield from _cycle(status)
    yield "unfinished entries", _unfinished(status)
    if status.is_in_kind:
        yield "erasure in kind", _in_kind(status)
    if status.unfinished.unread:
        names = ", ".join(each.path.name for each in status.unfinished.unread[:_SHOWN_MAX])
        count = sum(each.count for each in status.unfinished.unread)
        yield (
            "not searched",
            f"{counted(count, 'damaged place')} in {names}: unfinished entries may lie there; "
            f"`je-tools verify {quoted(status.home)}` lists them",
        )
    yield "protected files", ", ".join(status.protected) or "none"
    yield "running", _running(status)


def _cycle(status: EraserStatus) -> Iterator[tuple[str, str]]:
    state = status.state
    if status.state_problem is not None:
        yield "cycle", f"not known: {status.state_problem}"
    elif state is None:
        yield "cycle", "none: no eraser has recorded one in this log"
    else:
        over = ", which has passed" if status.is_over else ""
        if state.start_ms > status.now_ms:
            over = ", which has not begun: a clock was ahead. `erase run --period` begins a new one"
        yield "cycle", f"{time_text(state.start_ms)} to {time_text(state.end_ms)}{over}"
        yield "files done", _files(state.completed)
        yield "files left", _files(state.pending)
        if status.outside:
            why = "too young when the cycle began, or written since"
            yield "files outside", f"{_files(status.outside)}; {why}"


def _files(numbers: tuple[int, ...]) -> str:
    if not numbers:
        return "none"
    shown = ", ".join(f"{each:08x}" for each in numbers[:_SHOWN_MAX])
    more = f" and {len(numbers) - _SHOWN_MAX:,} more" if len(numbers) > _SHOWN_MAX else ""
    return f"{len(numbers):,}: {shown}{more}"


def _unfinished(status: EraserStatus) -> str:
    count = status.unfinished.entry_count
    if not count:
        return "none found" if status.unfinished.unread else "none"
    files = ", ".join(each.file.path.name for each in status.unfinished.marked[:_SHOWN_MAX])
    return f"{count:,} in {files}: `{_resume(status)}` overwrites them{_kept(status)}"


def _kept(status: EraserStatus) -> str:
    """Return the files that the command leaves, as the end of a sentence; empty if none."""
    kept = [f"{each.file.path.name}: {why.text}" for each, why in status.unfinished.kept]
    return f", but leaves {'; '.join(kept[:_SHOWN_MAX])}" if kept else ""


def _in_kind(status: EraserStatus) -> str:
    found = status.unfinished.in_kind
    if found is None:
        return f"interrupted: {status.in_kind_problem}"
    name = found.log_path.name
    then = f"`{_resume(status)}` completes it"
    if found.kept is not None:
        then = f"it cannot be completed now: {found.kept.text}"
    elif status.writer is not None:
        then += ", unless it still runs"
    return f"{found.entry_count:,} entries of {name} may be overwritten only in part: {then}"


def _resume(status: EraserStatus) -> str:
    return f"je-tools erase resume {quoted(status.home)} --apply"


def _running(status: EraserStatus) -> str:
    if status.working is not None:
        return f"an erasure works on {status.working}"
    return "no" if status.writer is None else f"on no file now; {status.writer} has the log open"
