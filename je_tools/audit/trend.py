"""History of a fleet, and of one environment, over all runs in a folder of audits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from je_tools.audit.output_folder import complete_runs, run_rows
from je_tools.audit.table_reading import open_table
from je_tools.audit.tables import ENVIRONMENTS
from je_tools.errors import InputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def run_history(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the table runs with their ids, the oldest first.

    Raises:
        InputError: there are none.
    """
    rows = run_rows(folder)
    if not rows:
        raise InputError(f"{folder}: no run of an audit is here")
    return rows


def environment_history(folder: Path, env: str) -> list[dict[str, Any]]:
    """Return the rows of an environment with the ids of the runs, the oldest first.

    Raises:
        InputError: there is no run.
        UsageError: no run has an environment of this name.
    """
    runs = complete_runs(folder)
    if not runs:
        raise InputError(f"{folder}: no run of an audit is here")
    only = pc.field("env") == env
    rows = [
        {"run": run.run, **row}
        for run in runs
        for row in open_table(run, ENVIRONMENTS).to_table(filter=only).to_pylist()
    ]
    if not rows:
        raise UsageError(f"{env}: no run has an environment of this name")
    return rows
