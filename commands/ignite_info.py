"""`je-tools ignite info`: the nodes, caches and folders of a store."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, Unpack

import click

from je_tools.commands._ignite import (
    node_option,
    open_output_outside,
    output_option,
    segments_argument,
    write_store_report,
)
from je_tools.commands._options import format_option
from je_tools.errors import EXIT_OK
from je_tools.output.formats import REPORT


class Options(TypedDict):
    """Options of the command line."""

    paths: tuple[Path, ...]
    nodes: tuple[str, ...]
    format_: str
    output: Path | None


@click.command("info")
@segments_argument
@node_option
@format_option(*REPORT)
@output_option
def command(**options: Unpack[Options]) -> int:
    """Show the nodes, caches and folders of a store.

    The command lists folders, and reads the headers of segments and partitions. It checks nothing
    else. It finds out whether a node holds its lock, without taking it.

    \b
    Examples:
      je-tools ignite info /var/lib/ignite
      je-tools ignite info work --node node1 --format json
    """
    from je_tools.ignite.info import node_info
    from je_tools.ignite.store import open_store
    from je_tools.output.views.ignite_info_tables import info_sections

    store = open_store(options["paths"], options["nodes"])
    with open_output_outside(options["output"], store) as out:
        sections = info_sections([node_info(store, node) for node in store.nodes])
        write_store_report(options["format_"], store, sections, out, options["output"])
    return EXIT_OK
