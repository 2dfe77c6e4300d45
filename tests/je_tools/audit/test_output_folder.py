"""The folder of audits: runs appear complete or not at all, and nothing of others is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from je_tools.audit import output_folder
from je_tools.audit.output_folder import (
    KNOWN_NAME,
    LOG_NAME,
    STAGING_NAME,
    RunFolder,
    complete_runs,
    open_output,
    prune,
    run_rows,
)
from je_tools.audit.tables import FINDINGS, RUNS, TABLES
from je_tools.errors import RefusedError
from tests.corpus import ROOT

NAMES = {table.name for table in (*TABLES, RUNS)}
ROW: dict[str, Any] = {column.name: None for column in RUNS.columns}


def publish(run: RunFolder, text: str) -> None:
    """Write the tables of a run, with one finding."""
    staged = run.path / STAGING_NAME / "one.parquet"
    pq.write_table(pa.Table.from_pylist([{"env": text}], FINDINGS.schema), staged)
    run.publish([(FINDINGS.name, str(staged))])


def write_run(output: Path, text: str) -> RunFolder:
    with open_output(output) as run:
        publish(run, text)
        run.complete(ROW)
    return run


def texts(output: Path) -> list[str]:
    """Return the findings of all complete runs, which need all their tables."""
    for run in complete_runs(output):
        assert all(len(run.parts(table.name)) == 1 for table in TABLES)
    return [
        row["env"]
        for run in complete_runs(output)
        for part in run.parts(FINDINGS.name)
        for row in pq.ParquetFile(part).read().to_pylist()
    ]


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_runs_follow_each_other(tmp_path: Path) -> None:
    """Ids are in order, even if runs start in the same second, or the clock is set back."""
    output = tmp_path / "below" / "out"
    runs = [write_run(output, str(number)) for number in range(4)]
    assert texts(output) == ["0", "1", "2", "3"]
    assert complete_runs(output) == runs
    assert [row["run"] for row in run_rows(output)] == [run.run for run in runs]
    assert names_in(output) == {KNOWN_NAME, *NAMES}


def test_a_run_counts_when_it_is_complete(tmp_path: Path) -> None:
    output = tmp_path / "out"
    write_run(output, "first")
    with open_output(output) as run:
        publish(run, "second")
        assert texts(output) == ["first"]
        run.complete(ROW)
        assert texts(output) == ["first", "second"]


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("is_published", [False, True])
def test_a_run_that_fails_leaves_nothing(
    tmp_path: Path, *, is_there: bool, is_published: bool
) -> None:
    output = tmp_path / "out"
    if is_there:
        write_run(output, "first")
        (output / KNOWN_NAME / "one").touch()

    def fail() -> None:
        with open_output(output) as run:
            if is_published:
                publish(run, "second")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert texts(output) == ["first"] * is_there
    if is_there:
        assert names_in(output) == {KNOWN_NAME, *NAMES}
        assert all(len(names_in(output / name)) == 1 for name in NAMES)
        assert names_in(output / KNOWN_NAME) == {"one"}
    else:
        assert not output.exists()


def test_what_a_first_run_that_fails_knows_is_kept(tmp_path: Path) -> None:
    output = tmp_path / "out"

    def fail() -> None:
        with open_output(output):
            (output / KNOWN_NAME / "one").touch()
            (output / LOG_NAME).touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert names_in(output) == {KNOWN_NAME}
    write_run(output, "first")
    assert names_in(output / KNOWN_NAME) == {"one"}


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.je_tools.audit import test_output_folder as tests
with tests.open_output(Path(sys.argv[1])) as run:
    tests.publish(run, "killed")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("is_there", [False, True])
def test_what_a_killed_run_leaves_goes_with_the_next(tmp_path: Path, *, is_there: bool) -> None:
    """Its lock has gone with its process."""
    output = tmp_path / "out"
    first = ["first"] * is_there
    for text in first:
        write_run(output, text)
    command = [sys.executable, "-c", KILLED, str(output)]
    done = subprocess.run(command, cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(names_in(output / FINDINGS.name)) == 1 + is_there
    assert (output / STAGING_NAME).exists()
    assert texts(output) == first
    write_run(output, "third")
    assert texts(output) == [*first, "third"]
    assert all(len(names_in(output / name)) == 1 + is_there for name in NAMES)
    assert not (output / STAGING_NAME).exists()


def test_a_half_written_row_is_none(tmp_path: Path) -> None:
    output = tmp_path / "out"
    write_run(output, "first")
    half = output / RUNS.name / "run=20990101T000000Z"
    half.mkdir()
    (half / ".part-00000.parquet").write_bytes(b"PAR1")
    assert len(run_rows(output)) == 1
    write_run(output, "second")
    assert not half.exists()


def test_two_audits_into_one_folder(tmp_path: Path) -> None:
    """A nightly audit may still run when the next one starts; that one is refused."""
    output = tmp_path / "out"
    with open_output(output) as run:
        publish(run, "first")
        with pytest.raises(RefusedError, match="another audit writes into this folder"):
            write_run(output, "second")
        run.complete(ROW)
    assert texts(output) == ["first"]
    write_run(output, "third")
    assert texts(output) == ["first", "third"]


def test_a_refused_audit_removes_nothing(tmp_path: Path) -> None:
    output = tmp_path / "out"
    with open_output(output) as run:
        (output / STAGING_NAME / "one").touch()
        with pytest.raises(RefusedError):
            write_run(output, "second")
        assert (output / STAGING_NAME / "one").exists()
        publish(run, "first")
        run.complete(ROW)
    assert texts(output) == ["first"]


FOREIGN = (
    "notes.txt",
    "backup/00000000.jdb",
    "findings/part-00000.parquet",
    "audit.json",
    "report.html/00000000.jdb",
    ".hidden",
    "runs",
)
"""The third is what older versions of je-tools have written."""


@pytest.mark.parametrize("name", FOREIGN)
def test_a_folder_that_no_audit_has_made_is_refused(tmp_path: Path, name: str) -> None:
    output = tmp_path / "out"
    (output / name).parent.mkdir(parents=True)
    (output / name).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RefusedError, match="is not from an audit of this version"):
        write_run(output, "first")
    assert (output / name).read_text() == "mine"
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", FOREIGN[:6])
def test_files_of_others_beside_an_audit_stay(tmp_path: Path, name: str) -> None:
    output = tmp_path / "out"
    write_run(output, "first")
    (output / name).parent.mkdir(parents=True, exist_ok=True)
    (output / name).write_text("mine")
    write_run(output, "second")
    prune(output, 1)
    assert texts(output) == ["second"]
    assert (output / name).read_text() == "mine"


def test_an_empty_folder_and_a_link_to_one_are_taken(tmp_path: Path) -> None:
    """The link stays a link. A log that a failed Spark has left does not count."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / LOG_NAME).touch()
    (tmp_path / "link").symlink_to("real")
    write_run(tmp_path / "link", "first")
    assert (tmp_path / "link").is_symlink()
    assert texts(tmp_path / "real") == ["first"]


def test_a_folder_that_cannot_be_made_or_listed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "file" / "below")
    with pytest.raises(RefusedError, match="cannot create the folder: Not a directory"):
        write_run(tmp_path / "file" / "below", "first")
    with pytest.raises(RefusedError, match="cannot list the folder"):
        write_run(tmp_path / "dangling", "first")
    assert names_in(tmp_path) == {"file", "dangling"}


def test_a_folder_whose_name_is_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="not UTF-8"):
        write_run(tmp_path / os.fsdecode(b"out\xff"), "first")
    assert names_in(tmp_path) == set()


def test_old_runs_are_removed(tmp_path: Path) -> None:
    output = tmp_path / "out"
    for number in range(5):
        write_run(output, str(number))
    prune(output, 9)
    assert len(complete_runs(output)) == 5
    prune(output, 2)
    assert texts(output) == ["3", "4"]
    assert all(len(names_in(output / name)) == 2 for name in NAMES)


def test_a_run_that_is_removed_is_never_seen_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out"
    for number in range(2):
        write_run(output, str(number))
    removed = output_folder.shutil.rmtree
    seen = []

    def watched(path: Path, **how: Any) -> None:
        removed(path, **how)
        seen.append(texts(output))

    monkeypatch.setattr(output_folder.shutil, "rmtree", watched)
    prune(output, 1)
    assert seen == [["1"]] * (len(TABLES) + 1)


def test_readers_find_no_hidden_files(tmp_path: Path) -> None:
    run = write_run(tmp_path / "out", "first")
    folder = run.parts(FINDINGS.name)[0].parent
    for name in (".half.parquet", "_metadata.parquet", "notes.txt"):
        (folder / name).touch()
    assert [part.name for part in run.parts(FINDINGS.name)] == ["part-00000.parquet"]
