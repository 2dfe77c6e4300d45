"""Files with another name stay as they are: it may be that of a backup."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.erase.completion import complete_erasure
from je_tools.erase.plan import plan_erasure
from je_tools.erase.reasons import KeepReason
from je_tools.log.scan import Scanner
from tests.je_tools.erase.erasing import (
    CHECKPOINT_FIRST,
    changed_entries,
    copy_of,
    erase,
    log_bytes,
)
from tests.je_tools.snapshots import codes_of, snapshot_of
from tests.truth.headers import ERASED

FIRST, SECOND = "00000000.jdb", "00000001.jdb"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return copy_of("v17-erase-after", tmp_path / "env")


def link(home: Path, name: str, kind: str) -> None:
    """Give a file another name."""
    other = home.parent / f"other-{name}"
    if kind == "hard":
        other.hardlink_to(home / name)
    else:
        (home / name).rename(other)
        (home / name).symlink_to(other)


@pytest.mark.parametrize(
    ("kind", "reason"), [("hard", KeepReason.HARD_LINK), ("symbolic", KeepReason.SYMBOLIC_LINK)]
)
def test_a_linked_file_is_not_erased(kind: str, reason: KeepReason, home: Path) -> None:
    link(home, FIRST, kind)
    old = log_bytes(home)
    plan = plan_erasure(snapshot_of(home), CHECKPOINT_FIRST)
    assert [each.kept for each in plan.files] == [reason, None, None]
    erase(home)
    new = log_bytes(home)
    assert new[FIRST] == old[FIRST]
    assert new[SECOND] != old[SECOND]
    assert (home / FIRST).is_symlink() is (kind == "symbolic")
    assert codes_of(snapshot_of(home)) == []


@pytest.mark.parametrize("kind", ["hard", "symbolic"])
def test_a_linked_file_is_not_completed(kind: str, home: Path, tmp_path: Path) -> None:
    whole = copy_of("v17-erase-after", tmp_path / "whole")
    erase(whole)
    marked = {name: bytearray(data) for name, data in log_bytes(home).items()}
    for entry in changed_entries(log_bytes(home), log_bytes(whole)):
        marked[f"{entry.lsn >> 32:08x}.jdb"][(entry.lsn & 0xFFFFFFFF) + 4] = ERASED
    for name, data in marked.items():
        (home / name).write_bytes(data)
    link(home, FIRST, kind)
    found = complete_erasure(home, Scanner(threads=1))
    assert [each.file.path.name for each, _ in found.kept] == [FIRST]
    new = log_bytes(home)
    assert new[FIRST] == marked[FIRST]
    assert new[SECOND] == log_bytes(whole)[SECOND] != marked[SECOND]
