"""`je-tools audit find`: a person's data in all logs of a fleet."""

from __future__ import annotations

import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from je_tools.commands._audit_engines import (
    EngineOptions,
    chosen_engine,
    engine_options,
    shown_step,
    silence_py4j,
)
from je_tools.commands._needles import (
    NeedleOptions,
    masking_of,
    named_needles,
    needle_options,
    warn_of_short,
)
from je_tools.commands._options import (
    A_LOG,
    CONTEXT,
    check_has_output,
    exit_zero_option,
    format_option,
    output_option,
)
from je_tools.commands._terminal import is_terminal, say, terminal_width
from je_tools.core.escaping import counted
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError
from je_tools.output.formats import ROWS

if TYPE_CHECKING:
    from je_tools.audit.discover import Fleet
    from je_tools.audit.find import FleetHits


class Options(NeedleOptions, EngineOptions):
    """Options of the command line."""

    roots: tuple[Path, ...]
    format_: str
    output: Path | None
    exit_zero: bool


@click.command("find", context_settings=CONTEXT)
@click.argument("roots", metavar="ROOT...", nargs=-1, required=True, type=A_LOG)
@needle_options
@engine_options
@format_option(*ROWS)
@output_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Find a person's data in every environment below the roots.

    The command searches every byte of every file in the directories of the environments, and every
    B-tree node, as `erase prove` does. It judges each trace as `erase subject` does: a live record,
    an old one, and so on, and whether `erase run` would erase it now. It changes nothing. Stores
    of Ignite are searched byte by byte, and their traces are not judged. A root may be a URI.

    Needles appear in no output: they are named by hashes. The exit code is 3 if there is a trace,
    or if anything could not be read. All traces are counted, but at most 1,000 of an environment
    are listed.

    \b
    Examples:
      je-tools audit find /backups --key-file people.txt
      je-tools audit find /backups --match carol@example.org --engine local
      je-tools audit find /nfs/fleet --key-file people.txt --format jsonl -o traces.jsonl
    """
    from je_tools.audit.discover import EnvironmentKind, check_root, find_fleet
    from je_tools.output.files.outputs import check_outside, open_output
    from je_tools.output.views.find_tables import find_sections
    from je_tools.output.views.section_formats import write_sections

    form, output = options["format_"], options["output"]
    check_has_output(form, output)
    for root in options["roots"]:
        check_root(root)
        if root.is_file():
            raise UsageError(f"{root}: `audit find` searches directories: name one")
    fleet = find_fleet(options["roots"], tuple(EnvironmentKind))
    if output is not None:
        check_outside(output, (each for found in fleet.environments for each in found.local_places))
    found = _find(options, fleet)
    with open_output(output) as out:
        sections = find_sections(found, is_short=form == "table")
        write_sections(form, sections, out, terminal_width(output))
    _say(found)
    fine = options["exit_zero"] or (not found.hit_count and found.is_whole)
    return EXIT_OK if fine else EXIT_DAMAGE


def _find(options: Options, fleet: Fleet) -> FleetHits:
    from je_tools.audit.engines import open_engine
    from je_tools.audit.failures import reporting_failures
    from je_tools.audit.find import find_everywhere
    from je_tools.audit.find_tasks import FindWork
    from je_tools.erase.proof.needles import NeedleSearch
    from je_tools.erase.subject.run import find_subject

    choice = chosen_engine(options)
    needles = named_needles(options)
    warn_of_short(NeedleSearch(needles))
    silence_py4j()
    step = shown_step if is_terminal(sys.stderr) else (lambda _: nullcontext())
    with tempfile.TemporaryDirectory(prefix="je-tools-") as made:
        folder = Path(made)
        log = folder / "spark.log"
        with reporting_failures(folder, log), open_engine(choice, folder, log, step) as (engine, _):
            work = FindWork(tuple(needles), masking_of(options), find_subject)
            return find_everywhere(engine, fleet, work)


def _say(found: FleetHits) -> None:
    searched = f"{counted(found.searched_count, 'environment')}, {counted(found.size, 'byte')}"
    where = counted(sum(each.hit_count > 0 for each in found.environments), "environment")
    traces = counted(found.hit_count, "trace")
    if found.hit_count:
        say(f"je-tools: {traces} in {where}; searched: {searched}")
    elif found.is_whole:
        say(f"je-tools: no trace was found; searched: {searched}")
    else:
        say(f"je-tools: no trace was found, but not everything was searched; searched: {searched}")
    say("je-tools: backups and other copies outside these directories were not searched")
