"""Results of an audit as JUnit's XML, for dashboards of continuous integration.

An environment is a test case. It fails if the audit fails because of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import TYPE_CHECKING
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

from je_tools.core.escaping import clean_text, printable
from je_tools.pages.shown import distinct

if TYPE_CHECKING:
    from je_tools.audit.allowed import FailureRules
    from je_tools.audit.environment_list import EnvironmentRow
    from je_tools.audit.fleet import FleetSummary


def junit_text(summary: FleetSummary, rules: FailureRules) -> Iterator[str]:
    """Yield the document in pieces, one for each environment."""
    names = distinct(printable(clean_text(row.env)) for row in summary.environments)
    failures = sum(bool(rules.failing(row)) for row in summary.environments)
    seconds = f"{summary.run.duration_ms / 1000:.3f}"
    counts = {"tests": str(len(summary.environments)), "failures": str(failures)}
    text = _Text()
    text.start("testsuites", {**counts, "time": seconds})
    text.start("testsuite", {"name": "je-tools audit", **counts, "time": seconds})
    for name, row in zip(names, summary.environments, strict=True):
        _add(text, name, row, rules)
        yield text.pop()
    text.end("testsuite")
    text.end("testsuites")
    yield text.pop()


def _add(text: _Text, name: str, row: EnvironmentRow, rules: FailureRules) -> None:
    text.start("testcase", {"classname": "environment", "name": name})
    failing = rules.failing(row)
    if failing:
        codes = ", ".join(f"{each.code} {each.count:,}" for each in failing)
        text.start("failure", {"type": failing[0].code, "message": codes})
        text.add("".join(f"{each.severity}: {each.code} {each.count:,}\n" for each in row.findings))
        text.end("failure")
    text.end("testcase")


class _Text:
    """XML text, which is returned and forgotten piece by piece."""

    def __init__(self) -> None:
        self._out = StringIO()
        self._writer = XMLGenerator(self._out, "utf-8", short_empty_elements=True)
        self._writer.startDocument()

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._writer.startElement(name, AttributesImpl(attributes))

    def add(self, text: str) -> None:
        self._writer.characters(text)

    def end(self, name: str) -> None:
        self._writer.endElement(name)

    def pop(self) -> str:
        text = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        return text
