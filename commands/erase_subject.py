"""`je-tools erase subject`: every trace of a person, and what keeps it from erasure."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
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
    exit_zero_option,
    format_option,
    output_option,
    threads_option,
)
from je_tools.commands._scanning import staged_scanner
from je_tools.commands._snapshot import database_option, home_argument, open_home
from je_tools.commands._terminal import say, terminal_width
from je_tools.commands._writing import apply_option
from je_tools.core.escaping import counted
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError
from je_tools.output.formats import REPORT

if TYPE_CHECKING:
    from je_tools.erase.proof.needles import Needle, NeedleSearch
    from je_tools.erase.subject.traces import SubjectReport
    from je_tools.log.environment import Environment
    from je_tools.recovery.snapshot import Snapshot


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
    delete_live: bool
    allow_short: bool
    apply: bool


@click.command("subject")
@home_argument
@needle_options
@database_option
@click.option(
    "--checkpoint-first",
    is_flag=True,
    help="Judge traces as `erase run --checkpoint-first` would find them.",
)
@click.option(
    "--delete-live",
    is_flag=True,
    help="With --apply, delete the live records of the person, write anew the trees that had them, "
    "and erase. Only for environments that are not replicated.",
)
@click.option(
    "--allow-short",
    is_flag=True,
    help="Also delete by texts, patterns and key prefixes with fewer than 4 fixed bytes.",
)
@apply_option
@format_option(*REPORT)
@output_option
@threads_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """List every trace of a person below a directory, and what keeps each from being erased.

    The command searches as `erase prove` does: all bytes of all files, and all B-tree nodes. Each
    trace gets a state: a live record, an old one, a version kept for an abort, a slot or a key of a
    node in use, an old node, trace text, a file put aside, an undo journal, and so on. The
    command also says whether `erase run` would erase the trace now, and otherwise what prevents
    that.

    A key selects the records with this key in all databases, or in those of --db. The values of all
    versions of these records, live and old, are searched for too. Needles and values appear in no
    output. The exit code is 3 if there is a trace, or if not everything could be read. Without
    --apply, nothing is written, and no lock is taken.

    With --delete-live --apply, the command deletes the live records that match the needles: those
    with one of the keys, and those in which a match occurs. Then it writes anew the
    trees of all databases with traces, so that no node keeps such a key. It erases as `je-tools
    erase run --checkpoint-first` does, and searches again. It does not know which other records
    refer to the deleted ones, such as those of a secondary index: delete through the application
    where you can. On a node of a group it refuses, because the other nodes would keep the records.

    \b
    Examples:
      je-tools erase subject env --key-file people.txt
      je-tools erase subject env --db users --key long:5485 --match carol@example.org
      je-tools erase subject env --key-file people.txt --delete-live --apply
    """
    from je_tools.erase.proof.needles import NeedleSearch
    from je_tools.output.files.outputs import open_output

    if options["apply"] and not options["delete_live"]:
        raise UsageError(
            "--apply: `erase subject` changes a log only with --delete-live; `je-tools erase run` "
            "erases what is deleted already"
        )
    named = named_needles(options)
    search = NeedleSearch(named)
    is_loose = _is_loose(options, named)
    environment = open_home(options["path"])
    check_outputs({"output": options["output"]}, environment)
    warn_of_short(search)
    report = _find(options, search, environment)
    if options["delete_live"] and _delete(options, named, report, is_loose=is_loose):
        environment = open_home(options["path"])
        report = _find(options, report.search, environment)
    with open_output(options["output"], environment, chosen_file_mode()) as out:
        _write(report, out, options)
    fine = options["exit_zero"] or not (report.hit_count or report.gaps)
    return EXIT_OK if fine else EXIT_DAMAGE


def _is_loose(options: Options, named: Sequence[Needle]) -> bool:
    """Return True if a deletion needs `--allow-short`.

    Raises:
        UsageError: records are to be deleted, and the option is missing.
    """
    from je_tools.erase.proof.needles import SHORT_SIZE, loose_count

    count = loose_count(named) if options["delete_live"] else 0
    if count and options["apply"] and not options["allow_short"]:
        raise UsageError(
            f"--delete-live: {counted(count, 'needle')} with fewer than {SHORT_SIZE} fixed bytes, "
            "so records of others may be deleted too: name longer texts, or run it without --apply "
            "to see the number of records, and add --allow-short"
        )
    return count > 0


def _find(options: Options, search: NeedleSearch, environment: Environment) -> SubjectReport:
    from je_tools.erase.options import ErasureOptions
    from je_tools.erase.proof.run import ProofOptions
    from je_tools.erase.subject.run import find_subject
    from je_tools.recovery.opening import held_snapshot

    now_ms = time.time_ns() // 1_000_000
    with staged_scanner(environment, options, "erase subject") as (scanner, stages):
        proof_options = ProofOptions(
            masking_of(options),
            scanner.thread_count(),
            scanner.pace,
            stages.stage,
            stages.progress,
        )
        with held_snapshot(environment, scanner, now_ms=now_ms, as_member=True) as snapshot:
            erasure = ErasureOptions(checkpoint_first=options["checkpoint_first"])
            db_ids = _chosen(options, snapshot)
            return find_subject(snapshot, search, db_ids, proof_options, erasure)


def _delete(
    options: Options, named: Sequence[Needle], report: SubjectReport, *, is_loose: bool
) -> bool:
    """Delete the live records and erase, or say what that would do; return True if it is done.

    Args:
        options: options of the command line.
        named: the needles that were named.
        report: the traces.
        is_loose: True if a deletion needs `--allow-short`.

    Raises:
        RefusedError, InputError, StoppedError: as `delete_records` and `run_erasure`.
    """
    from je_tools.erase.live_records import delete_records
    from je_tools.erase.options import ErasureOptions
    from je_tools.erase.run import run_erasure
    from je_tools.erase.subject.live_matches import find_live
    from je_tools.operations.record_deletion import check_standalone
    from je_tools.recovery.opening import held_snapshot

    home, now_ms = options["path"], time.time_ns() // 1_000_000
    environment = open_home(home, keep_going=False)
    with staged_scanner(environment, options, "erase subject") as (scanner, _):
        with held_snapshot(environment, scanner, now_ms=now_ms, as_member=True) as snapshot:
            check_standalone(snapshot)
            live = find_live(snapshot, named, _chosen(options, snapshot))
            traced = [
                snapshot.databases[each] for each in report.db_ids & snapshot.databases.keys()
            ]
        names = set(live.names.values())
        names |= {each.name or "" for each in traced if not each.is_internal}
        names.discard("")
        if not (live.count or report.hit_count):
            say("je-tools: nothing was written: there is no trace to erase")
            return False
        records, trees = counted(live.count, "live record"), counted(len(names), "database")
        if not options["apply"]:
            needed = "--apply --allow-short" if is_loose else "--apply"
            say(
                f"je-tools: nothing was written; {needed} deletes {records}, writes the trees of "
                f"{trees} anew, and erases. That cannot be undone"
            )
            return False
        erasing = ErasureOptions(checkpoint_first=True, rewritten=frozenset(names))
        delete_records(home, scanner, live.records, now_ms)
        result = run_erasure(home, scanner, erasing, now_ms)
    say(
        f"je-tools: {records} deleted, the trees of {trees} written anew, and "
        f"{result.counts.entry_count:,} entries erased; this is what a new search finds:"
    )
    return True


def _chosen(options: Options, snapshot: Snapshot) -> Collection[int] | None:
    """Return the databases that `--db` names; None for all."""
    from je_tools.log.selection import database_ids

    names = {each.db_id: each.name or "" for each in snapshot.databases.values()}
    return database_ids(options["names"], names) if options["names"] else None


def _write(report: SubjectReport, out: BinaryIO, options: Options) -> None:
    from je_tools.output.views.subject_tables import search_notes, subject_report, write_subject

    if options["format_"] == "table":
        write_subject(report, out, terminal_width(options["output"]))
    else:
        subject_report(report).write(options["format_"], out)
    for text in search_notes(report):
        say(f"je-tools: {text}")
