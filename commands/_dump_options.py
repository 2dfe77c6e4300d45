"""Options of `je-tools dump`: their declaration, the combinations that are refused, the filters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from je_tools.commands._completion import complete_databases, complete_types
from je_tools.commands._findings import findings_option
from je_tools.commands._options import (
    check_no_uri,
    data_option,
    encoders_option,
    environment_argument,
    exit_zero_option,
    file_mode_option,
    format_option,
    max_rate_option,
    output_file_option,
)
from je_tools.errors import UsageError
from je_tools.output.formats import ROWS

if TYPE_CHECKING:
    from je_tools.dump.filters import Filters

Decorator = Callable[[Callable[..., int]], Callable[..., int]]

ENTRIES = "Filters (an entry must match all of them)"
OUTPUT = "Output"
READING = "Reading"


class Options(TypedDict):
    """Options of the command line."""

    paths: tuple[Path, ...]
    types: tuple[str, ...]
    databases: tuple[str, ...]
    txns: tuple[int, ...]
    keys: tuple[str, ...]
    greps: tuple[str, ...]
    from_lsn: str | None
    to_lsn: str | None
    from_vlsn: int | None
    to_vlsn: int | None
    since: str | None
    until: str | None
    replicated: bool
    limit: int | None
    backward: bool
    follow: bool
    format_: str
    output: Path | None
    parts: bool
    data_mode: str
    findings_path: Path | None
    ignore_checksum: bool
    threads: int
    max_rate: int | None
    exit_zero: bool


OPTIONS: dict[str, list[Decorator]] = {
    "": [environment_argument],
    ENTRIES: [
        click.option(
            "--type",
            "types",
            multiple=True,
            shell_complete=complete_types,
            help="Entry type by the engine's name, or a group: LN, IN, TXN, CKPT, REP.",
        ),
        click.option(
            "--db",
            "-d",
            "databases",
            multiple=True,
            shell_complete=complete_databases,
            help="Database, by name or id (id:7).",
        ),
        click.option("--txn", "txns", type=int, multiple=True, help="Transaction id."),
        click.option(
            "--key",
            "keys",
            multiple=True,
            help="Key of an LN: text, hex:0a1b, hex:0a* (prefix), long:5485, int:7, str:name.",
        ),
        click.option(
            "--grep", "greps", multiple=True, help="Bytes in a key or value: text, or hex:0a1b."
        ),
        click.option("--from-lsn", help="First LSN, 0xFILE/0xOFFSET."),
        click.option("--to-lsn", help="Last LSN, inclusive."),
        click.option("--from-vlsn", type=int, help="First VLSN."),
        click.option("--to-vlsn", type=int, help="Last VLSN, inclusive."),
        click.option(
            "--since",
            help="First time, UTC: 2026-11-20T10:00:00, or 1795168800s, 1795168800000ms.",
        ),
        click.option("--until", help="Last time, UTC, inclusive."),
        click.option("--replicated", is_flag=True, help="Only entries of the replication stream."),
        click.option(
            "--limit", type=click.IntRange(1), metavar="N", help="Stop after this many entries."
        ),
        click.option(
            "--backward", is_flag=True, help="Print from the end of the log to its beginning."
        ),
        click.option(
            "--follow", is_flag=True, help="Wait for entries that a running engine appends."
        ),
    ],
    OUTPUT: [
        format_option(*ROWS),
        output_file_option,
        file_mode_option,
        click.option(
            "--parts",
            is_flag=True,
            help="For Parquet: write a directory of files in parallel.",
        ),
        data_option,
        findings_option,
    ],
    READING: [
        click.option(
            "--ignore-checksum", is_flag=True, help="List entries without checking their checksums."
        ),
        encoders_option,
        max_rate_option,
        exit_zero_option,
    ],
}
"""All options, in the order and under the headings of `--help`."""


def check_combination(options: Options) -> None:
    """Refuse options that exclude each other.

    Raises:
        UsageError: there are such options.
    """
    if options["follow"]:
        check_no_uri(options["paths"], "--follow")
    if options["follow"] and (options["backward"] or options["output"]):
        raise UsageError(
            "--follow only prints forward, to standard output: omit --output and --backward"
        )
    if options["follow"] and options["format_"] == "parquet":
        raise UsageError(
            "--follow cannot write Parquet, because it has no end: choose another --format"
        )
    if options["follow"] and options["findings_path"]:
        raise UsageError("--follow reports errors on standard error as they come: omit --findings")
    if options["parts"] and options["format_"] != "parquet":
        raise UsageError("--parts needs --format parquet")
    if options["format_"] == "parquet" and options["output"] is None:
        what = "DIRECTORY, a new one" if options["parts"] else "FILE"
        raise UsageError(f"--format parquet needs --output {what}")
    if options["parts"] and (options["limit"] or options["backward"]):
        raise UsageError("--parts writes many files at once: omit --limit and --backward")


def chosen_filters(options: Options) -> Filters:
    """Return the filters that the options name."""
    from je_tools.dump.filters import Filters

    return Filters(
        types=options["types"],
        txns=options["txns"],
        keys=options["keys"],
        greps=options["greps"],
        from_lsn=options["from_lsn"],
        to_lsn=options["to_lsn"],
        from_vlsn=options["from_vlsn"],
        to_vlsn=options["to_vlsn"],
        since=options["since"],
        until=options["until"],
        replicated=options["replicated"],
    )
