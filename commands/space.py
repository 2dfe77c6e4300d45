"""`je-tools space`: the use of disk space, and the reasons to keep each file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Unpack

import click

from je_tools.commands._options import check_has_output, format_option, output_option
from je_tools.commands._snapshot import (
    SnapshotOptions,
    findings_of,
    open_results,
    open_snapshot,
    report_on_snapshot,
    snapshot_options,
)
from je_tools.commands._terminal import say, terminal_width
from je_tools.errors import EXIT_DAMAGE
from je_tools.output.formats import ROWS

if TYPE_CHECKING:
    from je_tools.space.usage import Space


class Options(SnapshotOptions):
    """Options of the command line."""

    recount: bool
    free: int


@click.command("space")
@snapshot_options
@click.option(
    "--recount",
    is_flag=True,
    help="Count the bytes in use from the trees, instead of the engine's own counts.",
)
@click.option(
    "--free",
    type=click.IntRange(min=0),
    metavar="MB",
    default=None,
    help="List only the oldest reserved files that free this many MB. The default is all.",
)
@format_option(*ROWS)
@output_option
def command(**options: Unpack[Options]) -> int:
    """Show the use of disk space: how full each file is, and why it still exists.

    For each file, the command shows its size, its obsolete and expired bytes, and the percentage in
    use (mean, minimum and maximum). The engine counted these at its last checkpoint; --recount also
    counts them from the trees. Further tables show the reserved files, which may be deleted while
    the environment is closed, the limits of je.properties, the free disk space, and whether the
    engine would reach a limit when it opens the environment. The exit code is 3 if the engine would
    refuse its settings. Nothing is changed.

    \b
    Examples:
      je-tools space meta/bdb
      je-tools space meta/bdb --recount
      je-tools space meta/bdb --free 500 --format jsonl
    """
    from je_tools.core.memory import keep_freed_memory
    from je_tools.output.files.outputs import check_output
    from je_tools.output.views.section_formats import write_sections
    from je_tools.output.views.sections import write_jsonl
    from je_tools.output.views.space_tables import (
        deletable_section,
        file_section,
        space_row,
        space_sections,
    )
    from je_tools.space.recount import recount
    from je_tools.space.usage import deletable, measure_space

    check_has_output(options["format_"], options["output"])
    with open_snapshot(options, "space") as snapshot:
        if options["output"] is not None:
            check_output(options["output"], snapshot.environment)
        keep_freed_memory()
        space = measure_space(snapshot, recount(snapshot) if options["recount"] else None)
        chosen = space.reserved
        if options["free"] is not None:
            chosen = deletable(space, options["free"] << 20)
        with open_results(options["output"], snapshot) as out:
            form = options["format_"]
            if form == "jsonl":
                write_jsonl([file_section(space), deletable_section(chosen)], out)
                out.write(json.dumps(space_row(space)).encode() + b"\n")
            else:
                tables = space_sections(space, chosen) if form == "table" else [file_section(space)]
                write_sections(form, tables, out, terminal_width(options["output"]))
            found = findings_of(snapshot, options, out)
    _say_remarks(space)
    code = report_on_snapshot(found, snapshot, options)
    # Free disk space is not a property of the log, and changes between two runs.
    return EXIT_DAMAGE if space.settings.refused and not options["exit_zero"] else code


def _say_remarks(space: Space) -> None:
    """Report on standard error what is not in the tables."""
    if space.disk.prohibits_writes:
        say("je-tools: the engine would prohibit writes here: its disk limits leave no space")
    if not space.has_counts:
        say(
            "je-tools: the database of the engine's counts does not exist, or its name is lost; "
            "--recount counts from the trees"
        )
    for refusal in space.settings.refused:
        say(f"je-tools: {refusal}; the engine refuses to open the environment with this setting")
    if space.settings.unreadable is not None:
        say(
            f"je-tools: cannot read je.properties ({space.settings.unreadable}); the tables show "
            "the defaults"
        )
