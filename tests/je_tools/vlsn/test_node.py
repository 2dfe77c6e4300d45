"""The state of a node names contradictions of its group."""

from __future__ import annotations

import json
from pathlib import Path

from msgspec.structs import replace

from je_tools.errors import EXIT_DAMAGE
from je_tools.formats.je.internal.names import REP_GROUP_DB
from je_tools.group.members import read_group
from je_tools.vlsn.node import read_node
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools
from tests.je_tools.vlsn.indexes import copy_of, snapshot_of_node, write_records

NODE = FIXTURES / "v17-rep-uncommitted-before" / "node1"


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
