"""`je-tools erase subject`: every trace of a person, and what keeps it from erasure."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Unpack

import click

from je_tools.commands._findings import check_outputs
from je_tools.commands._needles import (
    NeedleOptions,
    masking_of,
    named_needles,
    needle_options,
    warn_of_short,
)
from je_tools.commands._options import (
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
from je_tools.commands._snapshot import database_option, home_argument, open_home
from je_tools.errors import EXIT_DAMAGE, EXIT_OK
from je_tools.output.formats import REPORT

if TYPE_CHECKING:
    from je_tools.erase.proof.needles import NeedleSearch
    from je_tools.erase.subject.facts import SubjectReport
    from je_tools.log.environment import Environment


class Options(NeedleOptions):
    """Options of the command line."""

    path: Path
    names: tuple[str, ...]
    checkpoint_first: bool
    format_: str
    output: Path | None
    threads: int
    max_rate: int | None
    exit_zero: bool


@click.command("subject")
@home_argument
@needle_options
@database_option
@click.option(
    "--checkpoint-first",
    is_flag=True,
    help="Judge traces as `erase run --checkpoint-first` would find them.",
)
@format_option(*REPORT)
@output_option
@threads_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """List every trace of a person below a directory, and what keeps each from being erased.

    The command searches as `erase prove` does: all bytes of all files, and all B-tree nodes. Each
    trace gets a state: a live record, an old one, a version kept for an abort, a slot or a key of a
    node in use, an old node, trace text, a file put aside, an undo journal, and so on. It says
    whether `erase run` would erase the trace now, and otherwise what prevents that.

    Keys are those of records in all databases, or with --db in some. The values of all versions of
    these records, live and old, are searched for too. Needles and values appear in no output. The
    exit code is 3 if there is a trace, or if not everything could be read. Nothing is written, and
    no lock is taken.

    \b
    Examples:
      je-tools erase subject env --key-file people.txt
      je-tools erase subject env --db users --key long:5485 --match carol@example.org
    """
    from je_tools.erase.proof.needles import NeedleSearch
    from je_tools.output.files.outputs import open_output

    search = NeedleSearch(named_needles(options))
    environment = open_home(options["path"])
    check_outputs({"output": options["output"]}, environment)
    warn_of_short(search)
    report = _find(options, search, environment)
    with open_output(options["output"], environment, chosen_file_mode()) as out:
        _write(report, out, options)
    fine = options["exit_zero"] or not (report.hit_count or report.gaps)
    return EXIT_OK if fine else EXIT_DAMAGE


def _find(options: Options, search: NeedleSearch, environment: Environment) -> SubjectReport:
    from je_tools.erase.options import ErasureOptions
    from je_tools.erase.proof.run import ProofOptions
    from je_tools.erase.subject.run import find_subject
    from je_tools.log.scan import Scanner
    from je_tools.log.selection import database_ids
    from je_tools.recovery.opening import held_snapshot

    pace = chosen_pace(options["max_rate"])
    with staged_bar(environment.size, "erase subject") as stages:
        scanner = Scanner(
            threads=options["threads"],
            progress=stages.progress,
            stage=stages.stage,
            wide=True,
            pace=pace,
        )
        proof_options = ProofOptions(
            masking_of(options), scanner.thread_count(), pace, stages.stage, stages.progress
        )
        now_ms = time.time_ns() // 1_000_000
        with held_snapshot(environment, scanner, now_ms=now_ms, as_member=True) as snapshot:
            names = {each.db_id: each.name or "" for each in snapshot.databases.values()}
            db_ids = database_ids(options["names"], names) if options["names"] else None
            erasure = ErasureOptions(checkpoint_first=options["checkpoint_first"])
            return find_subject(snapshot, search, db_ids, proof_options, erasure)


def _write(report: SubjectReport, out: BinaryIO, options: Options) -> None:
    from je_tools.output.views.subject_tables import notes, subject_report, write_subject

    if options["format_"] == "table":
        write_subject(report, out, terminal_width(options["output"]))
    else:
        subject_report(report).write(options["format_"], out)
    for text in notes(report):
        say(f"je-tools: {text}")
