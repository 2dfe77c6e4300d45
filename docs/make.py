"""Generated text of the documentation pages: `python docs/make.py` (`--check`: only compare).

A page has several kinds of generated text. Between `<!-- made: NAME -->` and `<!-- end -->` is the
table of that name, built from the declarations that the code itself uses. In a ```console block,
bash runs each line that begins with `$ `, in a temporary directory with a link to `fixtures`, and
the output follows (both streams; an exit code other than 0 is shown). A ```sql block is a query
that DuckDB then runs in that directory; its answer is the ```text block that follows.
The output of a ```python block is the ```text block after it. tests/spark/test_pages.py runs those
that share a Spark session, tests/je_tools/api/test_page.py those of docs/python.md; both rewrite
them with --rewrite-golden.
tests/test_docs.py compares the pages with what this generates.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

from je_tools import findings
from je_tools.audit.tables import TABLES
from je_tools.commands.main import COMMANDS, group
from je_tools.errors import EXIT_MEANINGS
from je_tools.explain.group_messages import GROUP_MESSAGES
from je_tools.explain.ignite_messages import IGNITE_MESSAGES
from je_tools.explain.journal_messages import JOURNAL_MESSAGES
from je_tools.explain.log_messages import LOG_MESSAGES
from je_tools.explain.topics import layout_versions
from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.layout import Coding, Field, layout
from je_tools.formats.je.types import (
    ENTRY_TYPES,
    LOG_VERSION_MAX,
    PAYLOAD_VERSION_MIN,
    RELEASES,
    EntryType,
    Family,
    Group,
)
from je_tools.log.field_descriptions import (
    CODING_MEANINGS,
    CODINGS,
    HEADER_FIELDS,
    bits_of,
    condition_text,
    field_meaning,
)
from je_tools.spark.entry_options import ENTRIES
from je_tools.spark.findings import FINDING_ROWS
from je_tools.spark.ignite_pages import PAGES
from je_tools.spark.ignite_records import WAL_RECORDS
from je_tools.spark.records import RECORDS
from je_tools.spark.vlsns import VLSNS

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 80

_MADE = re.compile(
    r"^(?P<indent> *)<!-- made: (?P<name>\S+) -->\n.*?^ *<!-- end -->$", re.DOTALL | re.MULTILINE
)
_CONSOLE = re.compile(r"(```console\n)(.*?)(```)", re.DOTALL)
_QUERY = re.compile(r"(```sql\n(.*?)```\n+```text\n)(.*?)(```)", re.DOTALL)
_KNOWN_BEFORE_V6 = (Family.FILE_HEADER, Family.LN)
_DATABASE_GROUPS = ("database", "id_database", "name_database")


def pages() -> list[Path]:
    """Return every page that may have generated text."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def made(text: str, programs: Path = Path(sys.executable).parent) -> str:
    """Return a page with its generated text up to date; examples run the programs of a folder."""
    text = _MADE.sub(_block, text)
    if not _CONSOLE.search(text):
        return text
    with tempfile.TemporaryDirectory(prefix="je-tools-docs-") as folder:
        (Path(folder) / "fixtures").symlink_to(ROOT / "fixtures")
        text = _CONSOLE.sub(
            lambda found: found[1] + "".join(_runs(found[2], Path(folder), programs)) + found[3],
            text,
        )
        return _QUERY.sub(lambda found: found[1] + answer(found[2], Path(folder)) + found[4], text)


def commands_in(text: str) -> list[str]:
    """Return the commands in the console blocks of a page."""
    return [
        line.removeprefix("$ ")
        for found in _CONSOLE.finditer(text)
        for line in found[2].splitlines()
        if line.startswith("$ ")
    ]


def _runs(block_text: str, folder: Path, programs: Path) -> Iterator[str]:
    for line in block_text.splitlines():
        if line.startswith("$ "):
            yield f"{line}\n{_output(line.removeprefix('$ '), folder, programs)}"


def _output(command: str, folder: Path, programs: Path) -> str:
    kept = ("HOME", "JAVA_HOME", "XDG_CACHE_HOME")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    # So that output does not depend on the machine, such as the order of `ls`.
    environment |= {"COLUMNS": str(WIDTH), "TERM": "dumb", "PYTHONUTF8": "1", "LC_ALL": "C"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    end = f"(exit code {done.returncode})\n" if done.returncode else ""
    return done.stdout + end


def answer(query: str, folder: Path) -> str:
    """Return DuckDB's answer to a query about the Parquet files of a directory, in columns."""
    import duckdb

    with duckdb.connect() as database:
        database.execute(f"SET file_search_path = '{folder}'")
        asked = database.sql(query)
        names, kinds = asked.columns, asked.types
        rows = [["-" if cell is None else str(cell) for cell in row] for row in asked.fetchall()]
    columns = list(zip(names, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in zip(*columns, strict=True):
        cells = (
            cell.rjust(width) if str(kind) in _NUMBERS else cell.ljust(width)
            for cell, width, kind in zip(row, widths, kinds, strict=True)
        )
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)


_NUMBERS = ("BIGINT", "HUGEINT", "DOUBLE")


def _block(found: re.Match[str]) -> str:
    """Return a generated block of a page, indented as its first line, as in an item of a list."""
    name = found["name"]
    text = f"<!-- made: {name} -->\n{block(name)}<!-- end -->"
    return textwrap.indent(text, found["indent"])


def block(name: str) -> str:
    """Return a table by its name: `KIND` or `KIND:OF-WHAT`."""
    kind, _, what = name.partition(":")
    return _BLOCKS[kind](what)


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _commands(folder: str) -> str:
    rows = [(f"[`{name}`]({folder}commands/{name}.md)", text) for name, text in COMMANDS.items()]
    return table(("command", "what it does"), rows)


def _options(name: str) -> str:
    context = click.Context(group, info_name="je-tools")
    command: click.Command | None = group
    for word in name.split("."):
        assert isinstance(command, click.Group), name
        command = command.get_command(context, word)
    if command is None:
        raise KeyError(name)
    rows = []
    for parameter in reversed(command.params):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            names = ", ".join(f"`{each}`" for each in (*parameter.opts, *parameter.secondary_opts))
            rows.append((names, _takes(parameter), parameter.help or ""))
    return table(("option", "takes", "what it does"), sorted(rows))


def _takes(option: click.Option) -> str:
    if option.is_flag:
        return ""
    choices = getattr(option.type, "choices", None)
    text = ", ".join(f"`{each}`" for each in choices) if choices else _type_text(option)
    if isinstance(option.default, str | int) and option.show_default:
        text += f"; otherwise `{option.default}`"
    return text + ("; several times" if option.multiple else "")


def _type_text(option: click.Option) -> str:
    metavar = option.metavar or option.type.name
    return metavar.lower().removesuffix(" range").replace("integer", "number")


def _formats(_: str) -> str:
    """Return which command has which `--format`: commands with the same ones share a row."""
    commands: dict[tuple[str, ...], list[str]] = {}
    for name in COMMANDS:
        found = group.get_command(click.Context(group), name)
        assert found is not None
        for words, command in _verbs(name, found):
            for option in command.params:
                if "--format" in option.opts:
                    choices = tuple(getattr(option.type, "choices", ()))
                    commands.setdefault(choices, []).append(f"`{words}`")
    rows = [
        (", ".join(names), ", ".join(f"`{each}`" for each in choices))
        for choices, names in commands.items()
    ]
    return table(("commands", "`--format`"), rows)


def _verbs(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield a command, or those of a group, with the words that run each."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    context = click.Context(command)
    for verb in command.list_commands(context):
        below = command.get_command(context, verb)
        assert below is not None
        yield from _verbs(f"{words} {verb}", below)


def _exit_codes(_: str) -> str:
    rows = [(str(code), meaning) for code, meaning in EXIT_MEANINGS.items()]
    return table(("exit code", "meaning"), rows)


def _findings(_: str) -> str:
    rows = [
        (f"`{code.name}`", code.severity.value, code.meaning, code.hint)
        for code in findings.CODES.values()
    ]
    return table(("code", "severity", "what was seen", "what to do"), rows)


def _messages(kind: str) -> str:
    """Return the messages of one kind, a section each."""
    tables = {
        "log": LOG_MESSAGES,
        "group": GROUP_MESSAGES,
        "journal": JOURNAL_MESSAGES,
        "ignite": IGNITE_MESSAGES,
    }
    texts = []
    for case in sorted(tables[kind], key=lambda case: case.name):
        sample = "\n".join(textwrap.wrap(case.sample, WIDTH))
        phrases = ", ".join(f"`{phrase}`" for phrase in case.phrases)
        also = "".join(f", with `{phrase}` in the same log entry" for phrase in case.also)
        steps = [(f"`je-tools {step.command}`", step.why) for step in case.steps]
        texts.append(
            f"### {case.name}\n\n{case.title}:\n\n```text\n{sample}\n```\n\n"
            f"{case.meaning}\n\n{case.misread}\n\n{table(('run', 'it'), steps)}\n"
            f"Recognised by: {phrases}{also}.\n\nSource: {'; '.join(case.sources)}.\n"
        )
    return "\n".join(texts)


def _tables(_: str) -> str:
    """Return the tables of an audit, one after the other."""
    texts = []
    for one in TABLES:
        rows = [(f"`{column.name}`", f"`{column.type}`", column.text) for column in one.columns]
        texts.append(
            f"### {one.name}\n\n{one.text}\n\n{table(('column', 'type', 'what it is'), rows)}"
        )
    return "\n".join(texts)


def _types(_: str) -> str:
    rows = []
    for entry_type in ENTRY_TYPES.values():
        marks = [
            *(["Tx"] if entry_type.transactional else []),
            *sorted(group.value for group in entry_type.groups),
        ]
        rows.append(
            (
                str(entry_type.no),
                entry_type.name,
                _range(entry_type.first_version, entry_type.last_version),
                ", ".join(marks),
                entry_type.meaning,
            )
        )
    return table(("no", "name", "versions", "", "what it is"), rows)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def _groups(_: str) -> str:
    rows = []
    for group_ in Group:
        names = [t.name for t in ENTRY_TYPES.values() if group_ in t.groups]
        rows.append((f"`{group_.value}`", ", ".join(names)))
    return table(("group", "entry types"), rows)


def _releases(_: str) -> str:
    rows = [(str(version), release) for version, release in RELEASES.items()]
    return table(("log version", "first JE release"), rows)


def _codings(_: str) -> str:
    rows = [(name, CODING_MEANINGS[coding]) for coding, name in CODINGS.items()]
    return table(("coding", "bytes"), rows)


def _header(_: str) -> str:
    sizes = {"checksum": 4, "type": 1, "flags": 1, "prev_offset": 4, "item_size": 4, "vlsn": 8}
    kinds = {1: "u8", 4: "u32", 8: "i64"}
    rows, at = [], 0
    for name, size in sizes.items():
        kind = "i32" if name == "item_size" else kinds[size]
        rows.append((str(at), str(size), kind, name, HEADER_FIELDS[name]))
        at += size
    return table(("offset", "size", "type", "field", "what it is"), rows)


def _header_flags(_: str) -> str:
    return table(
        ("bit", "meaning"), [(f"0x{bit:02x}", text) for bit, text in HeaderFlag.texts().items()]
    )


def _fields(_: str) -> str:
    meanings: dict[str, dict[str, list[str]]] = {}

    def collect(fields: Sequence[Field], family: Family) -> None:
        for declared in fields:
            meaning = field_meaning(declared.name, family)
            families = meanings.setdefault(declared.name, {}).setdefault(meaning, [])
            if family.value not in families:
                families.append(family.value)
            collect(declared.fields, family)

    for entry_type in ENTRY_TYPES.values():
        for version in range(1, LOG_VERSION_MAX + 1):
            if entry_type.first_version <= version <= entry_type.last_version:
                collect(layout(entry_type.no, version), entry_type.family)
    rows = [
        (f"`{name}`", ", ".join(families), meaning)
        for name in sorted(meanings)
        for meaning, families in meanings[name].items()
    ]
    return table(("field", "families", "what it is"), rows)


def _bits(name: str) -> str:
    family, _, field = name.partition(".")
    bits = bits_of(Family(family), field)
    if bits is None:
        raise KeyError(name)
    return table(("bit", "meaning"), [(f"0x{bit:02x}", text) for bit, text in bits.items()])


def _layouts(name: str) -> str:
    """Return the layouts of one family, a table for each range of versions that share it."""
    family = Family(name)
    stretches: list[tuple[int, int, list[tuple[str, str, str, str]]]] = []
    for version in range(1, LOG_VERSION_MAX + 1):
        types = [
            entry_type
            for entry_type in ENTRY_TYPES.values()
            if entry_type.family is family
            and entry_type.first_version <= version <= entry_type.last_version
        ]
        if not types or (version < PAYLOAD_VERSION_MIN and family not in _KNOWN_BEFORE_V6):
            continue
        rows = [row for field in _merged(types, version) for row in _rows(field, types, version)]
        if stretches and stretches[-1][2] == rows:
            stretches[-1] = (stretches[-1][0], version, rows)
        else:
            stretches.append((version, version, rows))
    texts = []
    for first, last, rows in reversed(stretches):
        title = f"Log version {_range(first, last)}:\n\n"
        texts.append(title + table(("field", "coding", "only if", "only of"), rows))
    return "\n".join(texts)


def _merged(types: Sequence[EntryType], version: int) -> list[Field]:
    """Return the fields of several types in an order that is valid for each of them."""
    result: list[Field] = []
    for entry_type in types:
        at = 0
        for declared in layout(entry_type.no, version):
            if declared in result[at:]:
                at = result.index(declared, at) + 1
            else:
                result.insert(at, declared)
                at += 1
    return result


def _rows(
    declared: Field, types: Sequence[EntryType], version: int, depth: int = 0
) -> Iterator[tuple[str, str, str, str]]:
    coding = CODINGS[declared.coding]
    if declared.coding is Coding.LIST:
        coding = f"list of {declared.count}"
    is_database = declared.name in _DATABASE_GROUPS
    if is_database:
        coding = "database record"
    having = [t for t in types if depth or declared in layout(t.no, version)]
    when = condition_text(declared.when, types[0].family)
    name = "· " * depth + declared.name
    yield name, coding, when, _only_of(having, types)
    if not is_database:
        for inner in declared.fields:
            yield from _rows(inner, types, version, depth + 1)


def _only_of(having: Sequence[EntryType], types: Sequence[EntryType]) -> str:
    if len(having) == len(types):
        return ""
    if having == [t for t in types if t.transactional]:
        return "transactional types"
    if having == [t for t in types if not t.transactional]:
        return "other types"
    return ", ".join(t.name for t in having)


def _database(_: str) -> str:
    """Return the database record that MapLN and DbTree contain."""
    map_ln = next(t for t in ENTRY_TYPES.values() if t.name == "MapLN")
    texts = []
    ends = [*layout_versions(map_ln)[1:], LOG_VERSION_MAX + 1]
    seen: list[tuple[int, int, list[tuple[str, str, str, str]]]] = []
    for first, behind in zip(layout_versions(map_ln), ends, strict=True):
        if first < PAYLOAD_VERSION_MIN:
            continue
        record = next(f for f in layout(map_ln.no, first) if f.name == "database")
        rows = [row for field in record.fields for row in _rows(field, [map_ln], first, 0)]
        rows = [(name, coding, when, "") for name, coding, when, _ in rows]
        if seen and seen[-1][2] == rows:
            seen[-1] = (seen[-1][0], behind - 1, rows)
        else:
            seen.append((first, behind - 1, rows))
    for first, last, rows in reversed(seen):
        cells = [row[:3] for row in rows]
        title = f"Log version {_range(first, last)}:\n\n"
        texts.append(title + table(("field", "coding", "only if"), cells))
    return "\n".join(texts)


def _spark_options(argument: str) -> str:
    relation = next(each for each in _SPARK if each.name == argument)
    rows = [(f"`{name}`", text) for name, text in relation.options.items()]
    return table(("option", "what it does"), rows)


_SPARK = (ENTRIES, RECORDS, FINDING_ROWS, VLSNS, WAL_RECORDS, PAGES)


_BLOCKS: dict[str, Callable[[str], str]] = {
    "commands": _commands,
    "options": _options,
    "formats": _formats,
    "exit-codes": _exit_codes,
    "findings": _findings,
    "messages": _messages,
    "tables": _tables,
    "types": _types,
    "groups": _groups,
    "releases": _releases,
    "codings": _codings,
    "header": _header,
    "header-flags": _header_flags,
    "fields": _fields,
    "bits": _bits,
    "layouts": _layouts,
    "database": _database,
    "spark-options": _spark_options,
}


def main() -> int:
    """Rewrite the pages, or with `--check` report those that are out of date."""
    check = "--check" in sys.argv[1:]
    stale = 0
    for page in pages():
        old = page.read_text(encoding="utf-8")
        new = made(old)
        if new == old:
            continue
        stale += 1
        if check:
            name = str(page.relative_to(ROOT))
            lines = (old.splitlines(keepends=True), new.splitlines(keepends=True))
            sys.stdout.writelines(difflib.unified_diff(*lines, name, f"{name}, made"))
        else:
            page.write_text(new, encoding="utf-8")
            print(f"made {page.relative_to(ROOT)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
