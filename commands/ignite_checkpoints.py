"""`je-tools ignite checkpoints`: checkpoint markers, their records, and the log still needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from je_tools.commands._ignite import (
    StoreOptions,
    node_option,
    open_output_outside,
    output_option,
    store_argument,
    thread_count,
    write_store_report,
)
from je_tools.commands._options import exit_zero_option, format_option, threads_count_option
from je_tools.commands._progress import progress_bar
from je_tools.commands._terminal import say
from je_tools.errors import EXIT_DAMAGE, EXIT_OK
from je_tools.output.formats import REPORT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints
    from je_tools.ignite.node_findings import NodeFinding
    from je_tools.output.views.sections import Section


class Options(StoreOptions):
    """Options of the command line."""

    partitions: bool


@click.command("checkpoints")
@store_argument
@node_option
@click.option("--partitions", is_flag=True, help="Also show the reach of each partition.")
@format_option(*REPORT)
@output_option
@threads_count_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Show the checkpoints of a node, and the part of the log that recovery needs.

    The command pairs the begin and end markers, and looks for the record of each checkpoint in the
    log. It shows where recovery would begin to read, which segments are missing for it, and how
    many older ones are in the archive. It also shows how far back the node can send updates to
    others from its log. Other records are not judged: `je-tools ignite wal verify` does that. The
    exit code is 3 if there are errors or warnings.

    \b
    Examples:
      je-tools ignite checkpoints /var/lib/ignite
      je-tools ignite checkpoints work --node node1 --partitions --format json
    """
    from je_tools.findings import Severity
    from je_tools.ignite.caches import cache_names
    from je_tools.ignite.checkpoints.judge import CheckpointJudge
    from je_tools.ignite.checkpoints.node_checkpoints import node_checkpoints
    from je_tools.ignite.store import open_store

    store = open_store(options["paths"], options["nodes"])
    with open_output_outside(options["output"], store) as out:
        threads = thread_count(options["threads"])
        with progress_bar(store.size, "ignite checkpoints") as progress:
            nodes = [node_checkpoints(node, threads, progress) for node in store.nodes]
        names = [cache_names(node).groups for node in store.nodes]
        root = str(store.roots[0])
        findings = [each for node in nodes for each in CheckpointJudge(node, root).findings()]
        sections = _sections(nodes, names, findings, partitions=options["partitions"])
        counts = {"nodes": len(nodes), "findings_count": len(findings)}
        form, output = options["format_"], options["output"]
        write_store_report(form, store, sections, out, output, always="checkpoints", facts=counts)
    bad = sum(each.severity is not Severity.NOTE for each in findings)
    what = "error or warning" if bad == 1 else "errors or warnings"
    say(f"je-tools: {store.name}: {bad or 'no'} {what} on checkpoints")
    return EXIT_DAMAGE if bad and not options["exit_zero"] else EXIT_OK


def _sections(
    nodes: Sequence[NodeCheckpoints],
    names: Sequence[Mapping[int, str]],
    findings: Sequence[NodeFinding],
    *,
    partitions: bool,
) -> list[Section]:
    from je_tools.ignite.checkpoints.reach import group_reach, partition_reach
    from je_tools.output.views import ignite_checkpoint_tables as tables

    checkpoints = [each for node in nodes for each in node.checkpoints]
    named = list(zip(nodes, names, strict=True))
    groups = [each for node, known in named for each in group_reach(node, known)]
    sections = tables.checkpoint_sections(checkpoints, [node.need for node in nodes], groups)
    if partitions:
        parts = [each for node, known in named for each in partition_reach(node, known)]
        sections.append(tables.partition_section(parts))
    return [*sections, tables.finding_section(findings)]
