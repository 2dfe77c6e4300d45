"""`je-tools ignite diff`: the partitions of two nodes compared."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Unpack

import click

from je_tools.commands._ignite import (
    StoreOptions,
    cache_option,
    node_option,
    open_output_outside,
    output_option,
    partition_option,
    say_problems,
    thread_count,
)
from je_tools.commands._options import (
    A_PATH,
    chosen_masking,
    data_option,
    exit_zero_option,
    format_option,
    threads_count_option,
)
from je_tools.commands._progress import progress_bar
from je_tools.commands._terminal import say, terminal_width
from je_tools.core.escaping import clean_text, counted
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError
from je_tools.output.formats import REPORT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from je_tools.ignite.diff.compare import PartitionDifference
    from je_tools.ignite.diff.partitions import NodePartitions
    from je_tools.ignite.store import Node, Store
    from je_tools.output.views.sections import Section


class Options(StoreOptions):
    """Options of the command line."""

    caches: tuple[str, ...]
    partitions: tuple[int, ...]
    keys: bool
    limit: int
    everything: bool
    data_mode: str


@click.command("diff")
@click.argument("paths", metavar="STORE [STORE]", nargs=-1, required=True, type=A_PATH)
@node_option
@cache_option
@partition_option()
@click.option("--all", "everything", is_flag=True, help="Also show partitions that are the same.")
@click.option("--keys", is_flag=True, help="Also show the keys that differ.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Largest number of keys to show.",
)
@format_option(*REPORT)
@output_option
@data_option
@threads_count_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Compare the partitions of two nodes, as both would be after recovery.

    Name one STORE with two nodes, or two with one node each: the first node is a, the second b. The
    command computes for each partition the state, the update counter, and the hashes that the
    engine's check of idle partitions (control.sh --cache idle_verify) computes on a cluster. It
    shows which copy needs data of the other, and whether the other node's log has this data. The
    exit code is 3 if copies differ, or could not be read.

    \b
    Examples:
      je-tools ignite diff /var/lib/ignite
      je-tools ignite diff node1/work node2/work --cache accounts --keys
      je-tools ignite diff work --node node1 --node node2 --format json
    """
    from je_tools.ignite.caches import check_partitions, known_ids
    from je_tools.ignite.diff.compare import PartitionVerdict, compare_nodes
    from je_tools.ignite.diff.partitions import node_partitions
    from je_tools.ignite.records.node_records import CacheFilter
    from je_tools.output.views.section_formats import Report, write_sections

    stores, nodes = _two_nodes(options["paths"], options["nodes"])
    ids = known_ids(options["caches"], nodes)
    wanted = CacheFilter(ids, frozenset(options["partitions"]))
    size = sum(store.size for store in stores)
    with open_output_outside(options["output"], *stores) as out:
        with progress_bar(size, "ignite diff") as progress:
            threads = thread_count(options["threads"])
            sides = [node_partitions(node, wanted, threads, progress) for node in nodes]
        check_partitions(options["partitions"], sides[0].known | sides[1].known)
        found = list(compare_nodes(*sides))
        differing = [each for each in found if each.verdict is not PartitionVerdict.SAME]
        sections = _sections(found if options["everything"] else differing, sides, options)
        form = options["format_"]
        if form == "table":
            write_sections(form, sections, out, terminal_width(options["output"]))
        else:
            names = {"a": clean_text(nodes[0].name), "b": clean_text(nodes[1].name)}
            row = {**names, "partition_count": len(found), "differing_count": len(differing)}
            Report(row, "nodes", sections=sections).write(form, out)
    # Partitions whose keys differ were read twice.
    problems = list(dict.fromkeys(each for side in sides for each in side.problems))
    say_problems(problems)
    partitions = counted(len(found), "partition")
    say(f"je-tools: {len(differing):,} of {partitions} differ{'s' * (len(found) == 1)}")
    is_bad = bool(differing or problems)
    return EXIT_DAMAGE if is_bad and not options["exit_zero"] else EXIT_OK


def _two_nodes(paths: Sequence[Path], names: Sequence[str]) -> tuple[list[Store], list[Node]]:
    """Open one store with two nodes, or two stores with one each."""
    from je_tools.ignite.store import open_store

    if len(paths) > 2:
        raise UsageError("name one store with two nodes, or two stores")
    stores = [open_store([path], names if len(paths) == 1 else ()) for path in paths]
    nodes = [node for store in stores for node in store.nodes if not names or node.name in names]
    if names and len(paths) == 1:
        nodes.sort(key=lambda node: names.index(node.name))
    _check_two(stores, nodes)
    return stores, nodes


def _check_two(stores: Sequence[Store], nodes: Sequence[Node]) -> None:
    """Refuse anything but two nodes of one store, or one node of each of two stores.

    Raises:
        UsageError: there are others.
    """
    is_split = all(any(node in store.nodes for node in nodes) for store in stores)
    if len(nodes) == 2 and len({each.db and each.db.resolve() for each in nodes}) == 1:
        raise UsageError("both stores are the same directory: name the stores of two nodes")
    if len(nodes) == 1 and len(stores) == 1:
        raise UsageError(
            f"two nodes are compared, and {stores[0].name} has one, {nodes[0].name}: name a "
            "second store"
        )
    if len(nodes) != 2 or not is_split:
        found = ", ".join(node.name for node in nodes) or "none"
        raise UsageError(
            f"two nodes are compared, and these are named: {found}; choose with --node"
        )


def _name_of(node: Node, sides: Sequence[NodePartitions]) -> str:
    """Return the name of a node, with its folder if both nodes have the same."""
    is_same = len({side.node.name for side in sides}) == 1
    return f"{node.name} in {node.db}" if is_same and node.db is not None else node.name


def _sections(
    shown: Sequence[PartitionDifference], sides: Sequence[NodePartitions], options: Options
) -> list[Section]:
    from je_tools.ignite.diff.keys import keys_of_nodes, shown_keys
    from je_tools.output.views.ignite_diff_tables import key_table, partition_table

    sections = [partition_table(shown, *(_name_of(side.node, sides) for side in sides))]
    if options["keys"]:
        keys = list(islice(keys_of_nodes(shown, *sides), options["limit"] + 1))
        if len(keys) > options["limit"]:
            say(f"je-tools: more than {options['limit']:,} keys differ; --limit shows more")
        masking = chosen_masking(options["data_mode"])
        sections.append(key_table(shown_keys(keys[: options["limit"]], sides, masking)))
    return sections
