"""The log as recovery reads it: bounded by the segments that exist."""

from __future__ import annotations

from pathlib import Path

from je_tools.ignite.repairs.log_state import read_log_state
from tests.builders import ignite as build
from tests.je_tools.ignite.reading import node_of


def test_a_damaged_header_may_name_any_segment(tmp_path: Path) -> None:
    records = [("MEMORY_RECOVERY", build.recovery_payload(5))]
    far = bytearray(build.segment(1 << 39, records)[0])
    far[5] ^= 1
    build.write_store(tmp_path, [build.segment(0, records)[0], bytes(far)], [])
    state = read_log_state(node_of(tmp_path), 0, 1)
    assert [each.index for each in state.segments] == [0, 1, 1 << 39]
    assert [len(each.copies) for each in state.segments] == [1, 0, 1]
