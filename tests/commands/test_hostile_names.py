"""Names of directories, files and databases: untrusted text."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from pathlib import Path

import pytest

from je_tools.core.escaping import clean_text, printable, safe_cell
from je_tools.formats.ignite.ids import cache_id
from tests.builders.ignite import Entry, metastore_record, segment, string
from tests.builders.ignite_pages import damage, write_page_store
from tests.builders.logs import write_log
from tests.corpus import FIXTURES
from tests.je_tools.dump.test_formats import HOSTILE, hostile_log
from tests.je_tools.dumped import je_tools
from tests.test_golden import damaged_log

EVIL = "ev\x1b[31mil\n\u202e" + os.fsdecode(b"\xff")
EVIL_BYTES = os.fsencode(EVIL)
SPELLED = "ev\\x1b[31mil\\n\\u202e\\xff"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_log(tmp_path / EVIL, damaged_log())


def is_safe(text: str) -> bool:
    return all(character == "\n" or character.isprintable() for character in text)


@pytest.mark.parametrize("command", ["doctor", "recover", "count", "missing", "verify --tree"])
def test_a_name_of_bytes_that_are_no_text_is_read(command: str, tmp_path: Path) -> None:
    home = shutil.copytree(FIXTURES / "v17-crash-txn" / "env", tmp_path / EVIL)
    verb, *options = command.split()
    done = je_tools(verb, home, *options)
    assert done.code == 0
    assert is_safe(done.out.decode("utf-8"))
    assert is_safe(done.err)


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "HOME"),
        ("verify", "HOME", "--format", "jsonl"),
        ("dump", "HOME"),
        ("dump", "HOME", "--output", "HOME/out"),
        ("dump", "HOME", "--follow", "--output", "HOME/out"),
        ("summary", "HOME"),
        ("summary", "HOME", "--format", "csv"),
        ("files", "HOME"),
        ("files", "HOME", "--format", "csv"),
        ("files", "HOME/00000003.jdb", "HOME/00000004.jdb"),
        ("verify", "HOME/nothing.jdb"),
        ("verify", "HOME", "HOME"),
        ("verify", "HOME", "--output", "HOME"),
        ("verify", "HOME", "--format", EVIL),
        ("verify", f"--{EVIL}"),
        (EVIL,),
        ("explain", EVIL),
        ("explain", f"type:{EVIL}"),
        ("explain", "0x3/0x26", "--env", "HOME"),
        ("explain", "0x9/0x26", "--env", "HOME"),
    ],
    ids=lambda words: " ".join(words).replace(EVIL, "EVIL"),
)
def test_nothing_steers_a_terminal(words: tuple[str, ...], home: Path) -> None:
    done = je_tools(*(word.replace("HOME", str(home)) for word in words))
    assert is_safe(done.out.decode("utf-8"))
    assert is_safe(done.err)
    assert done.code in (2, 3, 4, 6) or words[0] == "explain"


def test_the_verdict_names_the_directory(home: Path) -> None:
    assert SPELLED in je_tools("verify", home).err


def test_a_name_as_a_command_line_has_it() -> None:
    assert printable(EVIL) == SPELLED
    assert printable("größe") == "größe"
    assert printable("\ud800") == "\\ud800"


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1", "-1", "@SUM(1)", " =1", "\t=1", "\r=1"])
def test_no_cell_is_a_formula(text: str) -> None:
    assert not safe_cell(text).lstrip().startswith(("=", "+", "-", "@"))
    assert is_safe(safe_cell(text))
    assert "\n" not in safe_cell(text)


def test_csv_of_every_command_holds_no_formula(tmp_path: Path) -> None:
    home = hostile_log(tmp_path / "env")
    names = set()
    for words in (("summary", "--by-db"), ("files",), ("dump",)):
        done = je_tools(words[0], home, *words[1:], "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(done.out.decode("utf-8"), newline=""), strict=True))
        assert rows
        for row in rows:
            for name, cell in row.items():
                is_number = cell.removeprefix("-").isdecimal()
                assert is_number or not cell.startswith(("=", "+", "-", "@", "\t", "\r")), name
                assert is_safe(cell)
                assert "\n" not in cell
            names.add(row.get("db"))
    assert len(names) >= len(HOSTILE)


def test_json_holds_the_name(home: Path) -> None:
    lines = je_tools("verify", home, "--format", "jsonl").out.splitlines()
    assert {json.loads(line)["env"] for line in lines} == {clean_text(str(home))}


@pytest.fixture(scope="module")
def hostile_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of Ignite whose folders, caches, keys and values have hostile names."""
    store = write_page_store(tmp_path_factory.mktemp("ignite") / EVIL)
    data, _ = segment(
        0,
        [
            Entry(string(EVIL_BYTES), string(EVIL_BYTES), cache=cache_id(EVIL)).record(),
            metastore_record(EVIL_BYTES, EVIL_BYTES),
            ("CLUSTER_SNAPSHOT", len(EVIL_BYTES).to_bytes(4, "little") + EVIL_BYTES),
        ],
        end=bytes(60),
    )
    folder = store / "db" / "wal" / EVIL
    folder.mkdir(parents=True)
    (folder / "0000000000000000.wal").write_bytes(data)
    node = (store / "db" / "node1").rename(store / "db" / EVIL)
    (node / "cp").mkdir()
    (node / "cp" / f"1-{EVIL}-START.bin").write_bytes(b"")
    cache = (node / "cache-first").rename(node / f"cache-{EVIL}")
    (cache / "cache_data.dat").write_bytes(b"")
    (cache / f"{EVIL}.bin").write_bytes(b"")
    damage(cache / "part-0.bin", 4)
    shared = node / f"cacheGroup-<i>{EVIL}"
    shared.mkdir()
    (shared / f"{EVIL}cache_data.dat").write_bytes(b"")
    return store


IGNITE = {
    "info": ("table", "json"),
    "checkpoints": ("table", "json"),
    "recover": ("table", "json"),
    "diff COPY": ("table", "json"),
    "export": ("jsonl", "csv"),
    "pages dump --items": ("table", "jsonl", "csv"),
    "pages space": ("table", "jsonl", "csv"),
    "pages verify": ("table", "json"),
    "undo": ("table", "json"),
    "wal dump": ("table", "jsonl", "csv"),
    "wal summary --by-cache": ("table", "jsonl", "csv"),
    "wal verify": ("table", "jsonl", "csv"),
    "doctor": ("table", "json"),
}


@pytest.mark.parametrize("command", IGNITE)
def test_nothing_in_a_store_steers_a_terminal(
    command: str, hostile_store: Path, tmp_path: Path
) -> None:
    words: list[str | Path] = [*command.split()]
    if "COPY" in words:
        words[-1] = shutil.copytree(hostile_store, tmp_path / "copy")
    words = words if command == "doctor" else ["ignite", *words]
    for form in IGNITE[command]:
        done = je_tools(*words, hostile_store, "--format", form)
        assert done.code in (0, 3, 4), done.err
        assert is_safe(done.out.decode("utf-8"))
        assert is_safe(done.err)
        if form == "csv":
            rows = csv.DictReader(io.StringIO(done.out.decode("utf-8"), newline=""), strict=True)
            cells = [cell for row in rows for cell in row.values()]
            assert not [c for c in cells if (c[:1] in "=+@" and c) or "\n" in c]


def test_the_page_of_a_store_has_no_markup_of_names(hostile_store: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert je_tools("doctor", hostile_store, "--html", page).code == 3
    text = page.read_text(encoding="utf-8")
    assert "<i>" not in text
    assert is_safe(text)
