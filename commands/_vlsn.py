"""Options and steps that the verbs of `je-tools vlsn` share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.commands._findings import findings_option
from je_tools.commands._options import exit_zero_option, option_group, output_option, threads_option
from je_tools.commands._snapshot import (
    EndOptions,
    SnapshotOptions,
    end_options,
    home_argument,
    node_home,
    open_snapshot,
)
from je_tools.core.masking import DataMode

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot


SYNC_POINTS = 1000
"""Number of sync points in a report by default, and that `compare` reads of a node at first."""


class NodeOptions(EndOptions):
    """Options of the command line for one node."""

    path: Path
    format_: str
    output: Path | None
    findings_path: Path | None
    threads: int
    max_rate: int | None
    exit_zero: bool


node_options = option_group(
    home_argument, end_options, output_option, threads_option, findings_option, exit_zero_option
)
"""The environment, the end of its log, output, findings and threads."""


def snapshot_options_of(options: NodeOptions) -> SnapshotOptions:
    """Return the options of a snapshot; nothing here depends on the time or shows records."""
    return SnapshotOptions(
        path=options["path"],
        now=None,
        data_mode=DataMode.SHOW.value,
        threads=options["threads"],
        max_rate=options["max_rate"],
        exit_zero=options["exit_zero"],
        format_=options["format_"],
        output=options["output"],
        findings_path=options["findings_path"],
        to_lsn=options["to_lsn"],
        to_vlsn=options["to_vlsn"],
        to_time=options["to_time"],
    )


@contextmanager
def open_node(options: NodeOptions, label: str) -> Iterator[Snapshot]:
    """Open the snapshot of a node.

    Raises:
        InputError: it is no environment of a replicated node, or none that can be read.
        UsageError: more than one end is given, or one that the log does not have.
        StoppedError: a file became shorter while it was read, which may show only at the end.
    """
    from je_tools.output.files.outputs import check_output
    from je_tools.recovery.internal_databases import check_replicated

    options["path"] = node_home(options["path"])
    with open_snapshot(snapshot_options_of(options), label) as snapshot:
        check_replicated(snapshot)
        if options["output"] is not None:
            check_output(options["output"], snapshot.environment)
        yield snapshot
