"""The stakes of an environment are what `doctor`, `recover`, `space`, `vlsn` and `group` say."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from je_tools.audit import last_commit, member_reading
from je_tools.audit.file_use import FileUse, file_uses
from je_tools.audit.member_reading import REPORT_SIZE
from je_tools.audit.member_reports import unpack_facts, unpack_report
from je_tools.audit.stake_finder import parts_with
from je_tools.audit.stakes import Stakes, find_stakes
from je_tools.doctor.log_scan import scan_log
from je_tools.errors import StoppedError
from je_tools.log.log_files import FileHeader, LogFile
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.utilization import Utilization
from je_tools.space.usage import FileReason, FileRole, FileSpace, Space
from je_tools.vlsn.node_report import NodeReport
from tests.corpus import FIXTURES, Environment, environment
from tests.je_tools.audit.auditing import lsn_said
from tests.je_tools.dumped import Row, je_tools, rows_of

PARTS = parts_with(scan_log)
JSONL = ("--format", "jsonl")


def stakes_of(home: Path, *, tree: bool = False) -> Stakes:
    opened = open_environment([home.absolute()], keep_going=True)
    return find_stakes(opened, PARTS, env=home.name, tree=tree)


def place(row: Row) -> tuple[Any, ...]:
    return row["code"], row["severity"], row["file_no"], row["offset"]


def places_of(found: Stakes) -> list[tuple[Any, ...]]:
    return [(each.code, each.severity, each.file_no, each.offset) for each in found.findings]


def check_diagnosis(found: Stakes, home: Path, *options: str) -> None:
    rows = rows_of(je_tools("doctor", home, *options, *JSONL).out)
    assert (found.outcome, found.is_damaged) == (rows[0]["outcome"], rows[0]["is_damaged"])
    verdict = rows[0]["verdict"].replace(str(home), str(home.absolute()))
    assert found.verdict == verdict
    log = {place(row) for row in rows_of(je_tools("verify", home, *JSONL).out)}
    expected = {place(row) for row in rows if row["section"] == "findings"}
    assert set(places_of(found)) | log == expected
    nodes = [row for row in rows if row["section"] == "node"]
    assert (found.node is None) == (not nodes)
    for row in nodes:
        assert found.node is not None
        said = (row["group"], row["group_id"], row["first_vlsn"], row["index_vlsn"])
        assert msgspec.structs.astuple(found.node) == said


def check_loss(found: Stakes, home: Path) -> None:
    rows = rows_of(je_tools("recover", home, *JSONL).out)
    (recovery,) = (row for row in rows if row["section"] == "recovery")
    losses = [row for row in rows if row["section"] == "loss"]
    counts = [(row["commit_count"], row["key_count"]) for row in losses] or [(0, 0)]
    loss = found.loss
    assert loss is not None
    assert loss.cut_size == recovery["cut_size"]
    assert [(loss.lost_commit_count, loss.lost_key_count)] == counts
    if recovery["end_reason"] == "damaged":
        assert loss.lost_first_lsn == lsn_said(recovery["next_lsn"])
    else:
        assert (loss.lost_first_lsn, loss.lost_last_lsn) == (None, None)


def check_space(found: Stakes, home: Path) -> None:
    rows = rows_of(je_tools("space", home, *JSONL).out)
    files = [row for row in rows if row["section"] == "files"]
    expected = [{**row, "reasons": " ".join(row["reasons"])} for row in files]
    for row in expected:
        del row["section"]
    assert [msgspec.to_builtins(each) for each in found.files] == expected
    (total,) = (row for row in rows if row["section"] == "space")
    space = msgspec.to_builtins(found.space)
    used = space.pop("used_size")
    assert space == {name: total[name] for name in space}
    assert used == total["total_size"] - total["obsolete_size"]


def check_node(found: Stakes, home: Path) -> None:
    shown = je_tools("vlsn", "show", home, "--format", "json", "--sync-points", "8192").out
    document = msgspec.json.decode(shown)
    assert found.member is not None
    data = found.member.data
    assert len(data) <= REPORT_SIZE
    facts, report = unpack_facts(data), unpack_report(data)
    names = {"env", "last_commit", "sync_first_vlsn", "sync_is_whole", "open_written"}
    own = report.document()
    same = own.keys() - names
    assert {name: own[name] for name in same} == {name: document[name] for name in same}
    commit = document["last_commit"]
    assert found.last_commit_vlsn == (None if commit is None else commit["vlsn"])
    assert found.last_commit_ms == (None if commit is None else commit["time_ms"])
    points = list(report.sync_points())
    said = document["sync_points"][-len(points) :]
    # The records before the first one belong in part to what was left out.
    for first in (points[0], said[0]):
        del first["written"]
    assert points == said
    done = je_tools("group", "show", home, *JSONL)
    members = [row for row in rows_of(done.out) if row["section"] == "nodes"]
    fields = ("name", "node_id", "node_type", "is_removed", "quorum_ack", "barrier_vlsn")
    assert [msgspec.structs.astuple(each) for each in facts.members] == [
        tuple(row[name] for name in fields) for row in members
    ]


def last_commit_said(home: Path) -> int | None:
    """Return the time of the last Commit, as `dump` lists it."""
    rows = rows_of(je_tools("dump", home, "--type", "Commit", *JSONL).out)
    return rows[-1]["entry"]["time_ms"] if rows else None


def test_the_single_commands_say_the_same(some_environment: Environment) -> None:
    home = some_environment.home
    found = stakes_of(home)
    assert found.problems == ()
    check_diagnosis(found, home)
    check_loss(found, home)
    check_space(found, home)
    if found.node is not None:
        check_node(found, home)
    else:
        assert found.member is None
        assert found.last_commit_ms == last_commit_said(home)


def test_trees_are_checked_as_verify_checks_them(some_environment: Environment) -> None:
    home = some_environment.home
    found = stakes_of(home, tree=True)
    check_diagnosis(found, home, "--tree")
    verified = {place(row) for row in rows_of(je_tools("verify", home, "--tree", *JSONL).out)}
    log = {place(row) for row in rows_of(je_tools("verify", home, *JSONL).out)}
    assert verified <= {*places_of(found), *log}


def test_bytes_that_expire_are_told_apart_from_those_that_may_be_obsolete() -> None:
    header = FileHeader(good=True, file_no=3, version=17)
    file = LogFile(Path("00000003.jdb"), 3, 1100, header, 17)
    counted = Utilization(1000, 300, 200)
    reasons = (FileReason.LIVE, FileReason.TTL)
    each = FileSpace(file, FileRole.ACTIVE, counted, None, 50, reasons)
    space = Space((each,), counted, None, None, None)  # type: ignore[arg-type]
    (found,) = file_uses(space)
    assert found == FileUse(
        *(3, "active", 1100, 1000, 300, 200, 60, 50, 70, 50),
        "live-entries ttl-not-passed",
    )
    # Without recorded expirations, the expired bytes are not known.
    (found,) = file_uses(replace(space, files=(replace(each, pending_size=None),)))
    assert (found.expired_size, found.pending_size) == (None, None)


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / name, folder / "env"))


def overwrite(home: Path, offset: int, file_no: int = 0) -> None:
    with (home / f"{file_no:08x}.jdb").open("r+b") as file:
        file.seek(offset)
        file.write(b"X")


def test_damage_before_the_end_costs_commits_keys_and_vlsns(tmp_path: Path) -> None:
    home = copied("v17-rep-uncommitted-before/node1", tmp_path)
    overwrite(home, 120_000)
    found = stakes_of(home)
    check_diagnosis(found, home)
    check_loss(found, home)
    check_node(found, home)
    loss = found.loss
    assert found.outcome == "loses"
    assert loss is not None
    assert loss.lost_commit_count > 0
    assert loss.lost_key_count > 0
    assert loss.lost_first_vlsn is not None
    assert loss.lost_last_vlsn == 1249
    assert found.last_commit_vlsn is not None
    assert found.last_commit_vlsn <= loss.lost_first_vlsn
    whole = stakes_of(FIXTURES / "v17-rep-uncommitted-before/node1")
    assert whole.loss is not None
    assert (whole.loss.lost_first_vlsn, whole.loss.lost_last_vlsn) == (None, None)


def test_the_last_commit_is_searched_in_earlier_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = environment("v17-erase-after").home
    expected = last_commit_said(home)
    assert expected is not None
    read = []
    scanned = last_commit._scanned

    def watched(snapshot: Any, files: Any, *more: Any) -> Any:
        read.append([file.file_no for file in files])
        # The last file has a Commit in this log.
        return [] if len(read) == 1 else scanned(snapshot, files, *more)

    monkeypatch.setattr(last_commit, "_scanned", watched)
    found = stakes_of(home)
    assert read[:2] == [[2], [1]]
    assert found.last_commit_ms is not None
    assert found.last_commit_ms <= expected


def test_a_log_that_has_no_root_is_refused_and_the_rest_is_not_known(tmp_path: Path) -> None:
    home = tmp_path / "env"
    home.mkdir()
    data = (FIXTURES / "v17-basic/env/00000000.jdb").read_bytes()
    (home / "00000000.jdb").write_bytes(data[:46])
    found = stakes_of(home)
    check_diagnosis(found, home)
    assert found.is_damaged
    assert (found.loss, found.space, found.files, found.last_commit_ms) == (None, None, (), None)


def test_files_without_their_directory_have_no_stakes() -> None:
    paths = sorted((FIXTURES / "v17-erase-after/env").glob("*.jdb"))[:2]
    opened = open_environment(paths, keep_going=True)
    assert find_stakes(opened, PARTS, env="files") == Stakes()


def raise_stopped(*_: Any) -> None:
    raise StoppedError("00000000.jdb: the file shrank")


def raise_full(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def raise_bug(*_: Any) -> None:
    raise KeyError(b"secret key")


@pytest.mark.parametrize(
    ("fail", "reason"),
    [
        (raise_stopped, "shrank"),
        (raise_full, "No space left on device"),
        (raise_bug, "a bug of je-tools: KeyError in test_stakes.py"),
    ],
)
def test_a_part_that_fails_is_a_problem_and_the_others_stay(fail: Any, reason: str) -> None:
    home = FIXTURES / "v17-rep-uncommitted-before/node1"
    opened = open_environment([home.absolute()], keep_going=True)
    found = find_stakes(opened, replace(PARTS, report=fail), env="node1")
    assert found.outcome == "opens"
    assert found.member is None
    assert found.files
    (problem,) = found.problems
    assert reason in problem
    assert "secret" not in problem
    nothing = find_stakes(opened, parts_with(fail), env="node1")
    assert nothing.outcome is None
    (problem,) = nothing.problems
    assert reason in problem


def member_of(home: Path) -> bytes:
    member = stakes_of(home).member
    assert member is not None
    return member.data


def test_a_report_stays_small_whatever_a_log_has(monkeypatch: pytest.MonkeyPatch) -> None:
    home = FIXTURES / "v17-rep-uncommitted-before/node1"
    whole = member_of(home)
    monkeypatch.setattr(member_reading, "REPORT_SIZE", len(whole) - 1)
    smaller = member_of(home)
    assert len(smaller) < len(whole)
    reports: list[NodeReport] = [unpack_report(each) for each in (whole, smaller)]
    assert 0 < len(reports[1].sync) < len(reports[0].sync)
    assert reports[1].facts.sync_first_vlsn == int(reports[1].sync.vlsn[0])
    assert not reports[1].facts.sync_is_whole
    assert not unpack_facts(smaller).is_cut
    # Members and files are left out only if one sync point is too much.
    monkeypatch.setattr(member_reading, "REPORT_SIZE", 560)
    least = member_of(home)
    assert len(least) <= 560
    assert unpack_facts(least).is_cut


def test_what_a_scan_has_found_is_not_read_again() -> None:
    """A small environment costs little, since the whole log is read only once."""
    home = FIXTURES / "v17-basic/env"
    opened = open_environment([home.absolute()], keep_going=True)
    log = scan_log(opened, Scanner(threads=1, wide=True))
    parts = parts_with(lambda *_: log)
    find_stakes(opened, parts, env="env")
    times = []
    for _ in range(5):
        begun = time.process_time()
        find_stakes(opened, parts, env="env")
        times.append(time.process_time() - begun)
    assert min(times) < 0.025
