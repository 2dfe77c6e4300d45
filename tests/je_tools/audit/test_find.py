"""`audit find`: a person's data in a fleet, by state, without a word of it in any output."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from je_tools.audit import plan
from je_tools.audit.discover import EnvironmentKind, find_fleet
from je_tools.audit.find import find_everywhere
from je_tools.audit.find_tasks import FindWork
from je_tools.core import shares
from je_tools.core.masking import DataMode, Masking
from je_tools.erase.proof.needles import Needle, NeedleKind
from je_tools.erase.subject.run import find_subject
from tests.builders import ignite_pages as pages
from tests.corpus import FIXTURES
from tests.damage.running import Outcome, je_tools

KEY, EMAIL = "user00000003", "user3@example.org"
NAMES = ("v17-basic", "v8-dbops", "v26-dbops", "v15-ttl")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in NAMES:
        shutil.copytree(FIXTURES / name / "env", tmp_path / "fleet" / name)
    return tmp_path / "fleet"


def find(root: Path, *words: str | Path) -> Outcome:
    return je_tools("audit", "find", root, *words, "--engine", "local")


def rows_of(done: Outcome, section: str) -> list[dict[str, object]]:
    return [row for row in done.rows if row["section"] == section]


@pytest.mark.parametrize("words", [("--match", EMAIL), ("--key", KEY)])
@pytest.mark.parametrize("is_cut", [False, True])
def test_traces_are_those_of_subject(
    words: tuple[str, str], root: Path, monkeypatch: pytest.MonkeyPatch, *, is_cut: bool
) -> None:
    if is_cut:
        monkeypatch.setattr(shares, "TASK_SIZES", (1, 1000))
        monkeypatch.setattr(plan, "ENVIRONMENT_COST", 1)
    done = find(root, *words, "--format", "jsonl")
    assert done.code == 3
    traces = rows_of(done, "traces")
    assert len({row["env"] for row in traces}) > 2
    for name in NAMES:
        env = root / name
        alone = je_tools("erase", "subject", env, *words, "--format", "jsonl").rows
        mine = [row for row in traces if row["env"] == str(env)]
        said = [row for row in alone if row["section"] == "traces"]
        columns = ("file", "offset", "lsn", "type", "db", "where", "state", "can_erase", "reason")
        assert [[row[each] for each in columns] for row in mine] == [
            [row[each] for each in columns] for row in said
        ]
    found = {row["env"]: row["hit_count"] for row in rows_of(done, "environments")}
    assert found == {
        env: sum(row["env"] == env for row in traces) for env in {row["env"] for row in traces}
    }
    assert KEY not in done.out.decode() + done.err
    assert EMAIL not in done.out.decode() + done.err


def test_nothing_is_found_where_nothing_is(root: Path) -> None:
    done = find(root, "--match", "nobody@example.org")
    assert done.code == 0
    assert "no trace was found; searched: 4 environments" in done.err
    assert done.out == b""


def test_a_log_that_cannot_be_opened_is_searched(root: Path) -> None:
    """The rest of it has traces, whose state is not known."""
    path = root / "v17-basic" / "00000000.jdb"
    data = path.read_bytes()
    path.write_bytes(b"\xff" * 100 + data[100:150_000])
    done = find(root / "v17-basic", "--match", EMAIL, "--format", "jsonl")
    assert done.code == 3
    assert rows_of(done, "traces")
    assert rows_of(done, "gaps")


def test_what_cannot_be_searched_is_no_all_clear(root: Path) -> None:
    (root / "v17-basic" / "backup.lzma").write_bytes(b"]\x00\x00\x80\x00" + bytes(50))
    done = find(root, "--match", "nobody@example.org", "--format", "jsonl")
    assert done.code == 3
    assert [(Path(str(row["env"])).name, row["file"]) for row in rows_of(done, "gaps")] == [
        ("v17-basic", "backup.lzma")
    ]
    assert "not everything was searched" in done.err
    assert find(root, "--match", "nobody@example.org", "--exit-zero").code == 0


def test_a_name_with_a_needle_is_masked(root: Path) -> None:
    (root / "v17-basic").rename(root / EMAIL)
    done = find(root, "--match", EMAIL)
    assert "(masked " in done.out.decode()
    assert EMAIL not in done.out.decode() + done.err


def test_files_are_no_roots(root: Path) -> None:
    assert find(root / "v17-basic" / "00000000.jdb", "--match", EMAIL).code == 2
    assert je_tools("audit", "find", root, "--engine", "local").code == 2


class LosingEngine(Struct):
    """An engine in this process; a folder disappears after the first stage."""

    folder: Path
    cores: int = 1

    def run(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        done = [work(task) for task in tasks]
        shutil.rmtree(self.folder, ignore_errors=True)
        return done


@pytest.mark.parametrize("is_store", [False, True])
def test_an_environment_that_goes_between_two_searches_is_a_gap(
    tmp_path: Path, *, is_store: bool
) -> None:
    if is_store:
        home = pages.write_page_store(tmp_path / "work")
        with min(home.rglob("part-*.bin")).open("ab") as file:
            file.write(EMAIL.encode())
    else:
        home = shutil.copytree(FIXTURES / "v17-basic" / "env", tmp_path / "env")
    fleet = find_fleet([home], tuple(EnvironmentKind))
    needle = Needle(NeedleKind.LITERAL, "--match", EMAIL.encode(), len(EMAIL))
    work = FindWork((needle,), Masking(DataMode.HASH), find_subject)
    hits = find_everywhere(LosingEngine(home), fleet, work)
    (each,) = hits.environments
    assert each.hit_count > 0
    assert str(home) in each.gaps[-1][1]
    assert not hits.is_whole


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_store_of_ignite_is_searched_but_never_clear(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, is_cut: bool
) -> None:
    if is_cut:
        monkeypatch.setattr(shares, "TASK_SIZES", (1, 1000))
        monkeypatch.setattr(plan, "ENVIRONMENT_COST", 1)
    store = pages.write_page_store(root / "work")
    part = min(store.rglob("part-*.bin"))
    data = part.read_bytes()
    part.write_bytes(data[:-100] + EMAIL.encode() + data[-100 + len(EMAIL) :])
    segment = store / "db" / "wal" / "archive" / "node" / f"{0:016}.wal"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(EMAIL.encode())
    done = find(root, "--match", EMAIL, "--format", "jsonl")
    columns = ("file", "offset", "where", "state", "can_erase")
    traces = [row for row in rows_of(done, "traces") if row["env"] == str(store)]
    name = str(part.relative_to(store))
    assert [tuple(row[each] for each in columns) for row in traces] == [
        (name, len(data) - 100, "pages", "not judged", None),
        (str(segment.relative_to(store)), 0, "WAL", "not judged", None),
    ]
    assert len(rows_of(done, "environments")) == len(NAMES) + 1
    monkeypatch.setenv("COLUMNS", "300")
    text = find(store, "--match", EMAIL).out.decode()
    assert re.search(rf"{re.escape(name)} +{len(data) - 100} ", text)
    clear = find(root, "--match", "nobody@example.org", "--format", "jsonl")
    assert clear.code == 3
    (gap,) = rows_of(clear, "gaps")
    assert gap["env"] == str(store)
    assert "only its bytes were searched" in str(gap["problem"])
    assert "not everything was searched" in clear.err
