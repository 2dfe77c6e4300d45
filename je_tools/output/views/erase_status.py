"""Status of the eraser as a table of facts, as JSON, and as metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from je_tools.core.escaping import metric_label
from je_tools.erase.statistics import EraserStatistics
from je_tools.log.field_texts import time_text
from je_tools.output.views.section_formats import write_document, write_sections
from je_tools.output.views.sections import Column, Kind, Section

if TYPE_CHECKING:
    from je_tools.erase.status import EraserStatus

_SHOWN_MAX = 10
_FACT = (Column("what", "eraser", Kind.TEXT), Column("value", "", Kind.TEXT, wraps=True))


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
        rows: list[list[str | None]] = [[name, value] for name, value in _facts(status)]
        write_sections("table", [Section("", "", _FACT, rows)], out, width)


def _document(status: EraserStatus) -> dict[str, Any]:
    state = status.state
    cycle: dict[str, Any] | None = None
    if state is not None:
        cycle = {"completed": list(state.completed), "pending": list(state.pending)}
        cycle["is_over"] = status.is_over
    return {
        **msgspec.to_builtins(status.statistics),
        "cycle": cycle,
        "unfinished_count": status.unfinished.entry_count,
        "protected": list(status.protected),
        "working": status.working,
        "writer": status.writer,
    }


def _metrics(status: EraserStatus) -> Iterator[str]:
    """Yield a metric for each statistic, with the environment as its label."""
    label = metric_label(status.home)
    values = {name: getattr(status.statistics, name) for name in EraserStatistics.__struct_fields__}
    values["eraser_unfinished_entries"] = status.unfinished.entry_count
    for name, value in values.items():
        metric = f"je_tools_{name}"
        yield f'# TYPE {metric} gauge\n{metric}{{env="{label}"}} {value}\n'


def _facts(status: EraserStatus) -> Iterator[tuple[str, str]]:
    state = status.state
    if state is None:
        yield "cycle", "none: no eraser has recorded one in this log"
    else:
        over = ", which has passed" if status.is_over else ""
        yield "cycle", f"{time_text(state.start_ms)} to {time_text(state.end_ms)}{over}"
        yield "files done", _files(state.completed)
        yield "files left", _files(state.pending)
    yield "unfinished entries", _unfinished(status)
    yield "protected files", ", ".join(status.protected) or "none"
    yield "running", _running(status)


def _files(numbers: tuple[int, ...]) -> str:
    if not numbers:
        return "none"
    shown = ", ".join(f"{each:08x}" for each in numbers[:_SHOWN_MAX])
    more = f" and {len(numbers) - _SHOWN_MAX:,} more" if len(numbers) > _SHOWN_MAX else ""
    return f"{len(numbers):,}: {shown}{more}"


def _unfinished(status: EraserStatus) -> str:
    count = status.unfinished.entry_count
    if not count:
        return "none"
    files = ", ".join(file.path.name for file, _ in status.unfinished.unfinished[:_SHOWN_MAX])
    return f"{count:,} in {files}: `je-tools erase resume` overwrites them"


def _running(status: EraserStatus) -> str:
    if status.working is not None:
        return f"an erasure works on {status.working}"
    return "no" if status.writer is None else f"no erasure; {status.writer} has the log open"
