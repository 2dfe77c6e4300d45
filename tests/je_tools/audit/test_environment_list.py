"""Environments of a summary: in a file, in the order of what is at stake, in little memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from je_tools.audit import changes
from je_tools.audit.changes import compare_runs
from je_tools.audit.environment_list import CodeCount, EnvironmentList, EnvironmentRow
from je_tools.audit.environment_reading import read_environments
from je_tools.audit.output_folder import RunFolder
from je_tools.audit.table_reading import rows_in_parts
from je_tools.audit.tables import ENVIRONMENTS, FILES, FINDINGS
from je_tools.pages.shown import natural_bytes, natural_key
from tests.builders.fleets import RUN, write_fleet
from tests.corpus import FIXTURES

ROWS = [
    EnvironmentRow({"env": f"n{number}", "size": -number}, (CodeCount("code", "error", number),))
    for number in range(5)
]
ROWS[3] = EnvironmentRow({"env": "n3", "size": None}, (), 1 << 62, {"node": "ü", "lag": -1})


def facts(row: EnvironmentRow) -> tuple[object, ...]:
    node = None if row.node is None else dict(row.node)
    return dict(row.values), row.findings, row.last_txn_ms, node


def test_rows_come_back_in_any_order(tmp_path: Path) -> None:
    listed = EnvironmentList(tmp_path, ["env", "size"], ["node", "lag"])
    for row in ROWS:
        listed.append(row)
    assert list(map(facts, listed)) == list(map(facts, ROWS))
    assert list(tmp_path.iterdir()) == []
    listed.sort([b"%d" % (9 - number) for number in range(5)])
    assert len(listed) == 5
    assert list(map(facts, listed)) == list(map(facts, ROWS[::-1]))
    assert [row.env for row in listed[1:3]] == ["n3", "n2"]
    assert listed[-1].env == "n0"
    with pytest.raises(IndexError):
        listed[5]


NAMES = st.text(st.sampled_from("a0129é\0\U0001f600/"), max_size=6)


@given(st.lists(NAMES | st.text(max_size=4), max_size=8))
def test_bytes_sort_like_the_numbers_in_names(names: list[str]) -> None:
    expected = sorted(names, key=lambda name: (natural_key(name), name))
    assert sorted(names, key=natural_bytes) == expected


def written(folder: Path, count: int, group_rows: int | None = None) -> RunFolder:
    """Write a run of environments with a finding each."""
    envs = [f"/fleet/host{number:06}/meta/bdb" for number in range(count)]
    run = RunFolder(folder / str(count), RUN)
    for table, values in ((ENVIRONMENTS, {}), (FINDINGS, {"code": "vlsn-gap"})):
        constant = {"severity": "note", **values}
        columns = [
            pa.array(envs)
            if field.name == "env"
            else pa.array([constant.get(field.name)] * count, field.type)
            for field in table.schema
        ]
        path = run.path / table.name / f"run={RUN}" / "part-00000.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table(columns, table.schema), path, row_group_size=group_rows)
    return run


def test_an_environment_takes_little_memory(tmp_path: Path) -> None:
    peaks = []
    for count in (1_000, 1_000, 4_000):
        run = written(tmp_path / str(len(peaks)), count)
        counts = pa.table(
            {
                "env": [f"/fleet/host{number:06}/meta/bdb" for number in range(count)],
                "code": ["vlsn-gap"] * count,
                "severity": ["note"] * count,
                "count": [1] * count,
            }
        )
        tracemalloc.start()
        listed = read_environments(run, counts)
        assert sum(len(row.findings) for row in listed) == len(listed) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # A row as Python objects takes 3 KB; its key, place and number take a tenth.
    assert (peaks[2] - peaks[1]) / 3_000 < 400, peaks


def test_changes_in_parts_are_those_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [write_fleet(tmp_path / name, count).run for name, count in (("a", 30), ("b", 40))]
    names = [pq.read_table(run.parts(FILES.name)[0])["env"][0].as_py() for run in runs]
    assert names[0] == names[1]
    whole = compare_runs(*runs)
    monkeypatch.setattr(changes, "ENVIRONMENTS_AT_ONCE", 3)
    parted = compare_runs(*runs)
    assert parted.table.equals(whole.table)
    assert parted.table.num_rows >= 10
    assert parted.new_findings.equals(whole.new_findings)
    assert parted.gone_findings.equals(whole.gone_findings)
    assert sum(parted.counts.values()) == parted.table.num_rows
    assert [each.env for each in parted.environments(2)] == parted.table["env"].to_pylist()[:2]


def test_a_part_reads_only_its_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts together would take quadratic time otherwise."""
    runs = [written(tmp_path / name, 40, group_rows=4) for name in "ab"]
    monkeypatch.setattr(changes, "ENVIRONMENTS_AT_ONCE", 4)
    read: list[int] = []

    def counted(*values: Any) -> Iterator[pa.Table]:
        for part in rows_in_parts(*values):
            read.append(len(part))
            yield part

    monkeypatch.setattr(changes, "rows_in_parts", counted)
    assert compare_runs(*runs).table.num_rows == 0
    # Once the names, and the rows of both tables; then a group of each part.
    assert sum(read) == len(runs) * 3 * 40
    assert len(read) == len(runs) * 3 * 10


POOL = """
import ctypes, os, sys
from je_tools.commands.main import main
if sys.argv[1] == "shared":
    from je_tools.commands.main import group, run
    main = lambda: sys.exit(run(group))
if sys.argv[2] == "loaded":
    import pyarrow
del sys.argv[1:3]
try:
    main()
except SystemExit as end:
    import pyarrow
    names = [name for name in os.environ if name.startswith("ARROW")]
    print(end.code, pyarrow.default_memory_pool().backend_name, *names)
"""


@pytest.mark.parametrize(
    ("whose", "loaded", "is_malloc"),
    [("own", "", True), ("shared", "", False), ("shared", "loaded", False)],
)
def test_only_a_process_of_the_command_has_arrow_without_a_pool_of_its_own(
    whose: str, loaded: str, is_malloc: bool, tmp_path: Path
) -> None:
    """The pool would keep what each of Arrow's threads has freed; processes inherit no variable."""
    shutil.copytree(FIXTURES / "v17-basic" / "env", tmp_path / "env")
    words = ("audit", "run", tmp_path / "env", "-o", tmp_path / "out", "--engine", "local")
    command = [sys.executable, "-c", POOL, whose, loaded, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    code, pool = done.stdout.split()[-2:]
    assert (code, pool == "system") == ("0", is_malloc)


def test_only_a_process_of_the_command_has_it_for_records(tmp_path: Path) -> None:
    words = ("export", FIXTURES / "v17-basic" / "env", "--format", "parquet", "--all")
    pools = []
    for whose in ("own", "shared"):
        output = ("--output", tmp_path / f"{whose}.parquet")
        command = [sys.executable, "-c", POOL, whose, "", *words, *output]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        code, pool = done.stdout.split()[-2:]
        assert code == "0"
        pools.append(pool)
    assert (pools[0], pools[1] == "system") == ("system", False)
