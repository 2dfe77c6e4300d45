"""The engine of StarRocks accepts truncated journals: alone, and in a group whose nodes follow."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from je_tools.formats.je.tuples import long_key
from tests.engine.groups import Group, free_addresses, is_one_group, running_group
from tests.engine.jars import STARROCKS, engine_jar
from tests.engine.java import find_java
from tests.engine.test_groups import apply, assert_gapless, copied
from tests.je_tools.checkpoint.nodes import stream_of
from tests.je_tools.dumped import je_tools
from tests.je_tools.snapshots import contents_of, snapshot_of
from tests.truth.contents import Contents

FRONT_END = "starrocks-fe-hole/node1"
NODE, GROUP_NAME = "fe1_9010_1760000000001", "PALO_JOURNAL_GROUP"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    jar = engine_jar(STARROCKS)
    with running_group(find_java(), jar, tmp_path_factory.mktemp("classes")) as group:
        yield group


def truncated(contents: Contents, journal: str, above: int, removed: tuple[str, ...]) -> Contents:
    """Return the contents without the records of a journal above an id, and without others."""
    kept = {name: records for name, records in contents.items() if name not in removed}
    kept[journal] = [pair for pair in kept[journal] if pair[0] <= long_key(above)]
    return kept


@pytest.mark.parametrize(
    ("above", "series", "journal", "removed"),
    [
        (700, "", "640", ("796",)),
        pytest.param(850, "", "796", (), marks=pytest.mark.exhaustive),
        pytest.param(80, "starmgr_", "starmgr_75", ("starmgr_89",), marks=pytest.mark.exhaustive),
    ],
)
def test_a_node_goes_on_after_its_journal_was_truncated(
    above: int,
    series: str,
    journal: str,
    removed: tuple[str, ...],
    nodes: Group,
    tmp_path: Path,
) -> None:
    home = copied(FRONT_END, tmp_path / "bdb")
    last = max(stream_of(home))
    here, there = free_addresses(2)
    apply("group", "reset", home, "--node-name", NODE, "--node-host-port", here)
    nodes.open(NODE, home, here, here, group=GROUP_NAME)
    assert nodes.states() == {NODE: "MASTER"}
    other = tmp_path / "other"
    other.mkdir()
    nodes.open("other", other, there, here, group=GROUP_NAME)
    assert is_one_group(nodes.states())
    before = nodes.records(NODE)
    nodes.put("added", 0, 20)
    for name in ("other", NODE):
        nodes.close(name)
    words = ("--above", above, *(("--series", series) if series else ()))
    apply("journal", "truncate", home, *words)
    expected = truncated(before, journal, above, removed)
    nodes.open(NODE, home, here, here, group=GROUP_NAME)
    nodes.open("other", other, there, here, group=GROUP_NAME)
    assert is_one_group(nodes.states())
    nodes.put(journal, 0, 20)
    for name in (NODE, "other"):
        found = nodes.records(name)
        assert len(found.pop("added")) == 20
        added = [pair for pair in found[journal] if pair[0].startswith(b"key ")]
        assert len(added) == 20
        found[journal] = [pair for pair in found[journal] if pair not in added]
        assert found == expected, name
    for name in ("other", NODE):
        nodes.close(name)
    assert_gapless(home, last)
    for each in (home, other):
        assert je_tools("verify", str(each), "--tree").code == 0
        assert je_tools("vlsn", "check", str(each)).code == 0


def test_the_engine_takes_back_what_has_no_commit(nodes: Group, tmp_path: Path) -> None:
    """A power cut can leave deletions without their Commit; the master aborts them."""
    home = copied(FRONT_END, tmp_path / "bdb")
    (here,) = free_addresses(1)
    apply("group", "reset", home, "--node-name", NODE, "--node-host-port", here)
    before = contents_of(snapshot_of(home))
    planned = je_tools("journal", "truncate", str(home), "--above", "700", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(planned.out.decode())))
    (removal,) = (row for row in rows if row["change"] == "remove database")
    apply("journal", "truncate", home, "--above", 700)
    os.truncate(home / "00000000.jdb", int(removal["lsn"].split("/")[1], 16))
    nodes.open(NODE, home, here, here, group=GROUP_NAME)
    assert nodes.states() == {NODE: "MASTER"}
    assert nodes.records(NODE) == before
    nodes.put("added", 0, 20)
    nodes.close(NODE)
    assert je_tools("vlsn", "check", str(home)).code == 0
    assert contents_of(snapshot_of(home)).keys() == before.keys() | {"added"}
