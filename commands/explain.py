"""`je-tools explain`: messages of engines, entry types, codes, and single entries."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click
from click.shell_completion import CompletionItem
from msgspec import Struct

from je_tools.commands._opening import open_log
from je_tools.commands._options import A_PATH, exit_zero_option, format_option
from je_tools.commands._progress import staged_bar
from je_tools.commands._terminal import say
from je_tools.core.escaping import printable
from je_tools.core.masking import DataMode, Masking
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, InputError, UsageError

if TYPE_CHECKING:
    from je_tools.explain.place_names import StorePlace
    from je_tools.explain.recognition import Recognition

LOOKED_UP_MAX = 8
"""Largest number of places of one text that are looked up: each costs a read of its file."""


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
    metavar="[TOPIC|LSN|PLACE|TEXT]...",
    nargs=-1,
    shell_complete=_complete_topic,
)
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    type=A_PATH,
    help="Log of the application or the engine whose messages to explain; - is standard input. Can "
    "be repeated.",
)
@click.option(
    "--env",
    "paths",
    multiple=True,
    metavar="ENV_DIR|FILE",
    type=A_PATH,
    help="Environment or log file in which to look up an LSN, or store of Ignite in which to look "
    "up a place. Can be repeated for log files.",
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
    help="How keys and values are shown, and excerpts of messages, which may quote them.",
)
@click.option("--all", "all_bytes", is_flag=True, help="Show every byte of long fields.")
@format_option("table", "jsonl")
@exit_zero_option
def command(
    topics: tuple[str, ...],
    files: tuple[Path, ...],
    paths: tuple[Path, ...],
    version: int | None,
    data: str,
    all_bytes: bool,
    format_: str,
    exit_zero: bool,
) -> int:
    """Explain a message of an engine, an entry type, a code, or one entry byte by byte.

    A topic is type:NAME, exit:CODE, finding:CODE or refusal:CODE. A refusal is a reason why the
    engine would not open a log. A topic without a name after its colon (`type:`, `exit:`,
    `finding:`, `refusal:`) lists all topics of its kind. An entry is given by its LSN, and looked
    up in --env. A damaged entry is explained as far as it is readable, with exit code 3. If no
    entry begins at the LSN, the command shows the entries around it.

    A place in a store of Apache Ignite is a pointer of its log, SEGMENT:OFFSET, or a page,
    GROUP:PAGE, with the 16 hexadecimal digits of its id. The command shows what is there, with exit
    code 3 if it is damaged.

    Any other text is a message that JE, StarRocks, Doris, OpenDJ, Oracle NoSQL, Ignite or another
    application printed. The command shows what it means, what it does not mean, which places it
    names, and what to run next. The places are looked up in --env. If the message is unknown, the
    command shows the nearest known one, with exit code 3.

    \b
    Examples:
      je-tools explain type:NameLN
      je-tools explain type:BIN --version 17
      je-tools explain exit:3
      je-tools explain finding:
      je-tools explain refusal:missing-file
      je-tools explain 0x0/0x26 --env meta/bdb
      je-tools explain 0x0/0x26 --env 00000000.jdb --format jsonl
      je-tools explain 1:380580 3004753:0001000000000008 --env /var/lib/ignite
      je-tools explain "LOG_FILE_NOT_FOUND: Log file missing, log is likely invalid."
      je-tools explain --file fe.log --env meta/bdb
      journalctl -u opendj | je-tools explain -
    """
    from je_tools.explain.requests import requests_of
    from je_tools.output.files.output_file import encoding_of
    from je_tools.output.files.outputs import open_output

    if not topics and not files:
        raise UsageError("name a topic, an LSN, a place or a text, or a file with --file FILE")
    requests = requests_of(topics)
    _check(requests, paths, version)
    unsolved = False
    with open_output(None) as file:
        encoding = encoding_of(file)
        out = io.TextIOWrapper(file, encoding, "backslashreplace", newline="", write_through=True)
        asked = _Asked(out, paths, version, Masking(DataMode(data)), all_bytes, format_ == "jsonl")
        everything: list[str | Path] = [*requests, *files]
        for i, request in enumerate(everything):
            if i and format_ == "table":
                out.write("\n")
            unsolved |= _explain(asked, request)
    return EXIT_DAMAGE if unsolved and not exit_zero else EXIT_OK


class _Asked(Struct, frozen=True):
    """Options of the command, and the stream of its results."""

    out: TextIO
    paths: tuple[Path, ...]
    version: int | None
    masking: Masking
    all_bytes: bool
    as_lines: bool


def _check(requests: Sequence[str], paths: tuple[Path, ...], version: int | None) -> None:
    """Refuse wrong combinations before anything is printed."""
    from je_tools.explain import topics as explain
    from je_tools.explain.place_names import parse_store_place
    from je_tools.explain.requests import is_message

    places = {each: parse_store_place(each) for each in requests}
    for name, place in places.items():
        if place is not None and place.pointer is not None and not paths:
            raise UsageError(f"{name}: a pointer needs a store of Ignite: name it with --env")
    named = [each for each in requests if not is_message(each) and places[each] is None]
    found = {each: explain.topic_of(each) for each in named}
    for topic, kind_and_name in found.items():
        if kind_and_name is None and not paths:
            raise UsageError(f"{topic}: an LSN needs a log: name it with --env ENV_DIR")
    kinds = {kind_and_name[0] for kind_and_name in found.values() if kind_and_name is not None}
    if version is not None and "type" not in kinds:
        raise UsageError("--version needs type:NAME: an entry has the version of its file")


def _explain(asked: _Asked, request: str | Path) -> bool:
    """Explain one request; return True if it is a damaged entry or an unknown message."""
    from je_tools.explain import topics as explain
    from je_tools.explain.place_names import parse_store_place
    from je_tools.explain.requests import is_message
    from je_tools.output.views import explanations as sink

    if isinstance(request, Path) or is_message(request):
        return _explain_message(asked, request)
    place = parse_store_place(request)
    if place is not None:
        return _explain_store_place(asked, place)
    out, as_lines = asked.out, asked.as_lines
    console = sink.make_console(out)
    found = explain.topic_of(request)
    if found is None:
        return _explain_entry(asked, request)
    kind, name = found
    if kind == "type":
        types = explain.explain_types(name, asked.version)
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


def _explain_entry(asked: _Asked, lsn: str) -> bool:
    """Explain the entry at an LSN, and return True if it is damaged."""
    from je_tools.explain.entry import explain_lsn
    from je_tools.output.views import explanations as sink

    with staged_bar(0, "explain"):
        environment = open_log(asked.paths)
        entry = explain_lsn(environment, lsn, asked.masking)
    if asked.as_lines:
        asked.out.writelines(map(sink.json_line, sink.entry_rows(entry)))
    else:
        sink.print_entry(sink.make_console(asked.out), entry, all_bytes=asked.all_bytes)
    return bool(entry.problems)


def _explain_store_place(asked: _Asked, place: StorePlace) -> bool:
    """Explain a place in a store of Ignite, and return True if it is damaged.

    Raises:
        InputError: `--env` is no store, or a file of it cannot be read.
    """
    from je_tools.commands._ignite import thread_count
    from je_tools.explain.store_places import explain_store_place, page_facts
    from je_tools.ignite.store import open_store
    from je_tools.output.views.place_facts import place_row, print_place

    if asked.paths:
        with staged_bar(0, "explain"):
            store = open_store(asked.paths)
            found = list(explain_store_place(place, store, asked.masking, thread_count(0)))
    else:
        found = [page_facts(place)]
    if asked.as_lines:
        from je_tools.output.views.explanations import json_line

        asked.out.writelines(json_line(place_row(each)) for each in found)
    else:
        print_place(asked.out, found)
    return any(each.is_damaged for each in found)


def _explain_message(asked: _Asked, source: str | Path) -> bool:
    """Explain a text, or the messages of a file; return True if none is known or one is damaged.

    Raises:
        InputError: the file cannot be read, or `--env` is no log.
    """
    from je_tools.output.views import explanations as sink
    from je_tools.output.views import recognised_messages as messages

    found = _recognised(source)
    env = str(asked.paths[0]) if asked.paths else None
    if asked.as_lines:
        asked.out.writelines(
            map(sink.json_line, messages.recognition_rows(found, env, asked.masking))
        )
    else:
        console = sink.make_console(asked.out)
        messages.print_recognition(console, found, env, asked.masking)
    places = [each.place for each in found.places]
    lsns = [place.text for place in places if place.lsn is not None]
    is_damaged = bool(asked.paths and lsns) and _look_up(asked, lsns)
    in_stores = [place.text for place in places if place.pointer or place.page]
    if asked.paths and in_stores:
        is_damaged |= _look_up_in_store(asked, in_stores)
    return is_damaged or not found.sightings


def _recognised(source: str | Path) -> Recognition:
    from je_tools.explain.recognition import recognise, recognise_text
    from je_tools.explain.requests import STANDARD_INPUT

    if str(source) == STANDARD_INPUT:
        # A process that is started without standard input has no stream.
        return recognise(sys.stdin.buffer if sys.stdin else io.BytesIO())
    if isinstance(source, str):
        return recognise_text(source)
    try:
        with source.open("rb") as file, staged_bar(0, "explain"):
            return recognise(file)
    except OSError as error:
        raise InputError(f"{source}: {error.strerror}") from error


def _look_up_in_store(asked: _Asked, places: Sequence[str]) -> bool:
    """Explain the first places that a message of Ignite names; return True if one is damaged."""
    from je_tools.explain.place_names import parse_store_place

    is_damaged = False
    for place in map(parse_store_place, places[:LOOKED_UP_MAX]):
        if place is not None:
            if not asked.as_lines:
                asked.out.write("\n")
            is_damaged |= _explain_store_place(asked, place)
    if len(places) > LOOKED_UP_MAX:
        say(f"only the first {LOOKED_UP_MAX} places are looked up")
    return is_damaged


def _look_up(asked: _Asked, lsns: Sequence[str]) -> bool:
    """Explain the first entries that a message names, and return True if one is damaged."""
    from je_tools.output.views import explanations as sink

    environment = open_log(asked.paths)
    is_damaged = False
    for lsn in lsns[:LOOKED_UP_MAX]:
        if not asked.as_lines:
            asked.out.write("\n")
        try:
            is_damaged |= _explain_entry(asked, lsn)
        except InputError as error:
            if asked.as_lines:
                row = {"lsn": lsn, "part": "problem", "text": printable(str(error))}
                asked.out.write(sink.json_line(row))
            else:
                sink.print_trimmed(sink.make_console(asked.out), printable(str(error)))
    if len(lsns) > LOOKED_UP_MAX:
        say(f"only the first {LOOKED_UP_MAX} places are looked up in {environment.name}")
    return is_damaged
