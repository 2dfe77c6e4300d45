"""A limited dump finds the names that the whole log gives, with less reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.log.name_search import NameSearch
from je_tools.log.names import resolve
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from tests.builders.logs import LogFile, packed, text, write_log
from tests.corpus import Environment, environment, one_of_each_kind
from tests.je_tools.dumped import dump
from tests.je_tools.log.test_names import _parts

NAME_LN = 6


def test_limited_dumps_have_the_names_of_whole_ones(some_environment: Environment) -> None:
    words = (some_environment.home, "--format", "jsonl")
    whole = dump(*words).splitlines()
    for options, lines in (((), whole), (("--backward",), whole[::-1])):
        for most in (1, 7, 150):
            found = dump(*words, *options, "--limit", str(most))
            assert found.splitlines() == lines[:most]


@pytest.mark.parametrize("env", one_of_each_kind())
def test_what_is_found_is_what_all_files_tell(env: Environment) -> None:
    told = resolve(_parts(env.home))
    opened = open_environment([env.home])
    for db_id in told:
        search = NameSearch(opened, Scanner())
        search.look_up_ids({db_id})
        assert search.names[db_id] == told[db_id]


def test_the_last_name_counts_whatever_is_read_after_it(tmp_path: Path) -> None:
    """Files are read from the last one back, and names apply in the order of the log."""
    files = [LogFile()]
    for name in ("first", "second", "third"):
        item = bytes(2) + packed(1) + packed(0) + packed(100) + b"\0" + text(name) + b"\0"
        files[-1].add(NAME_LN, item)
        files.append(files[-1].follower())
    search = NameSearch(open_environment([write_log(tmp_path / "env", files)]), Scanner())
    search.look_up_ids({1_000_000})
    assert search.names[100] == "third"


def test_only_the_last_files_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_environment([environment("v8-cleaned").home])
    read: list[int] = []
    scan = Scanner.scan

    def counted(self: Scanner, some: object, work: object) -> object:
        read.extend(file.file_no for file in some.files)  # type: ignore[attr-defined]
        return scan(self, some, work)  # type: ignore[arg-type]

    monkeypatch.setattr(Scanner, "scan", counted)
    search = NameSearch(opened, Scanner())
    search.look_up_ids({0, 1})
    assert read == []
    search.look_up_ids({1_000_000})
    assert sorted(read) == [file.file_no for file in opened.files]
    search.look_up_ids({2_000_000})
    assert len(read) == len(opened.files)
