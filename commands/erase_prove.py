"""`je-tools erase prove`: an independent search for what an erasure should have removed."""

from __future__ import annotations

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
    A_FILE,
    chosen_file_mode,
    exit_zero_option,
    format_option,
    output_option,
    threads_option,
)
from je_tools.commands._progress import staged_bar
from je_tools.commands._scanning import chosen_pace
from je_tools.commands._snapshot import home_argument
from je_tools.commands._terminal import terminal_width
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError
from je_tools.output.formats import REPORT

if TYPE_CHECKING:
    from je_tools.erase.proof.needles import NeedleSearch
    from je_tools.erase.proof.search_results import Proof
    from je_tools.log.environment import Environment


class Options(NeedleOptions):
    """Options of the command line."""

    path: Path
    needles: Path | None
    write_needles: Path | None
    before: Path | None
    manifest: Path | None
    run_report: Path | None
    html: Path | None
    format_: str
    output: Path | None
    threads: int
    max_rate: int | None
    exit_zero: bool


@click.command("prove")
@home_argument
@needle_options
@click.option(
    "--needles",
    type=A_FILE,
    metavar="FILE",
    help="File of hashed needles, as --write-needles writes it: it holds no personal data.",
)
@click.option(
    "--write-needles",
    type=A_FILE,
    metavar="FILE",
    help="Write the needles to this file as hashes, and search for nothing.",
)
@click.option(
    "--manifest",
    type=A_FILE,
    metavar="FILE",
    help="Write a manifest of all files: size, time, CRC-32C, SHA-256.",
)
@click.option(
    "--before",
    type=A_FILE,
    metavar="MANIFEST",
    help="Manifest from before the erasure: say which files changed since.",
)
@click.option(
    "--run-report",
    type=A_FILE,
    metavar="FILE",
    help="Report of `erase run --report`: include the byte ranges that it changed, and its fsyncs.",
)
@click.option(
    "--html",
    type=A_FILE,
    help="Also write the report as one HTML page to this file. It loads nothing from elsewhere.",
)
@format_option(*REPORT)
@output_option
@threads_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Search every byte below a directory for a person's data, and say what is left.

    The command reads every regular file below ENV_DIR, whatever it is: log files, data directories,
    files put aside (.bad, .del, .bup), undo journals, je.info and others. It searches their bytes,
    not the records of a tree. It also decodes every B-tree node in them: a node stores the common
    beginning of its keys only once, so a search of bytes does not find whole keys. Names of files
    are searched too.

    Needles appear in no output: they have numbers and hashes. The report says what was not
    searched, such as backups and snapshots. The exit code is 3 if anything is left, or if anything
    could not be read. Nothing is written to the environment, and no lock is taken.

    \b
    Examples:
      je-tools erase prove meta/bdb --key-file people.txt --html proof.html
      je-tools erase prove meta/bdb --match carol@example.org --key long:5485
      je-tools erase prove meta/bdb --key-file people.txt --write-needles people.needles
      je-tools erase prove meta/bdb --needles people.needles --before manifest.json
    """
    from je_tools.output.files.outputs import open_output

    environment = _checked_outputs(options)
    if options["write_needles"] is not None:
        from je_tools.erase.proof.needle_files import write_needles

        needles = named_needles(options)
        with open_output(options["write_needles"], environment, chosen_file_mode()) as out:
            write_needles(needles, out)
        return EXIT_OK
    search = _search_of(options)
    warn_of_short(search)
    proof = _prove(options, search, environment)
    if options["html"] is not None:
        from je_tools.output.views.proof_page import proof_page
        from je_tools.pages.rendering import write_pieces

        with open_output(options["html"], environment, chosen_file_mode()) as out:
            write_pieces(proof_page(proof), out)
    with open_output(options["output"], environment, chosen_file_mode()) as out:
        _write(proof, out, options)
    fine = proof.verdict == "nothing left" or options["exit_zero"]
    return EXIT_OK if fine else EXIT_DAMAGE


def _checked_outputs(options: Options) -> Environment:
    """Refuse outputs that cannot be written, before anything is read; return the directory.

    Raises:
        RefusedError: one exists, or lies inside the directory.
        UsageError: two name the same file, or --write-needles has --needles beside it.
    """
    from je_tools.log.environment import Environment

    if options["write_needles"] is not None and options["needles"] is not None:
        raise UsageError("--write-needles writes keys and texts as hashes: omit --needles")
    environment = Environment(str(options["path"]), (), None, is_directory=True)
    outputs = {
        "write-needles": options["write_needles"],
        "manifest": options["manifest"],
        "html": options["html"],
        "output": options["output"],
    }
    check_outputs(outputs, environment)
    return environment


def _search_of(options: Options) -> NeedleSearch:
    """Return the search for the needles of all options.

    Raises:
        UsageError: one has a wrong form, or there is none.
        InputError: a file of needles cannot be read.
    """
    from je_tools.erase.proof.needle_files import read_needles
    from je_tools.erase.proof.needles import NO_HASHED, NeedleSearch

    path = options["needles"]
    hashed = NO_HASHED if path is None else read_needles(path)
    return NeedleSearch(named_needles(options), hashed)


def _prove(options: Options, search: NeedleSearch, environment: Environment) -> Proof:
    """Search, and write and compare the manifests."""
    from je_tools.erase.proof.file_manifest import read_file_manifest, write_file_manifest
    from je_tools.erase.proof.reported_run import read_run_report
    from je_tools.erase.proof.run import ProofOptions, add_changes, check_ranges, manifest_of, prove
    from je_tools.log.scan_options import ScanOptions
    from je_tools.output.files.outputs import open_output

    before = None if options["before"] is None else read_file_manifest(options["before"])
    run = None if options["run_report"] is None else read_run_report(options["run_report"])
    with staged_bar(0, "erase prove") as stages:
        proof_options = ProofOptions(
            masking_of(options),
            ScanOptions(threads=options["threads"]).thread_count(),
            chosen_pace(options["max_rate"]),
            stages.stage,
            stages.progress,
        )
        proof, found = prove(options["path"], search, proof_options)
        if run is not None:
            check_ranges(proof, found, run)
        if before is not None or options["manifest"] is not None:
            after = manifest_of(found, proof_options)
            if before is not None:
                add_changes(proof, before, after)
            if options["manifest"] is not None:
                with open_output(options["manifest"], environment, chosen_file_mode()) as out:
                    write_file_manifest(after, out)
    return proof


def _write(proof: Proof, out: BinaryIO, options: Options) -> None:
    from je_tools.output.views.proof_tables import proof_report, write_proof

    if options["format_"] == "table":
        write_proof(proof, out, terminal_width(options["output"]))
    else:
        proof_report(proof).write(options["format_"], out)
