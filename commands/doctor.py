"""`je-tools doctor`: the state of an environment on one page."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypedDict, Unpack

import click

from je_tools.commands._findings import check_outputs
from je_tools.commands._options import (
    A_FILE,
    chosen_file_mode,
    chosen_masking,
    data_option,
    exit_zero_option,
    format_option,
    output_option,
    threads_option,
    tmp_option,
)
from je_tools.commands._progress import progress_bar
from je_tools.commands._scanning import chosen_scanner
from je_tools.commands._snapshot import home_argument, now_option, open_home
from je_tools.commands._terminal import say, terminal_width
from je_tools.errors import (
    EXIT_DAMAGE,
    EXIT_INPUT,
    EXIT_OK,
    InputError,
    NoLogError,
    UsageError,
)
from je_tools.output.formats import REPORT

if TYPE_CHECKING:
    from je_tools.doctor.data_use import DataUse
    from je_tools.doctor.facts import Diagnosis
    from je_tools.errors import RefusedError
    from je_tools.log.environment import Environment
    from je_tools.recovery.snapshot import Snapshot


class Options(TypedDict):
    """Options of the command line."""

    path: Path
    tree: bool
    html: Path | None
    now: str | None
    data_mode: str
    format_: str
    output: Path | None
    tmp: Path | None
    threads: int
    max_rate: int | None
    exit_zero: bool


@click.command("doctor")
@home_argument
@click.option("--tree", is_flag=True, help="Also check the B-trees: every node, slot and record.")
@click.option(
    "--html",
    type=A_FILE,
    help="Also write the report as one HTML page to this file. It loads nothing from elsewhere.",
)
@now_option
@data_option
@format_option(*REPORT)
@output_option
@tmp_option
@threads_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Say on one page whether the engine opens a log, what would be lost, and what to do next.

    The page begins with the verdict, in one sentence. It then lists the releases that open the log,
    the losses, the condition of the environment (checksums, end, files, B-trees, lock, disk,
    settings, files put aside), all findings, and commands to run next, the safest first. It also
    names what was not examined, such as the B-trees without --tree. For a node of a replication
    group, the page has its group, its VLSNs, and whether the VLSN index fits the log; for a
    StarRocks or Doris front end, also its journals.

    For a store of Apache Ignite, the page says for each node whether its next start succeeds and
    what it loses, as `ignite recover` does, with the findings of `ignite wal verify`, `ignite
    checkpoints` and `ignite pages verify`.

    The command reads the log once, as `verify` does, and recovers it in memory, as `recover` does.
    It takes no lock and writes nothing to the environment. The exit code is 3 if there is damage or
    a loss, or the engine would refuse the log, and 4 if there is no log that can be read.

    \b
    Examples:
      je-tools doctor meta/bdb
      je-tools doctor meta/bdb --tree
      je-tools doctor meta/bdb --html report.html
      je-tools doctor meta/bdb --format jsonl --output doctor.jsonl
    """
    from je_tools.ignite.store import holds_store

    opened = _open(options["path"])
    if isinstance(opened, InputError) and holds_store(options["path"]):
        return _examine_store(options)
    if isinstance(opened, NoLogError):
        _refuse_part(options["path"])
    return _examine_log(options, opened)


def _refuse_part(path: Path) -> None:
    """Refuse a directory that has stores of Ignite below it, or is a part of one.

    Raises:
        InputError: it is one; the text names what to examine.
    """
    from je_tools.doctor.surroundings import logs_below
    from je_tools.ignite.store_search import store_near

    near = None if logs_below(path) else store_near(path)
    if near is not None:
        raise InputError(f"{path}: {near}")


def _examine_log(options: Options, opened: Environment | InputError) -> int:
    """Say in what state a log is, or why it cannot be read; return the exit code."""
    from je_tools.core.memory import keep_freed_memory
    from je_tools.doctor.examination import diagnosed
    from je_tools.doctor.log_repair import repair_of
    from je_tools.doctor.log_scan import scan_log
    from je_tools.doctor.loss_search import loss_search
    from je_tools.doctor.recovered import DiagnosisOptions, Examiners
    from je_tools.doctor.replication import examine_replication
    from je_tools.missing.run import report_losses
    from je_tools.output.files.outputs import open_output
    from je_tools.recovery.choices import chosen_now

    if options["tree"]:
        keep_freed_memory()
    now_ms = chosen_now(options["now"])
    wanted = DiagnosisOptions(now_ms, options["tree"], chosen_masking(options["data_mode"]))
    environment = None if isinstance(opened, InputError) else opened
    outputs = {"output": options["output"], "html": options["html"]}
    check_outputs(outputs, *([environment] if environment is not None else []))
    with progress_bar(environment.size if environment else 0, "doctor") as progress:
        scanner = chosen_scanner(options, progress)
        losses = loss_search(report_losses, options["tmp"], _say_refused)
        examiners = Examiners(scan_log, examine_replication, losses, repair_of)
        home = options["path"]
        with diagnosed(home, opened, scanner, wanted, examiners) as (
            diagnosis,
            snapshot,
        ):
            use = _data_use(diagnosis, snapshot) if options["html"] is not None else None
    if options["html"] is not None:
        from je_tools.output.views.doctor_page import doctor_page
        from je_tools.pages.rendering import write_pieces

        with open_output(options["html"], environment, chosen_file_mode()) as out:
            write_pieces(doctor_page(diagnosis, use, now_ms), out)
    with open_output(options["output"], environment, chosen_file_mode()) as out:
        _write(diagnosis, out, options)
    if isinstance(opened, InputError):
        say(f"je-tools: {opened}")
        return EXIT_INPUT
    return EXIT_DAMAGE if diagnosis.is_damaged and not options["exit_zero"] else EXIT_OK


def _open(home: Path) -> Environment | InputError:
    """Open the log of a directory; return the reason if there is none that can be read.

    Raises:
        InputError: there is no such directory.
        UsageError: it is a file.
    """
    try:
        return open_home(home)
    except InputError as error:
        with suppress(OSError):
            if home.is_dir():
                return error
        raise


def _examine_store(options: Options) -> int:
    """Say what is wrong with a store of Ignite, whether its nodes start, and what to run next.

    Raises:
        UsageError: an option is only for environments of JE.
    """
    from je_tools.commands._ignite import open_output_outside, thread_count
    from je_tools.core.escaping import printable
    from je_tools.ignite.examination import examine_store, store_verdict
    from je_tools.ignite.recovery.rebuilding import rebuilt_files
    from je_tools.ignite.store import open_store
    from je_tools.output.views.section_formats import write_sections
    from je_tools.output.views.store_page import store_page
    from je_tools.output.views.store_report import store_report, store_sections
    from je_tools.pages.rendering import write_pieces
    from je_tools.recovery.choices import chosen_now

    if options["tree"]:
        raise UsageError("--tree: only for environments of JE, not for stores of Ignite")
    check_outputs({"output": options["output"], "html": options["html"]})
    home, form = options["path"], options["format_"]
    store = open_store([home])
    with open_output_outside(options["output"], store) as out:
        with progress_bar(store.size, "doctor") as progress:
            threads = thread_count(options["threads"])
            examination = examine_store(store, threads, progress, rebuilt=rebuilt_files)
        if options["html"] is not None:
            with open_output_outside(options["html"], store) as page:
                write_pieces(store_page(examination, str(home), chosen_now(options["now"])), page)
        if form == "table":
            out.write(f"{printable(store_verdict(examination))}\n\n".encode())
            sections = store_sections(examination, str(home), everything=False)
            shown = [each for each in sections if each.rows]
            write_sections(form, shown, out, terminal_width(options["output"]))
        else:
            store_report(examination, str(home)).write(form, out)
    return EXIT_DAMAGE if examination.is_damaged and not options["exit_zero"] else EXIT_OK


def _say_refused(error: RefusedError) -> None:
    say(f"je-tools: the B-trees were not searched: {error}")


def _data_use(diagnosis: Diagnosis, snapshot: Snapshot | None) -> DataUse | None:
    from je_tools.doctor.data_use import data_use

    if snapshot is None or diagnosis.state is None:
        return None
    return data_use(snapshot, diagnosis.state.space)


def _write(diagnosis: Diagnosis, out: BinaryIO, options: Options) -> None:
    if options["format_"] == "table":
        from je_tools.output.views.doctor_tables import write_page

        write_page(diagnosis, out, terminal_width(options["output"]))
    else:
        from je_tools.output.views.doctor_report import doctor_report

        doctor_report(diagnosis).write(options["format_"], out)
