"""Outputs of an audit beside its tables: a JSON summary, an HTML page, Prometheus' metrics."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.audit.fleet import FleetSummary, RunInfo, read_summary
from je_tools.audit.metrics import metrics_text
from je_tools.audit.page import page_text
from je_tools.audit.summary_json import json_lines
from je_tools.core.memory import give_back_memory

if TYPE_CHECKING:
    from je_tools.audit.output_folder import RunFolder

SUMMARY_NAME, PAGE_NAME, METRICS_NAME = "audit.json", "report.html", "metrics.prom"
"""Names of the files that are written."""


def write_reports(tables: RunFolder, run: RunInfo, folder: Path) -> FleetSummary:
    """Write the three files into a folder.

    The memory needed does not depend on the number of findings, transactions or files in the
    tables.

    Args:
        tables: the tables of the run; one that is missing or without files has no rows.
        run: the run that made the tables.
        folder: folder for the files.

    Raises:
        OSError: a file cannot be written.
    """
    give_back_memory()
    summary = read_summary(tables, run)
    _write(folder / SUMMARY_NAME, json_lines(summary))
    _write(folder / METRICS_NAME, metrics_text(summary))
    _write(folder / PAGE_NAME, page_text(tables, summary))
    return summary


def publish_reports(folder: Path, output: Path) -> None:
    """Move the three files to their final place; each replaces that of an earlier run."""
    for name in (SUMMARY_NAME, METRICS_NAME, PAGE_NAME):
        (folder / name).replace(output / name)


def _write(path: Path, pieces: Iterable[str]) -> None:
    with path.open("x", encoding="utf-8", newline="\n") as out:
        out.writelines(pieces)
        out.flush()
        os.fsync(out.fileno())
