"""`je-tools vlsn check`: the VLSN index against the log, and the stream against itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from je_tools.commands._findings import exit_code_of
from je_tools.commands._options import (
    check_has_output,
    chosen_file_mode,
    exit_zero_option,
    format_option,
    output_option,
    threads_option,
)
from je_tools.commands._progress import progress_bar
from je_tools.commands._scanning import chosen_scanner
from je_tools.commands._snapshot import home_argument, node_home, open_home
from je_tools.commands._terminal import say, terminal_width
from je_tools.core.escaping import counted
from je_tools.output.formats import ROWS

if TYPE_CHECKING:
    from typing import BinaryIO

    from je_tools.vlsn.stream_check import StreamCheck


class Options(TypedDict):
    """Options of the command line."""

    path: Path
    format_: str
    output: Path | None
    threads: int
    max_rate: int | None
    exit_zero: bool


@click.command("check")
@home_argument
@format_option(*ROWS)
@output_option
@threads_option
@exit_zero_option
def command(**options: Unpack[Options]) -> int:
    """Check the VLSN index of a node against its log, and the stream against itself.

    The command reads the whole log, with its checksums, as `verify` does. It checks that the
    buckets and the range of the index follow the engine's rules, and that each mapping leads to the
    visible entry of its VLSN. Recovery must be able to merge what was logged since the last
    checkpoint, and the index must then reach the end of the log. In the stream, the VLSNs must
    ascend without gaps or repeats, and rollbacks must be complete. Each violation is a finding that
    shows both sides. Without findings, the command only writes the verdict to standard error. The
    exit code is 3 if there are errors.

    \b
    Examples:
      je-tools vlsn check meta/bdb
      je-tools vlsn check meta/bdb --format jsonl --output findings.jsonl
    """
    from je_tools.output.files.outputs import check_output, open_output
    from je_tools.recovery.choices import chosen_now
    from je_tools.recovery.internal_databases import check_replicated
    from je_tools.recovery.opening import held_snapshot
    from je_tools.vlsn.stream_check import check_stream

    check_has_output(options["format_"], options["output"])
    environment = open_home(node_home(options["path"]))
    if options["output"] is not None:
        check_output(options["output"], environment)
    with progress_bar(environment.size, "vlsn check") as progress:
        # Only the reading of the whole log, which follows, is shown.
        quiet = chosen_scanner(options)
        with held_snapshot(environment, quiet, now_ms=chosen_now(None)) as snapshot:
            check_replicated(snapshot)
            snapshot.scanner = chosen_scanner(options, progress)
            checked = check_stream(snapshot)
    with open_output(options["output"], environment, chosen_file_mode()) as out:
        _write(checked, out, options)
    _report(checked)
    return exit_code_of(checked.findings, exit_zero=options["exit_zero"])


def _write(checked: StreamCheck, out: BinaryIO, options: Options) -> None:
    from je_tools.output.views.findings import write_rows, write_table

    if options["format_"] == "table":
        write_table(iter(checked.findings), out, terminal_width(options["output"]))
    else:
        write_rows(checked.findings, out, options["format_"])


def _report(checked: StreamCheck) -> None:
    stream = checked.stream
    ends = (stream.first_vlsn, stream.end.last_vlsn)
    vlsns = f", VLSN {ends[0]} to {ends[1]}" if None not in ends else ""
    back = stream.entry_count - stream.visible_count
    rolled_back = f", without {back:,} that rollbacks undid" if back else ""
    say(
        f"je-tools: compared {counted(checked.mapping_count, 'mapping')} of the VLSN index with "
        f"{stream.visible_count:,} entries of the stream{vlsns}{rolled_back}; "
        f"{counted(len(stream.rollbacks), 'rollback')}"
    )
    for each in checked.forecasts:
        say(f"je-tools: as it is: {each.damage}. {each.outcome}")
    say(f"je-tools: {checked.totals.verdict()}")
