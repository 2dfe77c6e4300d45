"""`je-tools verify`: the damage in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Unpack

import click

from je_tools.commands._findings import check_outputs
from je_tools.commands._opening import open_log
from je_tools.commands._options import (
    A_FILE,
    check_has_output,
    chosen_file_mode,
    chosen_masking,
    data_option,
    environment_argument,
    exit_zero_option,
    format_option,
    output_option,
    threads_option,
)
from je_tools.commands._progress import progress_bar
from je_tools.commands._scanning import chosen_scanner
from je_tools.commands._snapshot import (
    EndOptions,
    end_of,
    end_options,
    now_option,
)
from je_tools.commands._terminal import say, terminal_width
from je_tools.errors import EXIT_DAMAGE, EXIT_OK
from je_tools.output.formats import ROWS

if TYPE_CHECKING:
    from je_tools.btree.check.verification import TreeCheck
    from je_tools.findings import Finding
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.verify.totals import Totals


class Options(EndOptions):
    """Options of the command line."""

    paths: tuple[Path, ...]
    everything: bool
    tree: bool
    utilization: bool
    now: str | None
    data_mode: str
    stats: Path | None
    manifest: Path | None
    format_: str
    output: Path | None
    threads: int
    max_rate: int | None
    exit_zero: bool


@click.command("verify")
@environment_argument
@click.option("--all", "everything", is_flag=True, help="Also report the files that end cleanly.")
@click.option(
    "--tree",
    is_flag=True,
    help="Also check the B-trees: every node, slot and record. Needs one ENV_DIR.",
)
@click.option(
    "--utilization",
    is_flag=True,
    help="With --tree, also compare the engine's totals of each file with its content.",
)
@now_option
@end_options
@data_option
@click.option(
    "--stats",
    type=A_FILE,
    help="Write the totals as JSON to this file, instead of as text to standard error.",
)
@click.option(
    "--manifest",
    type=A_FILE,
    help="Write a record of this run to this file: inputs with SHA-256, version, command, times.",
)
@format_option(*ROWS)
@output_option
@threads_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Report every damaged byte range of a log, and inconsistencies between its files.

    The command checks the checksum of every entry, compares each file with the header of the next
    one, and checks that the VLSNs of replicated entries ascend. An incomplete entry at the end of
    the last file is a note, not damage: the writer died while it wrote. Given a directory, the
    command also checks that the engine can open the log: that there is a root, and every file that
    is in use or that recovery reads. Without findings, it only writes the verdict to standard
    error. The exit code is 3 if there are errors.

    With --tree, it also checks the B-trees as recovery would leave them: every node, slot and
    record. Each finding shows its place in the tree and the keys that are lost. With --to-lsn,
    --to-vlsn or --to-time, it checks the trees as they were at an earlier end of the log.

    \b
    Examples:
      je-tools verify meta/bdb
      je-tools verify meta/bdb --format jsonl --output findings.jsonl --stats totals.json
      je-tools verify 00000003.jdb --all
      je-tools verify meta/bdb --tree
      je-tools verify evidence/env --manifest manifest.json
      je-tools verify /var/lib/app/env --exit-zero
    """
    from je_tools.output.files.outputs import open_output
    from je_tools.verify.totals import Totals

    check_has_output(options["format_"], options["output"])
    started = datetime.now(UTC)
    environment = open_log(options["paths"])
    _tree_check(options).check(environment, tree=options["tree"])
    _check_outputs(environment, options)
    totals = Totals(environment.name, has_trees=options["tree"])
    with ExitStack() as stack:
        out = stack.enter_context(open_output(options["output"], environment, chosen_file_mode()))
        progress = stack.enter_context(progress_bar(environment.size, "verify"))
        scanner = chosen_scanner(options, progress)
        _write(_findings(environment, scanner, totals, options), out, options)
    _report(environment, totals, scanner, started, options)
    return EXIT_DAMAGE if totals.errors and not options["exit_zero"] else EXIT_OK


def _tree_check(options: Options) -> TreeCheck:
    from je_tools.btree.check.verification import TreeCheck

    return TreeCheck(options["utilization"], options["now"], end_of(options))


def _findings(
    environment: Environment, scanner: Scanner, totals: Totals, options: Options
) -> Iterator[Finding]:
    """Return all findings, counted, those of the trees last."""
    everything = options["everything"]
    if options["tree"]:
        from je_tools.btree.check.verification import verify_with_trees
        from je_tools.core.memory import keep_freed_memory

        # Only a command changes settings of its process.
        keep_freed_memory()
        masking, check = chosen_masking(options["data_mode"]), _tree_check(options)
        return verify_with_trees(
            environment, scanner, totals, check, everything=everything, masking=masking
        )
    from je_tools.verify.judge import verify

    return verify(environment, scanner, totals, everything=everything)


def _check_outputs(environment: Environment, options: Options) -> None:
    """Refuse outputs that cannot be written, before anything is read."""
    paths = {"output": options["output"], "stats": options["stats"]}
    check_outputs({**paths, "manifest": options["manifest"]}, environment)


def _write(findings: Iterator[Finding], out: BinaryIO, options: Options) -> None:
    from je_tools.output.views.findings import write_rows, write_table

    if options["format_"] == "table":
        write_table(findings, out, terminal_width(options["output"]))
    else:
        write_rows(findings, out, options["format_"])


def _report(
    environment: Environment,
    totals: Totals,
    scanner: Scanner,
    started: datetime,
    options: Options,
) -> None:
    """Write totals and manifest after everything has been read."""
    from je_tools.output.files.outputs import open_output
    from je_tools.output.files.unfinished import public_mode

    # Neither file holds records, and other users' programs may have to read them.
    mode = chosen_file_mode()
    mode = public_mode() if mode is None else mode
    if options["stats"] is None:
        say(f"je-tools: {totals.verdict()}")
    else:
        import json

        with open_output(options["stats"], environment, mode) as out:
            out.write(json.dumps(totals.row(), indent=2).encode() + b"\n")
    if options["manifest"] is not None:
        from je_tools.log.manifest import write_manifest

        with open_output(options["manifest"], environment, mode) as out:
            write_manifest(out, environment, sys.argv, started, threads=scanner.thread_count())
