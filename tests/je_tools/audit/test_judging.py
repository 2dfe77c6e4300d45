"""Files that cannot be read when their turn comes, and logs with two files of one number."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from je_tools.audit import opening
from je_tools.audit.discover import find_fleet
from je_tools.audit.failures import reporting_failures
from je_tools.audit.file_counts import FileCounts
from je_tools.audit.joining import OpenTransactions
from je_tools.audit.known_files import KnownFiles
from je_tools.audit.rows import TXN_COUNTS
from je_tools.audit.table_writer import TableWriter
from je_tools.audit.tables import ENVIRONMENTS
from je_tools.audit.tasks import AuditTasks
from je_tools.errors import InputError, RefusedError, StoppedError
from je_tools.formats.files import source
from je_tools.log.opening import open_environment
from je_tools.verify.vlsn_sequence import ROLLBACK, Runs
from tests.builders.logs import write_log
from tests.corpus import FIXTURES
from tests.damage.closed import DENIED, close
from tests.damage.planted_findings import PLANTED, log
from tests.je_tools.audit.auditing import WHOLE, Row, Tables, audit_fleet, cut, lsn_said
from tests.je_tools.dumped import dump, rows_of

Change = Callable[[Path], None]


def three_files(folder: Path) -> Path:
    """Write a log of three files, the last larger than the others."""
    files = [log()]
    for count in (10, 60):
        files.append(files[-1].follower())
        for size in range(20, 20 + count):
            files[-1].trace(size)
    return write_log(folder, files)


def vanish(path: Path) -> None:
    path.unlink()


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 20)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def circle(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def audited_after(change: Change, path: Path, folder: Path, root: Path | None = None) -> Tables:
    """Audit an environment in which a file changes after the environment was opened."""

    def opened(paths: tuple[Path, ...], **how: Any) -> Any:
        environment = open_environment(paths, **how)
        change(path)
        return environment

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(opening, "open_environment", opened)
        return audit_fleet(find_fleet([root or path.parent]), folder)


@pytest.mark.parametrize("size", [WHOLE, 300])
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("change", [vanish, shrink, empty, circle])
def test_a_file_that_is_not_what_it_was(
    change: Change, number: int, size: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs one finding; the other files are reported in full."""
    cut(monkeypatch, size)
    home = three_files(tmp_path / "env")
    tables = audited_after(change, home / f"{number:08x}.jdb", tmp_path / "out")
    (found,) = tables["findings"]
    assert (found["code"], found["severity"], found["file_no"]) == ("unread", "error", number)
    assert found["env"] == str(home)
    assert found["hint"]
    assert f"{number:08x}.jdb" in found["found"]
    assert [row["damage_count"] for row in tables["files"]] == [
        int(no == number) for no in range(3)
    ]
    entries = [row["entry_count"] for row in tables["files"]]
    assert entries == [0 if no == number else count for no, count in enumerate((8, 11, 61))]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_file_that_the_system_does_not_open(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs one finding; the other files are reported in full."""
    home = three_files(tmp_path / "env")
    closed = home / f"{number:08x}.jdb"
    size = closed.stat().st_size
    close(monkeypatch, closed)
    tables = audit_fleet(find_fleet([home]), tmp_path / "out")
    (found,) = tables["findings"]
    assert (found["code"], found["severity"]) == ("unreadable-file", "error")
    assert (found["file_no"], found["found"]) == (number, DENIED)
    counts = [0 if no == number else count for no, count in enumerate((8, 11, 61))]
    assert [(row["file_no"], row["entry_count"]) for row in tables["files"]] == list(
        enumerate(counts)
    )
    row = tables["files"][number]
    assert (row["name"], row["size"], row["damage_count"]) == (closed.name, size, 1)
    assert (row["log_version"], row["created_ms"], row["first_lsn"]) == (None, None, None)
    (row,) = tables["environments"]
    assert (row["severity"], row["error_count"], row["file_count"]) == ("error", 1, 3)


def test_a_file_that_is_missing_before_one_that_the_system_does_not_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = three_files(tmp_path / "env")
    (home / "00000001.jdb").unlink()
    close(monkeypatch, home / "00000002.jdb")
    tables = audit_fleet(find_fleet([home]), tmp_path / "out")
    found = [(row["code"], row["severity"], row["file_no"]) for row in tables["findings"]]
    assert found == [("missing-file", "warning", 1), ("unreadable-file", "error", 2)]


def test_a_marker_that_the_system_does_not_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = three_files(tmp_path / "env")
    (home / "00000001.jdb").unlink()
    marker = home / "7fffffff.jdb"
    marker.touch()
    close(monkeypatch, marker)
    tables = audit_fleet(find_fleet([home]), tmp_path / "out")
    found = {row["code"]: row["found"] for row in tables["findings"]}
    assert found.keys() == {"missing-file", "restore-marker"}
    assert found["restore-marker"] == f"{marker.name}: not readable: {DENIED}"


def test_an_environment_of_which_the_system_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = three_files(tmp_path / "env")
    close(monkeypatch, *home.iterdir())
    tables = audit_fleet(find_fleet([home]), tmp_path / "out")
    (found,) = tables["findings"]
    assert (found["code"], found["file_no"]) == ("unread", None)
    assert DENIED in found["found"]
    (row,) = tables["environments"]
    assert (row["severity"], row["file_count"]) == ("error", 0)
    assert [row[name] for name in TXN_COUNTS] == [None] * 3


def test_a_file_that_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def grow(path: Path) -> None:
        with path.open("ab") as file:
            file.write(b"more than there was")

    for size in (WHOLE, 300):
        cut(monkeypatch, size)
        home = three_files(tmp_path / f"env{size}")
        tables = audited_after(grow, home / "00000002.jdb", tmp_path / f"out{size}")
        codes = {(row["code"], row["severity"]) for row in tables["findings"]}
        assert codes <= {("live-writer", "note"), ("torn-tail", "note")}
        assert codes
        assert [row["entry_count"] for row in tables["files"]] == [8, 11, 61]


@pytest.mark.parametrize("size", [WHOLE, 300_000])
def test_transactions_of_a_file_that_could_not_be_read(
    size: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transactions read before the failure do not count; those of other files do."""
    cut(monkeypatch, size)
    home = tmp_path / "env"
    shutil.copytree(FIXTURES / "v17-erase-after" / "env", home)
    others = tmp_path / "others"
    shutil.copytree(home, others / "env")
    (others / "env" / "00000001.jdb").unlink()
    tables = audited_after(shrink, home / "00000001.jdb", tmp_path / "out")
    assert [row["file_no"] for row in tables["findings"]] == [1]
    expected = audit_fleet(find_fleet([others]), tmp_path / "other-out")
    entries = [sum(row["entry_count"] for row in each["txns"]) for each in (tables, expected)]
    assert entries[0] == entries[1] > 0
    assert [row["txn_id"] for row in tables["txns"]] == [row["txn_id"] for row in expected["txns"]]


def test_an_environment_that_has_gone(tmp_path: Path) -> None:
    home, other = three_files(tmp_path / "fleet" / "a"), three_files(tmp_path / "fleet" / "b")
    fleet = find_fleet([tmp_path / "fleet"])
    home.rename(tmp_path / "elsewhere")
    tables = audit_fleet(fleet, tmp_path / "out")
    assert [(row["env"], row["code"], row["file_no"]) for row in tables["findings"]] == [
        (str(home), "unread", None)
    ]
    assert {row["env"] for row in tables["entry_stats"]} == {str(other)}
    assert [row["env"] for row in tables["environments"]] == [str(home), str(other)]


def test_an_environment_that_goes_when_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = three_files(tmp_path / "env")
    opened = opening.open_environment

    def gone(paths: tuple[Path, ...], **how: Any) -> Any:
        environment = opened(paths, **how)
        home.rename(tmp_path / "elsewhere")
        return environment

    monkeypatch.setattr(opening, "open_environment", gone)
    tables = audit_fleet(find_fleet([home]), tmp_path / "out")
    assert [(row["code"], row["file_no"]) for row in tables["findings"]] == [
        ("unread", no) for no in range(3)
    ]
    assert [row["source"] for row in tables["files"]] == [None] * 3
    assert [tables["environments"][0][name] for name in TXN_COUNTS] == [None] * 3


def test_properties_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit takes only the engine's file size limit from them."""
    for name in ("v6-halt", "v17-basic"):
        home = tmp_path / name
        home.mkdir()
        for path in (FIXTURES / name / "env").glob("*.jdb"):
            (home / path.name).write_bytes(path.read_bytes())
        (home / "je.properties").write_text("je.log.fileMax=5000000")
    read_bytes = Path.read_bytes

    def refusing(path: Path) -> bytes:
        if path.name == "je.properties":
            raise OSError(errno.EACCES, DENIED)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refusing)
    tables = audit_fleet(find_fleet([tmp_path]), tmp_path / "out")
    assert {row["code"] for row in tables["findings"]} <= {"old-form-to-replay"}
    assert len({row["env"] for row in tables["checkpoints"]}) == 2


def test_bytes_that_the_device_does_not_deliver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are a separate finding, in whole files and in cut ones."""
    file = log()
    start, stop = file.trace(20_000)
    file.trace(50)
    home = write_log(tmp_path / "env", [file])
    preadv = source.os.preadv

    def with_bad_sector(fd: int, buffers: Any, offset: int) -> int:
        if offset < 8192 and offset + sum(len(buffer) for buffer in buffers) > 4096:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return preadv(fd, buffers, offset)

    monkeypatch.setattr(os, "preadv", with_bad_sector)
    monkeypatch.setattr(source.Source, "file", lambda _: None)
    for size in (WHOLE, 9000):
        cut(monkeypatch, size)
        tables = audit_fleet(find_fleet([home]), tmp_path / f"out{size}")
        places = [(row["code"], row["offset"], row["length"]) for row in tables["findings"]]
        assert places == [("damaged-entry", start, stop - start), ("unreadable", 4096, 4096)]


def test_a_rollback_between_two_ranges_ends_a_run() -> None:
    """A rollback inside a range does the same, even if the VLSNs continue after it."""
    counts = FileCounts()
    for runs in ([(38, 5, 7), (90, 8, 9)], [(120, ROLLBACK, 9)], [(150, 10, 11), (180, 10, 10)]):
        columns = (np.array(column, np.int64) for column in zip(*runs, strict=True))
        judged = SimpleNamespace(runs=Runs(*columns))
        counts.add(SimpleNamespace(types=np.empty((0, 6)), file=SimpleNamespace(judged=judged)))
    assert [row[2:] for row in counts.run_rows("e", 0)] == [
        (38, 5, 9, 5),
        (150, 10, 11, 2),
        (180, 10, 10, 1),
    ]


@pytest.mark.parametrize("size", [WHOLE, 30_000])
def test_marks_that_decide_outcomes(
    size: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They match the RollbackStart and CkptEnd entries that `dump` shows."""
    cut(monkeypatch, size)
    home = FIXTURES / "v15-rep-uncommitted" / "node1"
    rows = rows_of(dump(home, "--type", "RollbackStart", "--type", "CkptEnd", "--format", "jsonl"))
    entries = [(row["type"], lsn_said(row["lsn"]), row["entry"]) for row in rows]
    opened: list[OpenTransactions] = []
    joined = OpenTransactions.joined

    def kept(self: OpenTransactions, env: str) -> Any:
        opened.append(self)
        return joined(self, env)

    monkeypatch.setattr(OpenTransactions, "joined", kept)
    audit_fleet(find_fleet([home]), tmp_path / "out")
    (marks,) = opened
    told = [(each.lsn, each.matchpoint_lsn, sorted(each.txn_ids)) for each in marks.rollbacks]
    assert told == [
        (lsn, lsn_said(entry["matchpoint_lsn"]), sorted(entry["active_txns"]))
        for name, lsn, entry in entries
        if name == "RollbackStart"
    ]
    assert told
    ends = [entry for name, _, entry in entries if name == "CkptEnd"]
    assert marks.first_active_lsn == lsn_said(ends[-1]["first_active_lsn"])


# Staging


def test_a_half_written_file_has_a_hidden_name(tmp_path: Path) -> None:
    """A killed task leaves nothing that a reader of the folder would pick up."""
    schema = pa.schema([("n", pa.int64())])
    writer = TableWriter(tmp_path, schema)
    count = 1 << 16
    writer.write(pa.table({"n": range(count)}, schema))
    (half,) = tmp_path.iterdir()
    assert half.name.startswith(".")
    path = writer.close()
    assert path is not None
    assert [path] == list(tmp_path.iterdir())
    rows: list[Row] = pq.read_table(path).to_pylist()
    assert rows == [{"n": number} for number in range(count)]
    assert TableWriter(tmp_path, schema).close() is None


def test_tables_of_a_row_take_no_memory_of_their_own(tmp_path: Path) -> None:
    """Each has buffers and objects of its own for every column: thousands of them take 100 MB."""
    schema = ENVIRONMENTS.schema
    writer = TableWriter(tmp_path, schema)
    for number in range(1_000):
        writer.write(pa.Table.from_pylist([{"env": f"e{number}", "size": number}], schema))
        assert len(writer._waiting) <= 64
    path = writer.close()
    assert pq.read_table(path)["size"].to_pylist() == list(range(1_000))


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        RuntimeError("PythonException: … OSError: [Errno 28] Error: No space left on device"),
    ],
)
def test_no_space_is_told_as_that(tmp_path: Path, error: Exception) -> None:
    """An executor's error arrives as the text of another error."""
    with (
        pytest.raises(RefusedError, match=r"out.*No space left on device"),
        reporting_failures(tmp_path / "out", tmp_path / "spark.log"),
    ):
        raise error
    with (
        pytest.raises(ZeroDivisionError),
        reporting_failures(tmp_path / "out", tmp_path / "spark.log"),
    ):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "its Java has ended"),
        (PySparkException("a plan that cannot be run"), "a plan that cannot be run"),
    ],
)
def test_a_spark_that_fails_leaves_its_log(tmp_path: Path, error: Exception, reason: str) -> None:
    log_file, kept = tmp_path / "new" / "spark.log", tmp_path / "out.spark.log"
    log_file.parent.mkdir()
    log_file.write_text("much noise")
    with (
        pytest.raises(StoppedError, match=f"{reason}; .*out.spark.log has its messages"),
        reporting_failures(tmp_path / "out", log_file),
    ):
        raise error
    assert kept.read_text() == "much noise"


def test_a_folder_that_an_executor_does_not_reach(tmp_path: Path) -> None:
    """It does not create a folder that no other machine sees."""
    fleet = find_fleet([FIXTURES / "v17-basic" / "env"])
    folder = tmp_path / "elsewhere"
    work = AuditTasks(folder / ".staging", KnownFiles(folder / ".known"))
    with pytest.raises(FileNotFoundError):
        work.audit_small(fleet.environments)
    with pytest.raises(FileNotFoundError):
        work.open_large(fleet.environments[0], 1000)
    assert list(tmp_path.iterdir()) == []


def test_whole_transactions_of_one_of_two_files_with_one_number(tmp_path: Path) -> None:
    """Those of the file that could not be read do not count."""
    home = tmp_path / "env"
    for folder in (home / "data001", home / "data002"):
        folder.mkdir(parents=True)
        shutil.copy(FIXTURES / "v17-basic" / "env" / "00000000.jdb", folder)
    tables = audited_after(shrink, home / "data002" / "00000000.jdb", tmp_path / "out", home)
    (found,) = tables["findings"]
    assert "data002" in found["found"]
    shutil.rmtree(home / "data002")
    expected = audit_fleet(find_fleet([home]), tmp_path / "expected")
    assert [row["txn_id"] for row in tables["txns"]] == [row["txn_id"] for row in expected["txns"]]
    assert len(tables["txns"]) > 100


@pytest.mark.parametrize("code", ["torn-tail", "zero-tail", "truncated-file", "damaged-gap"])
def test_what_was_never_complete_is_no_damage(code: str, tmp_path: Path) -> None:
    """Every log of a killed writer ends so; in a file before the last the same end is damage."""
    home, told = PLANTED[code](tmp_path / "env")
    tables = audit_fleet(find_fleet([home]), tmp_path / "out")
    (row,) = tables["environments"]
    found = tables["findings"]
    assert {row["code"] for row in found} >= {each.code for each in told}
    lost = sum(row["length"] or 0 for row in found if row["severity"] == "error")
    assert row["damaged_size"] == lost
    assert bool(lost) == (code != "torn-tail")


# Bugs


@pytest.mark.parametrize("size", [WHOLE, 300])
@pytest.mark.parametrize("where", ["audited_rows.summarize_rows", "judging.FileCounts.add"])
def test_a_bug_costs_the_file_and_tells_nothing_of_the_log(
    where: str,
    size: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    cut(monkeypatch, size)
    home = three_files(tmp_path / "env")
    calls, told_to_nobody = [], "a person's secret"

    def broken(*_: Any) -> None:
        calls.append(1)
        raise KeyError(told_to_nobody)

    fleet = find_fleet([home])
    monkeypatch.setattr(f"je_tools.audit.{where}", broken)
    tables = audit_fleet(fleet, tmp_path / "out")
    assert calls
    assert [(row["code"], row["file_no"]) for row in tables["findings"]] == [
        ("unread", no) for no in range(3)
    ]
    for row in tables["findings"]:
        assert row["found"].startswith("a bug of je-tools: KeyError in test_judging.py:")
    assert "in broken" in (told := capfd.readouterr().err)
    assert "secret" not in told + str(tables)


@pytest.mark.parametrize(
    "where", ["of_directory", "intervals", "Listing.finish", "OpenTransactions.joined"]
)
def test_a_bug_in_what_takes_all_files_costs_that(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = three_files(tmp_path / "env")

    def broken(*_: Any) -> None:
        raise IndexError

    monkeypatch.setattr(f"je_tools.audit.judging.{where}", broken)
    tables = audit_fleet(find_fleet([home]), tmp_path / "out")
    (found,) = tables["findings"]
    assert (found["code"], found["file_no"]) == ("unread", None)
    assert found["found"].startswith("a bug of je-tools: IndexError in test_judging.py:")
    assert [row["entry_count"] for row in tables["files"]] == [8, 11, 61]
    assert [row["error_count"] for row in tables["environments"]] == [1]


@pytest.mark.parametrize("size", [WHOLE, 300])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ESTALE, "Stale file handle"), "Stale file handle"),
        (InputError("no log of ours"), "no log of ours"),
        (ValueError(), "a bug of je-tools: ValueError in test_judging.py:"),
    ],
)
def test_a_bug_in_opening_costs_the_environment(
    error: Exception, reason: str, size: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        three_files(tmp_path / name)
    opened = opening.open_environment

    def broken(paths: list[Path], **how: Any) -> Any:
        if paths[0].name == "a":
            raise error
        return opened(paths, **how)

    cut(monkeypatch, size)
    monkeypatch.setattr(opening, "open_environment", broken)
    tables = audit_fleet(find_fleet([tmp_path]), tmp_path / "out")
    (found,) = tables["findings"]
    assert (found["env"], found["code"], found["file_no"]) == (str(tmp_path / "a"), "unread", None)
    assert found["found"].startswith(reason)
    severities = [(Path(row["env"]).name, row["severity"]) for row in tables["environments"]]
    assert severities == [("a", "error"), ("b", "ok")]


@pytest.mark.parametrize("size", [WHOLE, 300])
@pytest.mark.parametrize(
    "where",
    [
        f"je_tools.audit.{name}"
        for name in (
            "table_writer.TableWriter.write",
            "audited_rows.summarize_rows",
            "judging.intervals",
        )
    ],
)
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), MemoryError()])
def test_what_the_machine_lacks_costs_an_attempt(
    error: Exception, where: str, size: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine tries the task again and reports the error."""
    cut(monkeypatch, size)
    home = three_files(tmp_path / "env")

    def broken(*_: Any) -> None:
        raise error

    monkeypatch.setattr(where, broken)
    with pytest.raises(type(error)):
        audit_fleet(find_fleet([home]), tmp_path / "out")
