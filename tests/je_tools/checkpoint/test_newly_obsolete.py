"""No tree needs what a checkpoint counts as obsolete, even after a crash inside it."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from je_tools.btree.tree import Tree
from je_tools.checkpoint.apply import apply_to_copy
from je_tools.checkpoint.contents import CheckpointContents
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.formats.arrays import Ints
from je_tools.formats.je.flags import LnFlag
from je_tools.formats.je.header import NULL_LSN
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.live_entries import LiveEntries, map_live_entries
from je_tools.recovery.opening import take_snapshot
from je_tools.recovery.snapshot import Snapshot
from je_tools.recovery.utilization import FileSummary, stored_summaries
from tests.builders.logs import CREATED_MS, LogFile
from tests.builders.trees import FIRST_ID, TreeLog, simple, slot
from tests.corpus import FIXTURES, Environment
from tests.engine.acceptance import Judge, WriteRefusedError
from tests.engine.crashes import make_crash, read_source, write_crash
from tests.engine.jars import JE_5, JE_18
from tests.engine.workloads import sessions_of, write_environment
from tests.truth.log_end import read_log

CRASHED = FIXTURES / "v17-crash-txn" / "env"
OLDEST_WRITTEN = 8
FILE_MAX = 60_000
FILE_SUMMARY = 11
CUTS = 12
WORKLOADS, CRASHES = 10, 8


class Counted(NamedTuple):
    """File summaries with their LSNs, LSNs listed as obsolete, and LSNs that trees need."""

    summaries: dict[int, tuple[int, FileSummary]]
    listed: Ints
    records: Ints
    nodes: Ints

    @property
    def wrong(self) -> Ints:
        """LSNs that are listed as obsolete but needed."""
        return np.intersect1d(self.listed, np.concatenate((self.records, self.nodes)))

    def gone(self, file_no: int) -> tuple[int, int]:
        """Return the numbers of nodes and records before a file's summary that no tree needs."""
        lsn, summary = self.summaries[file_no]
        return (
            summary.total_in_count - count_in(self.nodes, file_no, lsn),
            summary.total_ln_count - count_in(self.records, file_no, lsn),
        )

    def missed(self, file_no: int) -> Counter[str]:
        """Count nodes and records that no tree needs, and those of them that the summary lacks."""
        nodes, records = self.gone(file_no)
        _, summary = self.summaries[file_no]
        return Counter(
            {
                "nodes": nodes,
                "records": records,
                "nodes short": max(nodes - summary.obsolete_in_count, 0),
                "records short": max(records - summary.obsolete_ln_count, 0),
            }
        )

    def too_many(self, file_no: int) -> tuple[int, int]:
        """Return the numbers of nodes and records that the engine's summary counts in excess."""
        if file_no not in self.summaries:
            return 0, 0
        nodes, records = self.gone(file_no)
        _, summary = self.summaries[file_no]
        return max(summary.obsolete_in_count - nodes, 0), max(
            summary.obsolete_ln_count - records, 0
        )


def counted(home: Path) -> Counted:
    snapshot = snapshot_of(home)
    stored = stored_summaries(snapshot)
    none = np.empty(0, np.int64)
    records, nodes = [none], [none]

    def note(_: Tree, live: LiveEntries) -> None:
        records.append(live.records)
        nodes.extend((live.nodes, live.bases, live.deltas))

    for database in snapshot.databases.values():
        if database.root_lsn != NULL_LSN:
            for _ in map_live_entries(snapshot, database, note):
                pass
    summaries = {file_no: (lsn, summary) for file_no, lsn, summary in stored.newest()}
    return Counted(
        summaries, stored.summaries.obsolete, np.concatenate(records), np.concatenate(nodes)
    )


def snapshot_of(home: Path) -> Snapshot:
    scanner = Scanner(threads=1)
    return take_snapshot(open_environment([home]), scanner, now_ms=0, as_member=True)


def written(home: Path, target: Path, file_max: int = FILE_MAX) -> CheckpointContents | None:
    orders = CheckpointOptions(cuts=True, file_max=file_max)
    scanner = Scanner(threads=1)
    return apply_to_copy(open_environment([home]), target, scanner, orders, 0)[1].checkpoint


def check(before: Counted, after: Counted, engine: Counted | None = None) -> Counter[str]:
    """Compare what was written with the trees; return how far it falls short of the truth.

    The engine counts some entries twice that an unfinished checkpoint has replaced, even when it
    recovers by itself. The written summaries may exceed the truth by as much. Where the engine
    recovered a copy, they may exceed it by one percent more, since it writes other records then.
    """
    assert not len(after.wrong), [hex(lsn) for lsn in after.wrong.tolist()]
    new = np.setdiff1d(after.listed, before.listed)
    needed = np.concatenate((before.records, before.nodes))
    assert not len(np.intersect1d(new, needed))
    assert len(after.listed) - len(np.unique(after.listed)) == len(before.listed) - len(
        np.unique(before.listed)
    )
    found: Counter[str] = Counter(listed=len(new))
    for file_no, (lsn, summary) in after.summaries.items():
        if before.summaries.get(file_no) == (lsn, summary):
            continue
        nodes, records = after.gone(file_no)
        both = [each.too_many(file_no) for each in (before, engine) if each is not None]
        more_nodes, more_records = (max(counts) for counts in zip(*both, strict=True))
        assert summary.obsolete_in_count <= nodes + more_nodes
        more_records += records // 100 if engine is not None else 0
        assert summary.obsolete_ln_count <= records + more_records
        found += after.missed(file_no)
    for file_no in engine.summaries if engine is not None else ():
        missed = engine.missed(file_no)
        found += Counter({f"engine's {what}": count for what, count in missed.items()})
    return found


def count_in(lsns: Ints, file_no: int, before: int) -> int:
    """Return the number of LSNs in a file that are before an LSN."""
    return int(np.count_nonzero((lsns >> 32 == file_no) & (lsns < before)))


def test_of_every_log(some_environment: Environment, tmp_path: Path) -> None:
    home = some_environment.home
    before = snapshot_of(home)
    if before.end.files[-1].version < OLDEST_WRITTEN or before.refusals:
        return
    if written(home, tmp_path / "copy") is None:
        return
    check(counted(home), counted(tmp_path / "copy"))
    assert written(tmp_path / "copy", tmp_path / "again") is None


def test_a_crash_is_counted(tmp_path: Path) -> None:
    before, checkpoint = counted(CRASHED), written(CRASHED, tmp_path / "copy", 10_000_000)
    assert checkpoint is not None
    after = counted(tmp_path / "copy")
    assert check(before, after)["listed"] > 100
    was, now = before.summaries[0][1], after.summaries[0][1]
    assert now.obsolete_ln_count > was.obsolete_ln_count + 200
    assert now.obsolete_ln_size_counted > was.obsolete_ln_size_counted + 200
    assert now.obsolete_in_count > was.obsolete_in_count
    assert now.total_count > was.total_count


def test_crashes_inside_the_checkpoint(tmp_path: Path) -> None:
    target = tmp_path / "copy"
    checkpoint = written(CRASHED, target, 10_000_000)
    assert checkpoint is not None
    assert check_cuts(target, checkpoint, tmp_path / "cut", random.Random(1)) > 5


def test_an_embedded_record_is_obsolete_once_it_is_logged(tmp_path: Path) -> None:
    """Its slot holds the data, so the engine counts the LN and does not list it."""
    counts = []
    for flags in (0, LnFlag.EMBEDDED):
        log = simple({b"a": b"1", b"b": b"1"})
        own = log.ln(b"a", b"2", txn=5, flags=flags)
        log.end(5)
        home = log.write(tmp_path / f"env-{flags}")
        assert written(home, tmp_path / f"copy-{flags}", 10_000_000) is not None
        after = counted(tmp_path / f"copy-{flags}")
        assert own not in after.listed
        counts.append(after.summaries[0][1].obsolete_ln_count)
    assert counts[1] == counts[0] + 1


@pytest.mark.parametrize("version", [8, 17])
def test_full_versions_of_deltas_are_needed(version: int, tmp_path: Path) -> None:
    """No other node names them. A delta of log version 8 is not even a node by its type."""
    log = TreeLog([LogFile(0, version)])
    start = log.put("CkptStart", {"time_ms": CREATED_MS, "ckpt_id": 1, "invoker": "test"})
    full = log.node([slot(key, log.ln(key, b"old")) for key in (b"a", b"b")], node_id=7)
    differing = [slot(b"b", log.ln(b"b", b"new"))]
    if version == 8:
        names = {"db_id": FIRST_ID, "last_full_lsn": full, "last_delta_lsn": NULL_LSN}
        delta = log.put("BINDelta", names | {"slot_count": 1, "slots": differing})
    else:
        delta = log.delta(differing, full, node_id=7, full_slot_count=2)
    log.database(b"db", log.node([slot(b"", delta)], level=2, is_root=True))
    log.database(b"other", log.tree([slot(b"c", log.ln(b"c", b"old", db=7))], db=7), db=7)
    root = log.db_tree(log.tree(log.mapped, db=0), log.tree(log.named, db=1))
    log.ckpt_end(start, root)
    log.ln(b"c", b"new", db=7)
    home = log.write(tmp_path / "env")
    assert written(home, tmp_path / "copy", 10_000_000) is not None
    after = counted(tmp_path / "copy")
    assert {full, delta} <= set(after.nodes.tolist())
    assert not {full, delta} & set(after.listed.tolist())


def check_cuts(home: Path, checkpoint: CheckpointContents, cut: Path, rng: random.Random) -> int:
    """Cut a checkpoint after its first summary, check each log, and return the number of cuts."""
    entries = [(e.lsn, e.type_no) for e, _ in read_log(home).entries()]
    own = [(lsn, type_no) for lsn, type_no in entries if lsn >= checkpoint.start_lsn]
    first = min((lsn for lsn, type_no in own if type_no == FILE_SUMMARY), default=None)
    behind = [lsn for lsn, _ in own if first is not None and lsn > first]
    chosen = rng.sample(behind, min(CUTS, len(behind)))
    for lsn in chosen:
        shutil.copytree(home, cut)
        for path in cut.glob("*.jdb"):
            if int(path.stem, 16) > lsn >> 32:
                path.unlink()
        os.truncate(cut / f"{lsn >> 32:08x}.jdb", lsn & 0xFFFFFFFF)
        wrong = counted(cut).wrong.tolist()
        assert not wrong, (hex(lsn), [hex(each) for each in wrong])
        shutil.rmtree(cut)
    return len(chosen)


@pytest.mark.engine
def test_about_what_the_engine_counts(judges: dict[str, Judge], tmp_path: Path) -> None:
    written(CRASHED, tmp_path / "ours", 10_000_000)
    shutil.copytree(CRASHED, tmp_path / "engine")
    for path in (tmp_path / "engine", *(tmp_path / "engine").iterdir()):
        path.chmod(0o755)
    judges[JE_18].write_as_engine(tmp_path / "engine")
    ours, engine = counted(tmp_path / "ours"), counted(tmp_path / "engine")
    mine, other = ours.summaries[0][1], engine.summaries[0][1]
    # The engine changes internal database records and their MapLNs more often.
    assert other.obsolete_ln_count - 4 <= mine.obsolete_ln_count <= other.obsolete_ln_count
    # Their trees change more often, too; our checkpoint writes them once, after counting.
    assert other.obsolete_in_count - 6 <= mine.obsolete_in_count <= other.obsolete_in_count
    by_bytes = abs(mine.obsolete_ln_size - other.obsolete_ln_size)
    assert by_bytes < 50 * (other.obsolete_ln_count - mine.obsolete_ln_count) + 100


@pytest.mark.exhaustive
@pytest.mark.engine
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("coordinate", [JE_18, JE_5])
def test_many_crash_points(coordinate: str, tmp_path: Path) -> None:
    """The counts are as complete as the engine's after its recovery, within one percent."""
    found = check_workloads(coordinate, range(WORKLOADS), CRASHES, tmp_path)
    print(found)
    assert found["points"] > WORKLOADS * CRASHES / 4
    assert found["listed"] > 10_000
    for what in ("nodes", "records"):
        ours, engine = (
            found[f"{by}{what} short"] / found[f"{by}{what}"] for by in ("", "engine's ")
        )
        assert ours <= engine + 0.01


def check_workloads(
    coordinate: str, seeds: Iterable[int], crashes: int, folder: Path
) -> Counter[str]:
    """Crash workloads of an engine, and check the counts after each crash."""
    found: Counter[str] = Counter()
    with Judge.of(coordinate, folder / "judge") as judge:
        for seed in seeds:
            home = folder / f"workload-{seed}"
            sessions = sessions_of(seed, ttl=coordinate == JE_18)
            write_environment(judge.java, judge.class_path, home, sessions)
            source = read_source(home)
            for number in range(crashes):
                rng = random.Random(f"obsolete {seed}/{number}")
                place = folder / f"{seed}-{number}"
                write_crash(source, make_crash(source, rng), place / "crashed")
                found += check_crash(place, rng, judge)
                shutil.rmtree(place)
            shutil.rmtree(home)
    return found


def check_crash(folder: Path, rng: random.Random, judge: Judge) -> Counter[str]:
    crashed = folder / "crashed"
    control = folder / "control"
    shutil.copytree(crashed, control)
    try:
        judge.write_as_engine(control)
    except WriteRefusedError:
        return Counter(refused=1)
    checkpoint = written(crashed, folder / "copy", rng.choice((FILE_MAX, 1_000_000)))
    if checkpoint is None:
        return Counter(nothing=1)
    found = check(counted(crashed), counted(folder / "copy"), counted(control))
    found["cuts"] += check_cuts(folder / "copy", checkpoint, folder / "cut", rng)
    return found + Counter(points=1)
