"""`je-tools vlsn rollback`: the replication stream back to a sync point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from je_tools.commands._appending import AppendOptions, append_options, run_operation
from je_tools.commands._options import CONTEXT
from je_tools.commands._snapshot import member_snapshot, node_home, open_home
from je_tools.commands._writing import force_option
from je_tools.errors import UsageError
from je_tools.output.formats import REPORT

if TYPE_CHECKING:
    from je_tools.log.environment import Environment


class Options(AppendOptions):
    """Options of the command line."""

    to_vlsn: int
    force: bool


@click.command("rollback", context_settings=CONTEXT)
@append_options
@click.option(
    "--to",
    "to_vlsn",
    type=click.IntRange(min=1),
    required=True,
    metavar="VLSN",
    help="Last VLSN to keep: a Commit, an Abort or a Matchpoint.",
)
@force_option
def command(**options: Unpack[Options]) -> int | list[str]:
    """Roll the replication stream back to a VLSN, as a node does when it joins its group.

    The command marks the entries of open transactions after the VLSN as invisible, and logs the
    rollback. Recovery undoes them and cuts the VLSN index back, and the node gets these VLSNs again
    from its master. Nodes agree only at a Commit, an Abort or a Matchpoint, so the VLSN has to be
    one of these.

    The engine never rolls back a transaction that has ended. With --force, the command goes back
    past Commits and Aborts by cutting the log, as `je-tools recover --to-vlsn` does.

    Without --apply, the command shows the plan and changes nothing. With it, the command holds the
    engine's lock while it writes, and `je-tools undo` reverts the rollback.

    \b
    Examples:
      je-tools vlsn rollback meta/bdb --to 1224
      je-tools vlsn rollback meta/bdb --to 1224 --apply
      je-tools vlsn rollback meta/bdb --to 1200 --force --apply
      je-tools vlsn rollback meta/bdb --to 1224 --apply --output /backup/bdb
    """
    from je_tools.operations.stream_rollback import StreamRollback

    options["path"] = node_home(options["path"])
    if options["force"]:
        environment = open_home(options["path"], keep_going=False)
        if _is_to_cut(environment, options):
            return _recovery(options)
    operation = StreamRollback(options["to_vlsn"])
    return run_operation(options, "vlsn rollback", f" --to {options['to_vlsn']}", operation)


def _is_to_cut(environment: Environment, options: Options) -> bool:
    """Return True if transactions have ended after the VLSN, so that the log has to be cut.

    Raises:
        UsageError: the log does not have the VLSN, or it is not a sync point.
        InputError: the environment is not a node of a replication group.
        RefusedError: the engine would not continue with the VLSN index.
    """
    from je_tools.checkpoint.vlsn_records import recovered_vlsn_index
    from je_tools.operations.rollback_range import find_range
    from je_tools.recovery.internal_databases import check_replicated
    from je_tools.vlsn.recovered_index import stream_since_checkpoint

    with member_snapshot(environment, options) as snapshot:
        check_replicated(snapshot)
        index = recovered_vlsn_index(snapshot, stream_since_checkpoint(snapshot))
        return bool(find_range(snapshot, index, options["to_vlsn"]).end_vlsns)


def _recovery(options: Options) -> list[str]:
    """Return the arguments of `je-tools recover` that cut the log.

    Raises:
        UsageError: `recover` does not have the format.
    """
    if options["format_"] not in REPORT:
        raise UsageError(
            f"--format {options['format_']}: a cut of the log is reported as a table or as JSON "
            "lines: choose table or jsonl"
        )
    named = {
        "--to-vlsn": options["to_vlsn"],
        "--format": options["format_"],
        "--data": options["data_mode"],
        "--threads": options["threads"],
        "--output": options["output"],
        "--max-rate": options["max_rate"],
        "--findings": options["findings_path"],
        "--asked-as": "vlsn rollback",
    }
    words = [f"{name}={value}" for name, value in named.items() if value is not None]
    words += ["--exit-zero"] * options["exit_zero"]
    if options["apply"]:
        words += ["--apply", "--force"]
        words += [f"--file-max={options['file_max']}"] * (options["file_max"] is not None)
    return ["recover", *words, "--", str(options["path"])]
