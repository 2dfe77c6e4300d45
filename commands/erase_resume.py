"""`je-tools erase resume`: interrupted erasures, finished."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from je_tools.commands._erase_options import stopping_on_signals
from je_tools.commands._findings import check_outputs
from je_tools.commands._options import (
    CONTEXT,
    check_has_output,
    exit_zero_option,
    format_option,
    output_option,
    threads_option,
)
from je_tools.commands._scanning import staged_scanner
from je_tools.commands._snapshot import home_argument, open_home
from je_tools.commands._terminal import say, terminal_width
from je_tools.commands._writing import apply_option, say_reader
from je_tools.core.escaping import counted, quoted
from je_tools.errors import EXIT_DAMAGE, EXIT_OK
from je_tools.output.formats import ROWS

if TYPE_CHECKING:
    from je_tools.erase.completion import Completion
    from je_tools.erase.in_kind.resuming import UnfinishedInKind


class Options(TypedDict):
    """Options of the command line."""

    path: Path
    apply: bool
    threads: int
    max_rate: int | None
    format_: str
    output: Path | None
    exit_zero: bool


@click.command("resume", context_settings=CONTEXT)
@home_argument
@apply_option
@threads_option
@format_option(*ROWS)
@output_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Finish an interrupted erasure, also one of the engine's eraser.

    An erasure that is interrupted leaves entries that are marked as erased, and still have their
    bytes. Engines and their tools do not read these bytes. The command overwrites them, whatever
    else is wrong with the log. It erases nothing new: run `je-tools erase run` for that.

    Before log version 17 an interrupted erasure leaves a redo journal, and entries with wrong
    checksums in one file. The command writes what the journal says.

    Symbolic links, files with hard links, and files that `je-tools erase abort` protects stay as
    they are. The exit code is 3 if entries are left for that reason, or if damage hides a part of
    the log.

    Without --apply, the command lists the entries and changes nothing.

    \b
    Examples:
      je-tools erase resume env
      je-tools erase resume env --apply
    """
    from je_tools.erase.completion import complete_erasure, find_unfinished
    from je_tools.erase.results import ErasureHooks
    from je_tools.output.files.outputs import open_output
    from je_tools.output.views.erase_tables import completion_section
    from je_tools.output.views.section_formats import write_sections

    home, output = options["path"], options["output"]
    check_has_output(options["format_"], output)
    environment = open_home(home, keep_going=False)
    check_outputs({"output": output}, environment)
    exit_code = None
    with staged_scanner(environment, options) as (scanner, _):
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
    if exit_code is not None:
        return exit_code
    return EXIT_DAMAGE if found.has_rest and not options["exit_zero"] else EXIT_OK


def _say(found: Completion, home: Path, *, applied: bool) -> None:
    word = quoted(str(home))
    if found.in_kind is not None:
        _say_in_kind(found.in_kind, applied=applied)
    if found.in_kind is None and not found.marked:
        if found.unread:
            say("je-tools: no interrupted erasure was found, but not everything was searched")
        else:
            say("je-tools: no erasure was interrupted: all erased entries are overwritten")
    elif not applied:
        say(
            f"je-tools: nothing was written; `je-tools erase resume {word} --apply` overwrites "
            "these entries"
        )
    elif found.marked:
        done = sum(each.done_count for each in found.marked)
        say(f"je-tools: the bytes of {_entries(done)} are overwritten")
    _say_left(found, home, applied=applied)


def _say_in_kind(in_kind: UnfinishedInKind, *, applied: bool) -> None:
    """Report an erasure in kind that was interrupted."""
    from je_tools.erase.in_kind.resuming import RedoState

    name, entries = in_kind.log_path.name, _entries(in_kind.entry_count)
    if in_kind.state is RedoState.FILE_GONE:
        say(f"je-tools: {name} was being erased in kind, and does not exist any more")
    elif in_kind.kept is not None:
        say(
            f"je-tools: {name}: the erasure of {entries} in kind was interrupted, and was not "
            f"finished: {in_kind.kept.text}"
        )
    elif applied:
        say(f"je-tools: {name}: {entries} erased in kind")
    else:
        say(f"je-tools: {name}: the erasure of {entries} in kind was interrupted")


def _say_left(found: Completion, home: Path, *, applied: bool) -> None:
    """Report what the command leaves, and how to continue."""
    from je_tools.erase.kept_files import advice_on

    for each, why in found.kept:
        left, name = _entries(each.left_count), each.file.path.name
        say(f"je-tools: {name}: {left} not overwritten: {why.text}")
    reasons = {why for _, why in found.kept}
    if found.in_kind is not None and found.in_kind.kept is not None:
        reasons.add(found.in_kind.kept)
    for advice in filter(None, (advice_on(each, home) for each in sorted(reasons))):
        say(f"je-tools: {advice}, and run the command again")
    for unread in found.unread:
        size = "" if unread.size is None else f" with {unread.size:,} bytes"
        say(
            f"je-tools: {unread.path.name}: {counted(unread.count, 'place')}{size} could not be "
            f"searched for erased entries; `je-tools verify {quoted(str(home))}` lists the damage"
        )
    stopped = sum(each.left_count for each in found.marked if each.kept is None)
    if applied and stopped:
        say(f"je-tools: {_entries(stopped)} left; run the command again")


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"
