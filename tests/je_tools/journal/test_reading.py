"""Ids, op codes, holes and odd records of made logs."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from je_tools.errors import DamageError, InputError
from je_tools.formats.je.tuples import long_key
from je_tools.journal import log_search, reading
from je_tools.journal.columns import fits_of, ids_of, ops_of
from je_tools.journal.continuity import HolePlace
from je_tools.journal.front_end import FrontEnd
from je_tools.journal.journal_findings import journal_findings
from je_tools.journal.op_codes import Product, op_name, op_names, product_of
from je_tools.journal.report import JournalReport, report_journals
from je_tools.journal.series import journals_among
from je_tools.recovery.database import Database
from tests.builders.records import Row, records_of, spans_of
from tests.builders.trees import TreeLog, simple, slot
from tests.je_tools.journal.front_ends import (
    front_end_log,
    json_value,
    text_value,
    time_value,
    values_of,
)
from tests.je_tools.snapshots import codes_of, snapshot_of


def reported(log: TreeLog, home: Path, **image_ids: int) -> JournalReport:
    images = {name.removeprefix("image"): number for name, number in image_ids.items()}
    front_end = FrontEnd(home, image_ids=images)
    return report_journals(snapshot_of(log.write(home)), front_end)


def found_of(report: JournalReport) -> list[tuple[str, str, str | None, str | None]]:
    findings = journal_findings(report, "env")
    return [(each.code, each.severity.value, each.expected, each.found) for each in findings]


def holes_of(report: JournalReport) -> list[tuple[str, int, int, HolePlace]]:
    return [
        (each.hole.journal.name, each.hole.first_id, each.hole.last_id, each.hole.place)
        for each in report.holes
    ]


def test_ids_are_signed_numbers_with_their_sign_flipped() -> None:
    numbers = [5485, 0, -1, -(1 << 63), (1 << 63) - 1]
    ids, good = ids_of(spans_of([*map(long_key, numbers), b"short", b"", b"ninebytes"]))
    assert ids.tolist() == [*numbers, 0, 0, 0]
    assert good.tolist() == [True] * 5 + [False] * 3


def test_op_codes_and_the_sizes_that_they_require() -> None:
    values = [
        (text_value(0, "45111"), 0, True),
        (text_value(104, "4439"), 104, True),
        (text_value(0, "45111") + b"x", 0, False),
        (text_value(104, "4439")[:-1], 104, False),
        (struct.pack(">hi", 0, -1), 0, False),
        (struct.pack(">h", 0), 0, False),
        (time_value(1), 70, True),
        (time_value(1) + b"x", 70, False),
        (struct.pack(">h", -3), -3, True),
        (json_value(32767, {}), 32767, True),
        (b"\0", 0, False),
        (b"", 0, False),
        (None, 0, False),
    ]
    spans = spans_of([value for value, _, _ in values])
    ops, good = ops_of(spans)
    assert ops.tolist() == [op for _, op, _ in values]
    assert fits_of(spans, ops, good).tolist() == [fits for _, _, fits in values]


def test_names_of_op_codes() -> None:
    assert op_name(10, None) == "OP_CREATE_TABLE"
    assert op_name(10003, None) == "OP_FINISH_MULTI_DELETE"
    assert op_name(106, Product.DORIS) == "OP_BATCH_REMOVE_TXNS_V2"
    assert op_name(106, Product.STARROCKS) == "OP_DELETE_AUTO_INCREMENT_ID"
    both = op_name(106, None)
    assert both == "OP_DELETE_AUTO_INCREMENT_ID or OP_BATCH_REMOVE_TXNS_V2"
    assert op_name(9999, None) is None
    for product in Product:
        for code, name in op_names(product).items():
            assert -1 < code < 1 << 15
            assert name.replace("_", "").isalnum()


def test_the_product_shows_in_op_codes_and_series() -> None:
    assert product_of([10, 100], {""}) is None
    assert product_of([10, 320], {""}) is Product.DORIS
    assert product_of([10, 10003], {""}) is Product.STARROCKS
    assert product_of([10, 30000], {""}) is Product.STARROCKS
    assert product_of([320, 10003], {""}) is None
    assert product_of([], {"", "starmgr_"}) is Product.STARROCKS
    assert product_of([10325], {""}) is Product.DORIS


def test_journals_without_holes(tmp_path: Path) -> None:
    made = front_end_log(
        {
            "100": values_of(range(100, 110)),
            "110": values_of(range(110, 113), op=10),
            "99999": {},
            "epochDB": {1: b"\0", 2: b"\0"},
            "starmgr_7": values_of(range(7, 9), op=11000),
            "other": {5: b"x"},
        }
    )
    report = reported(made.log, tmp_path / "env")
    rows = [
        (each.name, each.first_id, each.last_id, each.record_count, each.op_counts)
        for each in report.journals.journals
    ]
    assert rows == [
        ("100", 100, 109, 10, {100: 10}),
        ("110", 110, 112, 3, {10: 3}),
        ("99999", None, None, 0, {}),
        ("starmgr_7", 7, 8, 2, {11000: 2}),
    ]
    assert holes_of(report) == [("110", 113, 99998, HolePlace.AFTER)]
    assert [each.epoch for each in report.journals.epochs] == [1, 2]
    assert report.product is Product.STARROCKS


def test_holes_inside_and_around_journals(tmp_path: Path) -> None:
    ids = [12, 13, 16, 20]
    made = front_end_log({"10": values_of(ids), "30": values_of([30, 32]), "33": {}})
    report = reported(made.log, tmp_path / "env", image=4)
    assert holes_of(report) == [
        ("10", 5, 9, HolePlace.IMAGE),
        ("10", 10, 11, HolePlace.HEAD),
        ("10", 14, 15, HolePlace.INSIDE),
        ("10", 17, 19, HolePlace.INSIDE),
        ("10", 21, 29, HolePlace.AFTER),
        ("30", 31, 31, HolePlace.INSIDE),
    ]
    assert (report.continuity.hole_count, report.continuity.missing_count) == (6, 22)
    codes = {code for code, *_ in found_of(report)}
    assert codes == {"journal-hole"}
    first = found_of(report)[0]
    assert first[2] == "ids 5 to 9 between the newest image and the first journal, 10"


@pytest.mark.parametrize("image_id", [9, 10, 500])
def test_an_image_that_reaches_the_journal_leaves_no_hole(tmp_path: Path, image_id: int) -> None:
    made = front_end_log({"10": values_of(range(10, 20))})
    assert holes_of(reported(made.log, tmp_path / "env", image=image_id)) == []


def test_holes_beyond_those_that_are_kept_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "GAPS_MAX", 3)
    made = front_end_log({"0": values_of(range(0, 60, 4))})
    report = reported(made.log, tmp_path / "env")
    assert len(report.holes) == 3
    assert (report.continuity.hole_count, report.continuity.missing_count) == (14, 42)
    assert found_of(report)[-1][3] == "11 more holes; 42 ids in all"


def test_many_batches_give_the_same_as_one(tmp_path: Path) -> None:
    """Nodes are read in batches; ids on both sides of a border belong together."""
    log = TreeLog()
    ids = [each for each in range(1, 3000) if each % 700]
    children = []
    for first in range(0, len(ids), 10):
        some = ids[first : first + 10]
        slots = [slot(long_key(each), log.ln(long_key(each), b"\0\x64x")) for each in some]
        key = b"" if first == 0 else long_key(some[0])
        children.append(slot(key, log.node(slots)))
    log.database(b"1", log.node(children, level=2, is_root=True))
    log.checkpoint()
    report = reported(log, tmp_path / "env")
    (journal,) = report.journals.journals
    assert (journal.record_count, journal.op_counts) == (len(ids), {100: len(ids)})
    assert [hole[1:3] for hole in holes_of(report)] == [(700 * i, 700 * i) for i in range(1, 5)]


def test_a_deleted_record_is_found_in_the_log(tmp_path: Path) -> None:
    made = front_end_log({"1": values_of(range(1, 6))}, ends=False)
    made.log.next_file()
    made.log.checkpoint()
    deletion = made.log.ln(long_key(3), None, abort_lsn=made.lsns["1"][3], txn=9)
    made.log.end(9)
    report = reported(made.log, tmp_path / "env")
    (found,) = report.holes
    assert (found.hole.first_id, found.hole.last_id, found.logged_count) == (3, 3, 1)
    assert (found.record_lsn, found.deletion_lsn) == (made.lsns["1"][3], deletion)
    ((code, severity, expected, text),) = found_of(report)
    assert (code, severity, expected) == ("journal-hole", "error", "id 3 in journal 1")
    lsn = made.lsns["1"][3]
    assert text == (
        f"no record, but the log still has entries of 1 id: 0x0/{lsn:#x}, "
        f"deleted at 0x1/{deletion & 0xFFFFFFFF:#x}"
    )


def test_an_entry_that_was_rolled_back_is_not_found(tmp_path: Path) -> None:
    made = front_end_log({"1": values_of([1, 3])}, ends=False)
    made.log.next_file()
    made.log.checkpoint()
    invisible = {"entry_flags": 0x38, "vlsn": 7, "txn": -5}
    made.log.ln(long_key(2), json_value(1, {}), **invisible)
    (found,) = reported(made.log, tmp_path / "env").holes
    assert (found.logged_count, found.record_lsn, found.deletion_lsn) == (0, None, None)


def test_order_is_checked_from_batch_to_batch() -> None:
    (journal,) = journals_among([Database(6, "1", {}, -1, -1, 17)])
    reader = reading._JournalReader(reading.JournalSummary(journal))
    for journal_id, vlsn in ((1, 10), (2, 20), (3, -1), (4, 19), (5, 21)):
        reader.add(records_of([Row(long_key(journal_id), b"\0\x01", 0, vlsn)]))
    summary = reader.finished()
    assert [(each.journal_id, each.what) for each in summary.odd] == [
        (4, "VLSN 19, after a record with VLSN 20")
    ]
    assert (summary.gap_count, summary.record_count) == (0, 5)


def test_the_log_is_not_searched_without_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = front_end_log({"1": values_of(range(1, 6))})
    monkeypatch.setattr(log_search, "IdSearch", None)
    assert reported(made.log, tmp_path / "env").holes == []


def test_records_that_do_not_decode_are_listed(tmp_path: Path) -> None:
    values = values_of(range(1, 9))
    values |= {3: b"\x01", 4: b"", 5: text_value(0, "12") + b"!"}
    made = front_end_log({"1": values}, ends=False)
    log = made.log
    log.next_file()
    log.checkpoint()
    odd_key = log.ln(long_key(9) + b"x", json_value(1, {}))
    report = reported(log, tmp_path / "env")
    (journal,) = report.journals.journals
    assert (journal.first_id, journal.last_id, journal.record_count) == (1, 8, 9)
    assert journal.undecodable_count == 4
    assert journal.op_counts == {0: 1, 1: 1, 100: 5}
    lsns = [made.lsns["1"][each] for each in (3, 4, 5)]
    assert [each.lsn for each in journal.odd] == [*lsns, odd_key]
    findings = journal_findings(report, "env")
    assert [each.code for each in findings] == ["journal-record"] * 4
    assert [each.lsn for each in findings] == [*lsns, odd_key]
    assert findings[0].expected == "a journal record with id 3 in journal 1"
    assert findings[0].found == "a value of 1 bytes that is not an op code and its payload"
    assert findings[3].found == "a key of 9 bytes"


def test_a_damaged_value_costs_one_record(tmp_path: Path) -> None:
    made = front_end_log({"1": values_of(range(1, 9))})
    made.log.files[0].data[made.lsns["1"][4] + 30] ^= 1
    snapshot = snapshot_of(made.log.write(tmp_path / "env"))
    report = report_journals(snapshot, FrontEnd(tmp_path / "env"))
    (journal,) = report.journals.journals
    assert (journal.record_count, journal.unreadable_count) == (8, 1)
    assert journal.op_counts == {100: 7}
    assert report.holes == []
    assert codes_of(snapshot) == ["tree-damage"]


def test_records_after_a_damaged_end_are_listed(tmp_path: Path) -> None:
    made = front_end_log({"1": values_of(range(1, 4))})
    log = made.log
    for number in range(4, 10):
        lsn = log.ln(long_key(number), json_value(number, {}), txn=number)
        log.end(number)
        if number == 5:
            log.file.data[(lsn & 0xFFFFFFFF) + 25] ^= 1
        if number == 6:
            first = lsn
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    report = report_journals(snapshot, FrontEnd(tmp_path / "env"))
    (journal,) = report.journals.journals
    assert (journal.last_id, journal.record_count) == (4, 4)
    (cut,) = report.cut_off
    assert (cut.first_id, cut.last_id, cut.id_count, cut.lsn) == (6, 9, 4, first)
    assert cut.op_counts == {6: 1, 7: 1, 8: 1, 9: 1}
    assert "lost-tail" in codes_of(snapshot)


def test_the_largest_id_overflows_nothing(tmp_path: Path) -> None:
    last_id = (1 << 63) - 1
    made = front_end_log({"0": values_of([last_id])})
    log = made.log
    for number in (1, 2):
        lsn = log.ln(long_key(number), json_value(number, {}), txn=number)
        log.end(number)
    log.file.data[(lsn & 0xFFFFFFFF) + 25] ^= 1
    report = reported(log, tmp_path / "env")
    assert holes_of(report) == [
        ("0", 0, 0, HolePlace.HEAD),
        ("0", 2, last_id - 1, HolePlace.INSIDE),
    ]
    assert report.continuity.missing_count == last_id - 1
    report = reported(front_end_log({"0": values_of([last_id])}).log, tmp_path / "alone")
    assert holes_of(report) == [("0", 0, last_id - 1, HolePlace.HEAD)]


def test_records_beyond_those_that_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PLACES_MAX", 2)
    vlsns = {f"_{each}": 100 - each for each in range(1, 9)}
    made = front_end_log({"1": values_of(range(1, 9))}, **vlsns)
    found = found_of(reported(made.log, tmp_path / "disorder"))
    assert [each[:2] for each in found] == [("journal-order", "warning")] * 3
    assert found[-1][3] == "5 more records of 1 with a lower VLSN than the one before"
    values = values_of(range(1, 9)) | dict.fromkeys((6, 7, 8), b"x")
    found = found_of(reported(front_end_log({"1": values}, **vlsns).log, tmp_path / "both"))
    assert [each[0] for each in found].count("journal-record") == 3
    assert ("journal-record", "error", None, "1 more record of 1") in found


@pytest.mark.parametrize(
    ("image_id", "severity", "ending"),
    [(15, "error", ""), (16, "warning", ", which the newest image, 16, already covers")],
)
def test_a_hole_before_the_image_is_a_warning(
    image_id: int, severity: str, ending: str, tmp_path: Path
) -> None:
    made = front_end_log({"10": values_of([10, 11, 12, 13, 14, 17])})
    ((code, found, expected, _),) = found_of(reported(made.log, tmp_path / "env", image=image_id))
    assert (code, found) == ("journal-hole", severity)
    assert expected == f"ids 15 to 16 in journal 10{ending}"


def test_an_image_newer_than_the_journals_is_reported(tmp_path: Path) -> None:
    made = front_end_log({"10": values_of(range(10, 20)), "20": {}})
    assert found_of(reported(made.log, tmp_path / "same", image=19)) == []
    assert found_of(reported(made.log, tmp_path / "newer", image=20)) == [
        (
            "front-end-mismatch",
            "warning",
            "journals up to id 20, that of the newest image",
            "ids up to 19; a front end loads the image anyway",
        )
    ]


def test_wrong_order(tmp_path: Path) -> None:
    made = front_end_log(
        {"10": values_of([8, 9, 10, 11, 12]), "12": values_of([12, 13])},
        _10=100,
        _11=90,
        _12=110,
    )
    report = reported(made.log, tmp_path / "env")
    assert found_of(report) == [
        (
            "journal-order",
            "warning",
            "VLSNs that ascend with the ids of journal 10",
            "the record with id 11 with VLSN 90, after a record with VLSN 100",
        ),
        (
            "journal-order",
            "error",
            "no id below 10 in journal 10",
            "2 records, the first with id 8",
        ),
        (
            "journal-order",
            "error",
            "no id from 12 on in journal 10, since the next journal begins there",
            "ids up to 12",
        ),
    ]


def test_an_environment_of_something_else(tmp_path: Path) -> None:
    home = simple({b"a": b"1"}).write(tmp_path / "env")
    with pytest.raises(InputError, match="not the environment of a StarRocks or Doris front end"):
        report_journals(snapshot_of(home), FrontEnd(home))


def test_damage_may_hide_the_journals(tmp_path: Path) -> None:
    log = TreeLog()
    log.database(b"db", log.tree([slot(b"a", log.ln(b"a", b"1"))]))
    log.named[0]["lsn"] = 12345
    log.checkpoint()
    home = log.write(tmp_path / "env")
    snapshot = snapshot_of(home)
    if not snapshot.faults.damage:
        pytest.skip("the name is known from elsewhere")
    with pytest.raises(DamageError, match="damage has cost names"):
        report_journals(snapshot, FrontEnd(home))


def test_a_group_of_a_front_end_without_journals_is_one(tmp_path: Path) -> None:
    made = front_end_log({"other": {1: b"x"}}, group={"fe1": "electable"})
    report = reported(made.log, tmp_path / "env")
    assert (report.journals.journals, report.holes, report.differences) == ([], [], [])
    assert report.group.members == ["fe1"]
