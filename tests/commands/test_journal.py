"""`je-tools journal`: outputs, exit codes, masking, and that it changes nothing."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.corpus import FIXTURES
from tests.damage.running import je_tools, states
from tests.je_tools.journal.front_ends import front_end_log, json_value, time_value, values_of
from tests.je_tools.journal.test_front_end import make_front_end

HOLED = FIXTURES / "starrocks-fe-hole" / "node1"
SECRET = "secret-7f3a"


def test_show_is_the_default_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = je_tools("journal", HOLED)
    assert first.code == 3
    assert first == je_tools("journal", "show", HOLED)
    assert je_tools("journal", "--format", "json", HOLED).code == 3
    assert je_tools("journal", "--show", "813", HOLED).code == 4
    monkeypatch.chdir(tmp_path)
    misspelled = je_tools("journal", "shwo", HOLED)
    assert misspelled.code == 2
    assert "Did you mean 'show'?" in misspelled.err
    (tmp_path / "shwo").symlink_to(HOLED)
    assert je_tools("journal", "shwo").out.splitlines()[3:] == first.out.splitlines()[3:]
    assert je_tools("journal", "nothing").code == 4


def test_the_hole_is_named_in_every_format(tmp_path: Path) -> None:
    table = je_tools("journal", HOLED)
    assert "error: journal-hole; expected id 813 in journal 796; found no record" in table.err
    rows = je_tools("journal", HOLED, "--format", "jsonl").rows
    (hole,) = (row for row in rows if row["section"] == "holes")
    assert (hole["db"], hole["first_id"], hole["last_id"]) == ("796", 813, 813)
    (finding,) = (row for row in rows if row["section"] == "findings")
    assert (finding["code"], finding["severity"]) == ("journal-hole", "error")
    document = json.loads(je_tools("journal", HOLED, "--format", "json").out)
    assert [{"section": "holes", **each} for each in document["holes"]] == [hole]
    assert [each["code"] for each in document["findings"]] == ["journal-hole"]
    assert document["last_ids"] == {"": 892, "starmgr_": 99}
    text = je_tools("journal", HOLED, "--format", "csv").out.decode()
    (line,) = (row for row in csv.DictReader(io.StringIO(text)) if row["section"] == "holes")
    assert (line["first_id"], line["place"]) == ("813", "inside")
    path = tmp_path / "journals.parquet"
    assert je_tools("journal", HOLED, "--format", "parquet", "--output", path).code == 3
    found = [row for row in pq.read_table(path).to_pylist() if row["section"] == "holes"]
    assert [row["first_id"] for row in found] == [813]


def test_findings_go_to_the_side_file(tmp_path: Path) -> None:
    path = tmp_path / "findings"
    done = je_tools("journal", HOLED, "--format", "json", "--findings", path)
    assert "findings" not in json.loads(done.out)
    assert json.loads(path.read_text())["code"] == "journal-hole"
    assert je_tools("journal", HOLED, "--exit-zero").code == 0


def test_a_doris_front_end(tmp_path: Path) -> None:
    meta = make_front_end(tmp_path / "doris-meta")
    done = je_tools("journal", meta, "--format", "json")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    expected = {"role": "FOLLOWER", "node_type": "electable", "cluster_id": "1234567"}
    assert {name: document[name] for name in expected} == expected
    assert b"do-not-show" not in done.out
    table = je_tools("journal", meta)
    assert (table.code, table.err) == (0, "")


def test_a_role_of_another_node_is_an_error(tmp_path: Path) -> None:
    meta = make_front_end(tmp_path / "meta", group={"fe9": "electable"})
    done = je_tools("journal", meta)
    assert done.code == 3
    assert "front-end-mismatch" in done.err


def test_a_record_is_shown(tmp_path: Path) -> None:
    values = {
        1: json_value(100, {"label": SECRET, "n": 1.50, "e": 1e400, "n2": {"n2": 1}}),
        2: time_value(1760000000000),
        3: b"\x2a\xf8\x00\xff",
        4: b"",
    }
    home = front_end_log({"1": values, "starmgr_1": values_of([1])}).log.write(tmp_path / "env")
    done = je_tools("journal", home, "--show", 1, "--show", 2, "--show", 3, "--show", 4)
    assert done.code == 0
    text = done.out.decode()
    assert f'  "label": "{SECRET}",' in text
    assert "2025-10-09 08:53:20.000" in text
    assert "00ff" in text
    rows = je_tools("journal", home, "--show", 1, "--show", 3, "--format", "jsonl").rows
    assert [(row["db"], row["journal_id"], row["form"]) for row in rows] == [
        ("1", 1, "json"),
        ("starmgr_1", 1, "json"),
        ("1", 3, "bytes"),
    ]
    assert rows[0]["payload"].encode() == values[1][6:]
    assert (rows[0]["op_code"], rows[0]["op_name"]) == (100, "OP_UPSERT_TRANSACTION_STATE")
    assert rows[2]["payload"] == "00ff"
    document = json.loads(je_tools("journal", home, "--show", 2, "--format", "json").out)
    assert document["records"][0]["payload"] == "1760000000000"
    assert document["findings"] == []


@pytest.mark.parametrize("mode", ["hide", "length", "hash", "salted-hash"])
def test_payloads_are_masked(mode: str, tmp_path: Path) -> None:
    values = {1: json_value(100, {"label": SECRET}), 3: b"\0\x01" + SECRET.encode() * 2}
    home = front_end_log({"1": values}).log.write(tmp_path / "env")
    forms = [SECRET.encode(), SECRET.encode().hex().encode()]
    for form in ("table", "jsonl", "csv", "json"):
        for words in (("--show", 1, "--show", 3), ()):
            done = je_tools("journal", home, *words, "--data", mode, "--format", form)
            every = done.out + done.err.encode()
            assert not [each for each in forms if each in every], (form, words)
            assert b"OP_UPSERT_TRANSACTION_STATE" in done.out
    shown = je_tools("journal", home, "--show", 1, "--format", "jsonl")
    assert forms[0] in shown.out


def test_a_missing_id() -> None:
    done = je_tools("journal", HOLED, "--show", 813)
    assert done.code == 4
    command = f"je-tools get {HOLED} --db 796 long:813 --history"
    assert f"no journal has id 813; `{command}` shows what the log has of it" in done.err
    found = je_tools(*command.split()[1:])
    assert found.code == 0
    assert b"DEL_LN_TX" in je_tools(*command.split()[1:], "--format", "csv").out
    assert je_tools("journal", HOLED, "--show", 5).code == 4
    assert je_tools("journal", HOLED, "--show", "x").code == 2
    assert je_tools("journal", HOLED, "--show", "-1").code == 2


def test_what_is_no_front_end(tmp_path: Path) -> None:
    other = FIXTURES / "v17-basic" / "env"
    for words in ((), ("--show", 1)):
        done = je_tools("journal", other, *words)
        assert (done.code, done.out) == (4, b"")
        assert "not the environment of a StarRocks or Doris front end" in done.err
    assert je_tools("journal", other / "00000000.jdb").code == 2
    assert je_tools("journal", tmp_path).code == 4


def test_a_damaged_value_in_the_last_file_ends_the_log(tmp_path: Path) -> None:
    """The engine cuts off everything after it; the ids there are listed all the same."""
    rows = je_tools("journal", HOLED, "--show", 850, "--format", "jsonl").rows
    _, offset = (int(part, 16) for part in rows[0]["lsn"].split("/"))
    home = tmp_path / "env"
    home.mkdir()
    data = bytearray((HOLED / "00000000.jdb").read_bytes())
    data[offset + 40] ^= 1
    (home / "00000000.jdb").write_bytes(data)
    done = je_tools("journal", home, "--format", "json")
    assert done.code == 3
    document = json.loads(done.out)
    listed = {each["db"]: each for each in document["journals"]}
    # The batch of the damaged record begins with id 832, and 813 was deleted later.
    assert (listed["796"]["last_id"], listed["796"]["records"]) == (831, 36)
    (cut,) = (each for each in document["cut_off"] if each["db"] == "796")
    assert (cut["first_id"], cut["last_id"], cut["records"]) == (832, 892, 60)
    assert "lost-tail" in {each["code"] for each in document["findings"]}


def test_nothing_is_written(tmp_path: Path) -> None:
    meta = make_front_end(tmp_path / "meta")
    before = states(meta)
    for words in ((), ("--show", 1), ("--format", "json")):
        assert je_tools("journal", meta, *words).code == 0
    assert states(meta) == before
