"""`space`: output, documentation of its columns, and warnings about limits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from je_tools.commands.main import group, run
from je_tools.recovery.snapshot import Snapshot
from je_tools.space.recount import Recount, recount
from tests.corpus import ROOT, environment


def rows_of(
    capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0
) -> list[dict[str, Any]]:
    assert run(group, ["space", *arguments, "--format", "jsonl"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a copy of an environment."""
    copied = tmp_path / "env"
    shutil.copytree(environment("v17-erase-after").home, copied)
    return copied


def test_every_column_is_documented(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/commands/space.md").read_text(encoding="utf-8")
    for row in rows_of(capsys, str(home), "--recount"):
        assert f"`{row['section']}`" in page
        names = {name.removeprefix("recounted_") for name in row if row["section"] == "space"}
        names = names or set(row)
        assert {name for name in names if f"`{name}`" not in page} == set()
        for reason in row.get("reasons", []):
            assert f"| `{reason}` |" in page


def test_a_limit_that_the_engine_would_meet(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "je.properties").write_text("je.maxDisk=1500000\nje.freeDisk=0\n")
    *_, space = rows_of(capsys, str(home))
    size = sum(path.stat().st_size for path in home.glob("*.jdb"))
    assert space["over_max_size"] == size - 1_500_000
    assert space["available_size"] < 0
    assert space["prohibits_writes"]
    assert run(group, ["space", str(home)]) == 0
    told = capsys.readouterr()
    assert "would prohibit writes" in told.out
    assert "would prohibit writes" in told.err


def test_what_the_engine_refuses_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "je.properties").write_text("je.maxDisk=1.5 GB\n")
    assert run(group, ["space", str(home)]) == 3
    assert "je.maxDisk to '1.5 GB', which is no whole number" in capsys.readouterr().err


def test_an_earlier_end_leaves_files_behind(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(capsys, str(home))
    last = rows_of(capsys, str(home), "--to-lsn", _last_entry_of_file_1(home, capsys))
    states = [
        [each["state"] for each in found if each["section"] == "files"] for found in (rows, last)
    ]
    assert states == [["active", "active", "last"], ["active", "last", "behind-end"]]
    *files, space = last
    behind = (home / "00000002.jdb").stat().st_size
    assert files[2]["reasons"] == ["behind-end"]
    assert (space["behind_size"], rows[-1]["behind_size"]) == (behind, 0)
    assert space["active_size"] == rows[-1]["active_size"] - behind


def _last_entry_of_file_1(home: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(group, ["files", str(home), "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return str(rows[1]["last_lsn"])


@pytest.mark.parametrize("limit", [0, 1 << 40], ids=["threads", "one thread"])
def test_a_file_that_is_cut_while_it_is_counted(
    limit: int, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = min(home.glob("*.jdb"))
    path.chmod(0o644)

    def cut(snapshot: Snapshot) -> Recount:
        counted = recount(snapshot)
        path.write_bytes(path.read_bytes()[:-1])
        return counted

    monkeypatch.setattr("je_tools.log.scan_options.ONE_THREAD_MAX", limit)
    monkeypatch.setattr("je_tools.space.recount.recount", cut)
    assert run(group, ["space", str(home), "--recount"]) == 5
    assert f"{path.name}: became shorter while it was read" in capsys.readouterr().err


def test_a_recount_beside_the_scan_is_the_same(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = rows_of(capsys, str(home), "--recount")[:-1]
    monkeypatch.setattr("je_tools.log.scan_options.ONE_THREAD_MAX", 0)
    for threads in ("1", "3"):
        assert rows_of(capsys, str(home), "--recount", "--threads", threads)[:-1] == plain


def test_what_is_not_counted_is_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first checkpoint has counted little of the log up to this end."""
    end = _last_entry_of_file_1(home, capsys)
    (home / "00000002.jdb").unlink()
    *_, whole = rows_of(capsys, str(home))
    assert whole["uncounted_size"] < 1 << 20
    *_, space = rows_of(capsys, str(home), "--to-lsn", "0x0/0x10000")
    assert end
    assert space["active_size"] <= 0x10000 + 300
    assert space["total_size"] + space["uncounted_size"] == space["active_size"]


def test_lost_counts_are_told(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens if the name of the utilization database is in a missing file."""
    for module in ("space.usage", "recovery.utilization"):
        monkeypatch.setattr(f"je_tools.{module}.UTILIZATION_DB", "_jeOther")
    assert run(group, ["space", str(home)]) == 0
    told = capsys.readouterr()
    assert "\ncounted          nothing\n" in told.out
    assert "no-summary" in told.out
    assert "the database of the engine's counts does not exist, or its name is lost" in told.err


def test_a_limit_lowers_none(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "je.properties").write_text("je.freeDisk=999999999999999\n")
    *_, space = rows_of(capsys, str(home))
    assert (space["max_disk"], space["adjusted_max_disk"]) == (0, 0)
    assert run(group, ["space", str(home)]) == 0
    assert "minus je.freeDisk" not in capsys.readouterr().out


def test_what_has_expired_is_not_known_of_the_last_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = environment("v15-ttl").home
    files = [row for row in rows_of(capsys, str(home)) if row["section"] == "files"]
    assert [(row["expired_size"], row["pending_size"]) for row in files] == [(None, None)]
