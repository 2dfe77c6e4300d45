"""Database names in a log: the engine's own list, renamings, removals and roll-backs."""

from __future__ import annotations

from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from je_tools.formats.je.log import reader
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.types import BY_NAME
from je_tools.log import names
from je_tools.log.names import (
    NamedDatabase,
    NameEvent,
    NamePart,
    NameRecord,
    collect_names,
    names_within,
    resolve,
    resolve_databases,
)
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from tests.builders.logs import LogFile, packed, text, write_log
from tests.corpus import Environment, environment, environments

_LISTED = [e for e in environments() if e.truth and (e.truth / "databases.txt").is_file()]


def _parts(home: Path) -> list[NamePart]:
    scanner = Scanner()
    scanned = scanner.scan(open_environment([home]), partial(collect_names))
    return [part for each in scanned for part in each.results]


@pytest.mark.parametrize("env", _LISTED, ids=lambda env: env.name)
def test_every_database_that_the_engine_lists_is_named(env: Environment) -> None:
    """DbDump -l names the databases that an application may see."""
    assert env.truth is not None
    listed = set((env.truth / "databases.txt").read_text().split("\n")) - {""}
    databases = resolve_databases(_parts(env.home)).values()
    alive = {d.name for d in databases if not d.removed and not d.name.startswith("_je")}
    assert alive == {name for name in listed if not name.startswith("_je")}


@pytest.mark.parametrize("name", ["v8-dbops", "v26-dbops"])
def test_renamed_emptied_and_removed(name: str) -> None:
    """The fixture `dbops` removes `gone`, renames `old-name` and empties `emptied`."""
    databases = resolve_databases(_parts(environment(name).home))
    of: dict[str, list[NamedDatabase]] = {}
    for database in databases.values():
        of.setdefault(database.name, []).append(database)
    (gone,) = of["gone"]
    assert gone.removed
    (renamed,) = of["new-name"]
    assert renamed.names == ["old-name", "new-name"]
    assert not renamed.removed
    assert [d.removed for d in of["emptied"]] == [True, False]


def test_fixed_ids_are_always_named() -> None:
    assert resolve([]) == {0: "_jeIdMap", 1: "_jeNameMap", -1: "_jeBeforeImagesDb"}


def _part(*records: NameRecord, aborted: tuple[int, ...] = ()) -> NamePart:
    return NamePart(records, np.array(aborted, np.int64))


def _record(
    lsn: int,
    event: NameEvent,
    name: str | None,
    *,
    db_id: int = 7,
    txn_id: int | None = None,
    invisible: bool = False,
) -> NameRecord:
    return NameRecord(lsn, db_id, event, name, txn_id, invisible)


def _made() -> NamePart:
    return _part(_record(1, NameEvent.NAMED, "old", txn_id=1))


@pytest.mark.parametrize(
    ("later", "name", "removed"),
    [
        ([_part(_record(2, NameEvent.NAMED, "new", txn_id=2))], "new", False),
        ([_part(_record(2, NameEvent.NAMED, "new", txn_id=2), aborted=(2,))], "old", False),
        (
            [_part(_record(2, NameEvent.NAMED, "new", txn_id=2)), _part(aborted=(9, 2))],
            "old",
            False,
        ),
        ([_part(_record(2, NameEvent.NAMED, "new", invisible=True))], "old", False),
        ([_part(_record(2, NameEvent.REMOVED, "old", txn_id=2))], "old", True),
        ([_part(_record(2, NameEvent.REMOVED, None))], "old", True),
        ([_part(_record(2, NameEvent.REMOVED, "old", txn_id=2), aborted=(2,))], "old", False),
        ([_part(_record(2, NameEvent.UNNAMED, "old", txn_id=2))], "old", False),
    ],
)
def test_the_last_name_that_was_not_taken_back_wins(
    later: list[NamePart], name: str, removed: bool
) -> None:
    database = resolve_databases([_made(), *later])[7]
    assert (database.name, database.removed) == (name, removed)


@pytest.mark.parametrize(
    "part",
    [
        _part(_record(1, NameEvent.NAMED, "never", txn_id=3), aborted=(3,)),
        _part(_record(1, NameEvent.NAMED, "never", invisible=True)),
    ],
)
def test_a_database_that_was_never_made_still_names_its_entries(part: NamePart) -> None:
    assert resolve_databases([part])[7] == NamedDatabase(7, "never", True, ["never"])


def test_a_removal_alone_names_what_it_can() -> None:
    assert resolve([_part(_record(1, NameEvent.REMOVED, "gone"))])[7] == "gone"
    assert 7 not in resolve([_part(_record(1, NameEvent.REMOVED, None))])


@pytest.mark.parametrize("name", ["v17-basic", "v26-dbops"])
def test_names_of_a_log_whose_first_file_is_gone(name: str) -> None:
    """Since log version 16 each MapLN holds the name; its NameLN may be in an absent file."""
    home = environment(name).home

    def work(rows: Rows) -> NamePart:
        return collect_names(rows.select(rows.type == BY_NAME["MapLN"].no))

    whole = resolve_databases(_parts(home)).values()
    parts = [
        part for each in Scanner().scan(open_environment([home]), work) for part in each.results
    ]
    assert {d.name for d in whole if not d.removed} <= set(resolve(parts).values())


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.5, {102}), (2.5, {102, 103}), (99.0, {100, 101, 102, 103})]
)
def test_a_long_log_is_not_waited_for(
    seconds: float, told: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each range takes a second: those of the last file come first, and the rest are not read."""
    files = [LogFile()]
    for db_id in (100, 101, 102, 103):
        if db_id == 102:
            files.append(files[-1].follower())
        named = packed(1) + packed(0) + packed(db_id) + b"\0" + text(f"db{db_id}") + b"\0"
        files[-1].add(BY_NAME["NameLN"].no, bytes(2) + named)
        files[-1].trace(500)
    home = write_log(tmp_path / "env", files)
    ticks = count()
    monkeypatch.setattr(names, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
    monkeypatch.setattr(reader, "RANGE_SIZE", 400)
    found = names_within(open_environment([home]), seconds)
    assert {db_id for db_id in found if db_id >= 100} == told
