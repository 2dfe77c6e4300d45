"""Outputs of an audit beside its tables: a JSON summary, an HTML page, Prometheus' metrics."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from je_tools.audit.fleet import FleetSummary, RunInfo, read_summary
from je_tools.audit.metrics import metrics_text
from je_tools.audit.page import page_text
from je_tools.audit.summary_json import json_lines

SUMMARY_NAME, PAGE_NAME, METRICS_NAME = "audit.json", "report.html", "metrics.prom"
"""Names of the files that are written."""


def write_reports(directory: Path, about: RunInfo) -> FleetSummary:
    """Write the three files beside the finished tables.

    Each appears under its name when it is complete, and replaces an older one. The memory needed
    does not depend on the number of findings, transactions or files in the tables.

    Args:
        directory: holds a directory for each of `tables.TABLES`; one that is missing or without
            files is a table without rows.
        about: the run that made the tables.

    Raises:
        OSError: a file cannot be written.
    """
    summary = read_summary(directory, about)
    _write(directory / SUMMARY_NAME, json_lines(summary))
    _write(directory / METRICS_NAME, metrics_text(summary))
    _write(directory / PAGE_NAME, page_text(directory, summary))
    return summary


def _write(path: Path, pieces: Iterable[str]) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with beside.open("x", encoding="utf-8", newline="\n") as out:
            out.writelines(pieces)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(path)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
