"""Result tables on terminals of any width: nothing is hidden without a word."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from je_tools.output.views.section_tables import write_table
from je_tools.output.views.sections import Column, Kind, Section
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools

NAME = Column("name", "name", Kind.TEXT)
KEY = Column("key", "key", Kind.KEY)
COUNTS = tuple(Column(f"count_{i}", f"count {i}", rank=i) for i in range(1, 9))
LONG = "a directory with a long name/" * 4 + "node-1/metadata/bdb"
NOTE = re.compile(r"No room for: (.*)\. A wider terminal or another --format shows them\.$", re.S)


def lines_of(section: Section, width: int) -> list[str]:
    """Return the lines of a table."""
    out = io.BytesIO()
    write_table([section], out, width)
    return out.getvalue().decode().splitlines()


@given(
    st.lists(st.text("ab/-", max_size=30), min_size=1, max_size=6, unique=True),
    st.sampled_from((NAME, KEY)),
    st.integers(40, 70),
    st.text("xy/", min_size=20, max_size=60),
)
def test_different_names_look_different(
    ends: list[str], column: Column, width: int, middle: str
) -> None:
    """The names may differ at their ends or in their middle."""
    for names in ([middle + end for end in ends], [middle + end + middle for end in ends]):
        rows = [[name, 10**9, 10**9] for name in names]
        _, *lines = lines_of(Section("", "", (column, *COUNTS[:2]), rows), width)
        shown: list[str] = []
        for line in lines:
            if not line:
                break
            if "1,000,000,000" in line:
                shown.append("")
            shown[-1] += line.split("  1,000")[0].rstrip()
        assert len(set(shown)) == len(names)


@given(st.integers(40, 120))
def test_columns_without_room_are_named(width: int) -> None:
    lines = lines_of(Section("", "", (NAME, *COUNTS), [["name", *range(8)]]), width)
    found = NOTE.search(" ".join(lines))
    named = set(found[1].split(", ")) if found else set()
    shown = {column.title for column in COUNTS if column.title in lines[0]}
    assert named == {column.title for column in COUNTS} - shown
    assert all(len(line) <= width for line in lines)


def test_a_long_value_of_a_record_is_cut() -> None:
    """It would fill the screen, and only its column may be that long."""
    value = Column("data", "data", Kind.DATA)
    lines = lines_of(Section("", "", (NAME, value), [["a", "x" * 1000], ["b", "x" * 1001]]), 80)
    assert len(lines) == 3
    assert {len(line) for line in lines[1:]} == {80}


@pytest.mark.parametrize("width", [20, 80])
def test_a_title_with_a_name_is_escaped(width: int) -> None:
    """Titles of tables on stores of Ignite have names of nodes, which are names of folders."""
    section = Section("", "no\x1b[2J\n\x07de: Found", PLACE, ROWS, folds=True)
    assert lines_of(section, width)[0] == r"no\x1b[2J\n\x07de: Found"


PATH = Column("file", "file", Kind.PATH)
COMMAND = Column("command", "command", Kind.COMMAND)
PLACE = (NAME, PATH, Column("offset", "offset"), Column("length", "bytes", rank=1))
ROWS = [["wal-gap", "db/wal/archive/node1/0000000000000001.wal", 380_580, 329], ["end", None, 5, 1]]


@given(st.integers(1, 120))
def test_a_table_that_folds_loses_nothing_of_rank_0(width: int) -> None:
    section = Section("", "Found", PLACE, ROWS, folds=True)
    lines = lines_of(section, width)
    text = "".join("".join(lines).split())
    assert all(len(line) <= max(width, 40) for line in lines)
    assert all(word in text for word in ("wal-gap", "380,580", "5", "name", "file", "offset"))
    if width < 40:
        assert lines[:5] == [
            "Found",
            "name    wal-gap",
            "file    db/wal/archive/node1/",
            "        0000000000000001.wal",
            "offset  380,580",
        ]
        assert lines[5:] == ["bytes   329", "", "name    end", "offset  5", "bytes   1"]


def test_a_command_is_neither_cut_nor_wrapped() -> None:
    rows = [["je-tools ignite recover " + "x" * 90, "shows what the next start does"]]
    section = Section("", "", (COMMAND, Column("why", "it", Kind.TEXT, wraps=True)), rows, True)
    for width in (40, 80, 120):
        lines = lines_of(section, width)
        assert lines[0] == f"command  {rows[0][0]}"
        assert lines[1].startswith("it       shows what")
    assert lines_of(section, 160)[1].startswith(rows[0][0] + "  shows")


def test_a_path_goes_on_after_a_slash() -> None:
    lines = lines_of(Section("", "", (PATH,), [[f"{'d' * 30}/{'e' * 4}/{'f' * 50}/g"]]), 40)
    assert lines == ["file", f"{'d' * 30}/{'e' * 4}/", "f" * 40, f"{'f' * 10}/g"]


VERBS: dict[str, tuple[str, ...]] = {
    "summary": ("--by-file", "--by-db", "--checkpoints", "--txns"),
    "verify": ("--all",),
    "files": (),
    "lock": (),
    "recover": (),
    "missing": ("--without", "1"),
    "databases": (),
    "count": (),
    "get": ("user00000001", "--db", "people"),
    "space": ("--recount",),
    "checkpoint": (),
    "undo": (),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("long") / LONG
    return Path(shutil.copytree(FIXTURES / "v17-erase-after" / "env", home))


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("verb", VERBS)
def test_every_command_fits(
    verb: str, width: int, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    done = je_tools(verb, home, *VERBS[verb])
    assert done.code in (0, 3)
    lines = done.out.decode().splitlines()
    assert [line for line in lines if len(line) > width] == []
    if verb == "lock":
        (home / "je.lck").touch()
        text = je_tools(verb, home).out.decode()
        assert "".join(str(home).split()) in "".join(text.split())
