"""Replicated entries, records of the VLSN index and database names agree with engine tools.

These tests cover only type and place of the index's records; the tests of the index judge their
content.
"""

from __future__ import annotations

import re
from typing import Any

from tests.corpus import Environment
from tests.engine_truth.running import json_rows
from tests.engine_truth.selected import over, with_truth

_STREAM, _INDEX, _DATABASES = "streamverify.txt", "vlsnindex.txt", "databases.txt"
_ENDS = re.compile(
    r"Replication stream: check that vlsns ascend\n"
    r"first VLSN = ([\d,]+) at lsn (\S+)\nLastVLSN = ([\d,]+) at (\S+)\n"
)
_RECORD = re.compile(r"LSN=(\S+) (?:key=(\d+) <VLSNBucket .*/>|(range): .*)")
_INDEX_DATABASE = "_jeVlsnMapDb"
_RANGE_KEY = -1


def lines_of(env: Environment, name: str) -> list[str]:
    """Return the lines of a file of an environment's truth."""
    assert env.truth is not None
    return (env.truth / name).read_text(encoding="utf-8").splitlines()


def rows_of(env: Environment, *arguments: str) -> list[dict[str, Any]]:
    """Return entries of the dump."""
    code, rows = json_rows("dump", env.home, *arguments)
    assert code == 0
    return list(rows)


def number(text: str) -> int:
    """Parse a number with or without commas."""
    return int(text.replace(",", ""))


def signed_key(key: str) -> int:
    """Decode a key of the engine's binding for long numbers, which inverts the sign bit."""
    assert len(key) == 16
    return int(key, 16) - (1 << 63)


@over(with_truth(_STREAM))
def test_ends_of_the_stream(env: Environment) -> None:
    """Compare the first and last replicated entry; entries made invisible do not count."""
    said = _ENDS.match("\n".join(lines_of(env, _STREAM)))
    assert said
    rows = [row for row in rows_of(env, "--replicated") if not row["invisible"]]
    vlsns = [row["vlsn"] for row in rows]
    assert vlsns == sorted(set(vlsns))
    ends = [(rows[at]["vlsn"], rows[at]["lsn"]) for at in (0, -1)]
    assert ends == [(number(said[1]), said[2]), (number(said[3]), said[4])]


@over(with_truth(_INDEX))
def test_records_of_the_index(env: Environment) -> None:
    lines = lines_of(env, _INDEX)
    first = lines.index("Dump VLSNIndex LNs") + 1
    said = []
    for line in lines[first:]:
        match = _RECORD.fullmatch(line)
        assert match, f"not understood: {line}"
        said.append((match[1], _RANGE_KEY if match[3] else int(match[2])))
    rows = rows_of(env, "--db", _INDEX_DATABASE, "--type", "LN")
    assert [(row["lsn"], signed_key(row["key"])) for row in rows] == said


@over(with_truth(_DATABASES))
def test_names_of_databases(env: Environment) -> None:
    """Every database that the engine lists is known by name, except those without entries."""
    _, rows = json_rows("summary", env.home, "--by-db")
    known = {row["db"] for row in rows if row["section"] == "database"}
    assert set(lines_of(env, _DATABASES)) <= known
