"""`je-tools ignite pages space`: the space in a page store."""

from __future__ import annotations

from typing import Unpack

import click

from je_tools.commands._ignite import (
    StoreOptions,
    node_option,
    open_output_outside,
    output_option,
    store_argument,
    thread_count,
)
from je_tools.commands._options import (
    check_has_output,
    exit_zero_option,
    format_option,
    threads_count_option,
)
from je_tools.commands._progress import progress_bar
from je_tools.commands._terminal import say, terminal_width
from je_tools.core.escaping import counted
from je_tools.errors import EXIT_DAMAGE, EXIT_OK
from je_tools.output.formats import ROWS


class Options(StoreOptions):
    """Options of the command line."""

    by_type: bool


@click.command("space")
@store_argument
@node_option
@click.option("--by-type", is_flag=True, help="Show pages by type instead of by file.")
@format_option(*ROWS)
@output_option
@threads_count_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Show the pages of each file by kind, and the free bytes of its data pages.

    The tail of a file is its pages of zeros after the last page that was written. Damaged and
    encrypted pages are not counted by kind. If there are any, standard error says so, and the exit
    code is 3.

    \b
    Examples:
      je-tools ignite pages space /var/lib/ignite
      je-tools ignite pages space work --by-type --format csv
    """
    from je_tools.ignite.page_check.verify import page_bytes
    from je_tools.ignite.pages.space import measure_pages
    from je_tools.ignite.store import open_store
    from je_tools.output.views.ignite_page_tables import space_section, type_section
    from je_tools.output.views.section_formats import write_sections

    form = options["format_"]
    check_has_output(form, options["output"])
    store = open_store(options["paths"], options["nodes"])
    with open_output_outside(options["output"], store) as out:
        with progress_bar(page_bytes(store), "ignite pages space") as progress:
            report = measure_pages(store, thread_count(options["threads"]), progress)
        section = type_section(report) if options["by_type"] else space_section(report)
        write_sections(form, [section], out, terminal_width(options["output"]))
    if not report.uncounted and not report.problems:
        return EXIT_OK
    say(
        f"je-tools: not everything is counted ({counted(report.uncounted, 'page')} damaged or "
        f"encrypted, {counted(report.problems, 'read')} failed); `je-tools ignite pages verify` "
        "reports the places"
    )
    return EXIT_OK if options["exit_zero"] else EXIT_DAMAGE
