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
    chosen_file_mode,
    chosen_pace,
    exit_zero_option,
    format_option,
    output_option,
    say,
    staged_bar,
    terminal_width,
    threads_option,
)
from je_tools.commands._snapshot import open_home
from je_tools.commands._vlsn import SYNC_POINTS
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, InputError, UsageError
from je_tools.output.formats import REPORT

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.compare import ComparedNode, GroupComparison
    from je_tools.vlsn.node import NodeState
    from je_tools.vlsn.node_report import NodeReport
    from je_tools.vlsn.tail import TailReader


class Options(TypedDict):
    """Options of the command line."""

    paths: tuple[Path, ...]
    reports: tuple[Path, ...]
    format_: str
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
@format_option(*REPORT)
@output_option
@threads_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Compare the nodes of a group: who should lead, and what each node would roll back.

    For each pair of nodes, the command finds the matchpoint: the newest Commit, Abort or Matchpoint
    at which their logs agree, as the nodes compare them when they meet. It shows what each node has
    after it, whether that includes Commits, and whether the node would roll back, cut its log, or
    need a network restore. Only the ends of the logs are read. Nodes on several hosts are compared
    by their reports. This is for a group that has lost its majority; otherwise its nodes elect a
    master. The exit code is 3 if a node would lose something or has errors.

    \b
    Examples:
      je-tools vlsn compare node1 node2 node3
      je-tools vlsn compare meta/bdb --from-json node2.json --from-json node3.json
    """
    from je_tools.output.files.outputs import check_output, open_output
    from je_tools.vlsn.compare import compare_nodes

    if not options["paths"] and not options["reports"]:
        raise UsageError("compare needs two nodes or more: name environments, or use --from-json")
    _check_paths(options["paths"])
    environments = [open_home(path) for path in options["paths"]]
    if options["output"] is not None:
        for environment in environments:
            check_output(options["output"], environment)
    with ExitStack() as stack:
        with staged_bar(0, "vlsn compare"):
            nodes = [_read(environment, stack, options) for environment in environments]
            nodes += [_read_report(path) for path in options["reports"]]
            comparison = compare_nodes(nodes)
        first = environments[0] if environments else None
        with open_output(options["output"], first, chosen_file_mode()) as out:
            _write(comparison, out, options)
    return _exit_code(comparison, options)


def _check_paths(paths: tuple[Path, ...]) -> None:
    """Refuse a directory that is given twice, also by two names.

    Raises:
        UsageError: one is.
    """
    seen: dict[Path, Path] = {}
    for path in paths:
        before = seen.setdefault(path.resolve(), path)
        if before is not path:
            raise UsageError(f"{before} and {path} are the same node: name each node once")


def _read(environment: Environment, stack: ExitStack, options: Options) -> ComparedNode:
    from je_tools.log.scan import Scanner
    from je_tools.recovery.choices import chosen_now
    from je_tools.recovery.opening import held_snapshot
    from je_tools.vlsn.compare import ComparedNode
    from je_tools.vlsn.node import read_node
    from je_tools.vlsn.node_report import report_of

    pace = chosen_pace(options["max_rate"])
    scanner = Scanner(threads=options["threads"], wide=True, pace=pace)
    snapshot: Snapshot = stack.enter_context(
        held_snapshot(environment, scanner, now_ms=chosen_now(None))
    )
    state, reader = read_node(snapshot, SYNC_POINTS)
    return ComparedNode(environment.name, report_of(state), partial(_back_to, state, reader))


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


def _write(comparison: GroupComparison, out: object, options: Options) -> None:
    from typing import BinaryIO, cast

    from je_tools.output.views.sections import write_table
    from je_tools.output.views.vlsn_comparison import comparison_report, comparison_sections

    stream = cast(BinaryIO, out)
    if options["format_"] == "table":
        sections = comparison_sections(comparison)
        write_table(sections, stream, terminal_width(options["output"]))
    else:
        comparison_report(comparison).write(options["format_"], stream)


def _exit_code(comparison: GroupComparison, options: Options) -> int:
    """Report the verdict, and return the exit code."""
    from je_tools.output.views.vlsn_comparison import WARNING, unknown_texts, verdict

    for text in dict.fromkeys(unknown_texts(comparison)):
        say(f"je-tools: {text}")
    say(f"je-tools: {verdict(comparison)}")
    say(f"je-tools: {WARNING}")
    fine = comparison.is_in_order or options["exit_zero"]
    return EXIT_OK if fine else EXIT_DAMAGE
