"""`explain`: topics, and entries byte by byte, whole or damaged."""

from __future__ import annotations

import io
import json
import random
import re
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from je_tools import findings
from je_tools.commands.main import group, run
from je_tools.core.escaping import printable
from je_tools.core.masking import DataMode, Masking
from je_tools.errors import EXIT_MEANINGS
from je_tools.explain.entry import ByteKind, EntryExplanation, explain_bytes
from je_tools.explain.topics import topics_called
from je_tools.formats.je.layout import Field, layout
from je_tools.formats.je.log.walk import Checksum
from je_tools.formats.je.types import ENTRY_TYPES
from je_tools.ignite.records import problems
from je_tools.ignite.store_codes import STORE_CODES
from je_tools.log.field_descriptions import CODING_MEANINGS, CODINGS, FIELDS, condition_text
from je_tools.log.field_texts import expiration_text, time_text
from je_tools.output.views.explanations import make_console, print_entry
from je_tools.recovery.end import Refusal
from tests.corpus import FIXTURES, ROOT, VECTORS, environment, log_files
from tests.formats.logs import log_rows

SHOW = Masking()
BASIC = FIXTURES / "v17-basic" / "env"


def explained(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Run `je-tools explain`, and return its exit code, stdout and stderr."""
    code = run(group, ["explain", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# Topics


def test_every_entry_type_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    code, listed, _ = explained(capsys, "type:")
    assert code == 0
    for entry_type in ENTRY_TYPES.values():
        assert entry_type.name in listed
        for version in (entry_type.first_version, entry_type.last_version):
            code, text, _ = explained(capsys, f"type:{entry_type.name}", "--version", version)
            assert code == 0
            assert text.startswith(f"{entry_type.name} (type {entry_type.no}): ")
            for declared in layout(entry_type.no, version):
                assert declared.name in text


def test_a_type_by_its_number_and_in_any_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(capsys, "type:6") == explained(capsys, "TYPE:nameln")


def test_a_type_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = explained(capsys, "type:Commit", "--version", 15, "--format", "jsonl")
    row = json.loads(text)
    assert (row["no"], row["first_version"], row["layout_versions"]) == (17, 1, [1, 6, 12, 13, 22])
    names = [field["name"] for field in row["fields"]]
    assert names == ["last_lsn", "txn_id", "time_ms", "master_node_id", "dtvlsn"]


def test_every_exit_code_and_finding_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for code in EXIT_MEANINGS:
        assert explained(capsys, f"exit:{code}")[1]
    known = [*findings.CODES.values(), *STORE_CODES.values(), *problems.CODES.values()]
    for finding in known:
        text = explained(capsys, f"finding:{finding.name}")[1]
        assert text.startswith(f"{finding.name} ({finding.severity.value})")
        assert " ".join(finding.meaning.split()) in " ".join(text.split())
    for refusal in Refusal:
        text = explained(capsys, f"refusal:{refusal}")[1]
        assert text.startswith(f"{refusal} (error)")
        assert "What to do" in text
    kinds = ("finding:", "exit:", "refusal:")
    rows = explained(capsys, *kinds, "--format", "jsonl")[1].splitlines()
    assert len(rows) == len(known) + len(EXIT_MEANINGS) + len(Refusal)
    assert all(json.loads(row)["meaning"] for row in rows)


def test_every_code_in_a_table_or_an_output_is_explained() -> None:
    """Tables of the documentation have the codes that commands print."""
    found: dict[str, str] = {}
    for page in sorted((ROOT / "docs").rglob("*.md")):
        is_table = False
        for line in page.read_text(encoding="utf-8").splitlines():
            is_table = line.startswith("|") and (
                is_table or re.match(r"\| (finding|code|problem) \|", line) is not None
            )
            cell = re.match(r"\| (`[a-z-]+`(?:, `[a-z-]+`)*) \|", line) if is_table else None
            found |= dict.fromkeys(re.findall("[a-z-]+", cell[1]), page.name) if cell else {}
    for path in sorted((ROOT / "tests" / "golden").glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        found |= dict.fromkeys(re.findall('"code": ?"([a-z0-9-]+)"', text), path.name)
    assert {"pages-mixed", "wal-gap", "journal-hole", "metadata-damaged"} <= found.keys()
    unknown = {
        code: where for code, where in found.items() if f"finding:{code}" not in topics_called(code)
    }
    assert not unknown
    assert {each.value for each in problems.RecordProblem} == problems.CODES.keys()


@pytest.mark.parametrize(
    ("topic", "told"),
    [
        ("type:BINDela", "did you mean BINDelta"),
        ("exit:7", "`explain exit:` lists all"),
        ("finding:nonsense", "`explain finding:` lists all"),
        (
            "tpe:BIN",
            "neither an LSN such as 0x3/0x1a2f nor a topic of type:, exit:, finding:, refusal:",
        ),
        ("type", "did you mean type:?"),
        ("0x3/0x26", "an LSN needs a log: name it with --env"),
        ("0x0/0x26", "--env"),
    ],
)
def test_what_is_no_topic(capsys: pytest.CaptureFixture[str], topic: str, told: str) -> None:
    code, out, err = explained(capsys, topic)
    assert (code, out) == (2, "")
    assert told in err


def test_a_type_outside_its_versions(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = explained(capsys, "type:LN_TX", "--version", 8)
    assert code == 2
    assert "LN_TX occurs in log versions 1 to 7 only" in err


def test_every_declared_field_has_a_meaning() -> None:
    names: set[str] = set()

    def collect(fields: tuple[Field, ...], no: int) -> None:
        for declared in fields:
            names.add(declared.name)
            assert condition_text(declared.when, ENTRY_TYPES[no].family) or not declared.when
            assert CODINGS[declared.coding]
            assert CODING_MEANINGS[declared.coding]
            collect(declared.fields, no)

    for no in ENTRY_TYPES:
        for version in range(1, 27):
            collect(layout(no, version), no)
    assert names == set(FIELDS)


# Whole entries

COMMIT = """\
0x0/0x1e3 Commit: a transaction's commit
00000000.jdb at 483, 27 bytes, log version 17

    at  bytes                    field           value
     0  5f 04 21 2a              checksum        0x2a21045f, right
     4  11                       type            17 Commit
     5  00                       flags           none
     6  b3 01 00 00              prev_offset     0x0/0x1b3
    10  0d 00 00 00              item_size       13 bytes
    14  79 0c 01                 last_lsn        0x0/0x183
    17  02                       txn_id          2
    18  7d 0f a2 39 fb a1 01     time_ms         2026-11-20 23:10:20.806 UTC
    25  00                       master_node_id  0
    26  00                       dtvlsn          0
"""


def test_an_entry_byte_by_byte(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, text, err = explained(capsys, "0x0/0x1e3", "--env", BASIC)
    assert (code, err) == (0, "")
    assert text == COMMIT


def test_pieces_hold_every_byte_once() -> None:
    for line in map(json.loads, VECTORS.read_text(encoding="utf-8").splitlines()):
        data = bytes.fromhex(line["hex"])
        entry = explain_bytes(data, VECTORS, line["log_version"], 0, SHOW)
        assert_all_bytes(entry)
        assert entry.problems == ()
        assert entry.checksum is (Checksum.NONE if entry.type_no == 43 else Checksum.OK)
        assert {piece.part for piece in entry.pieces} <= {ByteKind.HEADER, ByteKind.ITEM}


def assert_all_bytes(entry: EntryExplanation) -> None:
    at = 0
    for piece in entry.pieces:
        assert piece.start == at
        at = piece.stop
    assert at == len(entry.data)


def values_of(entry: EntryExplanation) -> dict[str, str]:
    return {piece.path: piece.text for piece in entry.pieces}


def vector(**wanted: object) -> EntryExplanation:
    """Return the first vector whose line has these values."""
    for line in map(json.loads, VECTORS.read_text(encoding="utf-8").splitlines()):
        if all(line[name] == value for name, value in wanted.items()):
            data = bytes.fromhex(line["hex"])
            return explain_bytes(data, VECTORS, line["log_version"], 0, SHOW)
    raise LookupError(wanted)


def test_values_are_spelled_out() -> None:
    """An update of a record by JE 25.3, with flags and times."""
    item = bytes.fromhex("2a1400067d8967e5cf8b0100026b310302020279ee0609ff030101017d897f6e877401")
    data = bytes.fromhex("180b5bdd2300c807000023000000") + item
    values = values_of(explain_bytes(data, Path("00000000.jdb"), 26, 0, SHOW))
    assert values["checksum"] == "0xdd5b0b18, right"
    assert values["type"] == "35 UPD_LN_TX"
    assert values["prev_offset"] == "0x0/0x7c8"
    assert values["flags2"] == "tombstone, abort modification time"
    assert values["modified_ms"] == "2023-11-14 22:13:20.000 UTC"
    assert values["created_ms"] == "none"
    assert values["key"] == '"k1"'
    assert values["data"] == "3 bytes"
    assert values["abort_lsn"] == "0x0/0x765"
    assert values["txn_prev_lsn"] == "NULL"
    assert values["abort_modified_ms"] == "2020-09-13 12:26:40.000 UTC"


def test_nodes_and_records_of_the_engine() -> None:
    bin_26 = values_of(vector(type_name="BIN", log_version=26))
    assert bin_26["level"].startswith("0x10001: level 1")
    assert (
        values_of(vector(type_name="FileHeader", log_version=17))["log_version"] == "17 (JE 18.2)"
    )
    assert values_of(vector(type_name="FileSummaryLN", log_version=15))["key"].startswith("file 0")
    reserved = values_of(vector(type_name="ReservedFileLN", log_version=15))
    assert reserved["key"].startswith("file 0000000")
    assert "databases" in reserved["data"]
    assert values_of(vector(type_name="NameLN_TX", log_version=17))["operation"] == "1 create"


def test_times_and_expirations() -> None:
    assert time_text(1_700_000_000_001) == "2023-11-14 22:13:20.001 UTC"
    assert time_text(-1) == "1969-12-31 23:59:59.999 UTC"
    assert time_text(1 << 62) == f"{1 << 62} ms, out of range"
    assert expiration_text(498687, hours=True) == "2026-11-21 15:00 UTC"
    assert expiration_text(20785, hours=False) == "2026-11-28 UTC"
    assert expiration_text(0, hours=False) == "none"
    assert expiration_text(1 << 60, hours=True).endswith("out of range")


def test_nothing_can_steer_the_terminal() -> None:
    text = "a\x1b[2J\n\x9b\u202eb\udcffc"
    assert printable(text) == "a\\x1b[2J\\n\\x9b\\u202eb\\xffc"


@pytest.mark.parametrize("width", [40, 60, 80, 132])
def test_lines_fit_and_hold_no_escapes(width: int) -> None:
    for line in map(json.loads, VECTORS.read_text(encoding="utf-8").splitlines()[::9]):
        entry = explain_bytes(bytes.fromhex(line["hex"]), VECTORS, line["log_version"], 0, SHOW)
        text = printed(entry, width)
        assert max(map(len, text.splitlines())) <= width
        assert text.isascii()
        assert "\x1b" not in text
        assert not [row for row in text.splitlines() if row != row.rstrip()]


def printed(entry: EntryExplanation, width: int, *, all_bytes: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    print_entry(console, entry, all_bytes=all_bytes)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_colour_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    entry = vector(type_name="Commit", log_version=17)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for file, no_color, colours in (
        (Terminal(), False, True),
        (Terminal(), True, False),
        (io.StringIO(), False, False),
    ):
        if no_color:
            monkeypatch.setenv("NO_COLOR", "1")
        else:
            monkeypatch.delenv("NO_COLOR", raising=False)
        print_entry(make_console(file), entry, all_bytes=False)
        assert ("\x1b[36m" in file.getvalue()) == colours


def test_long_fields_are_cut_unless_all_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for path in log_files(BASIC):
        for rows in log_rows(path):
            row = max(range(len(rows)), key=lambda i: int(rows.item_size[i]))
            lsn = f"0x0/0x{int(rows.offset[row]):x}"
            size = int(rows.size[row])
    _, short, _ = explained(capsys, lsn, "--env", BASIC)
    _, long, _ = explained(capsys, lsn, "--env", BASIC, "--all")
    assert size > 200
    if "more: --all" in short:
        assert len(long) > len(short)
    assert "more: --all" not in long


def test_every_entry_is_found_by_its_lsn(capsys: pytest.CaptureFixture[str]) -> None:
    home = environment("v17-erase-after").home
    chosen = random.Random(3)
    for path in log_files(home):
        for rows in log_rows(path):
            for i in chosen.sample(range(len(rows)), 3):
                lsn = f"0x{rows.file_no:x}/0x{int(rows.offset[i]):x}"
                code, text, _ = explained(capsys, lsn, "--env", home, "--format", "jsonl")
                fields = [json.loads(line) for line in text.splitlines()]
                assert code == 0
                assert "".join(field["hex"] for field in fields) == rows.entry_bytes(i).hex()
                assert {field["lsn"] for field in fields} == {lsn}


def test_one_loose_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    loose = tmp_path / "00000000.bad"
    shutil.copyfile(BASIC / "00000000.jdb", loose)
    assert explained(capsys, "0x0/0x26", "--env", loose)[0] == 0
    code, _, err = explained(capsys, "0x1/0x26", "--env", loose)
    assert code == 4
    assert "has no file 00000001.jdb; nearest: 0x0" in err


# Places without an entry


def test_inside_an_entry(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = explained(capsys, "0x0/0x59", "--env", BASIC)
    assert (code, out) == (4, "")
    assert "0x0/0x59: no entry begins there." in err
    assert "It is byte 1 of the BIN at 0x0/0x58 (46 bytes). The next one is at 0x0/0x86." in err


def test_behind_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = explained(capsys, "0x0/0xffffffff", "--env", BASIC)
    assert code == 4
    size = (BASIC / "00000000.jdb").stat().st_size
    assert "The entry before is the CkptEnd at" in err
    assert f"The entries of 00000000.jdb end at 0x0/0x{size:x}." in err


def test_a_decimal_lsn_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    """RollbackException of JE up to 18.3 prints decimal numbers after 0x."""
    code, _, err = explained(capsys, "0x0/0x483", "--env", BASIC)
    assert code == 4
    assert "Read as decimal" in err
    assert "it is 0x0/0x1e3: the Commit there begins at exactly that place" in err
    assert "decimal" not in explained(capsys, "0x0/0x485", "--env", BASIC)[2]


# Damage


@pytest.fixture
def hurt(tmp_path: Path) -> Path:
    """Return a copy of a log that tests may change."""
    path = tmp_path / "00000000.jdb"
    shutil.copyfile(BASIC / "00000000.jdb", path)
    return path


def change(path: Path, at: int, flip: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= flip
    path.write_bytes(data)


def test_a_wrong_checksum(capsys: pytest.CaptureFixture[str], hurt: Path) -> None:
    change(hurt, 0x1E3 + 20, 0x01)
    code, text, _ = explained(capsys, "0x0/0x1e3", "--env", hurt)
    assert code == 3
    assert "! the checksum is wrong" in text
    assert "0x2a21045f, wrong:" in text
    assert explained(capsys, "0x0/0x1e3", "--env", hurt, "--exit-zero")[0] == 0


def test_a_size_that_leads_nowhere(capsys: pytest.CaptureFixture[str], hurt: Path) -> None:
    change(hurt, 0x1E3 + 12, 0x40)
    code, text, _ = explained(capsys, "0x0/0x1e3", "--env", hurt)
    assert code == 3
    assert "! its header claims 4194331 bytes, 27 are there before 0x0/0x1fe," in text
    assert "txn_id" in text
    _, _, err = explained(capsys, "0x0/0x1e9", "--env", hurt)
    assert "lies in damaged bytes from 0x0/0x1e3 to 0x0/0x1fe: explain 0x0/0x1e3." in err


def test_a_torn_tail(capsys: pytest.CaptureFixture[str], hurt: Path) -> None:
    last = 0x464AC
    hurt.write_bytes(hurt.read_bytes()[: last + 20])
    code, text, _ = explained(capsys, f"0x0/0x{last:x}", "--env", hurt)
    assert code == 3
    assert "CkptEnd: a checkpoint is complete" in text
    assert "! its header claims 51 bytes, 20 are there, then the file ends" in text
    hurt.write_bytes(hurt.read_bytes()[: last + 7])
    code, text, _ = explained(capsys, f"0x0/0x{last:x}", "--env", hurt)
    assert code == 3
    assert "! header is cut short at byte 7 of the entry" in text


def test_zeros_behind_the_end(capsys: pytest.CaptureFixture[str], hurt: Path) -> None:
    end = hurt.stat().st_size
    hurt.write_bytes(hurt.read_bytes() + bytes(5000))
    code, text, _ = explained(capsys, f"0x0/0x{end:x}", "--env", hurt)
    assert code == 3
    assert "! only zeros" in text


def test_any_damage_is_explained_without_a_crash() -> None:
    rng = random.Random(17)
    lines = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        data = bytearray.fromhex(line["hex"])
        for _ in range(3):
            hurt = bytearray(data)
            for _ in range(rng.randrange(1, 4)):
                hurt[rng.randrange(len(hurt))] = rng.randrange(256)
            if rng.random() < 0.3:
                del hurt[rng.randrange(1, len(hurt)) :]
            entry = explain_bytes(bytes(hurt), VECTORS, line["log_version"], 0, SHOW, 99)
            assert_all_bytes(entry)
            for piece in entry.pieces:
                assert all(char.isprintable() for char in piece.text)
            width = rng.choice((40, 80))
            assert max(map(len, printed(entry, width).splitlines())) <= width


# Masking


@pytest.mark.parametrize("mode", [mode for mode in DataMode if mode is not DataMode.SHOW])
def test_secrets_are_in_no_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, mode: DataMode
) -> None:
    home = environment("v15-embedded").home
    monkeypatch.setenv("COLUMNS", "200")
    for rows in (rows for path in log_files(home) for rows in log_rows(path)):
        for wanted in ("INS_LN_TX", "BIN", "NewBINDelta"):
            no = next(t.no for t in ENTRY_TYPES.values() if t.name == wanted)
            found = [i for i in range(len(rows)) if rows.type[i] == no]
            if not found:
                continue
            lsn = f"0x0/0x{int(rows.offset[found[-1]]):x}"
            secrets = secrets_of(capsys, lsn, home)
            for form in ("table", "jsonl"):
                _, text, _ = explained(
                    capsys, lsn, "--env", home, "--all", "--data", mode, "--format", form
                )
                shown = text.replace(" ", "").replace("\n", "")
                assert not [secret for secret in secrets if secret in shown]


def secrets_of(capsys: pytest.CaptureFixture[str], lsn: str, home: Path) -> set[str]:
    """Return the keys and values of an entry in hex that are long enough to identify a leak."""
    _, text, _ = explained(capsys, lsn, "--env", home, "--format", "jsonl")
    rows = [json.loads(line) for line in text.splitlines()]
    names = ("key", "data", "identifier_key", "key_prefix")
    found = {
        row["value"]
        for row in rows
        if row["field"] and row["field"].rpartition(".")[2] in names and row["value"]
    }
    assert found
    return {secret for secret in found if len(secret) >= 12}


@pytest.mark.parametrize("topic", ["finding:clean-end", "refusal:halt-chosen", "type:NameLN"])
def test_the_name_of_a_topic_alone_is_enough(
    capsys: pytest.CaptureFixture[str], topic: str
) -> None:
    alone = topic.partition(":")[2]
    assert explained(capsys, alone) == explained(capsys, topic)
    assert explained(capsys, alone)[0] == 0
