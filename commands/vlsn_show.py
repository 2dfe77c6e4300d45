"""`je-tools vlsn show`: the VLSN index, the end of the stream, the masters, or the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from je_tools.commands._findings import add_findings, exit_code_of, save_findings, say_findings
from je_tools.commands._options import check_has_output, chosen_file_mode, format_option
from je_tools.commands._progress import progress_bar
from je_tools.commands._scanning import chosen_scanner
from je_tools.commands._snapshot import (
    end_of,
    node_home,
    open_home,
    open_results,
    report_on_snapshot,
    write_section,
)
from je_tools.commands._terminal import say, terminal_width
from je_tools.commands._vlsn import (
    SYNC_POINTS,
    NodeOptions,
    node_options,
    open_node,
    snapshot_options_of,
)
from je_tools.errors import EXIT_INPUT, UsageError
from je_tools.output.formats import REPORT_WITH_ROWS

if TYPE_CHECKING:
    from typing import BinaryIO

    from je_tools.findings import Finding
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.node_state import NodeState


class Options(NodeOptions):
    """Options of the command line."""

    vlsn: int | None
    lsn: str | None
    stream: bool
    rolled_back: bool
    sync_points: int


@click.command("show")
@node_options
@click.option(
    "--map",
    "vlsn",
    type=click.IntRange(1),
    metavar="VLSN",
    help="Show the LSN of this VLSN, and the mappings from which it was found.",
)
@click.option(
    "--lsn", metavar="LSN", help="Show the VLSN of the entry at this LSN, 0xFILE/0xOFFSET."
)
@click.option("--stream", is_flag=True, help="Show the entries of the stream, in VLSN order.")
@click.option(
    "--rolled-back",
    is_flag=True,
    help="With --stream, also show the entries that rollbacks undid.",
)
@click.option(
    "--sync-points",
    type=click.IntRange(1),
    metavar="N",
    default=SYNC_POINTS,
    show_default=True,
    help="Number of sync points from the end of the log in JSON, for `vlsn compare`.",
)
@format_option(*REPORT_WITH_ROWS)
def command(**options: Unpack[Options]) -> int:
    """Show the VLSN index of a node, the end of its stream, and who was master.

    The tables show each bucket of the index as it is stored, the range before and after recovery,
    and the masters. Only the index, the files that recovery reads, and samples of the other files
    are read. `--format json` makes the report that `je-tools vlsn compare` reads. With --stream,
    the whole log is read, and each VLSN is a row. A damaged index is shown as far as it can be
    read. The exit code is 3 if there is damage, and 4 if there is no entry of the VLSN or at the
    LSN.

    \b
    Examples:
      je-tools vlsn show meta/bdb
      je-tools vlsn show meta/bdb --format json --output node1.json
      je-tools vlsn show meta/bdb --map 123456
      je-tools vlsn show meta/bdb --stream --format csv --output stream.csv
    """
    _check(options)
    if options["stream"]:
        return _show_stream(options)
    with open_node(options, "vlsn") as snapshot:
        if options["vlsn"] is not None or options["lsn"] is not None:
            return _look_up(snapshot, options)
        return _show_node(snapshot, options)


def _check(options: Options) -> None:
    named = {
        "--map": options["vlsn"] is not None,
        "--lsn": options["lsn"] is not None,
        "--stream": options["stream"],
    }
    chosen = [name for name, is_given in named.items() if is_given]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)}: give one of them")
    if options["rolled_back"] and not options["stream"]:
        raise UsageError("--rolled-back needs --stream: add it")
    if chosen and options["format_"] == "json":
        raise UsageError(f"{chosen[0]} has no --format json: use jsonl")
    if options["stream"] and end_of(options).named():
        raise UsageError(f"--stream shows the whole log: omit {end_of(options).named()[0]}")
    check_has_output(options["format_"], options["output"])


def _show_node(snapshot: Snapshot, options: Options) -> int:
    from je_tools.recovery.findings import snapshot_findings
    from je_tools.vlsn.node_state import read_node

    is_report = options["format_"] in ("json", "jsonl")
    state, _ = read_node(snapshot, options["sync_points"] if is_report else 1)
    with open_results(options["output"], snapshot) as out:
        known = snapshot_findings(snapshot)
        found = [*known, *(each for each in state.findings if each not in known)]
        _write_node(state, found, out, options)
        add_findings(found, out, options["format_"], options["findings_path"])
    return report_on_snapshot(found, snapshot, snapshot_options_of(options))


def _write_node(state: NodeState, found: list[Finding], out: BinaryIO, options: Options) -> None:
    from je_tools.output.views.section_formats import write_sections
    from je_tools.output.views.vlsn_tables import bucket_section, node_report, node_sections

    form = options["format_"]
    if form == "json":
        node_report(state, found).write(form, out)
    elif form == "jsonl":
        node_report(state).write_lines(out)
    else:
        sections = node_sections(state) if form == "table" else [bucket_section(state)]
        write_sections(form, sections, out, terminal_width(options["output"]))


def _look_up(snapshot: Snapshot, options: Options) -> int:
    from je_tools.output.views.vlsn_tables import lsn_section, vlsn_section
    from je_tools.recovery.findings import snapshot_findings
    from je_tools.vlsn.index_findings import misfit_finding, record_findings
    from je_tools.vlsn.index_state import read_index_state

    index = read_index_state(snapshot)
    if index.refusal is not None:
        say(f"je-tools: the engine would not continue with the index: {index.refusal}")
    mappings = index.mappings
    if options["vlsn"] is not None:
        from je_tools.vlsn.lookup import find_vlsn

        found = find_vlsn(snapshot, mappings, options["vlsn"])
        section, is_found = vlsn_section(found), found.lsn is not None
        if not is_found:
            say(f"je-tools: {_unmapped(options['vlsn'], index.usable.range)}")
    else:
        from je_tools.log.parsing import parse_lsn
        from je_tools.vlsn.lookup import find_lsn

        lsn = parse_lsn(options["lsn"] or "")
        entry = find_lsn(snapshot, mappings, lsn)
        if entry is None:
            say(f"je-tools: no whole entry begins at {options['lsn']}; `je-tools dump` lists them")
            return EXIT_INPUT
        section, is_found = lsn_section(entry), True
    findings = [
        *snapshot_findings(snapshot),
        *record_findings(snapshot, index.stored, index.tracked_vlsn),
        *misfit_finding(snapshot, index.refusal),
    ]
    with open_results(options["output"], snapshot) as out:
        write_section(section, out, options["format_"], options["output"])
        add_findings(findings, out, options["format_"], options["findings_path"])
    code = report_on_snapshot(findings, snapshot, snapshot_options_of(options))
    return code if is_found else EXIT_INPUT


def _unmapped(vlsn: int, covered: object) -> str:
    from je_tools.formats.je.internal.replication import VlsnRange

    assert isinstance(covered, VlsnRange)
    if covered.first <= vlsn <= covered.last:
        return (
            f"VLSN {vlsn} is not between the mappings around it; `je-tools vlsn check` compares "
            "the index with the log"
        )
    return (
        f"VLSN {vlsn} is outside of the index, which covers {covered.first} to {covered.last}; "
        "`je-tools vlsn show --stream` lists the whole log"
    )


def _show_stream(options: Options) -> int:
    from je_tools.output.files.outputs import check_output, open_output
    from je_tools.output.views.vlsn_stream import write_stream
    from je_tools.verify.state_findings import file_findings
    from je_tools.vlsn.logged_stream import read_logged

    environment = open_home(node_home(options["path"]))
    if options["output"] is not None:
        check_output(options["output"], environment)
    findings: list[Finding] = []
    with progress_bar(environment.size, "vlsn") as progress:
        stream = read_logged(
            environment,
            chosen_scanner(options, progress),
            lambda state: findings.extend(file_findings(environment, state)),
        )
    rows = stream.in_vlsn_order(with_rolled_back=options["rolled_back"])
    with open_output(options["output"], environment, chosen_file_mode()) as out:
        write_stream(options["format_"], stream, rows, out)
        add_findings(findings, out, options["format_"], options["findings_path"])
    save_findings(findings, options["findings_path"], environment)
    say_findings(findings)
    hidden = len(stream) - len(rows)
    if hidden:
        say(
            f"je-tools: {hidden:,} entries that rollbacks undid, or whose VLSN a later entry has, "
            "are left out; --rolled-back shows them"
        )
    return exit_code_of(findings, exit_zero=options["exit_zero"])
