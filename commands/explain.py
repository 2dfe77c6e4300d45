"""`je-tools explain`: entry types, exit codes, findings, refusals and single entries."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import click
from click.shell_completion import CompletionItem

from je_tools.commands._options import exit_zero_option, format_option
from je_tools.core.masking import DataMode, Masking
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, UsageError


def _complete_topic(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    # bash treats a colon as a word of its own, and expects only the text after it.
    words = [*(context.params.get("topics") or ()), *([":"] if incomplete == ":" else [])]
    before = f"{words[-2]}:" if words[-1:] == [":"] and len(words) > 1 else ""
    begun = (before + incomplete.removeprefix(":")).lower() if before else incomplete.lower()
    return [
        CompletionItem(topic[len(before) :], help=meaning)
        for topic, meaning in _topics()
        if topic.lower().startswith(begun)
    ]


def _topics() -> Iterator[tuple[str, str]]:
    from je_tools.explain import topics as explain

    for each in explain.explain_types(""):
        yield f"type:{each.entry_type.name}", each.entry_type.meaning
    for code in explain.explain_exits(""):
        yield f"exit:{code.code}", code.meaning
    for finding in explain.explain_findings(""):
        yield f"finding:{finding.name}", finding.meaning
    for refusal in explain.explain_refusals(""):
        yield f"refusal:{refusal.name}", refusal.meaning


@click.command()
@click.argument(
    "topics",
    metavar="TOPIC|LSN...",
    nargs=-1,
    required=True,
    shell_complete=_complete_topic,
)
@click.option(
    "--env",
    "paths",
    multiple=True,
    metavar="ENV_DIR|FILE",
    type=click.Path(path_type=Path),
    help="Environment or log file in which to look up an LSN. Can be repeated for log files.",
)
@click.option(
    "--version",
    type=click.IntRange(1, 26),
    help="Log version of the listed fields. The default is the newest of the type.",
)
@click.option(
    "--data",
    type=click.Choice([mode.value for mode in DataMode]),
    default=DataMode.SHOW.value,
    show_default=True,
    help="How keys and values are shown.",
)
@click.option("--all", "all_bytes", is_flag=True, help="Show every byte of long fields.")
@format_option("table", "jsonl")
@exit_zero_option
def command(
    topics: tuple[str, ...],
    paths: tuple[Path, ...],
    version: int | None,
    data: str,
    all_bytes: bool,
    format_: str,
    exit_zero: bool,
) -> int:
    """Explain an entry type, an exit code, a finding, a refusal, or one entry byte by byte.

    A topic is type:NAME, exit:CODE, finding:CODE or refusal:CODE. A refusal is a reason why the
    engine would not open a log. A topic without a name after its colon (`type:`, `exit:`,
    `finding:`, `refusal:`) lists all. An entry is given by its LSN, and looked up in --env. A
    damaged entry is explained as far as it is readable, with exit code 3. If no entry begins at the
    LSN, the command shows the entries around it.

    \b
    Examples:
      je-tools explain type:NameLN
      je-tools explain type:BIN --version 17
      je-tools explain exit:3
      je-tools explain finding:
      je-tools explain refusal:missing-file
      je-tools explain 0x0/0x26 --env meta/bdb
      je-tools explain 0x0/0x26 --env 00000000.jdb --format jsonl
    """
    from je_tools.output.files.output_file import encoding_of
    from je_tools.output.files.outputs import open_output

    _check(topics, paths, version)
    damaged = False
    masking = Masking(DataMode(data))
    with open_output(None) as file:
        encoding = encoding_of(file)
        out = io.TextIOWrapper(file, encoding, "backslashreplace", newline="", write_through=True)
        for i, topic in enumerate(topics):
            if i and format_ == "table":
                out.write("\n")
            damaged |= _explain(out, topic, paths, version, masking, all_bytes, format_)
    return EXIT_DAMAGE if damaged and not exit_zero else EXIT_OK


def _check(topics: tuple[str, ...], paths: tuple[Path, ...], version: int | None) -> None:
    """Refuse wrong combinations before anything is printed."""
    from je_tools.explain import topics as explain

    found = {topic: explain.topic_of(topic) for topic in topics}
    for topic, kind_and_name in found.items():
        if kind_and_name is None and not paths:
            raise UsageError(f"{topic}: an LSN needs a log: name it with --env ENV_DIR")
    kinds = {kind_and_name[0] for kind_and_name in found.values() if kind_and_name is not None}
    if version is not None and "type" not in kinds:
        raise UsageError("--version needs type:NAME: an entry has the version of its file")


def _explain(
    out: TextIO,
    topic: str,
    paths: tuple[Path, ...],
    version: int | None,
    masking: Masking,
    all_bytes: bool,
    format_: str,
) -> bool:
    """Explain one topic, and return True if it is a damaged entry."""
    from je_tools.explain import topics as explain
    from je_tools.output.views import explanations as sink

    as_lines = format_ == "jsonl"
    console = sink.make_console(out)
    found = explain.topic_of(topic)
    if found is None:
        return _explain_entry(out, topic, paths, masking, all_bytes, as_lines)
    kind, name = found
    if kind == "type":
        types = explain.explain_types(name, version)
        if not as_lines:
            sink.print_types(console, types)
        rows = sink.type_rows(types)
    elif kind == "exit":
        exits = explain.explain_exits(name)
        if not as_lines:
            sink.print_exits(console, exits)
        rows = sink.exit_rows(exits)
    else:
        explained = explain.explain_findings if kind == "finding" else explain.explain_refusals
        codes = explained(name)
        if not as_lines:
            sink.print_codes(console, codes)
        rows = sink.code_rows(kind, codes)
    if as_lines:
        out.writelines(map(sink.json_line, rows))
    return False


def _explain_entry(
    out: TextIO,
    lsn: str,
    paths: tuple[Path, ...],
    masking: Masking,
    all_bytes: bool,
    as_lines: bool,
) -> bool:
    """Explain the entry at an LSN, and return True if it is damaged."""
    from je_tools.explain.entry import explain_lsn
    from je_tools.log.opening import open_environment
    from je_tools.output.views import explanations as sink

    entry = explain_lsn(open_environment(paths), lsn, masking)
    if as_lines:
        out.writelines(map(sink.json_line, sink.entry_rows(entry)))
    else:
        sink.print_entry(sink.make_console(out), entry, all_bytes=all_bytes)
    return bool(entry.problems)
