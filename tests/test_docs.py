"""The pages are complete and current: commands, options, codes, columns, and executed examples."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from je_tools import findings
from je_tools.audit.tables import TABLES
from je_tools.commands._options import CONTEXT
from je_tools.commands.main import COMMANDS, group, run
from je_tools.errors import EXIT_MEANINGS
from je_tools.explain.messages import MESSAGES
from je_tools.formats.je.types import ENTRY_TYPES
from je_tools.log.field_descriptions import FIELDS
from je_tools.output.encoders.entry_batches import ROW_SCHEMA, UNDECODABLE
from tests.builders.forked import Forked
from tests.corpus import ROOT, environment

MAKE: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "make.py"))
PAGES: list[Path] = MAKE["pages"]()


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def command_named(name: str) -> click.Command:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    return command


@pytest.fixture(scope="module")
def programs(forked: Forked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of programs for the examples."""
    return forked.programs(tmp_path_factory.mktemp("programs"))


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_pages_are_made_from_the_code_and_examples_print_what_they_say(
    page: Path, programs: Path
) -> None:
    """After an intended change, run `python docs/make.py`."""
    text = page.read_text(encoding="utf-8")
    assert MAKE["made"](text, programs) == text


def options_of(command: click.Command) -> list[click.Option]:
    """Return a command's options that its help shows, and those of its subcommands."""
    below = []
    if isinstance(command, click.Group):
        context = click.Context(command)
        names = command.list_commands(context)
        below = [found for name in names if (found := command.get_command(context, name))]
    own = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    return own + [option for each in below for option in options_of(each)]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_its_page(name: str) -> None:
    page = read(f"docs/commands/{name}.md")
    for option in options_of(command_named(name)):
        assert option.help, option.name
        for spelled in option.opts:
            assert f"`{spelled}`" in page, spelled
    assert MAKE["commands_in"](page), "no example"
    for index in ("README.md", "docs/README.md"):
        assert f"commands/{name}.md" in read(index)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_in_its_help(name: str) -> None:
    command = command_named(name)
    text = command.get_help(click.Context(command, info_name=name, **CONTEXT))
    assert re.search(rf"^  Examples:\n    je-tools {name} ", text, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_pages_of_commands_have_the_same_order(name: str) -> None:
    """First an example, then the options, then everything else; verbs have a section each."""
    page, command = read(f"docs/commands/{name}.md"), command_named(name)
    if not isinstance(command, click.Group):
        introduction, _, rest = page.partition("\n## ")
        assert "```console" in introduction
        assert rest.startswith(f"Options\n\n<!-- made: options:{name} -->\n")
        assert "\n## Output\n" in rest
        return
    for verb in verbs_of(command):
        _, _, rest = page.partition(f"<!-- made: options:{name}.{verb} -->\n")
        assert rest, verb
        headings = re.findall(r"^##+ (.+)$", page[: -len(rest)], re.MULTILINE)
        assert headings[-1] in (verb.replace(".", " "), "diff and trend"), verb


def verbs_of(group_: click.Group) -> list[str]:
    """Return the verbs of a group of commands, those of its groups as `GROUP.VERB`."""
    context = click.Context(group_)
    names = []
    for verb in group_.list_commands(context):
        command = group_.get_command(context, verb)
        below = verbs_of(command) if isinstance(command, click.Group) else None
        names += [verb] if below is None else [f"{verb}.{each}" for each in below]
    return names


def test_every_example_of_a_command_is_run() -> None:
    """A line with a prompt is in a block that `docs/make.py` runs."""
    for page in PAGES:
        text = re.sub(r"```console\n.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert re.findall(r"^ *\$ .*", text, re.MULTILINE) == [], page


def test_every_finding_and_exit_code_is_documented() -> None:
    for code in findings.CODES.values():
        assert f"| `{code.name}` | {code.severity.value} |" in read("docs/findings.md")
        assert code.meaning
        assert code.hint
    for exit_code in EXIT_MEANINGS:
        assert f"| {exit_code} |" in read("docs/exit-codes.md")


def test_every_message_is_documented() -> None:
    page = read("docs/messages.md")
    for case in MESSAGES:
        _, _, text = page.partition(f"### {case.name}\n")
        section = text.partition("\n### ")[0]
        assert case.meaning in section
        assert case.misread in section
        assert all(f"`je-tools {step.command}`" in section for step in case.steps)


def test_every_column_is_documented() -> None:
    dump = read("docs/commands/dump.md")
    for name in (*ROW_SCHEMA.names, "entry", UNDECODABLE):
        assert f"`{name}`" in dump, name
    finding = findings.Finding("code", findings.Severity.NOTE, "env")
    for name in finding.row():
        assert f"`{name}`" in read("docs/findings.md"), name
    for name in FIELDS:
        assert f"| `{name}` |" in read("docs/fields.md"), name


def test_every_field_of_a_summary_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    tables = ["--by-file", "--by-db", "--vlsn", "--checkpoints", "--txns"]
    home = environment("v17-crash-txn").home
    assert run(group, ["summary", str(home), *tables, "--format", "jsonl"]) == 0
    page = read("docs/commands/summary.md")
    for line in capsys.readouterr().out.splitlines():
        row = json.loads(line)
        assert f"`{row['section']}`" in page
        assert {name for name in row if f"`{name}`" not in page} == set()


def test_every_column_of_files_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    home = environment("v17-basic").home
    assert run(group, ["files", str(home), "--format", "jsonl"]) == 0
    page = read("docs/commands/files.md")
    row = json.loads(capsys.readouterr().out)
    assert {name for name in row if f"`{name}`" not in page} == set()


def test_every_total_of_verify_is_documented(tmp_path: Path) -> None:
    totals = tmp_path / "totals.json"
    home = environment("v17-basic").home
    assert run(group, ["verify", str(home), "--stats", str(totals)]) == 0
    page = read("docs/commands/verify.md")
    assert {
        name for name in json.loads(totals.read_text(encoding="utf-8")) if f"`{name}`" not in page
    } == set()


def test_every_table_of_an_audit_is_documented() -> None:
    page = read("docs/tables.md")
    for table in TABLES:
        _, _, text = page.partition(f"### {table.name}\n")
        for column in table.columns:
            assert f"| `{column.name}` | `{column.type}` |" in text.partition("### ")[0]
        assert f"`{table.name}/`" in read("docs/commands/audit.md")


def test_every_entry_type_is_documented() -> None:
    page = read("docs/formats/je-log.md")
    for entry_type in ENTRY_TYPES.values():
        assert f"| {entry_type.no} | {entry_type.name} |" in page


@pytest.mark.parametrize(
    ("at", "flip", "lost"),
    [
        (0, 0xFF, 1),
        (4, 0x02, 1),
        (5, 0x08, 1),
        (5, 0x20, 1),
        (5, 0x10, 0),
        (6, 0x01, 1),
        (10, 0x04, 1),
        (13, 0x7F, 1),
        (13, 0x80, 1),
        (20, 0x01, 1),
    ],
)
def test_damage_costs_what_the_format_page_says(
    tmp_path: Path, at: int, flip: int, lost: int
) -> None:
    """A changed byte of a header or an item costs at most the entry that it is in."""
    source = environment("v17-basic").home / "00000000.jdb"
    hurt, totals = tmp_path / "hurt" / source.name, [tmp_path / "a.json", tmp_path / "b.json"]
    hurt.parent.mkdir()
    data = bytearray(source.read_bytes())
    data[0x1E3 + at] ^= flip
    hurt.write_bytes(data)
    for path, told in zip((source, hurt), totals, strict=True):
        run(group, ["verify", str(path), "--stats", str(told)])
    before, behind = (json.loads(told.read_text(encoding="utf-8")) for told in totals)
    assert behind["entries"] == before["entries"] - lost
    # The invisible flag costs no entry, but it is reported.
    assert behind["errors"] == max(lost, int((at, flip) == (5, 0x10)))


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), (page, target)


def test_modules_that_are_named_exist() -> None:
    pages = [ROOT / "docs" / "glossary.md", *(ROOT / "docs" / "decisions").glob("*.md")]
    named = re.compile(r"`((?:bench|commands|formats|je_tools|tests)/[\w/.-]+)`")
    found = [name for page in pages for name in named.findall(page.read_text(encoding="utf-8"))]
    assert {name for name in found if not (ROOT / name).exists()} == set()
    assert len(found) > 50


def test_headings_that_are_linked_to_exist() -> None:
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text("utf-8")):
            text = (page.parent / target if target else page).read_text(encoding="utf-8")
            headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in headings}
            assert anchor in slugs, (page, anchor)


def test_pages_speak_of_no_machine() -> None:
    place = re.compile(r"/(?:home|root|Users|work)/|https?://(?!.*\$)")
    for page in PAGES:
        assert not place.search(page.read_text(encoding="utf-8")), page


# Shell completion


def complete(shell: str, **variables: str) -> str:
    tool = Path(sys.executable).parent / "je-tools"
    variables |= {"_JE_TOOLS_COMPLETE": shell}
    environment = {**os.environ, **variables}
    done = subprocess.run([tool], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_made(shell: str) -> None:
    assert f"_JE_TOOLS_COMPLETE={shell}_source" in read("README.md")
    script = complete(f"{shell}_source")
    assert f"_JE_TOOLS_COMPLETE={shell}_complete" in script


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("ver", {"verify"}),
        ("dump --form", {"--format"}),
        ("dump --format ", {"table", "jsonl", "csv", "parquet"}),
        ("explain type:NameLN_", {"type:NameLN_TX"}),
        ("explain exit:1", {"exit:1", "exit:130", "exit:143"}),
        # bash treats the colon as a word of its own.
        ("explain type : NameLN_", {"NameLN_TX"}),
    ],
)
def test_words_are_completed(words: str, completed: set[str]) -> None:
    typed = f"je-tools {words}"
    count = str(len(typed.split(" ")) - 1)
    lines = complete("bash_complete", COMP_WORDS=typed, COMP_CWORD=count).splitlines()
    assert {line.partition(",")[2] for line in lines} == completed


def test_zsh_and_fish_complete_a_command() -> None:
    in_zsh = complete("zsh_complete", COMP_WORDS="je-tools ver", COMP_CWORD="1")
    assert "verify" in in_zsh.splitlines()
    in_fish = complete("fish_complete", COMP_WORDS="je-tools ver", COMP_CWORD="ver")
    assert "verify" in in_fish


def test_bash_completes_by_its_script() -> None:
    """Do what the tab key does, in bash itself."""
    program = (
        'eval "$(_JE_TOOLS_COMPLETE=bash_source je-tools)"\n'
        "COMP_WORDS=(je-tools ver) COMP_CWORD=1\n"
        "_je_tools_completion je-tools\n"
        'echo "${COMPREPLY[*]}"\n'
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", program],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "verify\n"


CITED = re.compile(r'je-log\.md ("[^"]+"(?:(?:,| and|, and)\s+"[^"]+")*)')


def sources() -> list[Path]:
    folders = ("formats", "je_tools", "commands", "tests", "bench", "docs", "fixtures/make")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return [path for path in files if not {"build", "__pycache__"} & set(path.parts)]


def test_cited_headings_of_the_format_page_exist() -> None:
    headings = set(re.findall(r"^#+ (.+)$", read("docs/formats/je-log.md"), re.MULTILINE))
    cited = {}
    for path in sources():
        for listed in CITED.findall(path.read_text(encoding="utf-8")):
            cited |= dict.fromkeys(re.findall(r'"([^"]+)"', listed), path)
    assert {name: path for name, path in cited.items() if name not in headings} == {}
    assert {"Entries", "Nodes", "Records"} <= cited.keys()


def test_no_page_is_cited_that_is_not_here() -> None:
    """Section numbers, or other names of the page, would refer to private notes."""
    elsewhere = re.compile(r"je-log" + r"-format|je-log\.md (?!\")|appendix [A-Z]\b")
    own = {Path(__file__).resolve()}
    found = {
        path: elsewhere.findall(path.read_text(encoding="utf-8"))
        for path in sources()
        if path not in own
    }
    assert {path: texts for path, texts in found.items() if texts} == {}
