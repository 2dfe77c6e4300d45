"""The state of a node names contradictions of its group, and damage of its journals."""

from __future__ import annotations

import json
from pathlib import Path

from msgspec.structs import replace

from je_tools.errors import EXIT_DAMAGE
from je_tools.formats.je.internal.names import REP_GROUP_DB
from je_tools.group.members import read_group
from je_tools.journal.last_id import last_journal_id
from je_tools.journal.series import journals_among
from je_tools.vlsn.node_state import read_node
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools
from tests.je_tools.vlsn.indexes import copy_of, snapshot_of_node, write_records

NODE = FIXTURES / "v17-rep-uncommitted-before" / "node1"
FRONT_END = FIXTURES / "starrocks-fe-hole" / "node1"


def test_contradictions_of_the_group_are_reported(tmp_path: Path) -> None:
    home = copy_of(NODE, tmp_path / "node")
    nodes = read_group(snapshot_of_node(home)).nodes
    wrong = replace(nodes[1], node_type=9, node_id=nodes[0].node_id)
    write_records(home, dict([wrong.encode()]), REP_GROUP_DB)
    expected = None
    for words in (("group", "show"), ("vlsn", "check")):
        done = je_tools(*words, home, "--format", "jsonl")
        rows = [
            row
            for row in map(json.loads, done.out.splitlines())
            if row.get("code") == "group-record"
        ]
        assert (done.code, len(rows)) == (EXIT_DAMAGE, 2)
        texts = [(row["expected"], row["found"]) for row in rows]
        expected = expected or texts
        assert texts == expected
    state, _ = read_node(snapshot_of_node(home), 10)
    assert [each.code for each in state.findings].count("group-record") == 2


def last_leaf_of_newest_journal(home: Path) -> int:
    """Return the LSN of the last bottom node of the newest journal."""
    snapshot = snapshot_of_node(home)
    journal = [each for each in journals_among(snapshot.databases.values()) if not each.series][-1]
    children = list(snapshot.record_reader(journal.database, False, True).children())
    return int(children[-1].lsn[-1])


def test_a_damaged_journal_has_no_last_id_and_a_finding(tmp_path: Path) -> None:
    home = copy_of(FRONT_END, tmp_path / "node")
    assert last_journal_id(snapshot_of_node(home)) == 892
    settings = home / "je.properties"
    settings.write_text("je.env.recoveryForceNewFile=true\n")
    # The nodes of the journal are then before the files that recovery reads.
    other = ("--above", "80", "--series", "starmgr_")
    for words in (("journal", "truncate", *other), ("checkpoint",)):
        assert je_tools(*words, home, "--apply").code == 0
    lsn = last_leaf_of_newest_journal(home)
    path = home / f"{lsn >> 32:08x}.jdb"
    data = bytearray(path.read_bytes())
    data[(lsn & 0xFFFFFFFF) + 30] ^= 1
    path.write_bytes(data)
    state, _ = read_node(snapshot_of_node(home), 10)
    assert state.journal_id is None
    assert "tree-damage" in {each.code for each in state.findings}
