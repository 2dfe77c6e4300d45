"""Findings that are allowed until a day, and JUnit's XML."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import pytest

from je_tools.audit.allowed import Allowed, FailureRules, read_allowed
from je_tools.audit.environment_list import CodeCount, EnvironmentRow
from je_tools.audit.junit import junit_text
from je_tools.errors import InputError, UsageError
from tests.je_tools.audit.auditing import HOSTILE
from tests.je_tools.audit.summaries import summary_of

DAY = date(2026, 11, 23)
ROW = EnvironmentRow(
    {"env": "/fleet/a/env", "severity": "error"},
    (CodeCount("damaged-entry", "error", 2), CodeCount("torn-tail", "note", 1)),
)


@pytest.mark.parametrize(
    ("fail_on", "codes"),
    [
        ((), []),
        (("error",), ["damaged-entry"]),
        (("note",), ["damaged-entry", "torn-tail"]),
        (("torn-tail",), ["torn-tail"]),
        (("vlsn-gap",), []),
    ],
)
def test_what_fails_is_a_severity_or_a_code(fail_on: tuple[str, ...], codes: list[str]) -> None:
    assert [each.code for each in FailureRules(fail_on, (), DAY).failing(ROW)] == codes


@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        (Allowed("damaged-entry", DAY), True),
        (Allowed("damaged-entry", date(2026, 11, 22)), False),
        (Allowed("damaged-entry", DAY, "/fleet/*"), True),
        (Allowed("damaged-entry", DAY, "/fleet/a"), False),
        (Allowed("damaged-entry", DAY, "/Fleet/*"), False),
        (Allowed("torn-tail", DAY), False),
    ],
)
def test_a_finding_is_allowed_until_a_day(entry: Allowed, *, allowed: bool) -> None:
    verdict = FailureRules(("error",), (entry,), DAY)
    assert bool(verdict.failing(ROW)) != allowed
    assert verdict.allowed_count([ROW]) == 2 * allowed
    assert bool(verdict.expired) == (entry.until < DAY)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"allow = 3", "Expected `array`"),
        (b"[[allow]]\ncode = 'torn-tail'\n", "missing required field `until`"),
        (b"[[allow]]\ncode = 'torn-tial'\nuntil = 2027-01-01\n", "did you mean torn-tail?"),
        (b"[[allow]]\ncode = 'torn-tail'\nuntil = 2027-01-01\nenvs = ''\n", "unknown field `envs`"),
        (b"[[allow]", "at line 1"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_file_that_is_not_of_its_form(text: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    path.write_bytes(text)
    with pytest.raises(UsageError, match=words.replace("?", "[?]")):
        read_allowed(path)
    with pytest.raises(InputError):
        read_allowed(tmp_path / "none.toml")


def test_junit_has_a_case_for_each_environment() -> None:
    summary = summary_of({"/fleet/fine": {}, "/fleet/hurt": {"damaged-entry": 2, "torn-tail": 1}})
    root = ElementTree.fromstring("".join(junit_text(summary, FailureRules(("error",), (), DAY))))
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    cases = {case.get("name"): case.find("failure") for case in root.iter("testcase")}
    assert cases["/fleet/fine"] is None
    failure = cases["/fleet/hurt"]
    assert failure is not None
    assert failure.get("message") == "damaged-entry 2"
    assert failure.text == "error: damaged-entry 2\nnote: torn-tail 1\n"


def test_hostile_names_are_well_formed_and_differ() -> None:
    names = [name.decode("utf-8", "surrogateescape") for name in HOSTILE]
    names += ["\x00", "\x1b[2J", "]]>", "&lt;"]
    summary = summary_of({name: {"damaged-entry": 1} for name in names})
    text = "".join(junit_text(summary, FailureRules(("error",), (), DAY)))
    cases = list(ElementTree.fromstring(text.encode()).iter("testcase"))
    assert len({case.get("name") for case in cases}) == len(names)
