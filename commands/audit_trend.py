"""`je-tools audit trend`: the totals of all runs of an audit, or the history of an environment."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, Unpack

import click

from je_tools.commands._options import (
    A_PATH,
    CONTEXT,
    check_has_output,
    format_option,
    output_option,
)
from je_tools.commands._terminal import terminal_width
from je_tools.errors import EXIT_OK
from je_tools.output.formats import ROWS


class Options(TypedDict):
    """Options of the command line."""

    folder: Path
    env: str | None
    format_: str
    output: Path | None


@click.command("trend", context_settings=CONTEXT)
@click.argument("folder", metavar="DIR", type=A_PATH)
@click.option("--env", metavar="NAME", help="Show one environment, named as in the tables.")
@format_option(*ROWS)
@output_option
def command(**options: Unpack[Options]) -> int:
    """Show the totals of all runs in a folder of audits, the oldest first.

    \b
    Examples:
      je-tools audit trend /var/lib/audit
      je-tools audit trend /var/lib/audit --env /backups/fe1/meta/bdb
    """
    from je_tools.audit.trend import environment_history, run_history
    from je_tools.output.files.outputs import open_output
    from je_tools.output.views.change_tables import history_section, trend_section
    from je_tools.output.views.section_formats import write_sections

    form, output, env = options["format_"], options["output"], options["env"]
    check_has_output(form, output)
    if env is None:
        section = trend_section(run_history(options["folder"]))
    else:
        section = history_section(environment_history(options["folder"], env))
    with open_output(output) as out:
        write_sections(form, [section], out, terminal_width(output))
    return EXIT_OK
