"""Journals of logs that the engine wrote: equal to what their writer noted, on every node."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.journal.continuity import HolePlace
from je_tools.journal.front_end import FrontEnd
from je_tools.journal.op_codes import Product
from je_tools.journal.report import JournalReport, report_journals
from je_tools.journal.series import EPOCH_DB
from tests.corpus import Environment, environments
from tests.je_tools.journal.front_ends import truth_of
from tests.je_tools.snapshots import snapshot_of

FRONT_ENDS = [each for each in environments() if each.name.startswith("starrocks-fe")]
HOLED = "starrocks-fe-hole"


def reported(home: Path) -> JournalReport:
    snapshot = snapshot_of(home)
    report = report_journals(snapshot, FrontEnd(home))
    assert not snapshot.faults
    return report


@pytest.mark.parametrize("front_end", FRONT_ENDS, ids=lambda each: each.name)
def test_journals_are_as_their_writer_noted(front_end: Environment) -> None:
    report = reported(front_end.home)
    truth = truth_of(front_end.home.parent / "journals.tsv")
    found = {
        each.name: (each.first_id, each.last_id, each.record_count, each.op_counts)
        for each in report.journals.journals
    }
    epochs = truth.pop(EPOCH_DB)
    assert found == {each.database: each[1:] for each in truth.values()}
    assert [each.epoch for each in report.journals.epochs] == [epochs.first, epochs.last]
    assert report.journals.epoch_count == epochs.entries
    assert report.product is Product.STARROCKS
    for each in report.journals.journals:
        counts = (each.unreadable_count, each.undecodable_count, each.disordered_count)
        assert (each.odd, counts) == ([], (0, 0, 0)), each.name
    assert report.continuity.overlaps == []
    assert report.cut_off == []


@pytest.mark.parametrize("front_end", FRONT_ENDS, ids=lambda each: each.name)
def test_only_the_removed_id_is_a_hole(front_end: Environment) -> None:
    report = reported(front_end.home)
    holes = [
        (each.hole.journal.name, each.hole.first_id, each.hole.last_id, each.hole.place)
        for each in report.holes
    ]
    expected = [("796", 813, 813, HolePlace.INSIDE)] if HOLED in front_end.name else []
    assert holes == expected
    assert report.continuity.hole_count == report.continuity.missing_count == len(expected)


def test_the_log_still_has_the_removed_record() -> None:
    (home,) = (each.home for each in FRONT_ENDS if each.name == f"{HOLED}/node1")
    snapshot = snapshot_of(home)
    (found,) = report_journals(snapshot, FrontEnd(home)).holes
    assert found.logged_count == 1
    assert found.record_lsn is not None
    assert found.deletion_lsn is not None
    written, deleted = snapshot.entry(found.record_lsn), snapshot.entry(found.deletion_lsn)
    assert written is not None
    assert deleted is not None
    assert written.fields["key"] == deleted.fields["key"]
    assert int.from_bytes(bytes(written.fields["key"])) ^ 1 << 63 == 813
    assert (written.type_name, deleted.type_name) == ("INS_LN_TX", "DEL_LN_TX")
