"""`je-tools erase resume`: interrupted erasures, finished."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click
from msgspec.structs import asdict

from je_tools.commands._erasing import stopping_on_signals
from je_tools.commands._findings import check_outputs
from je_tools.commands._options import (
    CONTEXT,
    format_option,
    needs_output,
    output_option,
    say,
    staged_bar,
    terminal_width,
    threads_option,
)
from je_tools.commands._snapshot import home_argument, open_home
from je_tools.commands._writing import apply_option, say_reader
from je_tools.core.escaping import quoted
from je_tools.output.formats import ROWS

if TYPE_CHECKING:
    from je_tools.erase.completion import Completion


class Options(TypedDict):
    """Options of the command line."""

    path: Path
    apply: bool
    threads: int
    max_rate: int | None
    format_: str
    output: Path | None


@click.command("resume", context_settings=CONTEXT)
@home_argument
@apply_option
@threads_option
@format_option(*ROWS)
@output_option
def command(**options: Unpack[Options]) -> int:
    """Finish what an interrupted erasure has left, also one of the engine's eraser.

    An erasure that is interrupted leaves entries that are marked as erased, and still have their
    bytes. Engines and their tools do not look at these bytes. The command overwrites them, whatever
    else is wrong with the log. It erases nothing new: run `je-tools erase run` for that.

    Before log version 17 an interrupted erasure leaves a redo journal, and entries with wrong
    checksums in one file. The command writes what the journal says.

    Without --apply, the command lists the entries and changes nothing.

    \b
    Examples:
      je-tools erase resume env
      je-tools erase resume env --apply
    """
    from je_tools.commands._options import chosen_pace
    from je_tools.erase.completion import complete_erasure, find_unfinished
    from je_tools.erase.results import ErasureHooks
    from je_tools.log.scan import Scanner
    from je_tools.output.files.outputs import open_output
    from je_tools.output.views.erase_tables import completion_section
    from je_tools.output.views.section_formats import write_sections

    home, output = options["path"], options["output"]
    needs_output(options["format_"], output)
    environment = open_home(home, keep_going=False)
    check_outputs({"output": output}, environment)
    exit_code = None
    with staged_bar(environment.size, "reading") as stages:
        pace = chosen_pace(options["max_rate"])
        scanner = Scanner(threads=options["threads"], wide=True, pace=pace, **asdict(stages))
        if options["apply"]:
            with stopping_on_signals() as request:
                hooks = ErasureHooks(
                    should_stop=lambda: request.is_made,
                    on_reader=lambda reader: say_reader(reader, is_cut=False),
                )
                found = complete_erasure(home, scanner, hooks)
            exit_code = request.exit_code
        else:
            found = find_unfinished(environment, scanner)
    with open_output(output, environment) as out:
        sections = [completion_section(found, applied=options["apply"])]
        write_sections(options["format_"], sections, out, terminal_width(output))
    _say(found, home, applied=options["apply"])
    return exit_code or 0


def _say(found: Completion, home: Path, *, applied: bool) -> None:
    from je_tools.erase.in_kind.resuming import RedoState

    for file in found.linked:
        say(f"je-tools: {file.path.name} has another name, and stays as it is")
    in_kind = found.in_kind
    if in_kind is not None:
        name = in_kind.log_path.name
        if in_kind.state is RedoState.FILE_GONE:
            say(f"je-tools: {name} was being erased in kind, and does not exist any more")
        elif applied:
            say(f"je-tools: {name}: all {in_kind.entry_count:,} entries are erased in kind")
        else:
            say(
                f"je-tools: {name}: the erasure of {in_kind.entry_count:,} entries in kind was "
                "interrupted"
            )
    if in_kind is None and not found.unfinished:
        say("je-tools: no erasure was interrupted: all erased entries are overwritten")
    elif not applied:
        say(
            "je-tools: nothing was written; "
            f"`je-tools erase resume {quoted(str(home))} --apply` overwrites them"
        )
    elif found.unfinished:
        say(f"je-tools: the bytes of {found.counts.entry_count:,} entries are overwritten")
