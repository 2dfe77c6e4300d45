"""Runs compared: `audit diff`, `audit trend`, `--keep`."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import duckdb
import pytest

from je_tools.audit.changes import Change, find_changes
from je_tools.audit.output_folder import complete_runs
from je_tools.errors import InputError, UsageError
from tests.corpus import FIXTURES, ROOT
from tests.damage.running import je_tools
from tests.je_tools.audit.test_queries import largest_types, open_txns

AUDIT = ("audit", "run", "--engine", "local", "--fail-on", "never")


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Audit four environments twice: one is damaged, one grows, one disappears, one stays."""
    folder = tmp_path_factory.mktemp("runs")
    root, output = folder / "root", folder / "out"
    for name in ("hurt", "grown", "gone", "same"):
        shutil.copytree(FIXTURES / "v17-basic" / "env", root / name)
    path = root / "grown" / "00000000.jdb"
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    je_tools(*AUDIT, root, "--output", output)
    with (root / "hurt" / "00000000.jdb").open("r+b") as file:
        file.seek(500)
        file.write(b"XX")
    path.write_bytes(whole)
    shutil.rmtree(root / "gone")
    je_tools(*AUDIT, root, "--output", output)
    return root, output


def test_changes_are_those_that_were_made(audited: tuple[Path, Path]) -> None:
    _root, output = audited
    changes = find_changes(output, [])
    found = {Path(each.env).name: each for each in changes.environments()}
    assert found.keys() == {"hurt", "grown", "gone"}
    assert [each.change for each in changes.environments()] == [
        Change.WORSE,
        Change.GONE,
        Change.BETTER,
    ]
    hurt, grown, gone = found["hurt"], found["grown"], found["gone"]
    assert (hurt.severity_before, hurt.severity, hurt.new_finding_count) == ("ok", "error", 2)
    assert (grown.size, grown.gone_finding_count) == (100, 1)
    assert grown.entry_count > 0
    assert (gone.severity, gone.gone_file_count, gone.new_file_count) == (None, 1, 0)
    first, second, *old = changes.findings()
    for new, code in ((first, "damaged-entry"), (second, "lost-tail")):
        assert (new.change, new.code, Path(new.env).name) == (Change.NEW, code, "hurt")
    assert [(each.change, each.code) for each in old] == [(Change.GONE, "torn-tail")]


def test_a_new_finding_decides_the_exit_code(audited: tuple[Path, Path]) -> None:
    _, output = audited
    assert je_tools("audit", "diff", output).code == 3
    assert je_tools("audit", "diff", output, "--fail-on", "never").code == 0
    first, second = (each.run for each in complete_runs(output))
    done = je_tools("audit", "diff", output, second, first, "--format", "jsonl")
    assert done.code == 0
    new = [row for row in done.rows if row["section"] == "findings" and row["change"] == "new"]
    assert [(row["code"], row["severity"]) for row in new] == [("torn-tail", "note")]
    assert je_tools("audit", "diff", output, second, first, "--fail-on", "note").code == 3


def test_duckdb_answers_for_each_of_two_runs(audited: tuple[Path, Path]) -> None:
    """The example queries of the README, asked for one run, count what `summary` counts."""
    root, output = audited
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    of_txns, of_types = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    first, second = (each.run for each in complete_runs(output))
    homes = [path for path in root.iterdir() if path.is_dir()]
    expected = [row[:3] for row in largest_types(homes, 4, with_largest=False)]
    assert answer(of_types, output, second) == expected
    open_now = [line[:-1] for home in sorted(homes) for line in open_txns(str(home), home)]
    assert sorted(answer(of_txns, output, second)) == open_now
    # `hurt` was sound in the first run, and `gone` was there.
    counts = {line[0]: int(line[1]) for line in answer(of_types, output, first)}
    assert counts["Commit"] > int({line[0]: line[1] for line in expected}["Commit"])
    assert answer(of_txns, output, first) == []
    last = "(SELECT max(run) FROM 'audit/runs/*/*.parquet')"
    assert answer(of_types, output, last, quote="") == expected


def answer(query: str, output: Path, run: str, quote: str = "'") -> list[list[str]]:
    """Return the rows of DuckDB's answer for one run, as texts."""
    chosen = f"run = {quote}{run}{quote}"
    query = query.replace("WHERE ", f"WHERE {chosen} AND ")
    if chosen not in query:
        query = query.replace(" GROUP BY", f" WHERE {chosen} GROUP BY")
    rows = duckdb.sql(query.replace("audit/", f"{output}/")).fetchall()
    return [[str(value) for value in row] for row in rows]


def test_runs_that_do_not_exist(audited: tuple[Path, Path], tmp_path: Path) -> None:
    _, output = audited
    with pytest.raises(UsageError, match="has no such run; there are: 2"):
        find_changes(output, ["yesterday"])
    with pytest.raises(InputError, match="0 runs of an audit; two are needed"):
        find_changes(tmp_path, [])
    assert je_tools("audit", "diff", output, "a", "b", "c").code == 2
    assert je_tools("audit", "trend", tmp_path).code == 4
    unknown = je_tools("audit", "trend", output, "--env", "root/hurt")
    assert unknown.code == 2
    assert f"did you mean {audited[0] / 'hurt'}?" in unknown.err


def test_the_history_has_a_row_for_each_run(audited: tuple[Path, Path]) -> None:
    root, output = audited
    rows = je_tools("audit", "trend", output, "--format", "jsonl").rows
    assert [row["run"] for row in rows] == [each.run for each in complete_runs(output)]
    assert [row["environment_count"] for row in rows] == [4, 3]
    assert [row["error_env_count"] for row in rows] == [0, 1]
    of_one = ("audit", "trend", output, "--env", root / "hurt", "--format", "jsonl")
    assert [row["severity"] for row in je_tools(*of_one).rows] == ["ok", "error"]


def test_only_the_last_runs_are_kept(tmp_path: Path) -> None:
    root, output = tmp_path / "root", tmp_path / "out"
    shutil.copytree(FIXTURES / "v17-basic" / "env", root / "env")
    for _ in range(3):
        assert je_tools(*AUDIT, root, "--output", output, "--keep", "2").code == 0
    runs = complete_runs(output)
    assert len(runs) == 2
    for folder in output.iterdir():
        if folder.is_dir() and not folder.name.startswith("."):
            assert sorted(path.name for path in folder.iterdir()) == [
                f"run={each.run}" for each in runs
            ]
    assert not (output / ".staging").exists()


def test_a_root_whose_name_is_not_utf8(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"root\xff")
    shutil.copytree(FIXTURES / "v17-basic" / "env", root)
    done = je_tools(*AUDIT, root, "--output", tmp_path / "out", "--format", "json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["run"]["roots"] == [f"{tmp_path}/root\\xff"]


def test_the_reasons_of_what_could_not_be_read_are_said(tmp_path: Path) -> None:
    for number in range(12):
        home = tmp_path / "fleet" / f"env{number}"
        home.mkdir(parents=True)
        (home / "00000000.jdb").symlink_to(tmp_path / "elsewhere" / "nothing")
    done = je_tools(*AUDIT, tmp_path / "fleet", "--output", tmp_path / "out")
    said = [line for line in done.err.splitlines() if line.startswith("je-tools: not read: ")]
    assert len(said) == 11, done.err
    assert f"{tmp_path}/fleet/env0: " in said[0]
    assert "no .jdb files here" in said[0]
    assert said[-1] == "je-tools: not read: 2 more, in the table findings"
