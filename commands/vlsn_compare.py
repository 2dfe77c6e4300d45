"""`je-tools vlsn compare`: the nodes of a group compared, to choose one that leads."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from je_tools.commands._options import (
    A_FILE,
    A_PATH,
    check_has_output,
    chosen_file_mode,
    chosen_masking,
    data_option,
    exit_zero_option,
    format_option,
    output_option,
    threads_option,
)
from je_tools.commands._progress import staged_bar
from je_tools.commands._scanning import chosen_scanner
from je_tools.commands._snapshot import node_home, open_home
from je_tools.commands._terminal import say, terminal_width
from je_tools.commands._vlsn import SYNC_POINTS
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, InputError, UsageError
from je_tools.output.formats import REPORT_WITH_ROWS

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.compare import ComparedNode, GroupComparison
    from je_tools.vlsn.node_report import NodeReport
    from je_tools.vlsn.node_state import NodeState
    from je_tools.vlsn.stream_tail import TailReader


class Options(TypedDict):
    """Options of the command line."""

    paths: tuple[Path, ...]
    reports: tuple[Path, ...]
    leader: str | None
    format_: str
    data_mode: str
    output: Path | None
    threads: int
    max_rate: int | None
    exit_zero: bool


@click.command("compare")
@click.argument("paths", metavar="[ENV_DIR]...", nargs=-1, type=A_PATH)
@click.option(
    "--from-json",
    "reports",
    multiple=True,
    metavar="FILE",
    type=A_FILE,
    help="A report of `vlsn show --format json` from another host. Can be repeated.",
)
@click.option(
    "--leader",
    metavar="NODE",
    help="Show what the others would lose if this node led, named as in the arguments.",
)
@format_option(*REPORT_WITH_ROWS)
@data_option
@output_option
@threads_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Compare the nodes of a group: who should lead, and what each node would roll back.

    For each pair of nodes, the command finds the matchpoint: the newest Commit, Abort or Matchpoint
    at which their logs agree, as the nodes compare them when they meet. It shows what each node has
    after it, whether that includes Commits, and whether the node would roll back, cut its log, or
    need a network restore. The transactions and keys that it would lose follow; CSV and Parquet
    have only these keys. Only the ends of the logs are read. Nodes on several hosts are compared
    by their reports. This is for a group that has lost its majority; otherwise its nodes elect a
    master. The exit code is 3 if a node would lose something or has errors.

    \b
    Examples:
      je-tools vlsn compare node1 node2 node3
      je-tools vlsn compare meta/bdb --from-json node2.json --from-json node3.json
    """
    from je_tools.output.files.outputs import check_output, open_output
    from je_tools.output.views.vlsn_lost import write_comparison
    from je_tools.vlsn.compare import compare_nodes

    check_has_output(options["format_"], options["output"])
    if not options["paths"] and not options["reports"]:
        raise UsageError("compare needs two nodes or more: name environments, or use --from-json")
    homes = [node_home(path) for path in options["paths"]]
    _check_paths(options["paths"], homes)
    environments = [open_home(home) for home in homes]
    if options["output"] is not None:
        for environment in environments:
            check_output(options["output"], environment)
    with ExitStack() as stack:
        with staged_bar(0, "vlsn compare"):
            nodes = [_read(environment, stack, options) for environment in environments]
            nodes += [_read_report(path) for path in options["reports"]]
            leader = _leader(options, [node.name for node in nodes])
            comparison = compare_nodes(nodes, leader)
        first = environments[0] if environments else None
        masking, width = chosen_masking(options["data_mode"]), terminal_width(options["output"])
        with open_output(options["output"], first, chosen_file_mode()) as out:
            write_comparison(comparison, options["format_"], masking, out, width)
            for node in comparison.nodes:
                if node.records is not None:
                    node.records.snapshot.check_files()
    return _exit_code(comparison, options)


def _leader(options: Options, names: list[str]) -> str | None:
    """Return the name of the node that `--leader` gives by its path or its name.

    Args:
        options: options of the command line.
        names: names of the nodes, in the order of the paths and the reports.
    """
    leader = options["leader"]
    if leader is None:
        return None
    given = (*options["paths"], *options["reports"])
    return next(
        (name for path, name in zip(given, names, strict=True) if Path(leader) == path), leader
    )


def _check_paths(paths: tuple[Path, ...], homes: list[Path]) -> None:
    """Refuse a node that is given twice, also by two names.

    Args:
        paths: paths of the command line.
        homes: the environment of each.

    Raises:
        UsageError: one is.
    """
    seen: dict[Path, Path] = {}
    for path, home in zip(paths, homes, strict=True):
        before = seen.setdefault(home.resolve(), path)
        if before is not path:
            raise UsageError(f"{before} and {path} are the same node: name each node once")


def _read(environment: Environment, stack: ExitStack, options: Options) -> ComparedNode:
    from je_tools.recovery.choices import chosen_now
    from je_tools.recovery.opening import held_snapshot
    from je_tools.vlsn.compare import ComparedNode
    from je_tools.vlsn.lost_records import LostRecordReader
    from je_tools.vlsn.node_report import report_of
    from je_tools.vlsn.node_state import read_node

    snapshot: Snapshot = stack.enter_context(
        held_snapshot(environment, chosen_scanner(options), now_ms=chosen_now(None))
    )
    state, reader = read_node(snapshot, SYNC_POINTS)
    return ComparedNode(
        environment.name,
        report_of(state),
        partial(_back_to, state, reader),
        LostRecordReader(snapshot, reader),
    )


def _back_to(state: NodeState, reader: TailReader, vlsn: int) -> NodeReport:
    from msgspec.structs import replace

    from je_tools.vlsn.node_report import report_of

    tail = reader.back_to(vlsn)
    # The reader puts findings of earlier files before those that the state has.
    later = [each for each in reader.findings if each not in state.findings]
    return report_of(replace(state, tail=tail, findings=[*later, *state.findings]))


def _read_report(path: Path) -> ComparedNode:
    from je_tools.vlsn.compare import ComparedNode
    from je_tools.vlsn.node_report import read_report

    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    return ComparedNode(str(path), read_report(str(path), data))


def _exit_code(comparison: GroupComparison, options: Options) -> int:
    """Report the verdict, and return the exit code."""
    from je_tools.output.views.vlsn_comparison import WARNING, keyless_texts, unknown_texts, verdict

    for text in dict.fromkeys((*unknown_texts(comparison), *keyless_texts(comparison))):
        say(f"je-tools: {text}")
    say(f"je-tools: {verdict(comparison)}")
    say(f"je-tools: {WARNING}")
    fine = comparison.is_in_order or options["exit_zero"]
    return EXIT_OK if fine else EXIT_DAMAGE
