"""The message table: every case is recognised by its sample, and its commands exist."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import click
import pytest

from je_tools.commands._options import CONTEXT
from je_tools.commands.main import COMMANDS, group, run
from je_tools.explain.message_case import Case
from je_tools.explain.messages import MESSAGES
from je_tools.explain.recognition import nearest_case, recognise_text
from je_tools.output.views.explanations import make_console
from je_tools.output.views.recognised_messages import commands_of, print_recognition
from tests.corpus import FIXTURES

BASIC = FIXTURES / "v17-basic" / "env"
EACH = pytest.mark.parametrize("case", MESSAGES, ids=[case.name for case in MESSAGES])
ASKED = {
    "checksum",
    "file-not-found",
    "integrity",
    "no-space",
    "disk-limit",
    "version-mismatch",
    "environment-locked",
    "insufficient-log",
    "insufficient-log-npe",
    "rollback",
    "rollback-prohibited",
    "replica-write",
    "thread-interrupted",
    "lock-timeout",
    "file-deleted",
    "unexpected-state",
    "out-of-memory",
    "duplicate-node-id",
    "journal-key-not-found",
    "journal-names",
    "vlsn-passed",
}
"""Cases that the table must have, whatever else it has."""


def named(name: str) -> Case:
    return next(case for case in MESSAGES if case.name == name)


def test_the_table_is_complete() -> None:
    names = [case.name for case in MESSAGES]
    assert len(set(names)) == len(names)
    assert set(names) >= ASKED
    assert {name for case in MESSAGES for name in case.replaces} <= set(names)


@EACH
def test_a_sample_is_recognised_as_its_case_alone(case: Case) -> None:
    found = recognise_text(case.sample)
    assert [each.case.name for each in found.sightings] == [case.name]
    assert found.sightings[0].seen.count == 1


@EACH
def test_a_wrapped_sample_is_recognised(case: Case) -> None:
    wrapped = "\n".join(case.sample.split(" "))
    assert [each.case.name for each in recognise_text(wrapped).sightings] == [case.name]


@EACH
def test_each_phrase_announces_the_case(case: Case) -> None:
    for phrase in case.phrases:
        text = " ... ".join((phrase, *case.also))
        assert recognise_text(text).sightings[0].case is case


@EACH
def test_a_case_says_what_it_means_and_where_it_is_from(case: Case) -> None:
    for text in (case.title, case.meaning, case.misread):
        assert text.isprintable()
        assert "  " not in text
    assert case.meaning.endswith(".")
    assert case.misread.endswith(".")
    assert case.steps
    assert all(source.isprintable() for source in case.sources)
    # A source is a class of a release, a report, or a page.
    known = re.compile(r"JE \d|Ignite 2\.\d|\w+/\w+#\d+|apache/doris|StarRocks")
    assert all(known.search(source) for source in case.sources)


@EACH
def test_the_commands_of_a_case_exist(case: Case, tmp_path: Path) -> None:
    values = {
        "ENV": str(BASIC),
        "LSN": "0x0/0x26",
        "VLSN": "5",
        "POINTER": "1:29",
        "PAGE": "5:0001000000000008",
        "DIRECTORY": str(tmp_path / "new"),
    }
    for step in case.steps:
        words = [values.get(word, word) for word in step.command.split()]
        assert words[0] in COMMANDS
        assert not any(word.isupper() and word.isalpha() for word in words[1:] if word != "TXN")
        # click keeps the help option of the first context in the command itself.
        parent = click.Context(group, **CONTEXT)
        command = group.get_command(parent, words[0])
        while isinstance(command, click.Group):
            verbs = command.list_commands(parent)
            words = words[1:] if words[1] in verbs else ["show", *words[1:]]
            command = command.get_command(parent, words[0])
        assert command is not None
        context = command.make_context(words[0], words[1:], parent=parent)
        assert not context.args
        assert "--apply" not in words


def test_commands_take_what_the_text_names() -> None:
    sighting = recognise_text(named("rollback").sample).sightings[0]
    lines = [line for line, _ in commands_of(sighting, "my log")]
    assert lines[0] == "je-tools dump 'my log' --from-lsn 0xfb/0x426cce --type TXN --limit 20"
    sighting = recognise_text(named("vlsn-passed").sample).sightings[0]
    assert [line for line, _ in commands_of(sighting, None)] == [
        "je-tools vlsn check ENV",
        "je-tools vlsn rebuild ENV",
        "je-tools dump ENV --from-vlsn 242587394 --limit 5",
    ]


@EACH
@pytest.mark.parametrize("width", [40, 80])
def test_lines_fit_a_terminal(case: Case, width: int) -> None:
    out = io.StringIO()
    console = make_console(out)
    console.width = width
    print_recognition(console, recognise_text(case.sample), None)
    assert max(map(len, out.getvalue().splitlines())) <= width
    assert case.title.split()[0] in out.getvalue()


@EACH
def test_a_case_is_the_nearest_to_its_own_words(case: Case) -> None:
    assert nearest_case(f"{case.title} {case.sample}") is case


def test_the_nearest_of_no_words_is_none() -> None:
    assert nearest_case("") is None
    assert nearest_case("0x12 7 !") is None


@EACH
def test_a_case_as_a_row(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(group, ["explain", f" {case.sample} ", "--format", "jsonl"]) == 0
    row, *places = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (row["message"], row["count"], row["first_line"]) == (case.name, 1, 1)
    assert row["does_not_mean"] == case.misread
    assert len(row["commands"]) == len(case.steps)
    assert all(place["place"] for place in places)
