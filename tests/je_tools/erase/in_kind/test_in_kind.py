"""Erasure in kind: entries before log version 17 become blank, and nothing else changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from je_tools.erase.judging import ErasureRules, judge
from je_tools.erase.needed_entries import NeededEntries, needed_entries
from je_tools.erase.options import ErasureOptions
from je_tools.erase.plan import plan_erasure
from je_tools.erase.reasons import NUMBER_OF, KeepReason
from je_tools.erase.results import ErasureHooks
from je_tools.formats.je.entry.entries import decode_entry
from je_tools.formats.je.flags import DatabaseFlag, SlotState
from je_tools.writing.redo_folder import FOLDER
from tests.builders.logs import LogFile
from tests.builders.trees import TreeLog, slot
from tests.corpus import Environment, environment, environments, log_files, marked_if_another
from tests.damage.running import je_tools
from tests.formats.logs import log_rows
from tests.je_tools.erase.erasing import copy_of, erase, log_bytes
from tests.je_tools.snapshots import codes_of, contents_of, snapshot_of
from tests.truth.headers import Header, walk_bytes

JUST_ERASE = ErasureOptions()
BLANKED = {12, 13, 22, 37, *range(31, 37)}
STANDALONE = ("v8-", "v15-")


def erasable() -> list[Any]:
    """Return the standalone environments whose engines know no erased entries."""
    return [
        pytest.param(each, id=each.name, marks=marked_if_another(each))
        for each in environments()
        if each.name.startswith(STANDALONE) and "rep" not in each.name and "torn" not in each.name
    ]


def blank_entries(old: dict[str, bytes], new: dict[str, bytes]) -> list[Header]:
    """Return the entries that became blank, as they are now; assert that nothing else changed.

    New files and what is appended to old ones do not count.
    """
    found = []
    for name, before in old.items():
        after = new[name]
        for was in walk_bytes(before, int(name[:8], 16)):
            start = was.lsn & 0xFFFFFFFF
            if before[start : start + was.size] == after[start : start + was.size]:
                continue
            head = slice(start + 4, start + was.header_size)
            assert before[head] == after[head]
            assert was.type_no in BLANKED
            found.append(was)
    return found


def held_bytes(value: Any) -> list[bytes]:
    """Return the byte strings in fields of an entry."""
    if isinstance(value, bytes):
        return [value]
    if isinstance(value, dict):
        return [each for part in value.values() for each in held_bytes(part)]
    if isinstance(value, list | tuple):
        return [each for part in value for each in held_bytes(part)]
    return []


@pytest.mark.parametrize("environment", erasable())
def test_only_entries_that_nothing_needs_become_blank(
    environment: Environment, tmp_path: Path
) -> None:
    home = tmp_path / "env"
    home.mkdir()
    for path in environment.home.glob("*.jdb"):
        shutil.copyfile(path, home / path.name)
    records = contents_of(snapshot_of(home))
    old = log_bytes(home)
    result = erase(home)
    new = log_bytes(home)
    blank = blank_entries(old, new)
    assert len(blank) == result.counts.entry_count > 0
    for each in blank:
        at = each.lsn & 0xFFFFFFFF
        data = new[f"{each.lsn >> 32:08x}.jdb"][at : at + each.size]
        # A two-part key keeps the length at its end.
        assert not any(
            any(part[:-5]) for part in held_bytes(decode_entry(data, each.version).fields)
        )
    for name, data in new.items():
        assert all(each.checksum_ok for each in walk_bytes(data, int(name[:8], 16)))
    snapshot = snapshot_of(home)
    assert contents_of(snapshot) == records
    assert codes_of(snapshot) == []
    checkpoint = snapshot.checkpoint
    assert all(each.lsn < min(checkpoint.first_active_lsn, checkpoint.start_lsn) for each in blank)
    assert not (home / FOLDER).exists()
    # LNs of embedded records are blank too; no read needs them.
    verified = je_tools("verify", "--tree", home)
    assert verified.code == 0, verified.out
    again = erase(home)
    assert again.checkpoint is None
    assert again.counts.entry_count == 0
    assert log_bytes(home) == new


def test_old_values_are_in_no_byte(tmp_path: Path) -> None:
    home = copy_of("v8-cleaned", tmp_path / "env")
    old = log_bytes(home)
    live = b"\0".join(
        part for records in contents_of(snapshot_of(home)).values() for r in records for part in r
    )
    result = erase(home)
    new = log_bytes(home)
    secrets = set()
    for each in blank_entries(old, new):
        if each.type_no in range(31, 37):
            at = each.lsn & 0xFFFFFFFF
            data = old[f"{each.lsn >> 32:08x}.jdb"][at : at + each.size]
            value = decode_entry(data, each.version).fields["data"] or b""
            if len(value) >= 16 and value not in live:
                secrets.add(value)
    assert len(secrets) > 100
    assert result.left is not None
    kept = b"".join(new.values())
    assert not [value for value in secrets if value in kept]


def test_the_last_file_stays(tmp_path: Path) -> None:
    home = copy_of("v8-cleaned", tmp_path / "env")
    old = log_bytes(home)
    last = max(old)
    result = erase(home, JUST_ERASE)
    new = log_bytes(home)
    assert result.checkpoint is None
    assert result.counts.entry_count > 1000
    assert new[last] == old[last]
    totals = result.plan.files[-1].totals
    assert totals.counts[NUMBER_OF[KeepReason.LAST_FILE]] > 1000


def test_a_checkpoint_begins_a_new_file(tmp_path: Path) -> None:
    home = copy_of("v15-embedded", tmp_path / "env")
    old = log_bytes(home)
    plan = plan_erasure(snapshot_of(home), ErasureOptions(checkpoint_first=True))
    assert plan.needs_checkpoint
    result = erase(home)
    new = log_bytes(home)
    assert len(new) == len(old) + 1
    assert {name: len(data) for name, data in old.items()}.items() <= {
        name: len(data) for name, data in new.items()
    }.items()
    # The checkpoint replaces nodes, which the plan cannot know before.
    assert result.counts.entry_count >= plan.totals.erase_count > 3000
    assert result.counts.fsync_count == result.plan.fsync_count == 2


def test_a_protected_file_stays(tmp_path: Path) -> None:
    home = copy_of("v8-cleaned", tmp_path / "env")
    erase(home, hooks=ErasureHooks(should_stop=lambda: True))
    old = log_bytes(home)
    asked: list[str] = []

    def is_protected(file: Any) -> bool:
        # It becomes protected while the file is read.
        asked.append(file.path.name)
        return len(asked) > 1

    result = erase(home, JUST_ERASE, ErasureHooks(is_protected=is_protected))
    assert [file.path.name for file in result.protected] == sorted(set(asked))
    assert log_bytes(home) == old
    assert not (home / FOLDER).exists()


def test_what_was_overwritten_is_reported(tmp_path: Path) -> None:
    home = copy_of("v8-cleaned", tmp_path / "env")
    old = log_bytes(home)
    changed = {name: bytearray(len(data)) for name, data in old.items()}
    synced = []

    def note(path: Path, blanks: Any) -> None:
        for at in blanks.entries.offset.tolist():
            changed[path.name][at : at + 4] = b"\1" * 4
        for at, size in zip(blanks.start.tolist(), blanks.size.tolist(), strict=True):
            changed[path.name][at : at + size] = b"\1" * size

    hooks = ErasureHooks(on_blanks=note, on_fsync=lambda path, _: synced.append(path.name))
    erase(home, JUST_ERASE, hooks)
    for name, data in log_bytes(home).items():
        differs = np.frombuffer(data, np.uint8) != np.frombuffer(old[name], np.uint8)
        assert (differs <= np.frombuffer(changed[name], np.uint8)).all()
    assert synced == ["redo", min(name for name, marks in changed.items() if any(marks))]


def test_files_before_version_8_stay() -> None:
    none = np.empty(0, np.int64)
    path = log_files(environment("v6-halt").home)[0]
    rows = next(log_rows(path))
    rules = ErasureRules(
        cutoff_lsn=1 << 60,
        tail_lsn=1 << 60,
        needed=NeededEntries({rows.file_no: path.stat().st_size}),
        db_ids=none,
        duplicates_ids=none,
        unordered_ids=none,
        last_file_no=rows.file_no + 1,
        now_ms=0,
    )
    kept = {NUMBER_OF[KeepReason.OLD_VERSION], NUMBER_OF[KeepReason.ENTRY_TYPE]}
    assert set(judge(rows, rules).tolist()) == kept


@pytest.mark.parametrize(("version", "is_needed"), [(8, True), (15, False)])
def test_version_8_keeps_the_records_of_databases_with_duplicates(
    version: int, is_needed: bool, tmp_path: Path
) -> None:
    """JE 5.0.73 takes keys from them, also those of slots that are pending deleted."""
    log = TreeLog(files=[LogFile(0, version)])
    live = log.ln(b"kv\x01", b"")
    gone = log.ln(b"kw\x01", None)
    slots = [slot(b"kv\x01", live), slot(b"kw\x01", gone, SlotState.PENDING_DELETED)]
    log.database(b"dup", log.tree(slots), db_flags=DatabaseFlag.DUPLICATES)
    single = log.ln(b"k", None, db=9)
    slots = [slot(b"k", single, SlotState.PENDING_DELETED)]
    log.database(b"single", log.tree(slots, db=9), db=9)
    log.checkpoint()
    needed = needed_entries(snapshot_of(log.write(tmp_path)))
    offsets = np.array([live, gone, single], np.uint32)
    assert needed.contains(0, offsets).tolist() == [is_needed, is_needed, False]
