"""History of a fleet, and of one environment, over all runs in a folder of audits."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from je_tools.audit.output_folder import complete_runs, run_rows
from je_tools.audit.table_reading import open_table
from je_tools.audit.tables import ENVIRONMENTS
from je_tools.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
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
        names = open_table(runs[-1], ENVIRONMENTS).to_table(["env"])["env"].to_pylist()
        hint = _similar(env, names)
        raise UsageError(f"{env}: no run has an environment of this name{hint}")
    return rows


def _similar(env: str, names: Iterable[str]) -> str:
    """Return a hint at the name whose last parts are most like `env`, which may have fewer."""
    depth = env.count("/") + 1
    ends = {"/".join(name.split("/")[-depth:]): name for name in names}
    close = get_close_matches(env, ends, n=1)
    return f"; did you mean {ends[close[0]]}?" if close else ""
