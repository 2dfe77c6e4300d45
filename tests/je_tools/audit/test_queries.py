"""DuckDB's answers in the pages on audit tables match what the other commands report.

tests/test_docs.py compares the answers in the pages with DuckDB's current ones.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.corpus import ROOT, environments_in
from tests.je_tools.audit.auditing import files_said, findings_said, summary_said, txns_said

Answer = list[list[str]]

FIXTURES = ROOT / "fixtures"


def answers(page: str) -> list[Answer]:
    """Return the rows of each answer, without column names."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```sql\n.*?```\n+```text\n(.*?)```", text, re.DOTALL)
    return [[line.split() for line in block.splitlines()[1:]] for block in blocks]


@pytest.fixture
def homes(tmp_path: Path) -> dict[str, Path]:
    """Return the environments of docs/commands/audit.md, by the names used there."""
    hurt = tmp_path / "hurt"
    hurt.mkdir()
    data = bytearray((FIXTURES / "v17-basic" / "env" / "00000000.jdb").read_bytes())
    data[500:502] = b"XX"
    (hurt / "00000000.jdb").write_bytes(data)
    named = {"hurt": hurt}
    for each in environments_in(FIXTURES):
        if each.name.split("/")[0] in ("v17-crash-txn", "v26-rep-committed", "v8-basic"):
            named[str(each.home.relative_to(ROOT))] = each.home
    return named


def test_answers_of_the_page_of_the_command(homes: dict[str, Path]) -> None:
    findings, txns, types, files = answers("docs/commands/audit.md")
    found = Counter(row["code"] for home in homes.values() for row in findings_said(home))
    # `doctor` adds this to the findings of `verify`.
    found += Counter({"lost-tail": 1})
    assert {code: int(count) for code, _, count, _ in findings} == found
    assert sorted(txns) == [line for name in sorted(homes) for line in open_txns(name, homes[name])]
    assert types == largest_types(list(homes.values()), 5, with_largest=True)
    assert [[line[0], line[1], *line[-2:]] for line in files] == [
        [name, rows[0]["opened_from"], str(len(rows)), str(sum(row["size"] for row in rows))]
        for name, home in sorted(homes.items())
        for rows in [files_said(home)]
    ]


def test_answers_of_the_tour(homes: dict[str, Path]) -> None:
    homes = {name: home for name, home in homes.items() if "v26" not in name}
    txns, types = answers("README.md")
    found = [line[:-1] for name in sorted(homes) for line in open_txns(name, homes[name])]
    assert sorted(txns) == found
    assert types == largest_types(list(homes.values()), 4, with_largest=False)


def open_txns(name: str, home: Path) -> Answer:
    """Return the transactions without an end, as `summary --txns` reports them."""
    without_end = summary_said(home)["without-end"]
    rows = [row for row in txns_said(home) if row["end_ms"] is None]
    assert [row["txn_id"] for row in without_end] == [row["txn_id"] for row in rows]
    names = ("txn_id", "outcome", "entry_count", "size")
    return [[name, *(str(row[each]) for each in names), str(row["databases"])] for row in rows]


def largest_types(homes: list[Path], count: int, *, with_largest: bool) -> Answer:
    """Return the entry types with the most bytes, as `summary` counts them."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    largest: Counter[str] = Counter()
    for home in homes:
        for row in summary_said(home)["type"]:
            counts[row["name"]] += row["count"]
            sizes[row["name"]] += row["total_bytes"]
            largest[row["name"]] = max(largest[row["name"]], row["max_bytes"])
    return [
        [name, str(counts[name]), str(size), *([str(largest[name])] if with_largest else [])]
        for name, size in sizes.most_common(count)
    ]
