"""Lost records: each is counted and listed once, also if nothing else is left of its database."""

from __future__ import annotations

import json
from pathlib import Path

from je_tools.formats.je.btree.keys import join_two_part
from je_tools.formats.je.flags import SlotState
from tests.builders.trees import NULL, TreeLog, slot
from tests.damage.running import je_tools
from tests.je_tools.salvaging import records_back, salvaged


def rows_of(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / "report.jsonl").read_text().splitlines()]


def test_lost_names_are_counted_once(tmp_path: Path) -> None:
    """Without --internal the report has no line of a lost key for them."""
    log = TreeLog()
    log.database(b"db", NULL)
    log.next_file()
    log.ln(b"a", b"1")
    log.checkpoint()
    home = log.write(tmp_path / "env")
    (home / "00000000.jdb").unlink()
    for options, count in (((), 0), (("--internal",), 2)):
        out = tmp_path / f"out{count}"
        done = je_tools("salvage", home, "--output", out, *options)
        rows = rows_of(out)
        assert sum(row["kind"] == "lost-key" for row in rows) == count
        assert [row["db"] for row in rows if row["kind"] == "lost-name"] == ["db"]
        assert (f"{count} records lost" in done.err) == bool(count)
        assert "1 name without a database" in done.err
        assert done.code == 3


def test_a_database_of_which_only_slots_are_left(tmp_path: Path) -> None:
    """Its name and all its entries are lost; two of its keys are known, one with the data."""
    log = TreeLog()
    log.database(b"db", NULL)
    lost = [log.ln(b"a", b"1"), log.ln(b"b", b"2")]
    log.next_file()
    held = slot(join_two_part(b"b", b"2"), lost[1], state=SlotState.EMBEDDED)
    log.checkpoint()
    log.tree([slot(b"a", lost[0]), held])
    home = log.write(tmp_path / "env")
    (home / "00000000.jdb").unlink()
    out = tmp_path / "out"
    done = je_tools("salvage", home, "--output", out)
    assert done.code == 3
    assert "1 record lost; the salvage report has the keys" in done.err
    rows = rows_of(out)
    (database,) = (row for row in rows if row["kind"] == "database")
    expected = {"db": "id-6", "state": "unnamed", "versions": 0, "lost_keys": 1}
    assert expected.items() <= database.items()
    assert database["records"] == {"slot-only": 1}
    assert [row["key"] for row in rows if row["kind"] == "lost-key"] == [b"a".hex()]
    ((back,),) = records_back(salvaged(home)).values()
    assert (back.key, back.data) == (b"b", b"2")
