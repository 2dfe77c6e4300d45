"""`doctor` does not contradict the commands whose answers it combines."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tests.corpus import Environment
from tests.je_tools.dumped import Done, Row, je_tools, rows_of

PARTS = ("verify", "recover", "missing")
FRONT_ENDS = "starrocks-fe"


def place(row: Row) -> tuple[Any, ...]:
    return row["code"], row["file_no"], row["offset"]


@cache
def doctor(home: Path, *options: str) -> Done:
    return je_tools("doctor", home, "--format", "jsonl", *options)


def test_the_commands_say_the_same(some_environment: Environment) -> None:
    done = doctor(some_environment.home)
    rows = rows_of(done.out)
    assert done.err == ""
    names = (*PARTS, "journal") if some_environment.name.startswith(FRONT_ENDS) else PARTS
    parts = {name: je_tools(name, some_environment.home, "--format", "jsonl") for name in names}
    is_bad = any(part.code in (3, 4) for part in parts.values())
    assert done.code == (3 if is_bad else 0)
    found = [row for row in rows if row["section"] == "findings"]
    assert {place(row) for row in rows_of(parts["verify"].out)} <= set(map(place, found))
    assert len(set(map(str, found))) == len(found)
    recovery = next(row for row in rows_of(parts["recover"].out) if row["section"] == "recovery")
    (opening,) = (row for row in rows if row["section"] == "opening")
    shared = opening.keys() & recovery.keys() - {"section"}
    assert len(shared) == 10
    assert {name: opening[name] for name in shared} == {name: recovery[name] for name in shared}
    losses = [row for row in rows if row["section"] == "loss"]
    assert losses == [row for row in rows_of(parts["recover"].out) if row["section"] == "loss"]
    lost = [row for row in rows if row["section"] == "database"]
    assert lost == [row for row in rows_of(parts["missing"].out) if row["section"] == "database"]
    verdict = rows[0]
    assert verdict["section"] == "verdict"
    assert verdict["is_damaged"] == is_bad
    if not is_bad:
        assert verdict["outcome"] == "opens"
        assert "no loss found" in verdict["verdict"]


def test_the_trees_are_said_to_be_checked_only_if_they_are(some_environment: Environment) -> None:
    verdicts, codes = [], []
    for options in ((), ("--tree",)):
        rows = rows_of(doctor(some_environment.home, *options).out)
        verdicts.append(rows[0]["verdict"])
        codes.append({place(row) for row in rows if row["section"] == "findings"})
    assert "B-trees" in verdicts[0]
    assert "B-trees" not in verdicts[1]
    home = some_environment.home
    verified = rows_of(je_tools("verify", home, "--tree", "--format", "jsonl").out)
    assert {place(row) for row in verified} <= codes[1]
    assert codes[0] <= codes[1]
