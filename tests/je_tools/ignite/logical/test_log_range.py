"""Reading the log up to its end: what is read, and what is only counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.formats.ignite.markers import Pointer
from je_tools.ignite.logical import log_range
from je_tools.ignite.logical.log_range import LogRange, WalEndReason
from je_tools.ignite.segment_files import SegmentFile
from tests.builders import ignite as build
from tests.je_tools.ignite.reading import node_of


@pytest.mark.parametrize(("counts", "lost"), [(True, 7), (False, 1)])
def test_later_segments_are_only_read_to_count_what_is_lost(
    counts: bool, lost: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [("MEMORY_RECOVERY", build.recovery_payload(5))] * 3
    whole = [build.segment(no, records) for no in range(3)]
    damaged = bytearray(whole[0][0])
    damaged[whole[0][1][1] + 20] ^= 1
    build.write_store(tmp_path, [], [bytes(damaged), whole[1][0], whole[2][0]])
    read: list[str] = []
    reader = log_range.read_segment

    def noted(segment: SegmentFile) -> object:
        read.append(segment.path.name)
        return reader(segment)

    monkeypatch.setattr(log_range, "read_segment", noted)
    log = LogRange(node_of(tmp_path), Pointer(0, 0, 0), counts_lost=counts)
    assert sum(map(len, log)) == 1
    assert log.end is not None
    assert (log.end.reason, log.end.lost_records) == (WalEndReason.DAMAGE, lost)
    assert len(read) == (3 if counts else 1)
