"""Salvage: intact logs come back whole, damaged ones except for what the damage hit."""

from __future__ import annotations

import functools
import json
import random
import shutil
from collections import Counter
from pathlib import Path

import click
import numpy as np
import pytest

from je_tools.commands.main import COMMANDS
from je_tools.commands.salvage import command as salvage_command
from je_tools.core.spill import RowTable, Spill
from je_tools.formats.je.btree.keys import join_two_part
from je_tools.formats.je.entry.identity import new_seed
from je_tools.formats.je.expirations import DAY_MS, HOUR_MS
from je_tools.formats.je.flags import NodeFlag, SlotState
from je_tools.salvage.choice import Confidence, Mode
from je_tools.salvage.gaps import GapKind
from je_tools.salvage.inspector import NODE_KINDS, node_identities
from je_tools.salvage.lost import newest_nodes
from tests.builders.logs import CREATED_MS, LogFile, write_log
from tests.builders.trees import NULL, OldDuplicates, TreeLog, slot
from tests.corpus import environment, environments, log_files, marked_if_another
from tests.damage.running import je_tools
from tests.je_tools.salvaging import (
    Version,
    lost_pieces,
    read_intact,
    records_back,
    salvaged,
    spared,
)

HELD = ["v26-basic", "v17-dups", "v17-crash-txn", "v8-dbops", "v15-embedded", "v6-halt", "v15-ttl"]
SURE = (Confidence.COMMITTED, Confidence.NON_TRANSACTIONAL)


def copied(name: str, folder: Path) -> Path:
    home = folder / "env"
    home.mkdir()
    for path in environment(name).home.glob("*.jdb"):
        shutil.copyfile(path, home / path.name)
    return home


@functools.cache
def live_databases(home: Path) -> frozenset[int]:
    return frozenset(one.database.db_id for one in salvaged(home).databases())


def damage_files(home: Path, rng: random.Random, spots: int) -> list[range]:
    """Overwrite bytes at several places of one file; return the LSNs of the bytes that changed."""
    path = rng.choice(sorted(home.glob("*.jdb")))
    file_no = int(path.stem, 16) << 32
    data = bytearray(path.read_bytes())
    changed = []
    for _ in range(spots):
        start = rng.randrange(38, len(data))
        noise = rng.randbytes(min(rng.choice([1, 3, 40, 700]), len(data) - start))
        changed += [
            range(file_no + start + i, file_no + start + i + 1)
            for i, byte in enumerate(noise)
            if data[start + i] != byte
        ]
        data[start : start + len(noise)] = noise
    path.write_bytes(data)
    return changed


@pytest.mark.parametrize("name", HELD)
def test_an_intact_log_comes_back_whole(name: str) -> None:
    home = environment(name).home
    done = salvaged(home)
    expected = Counter(
        (version.identity[0], version.key, version.data)
        for version in read_intact(home).newest().values()
        if not version.deleted
    )
    wanted = {one.database.db_id for one in done.databases()}
    found = Counter(
        (db_id, row.key, row.data) for db_id, rows in records_back(done).items() for row in rows
    )
    assert found == Counter({k: n for k, n in expected.items() if k[0] in wanted})
    assert not [gap for gap in done.gaps if gap.is_damage]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", HELD)
def test_what_damage_spares_comes_back(name: str, seed: int, tmp_path: Path) -> None:
    """All records outside several damaged spots in one file come back, and none are made up.

    A record from an entry is the newest of those whose entry and commit are whole. A record from a
    slot is what the entry at its LSN wrote.
    """
    home = copied(name, tmp_path)
    log = read_intact(environment(name).home)
    live = live_databases(environment(name).home)
    damage = damage_files(home, random.Random(f"{name} {seed}"), 2 + seed)
    left = log.newest(damage)
    written: dict[int, Version] = {version.lsn: version for version in log.versions}
    done = salvaged(home)
    back = records_back(done)
    for db_id in live:
        rows = {(db_id, row.key, row.data or b"", row.lsn): row for row in back.get(db_id, [])}
        assert len(rows) == len(back.get(db_id, []))
        from_slots = {r.lsn for r in rows.values() if r.confidence is Confidence.SLOT_ONLY}
        replaced = {written[lsn].identity for lsn in from_slots}
        for row in rows.values():
            version = written[row.lsn]
            assert (version.key, version.data) == (row.key, row.data)
            if row.confidence is not Confidence.SLOT_ONLY:
                assert left[version.identity] is version
        for identity, version in left.items():
            if identity[0] == db_id and not version.deleted and identity not in replaced:
                assert (db_id, version.key, version.data, version.lsn) in rows
    gaps = [gap for gap in done.gaps if gap.is_damage or gap.kind is GapKind.TAIL]
    assert bool(gaps) or not damage


@pytest.mark.parametrize(
    ("name", "least_slots", "least_lost"),
    [("v15-embedded", 1700, 0), ("v17-basic", 0, 400), ("v17-dups", 1000, 0), ("v8-basic", 0, 300)],
)
def test_slots_hold_or_name_what_is_lost(
    name: str, least_slots: int, least_lost: int, tmp_path: Path
) -> None:
    """Half of the log is noise; what later nodes hold is true, and belongs to lost records.

    Embedded data and duplicates come back; of other records the key is known.
    """
    home = copied(name, tmp_path)
    log = read_intact(environment(name).home)
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    half = len(data) // 2
    data[100:half] = random.Random(name).randbytes(half - 100)
    path.write_bytes(data)
    damage = [range(100, half)]
    gone = {
        identity: version
        for identity, version in log.newest().items()
        if not version.deleted and not spared(version.lsn, version.size, damage)
    }
    at = {version.lsn: version for version in log.versions}
    done = salvaged(home)
    slots = [
        row
        for rows in records_back(done).values()
        for row in rows
        if row.confidence is Confidence.SLOT_ONLY
    ]
    for row in slots:
        version = gone[at[row.lsn].identity]
        assert (version.lsn, version.key, version.data) == (row.lsn, row.key, row.data)
    # An internal database whose name is lost is listed by its id.
    users = {one.database.db_id for one in done.databases()}
    users &= {version.identity[0] for version in log.versions}
    lost = []
    for piece in lost_pieces(done):
        named = piece.dangling.select(~piece.comes_back & ~piece.dangling.gone)
        lsns = enumerate(named.records.lsn.tolist())
        lost += [lsn for i, lsn in lsns if named.db_id[i] in users]
    assert all(gone[at[lsn].identity].lsn == lsn for lsn in lost)
    assert len(slots) >= least_slots
    assert len(lost) >= least_lost


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each.name, marks=marked_if_another(each))
        for each in environments()
        if len(log_files(each.home)) > 2
    ],
)
def test_files_that_are_missing(name: str, tmp_path: Path) -> None:
    """A file is missing: the records of the others come back, and known keys of the missing one."""
    intact = environment(name).home
    log = read_intact(intact)
    live = live_databases(intact)
    paths = sorted(intact.glob("*.jdb"))
    for gone in {paths[0], paths[len(paths) // 2], paths[-1]}:
        home = tmp_path / gone.stem
        home.mkdir()
        for path in paths:
            if path != gone:
                shutil.copyfile(path, home / path.name)
        base = int(gone.stem, 16) << 32
        left = log.newest([range(base, base + (1 << 32))])
        done = salvaged(home)
        back = records_back(done)
        written = {version.lsn: version for version in log.versions}
        for db_id in live & back.keys():
            slots = [r for r in back[db_id] if r.confidence is Confidence.SLOT_ONLY]
            known = {r.lsn for r in back[db_id]} - {r.lsn for r in slots}
            from_gone = [r for r in slots if r.lsn >> 32 == base >> 32]
            assert not from_gone or any(gap.is_damage for gap in done.gaps)
            replaced = {written[r.lsn].identity for r in slots if r.lsn in written}
            expected = {
                version.lsn
                for identity, version in left.items()
                if identity[0] == db_id and not version.deleted and identity not in replaced
            }
            assert known == expected


def test_an_uncommitted_transaction_is_kept_apart(tmp_path: Path) -> None:
    home = environment("v17-crash-txn").home
    log = read_intact(home)
    done = {txn for _, _, txn in log.commits}
    open_ = [v for v in log.versions if v.txn is not None and v.txn not in done and not v.deleted]
    assert open_
    outcome = je_tools("salvage", home, "--output", tmp_path / "out", "--mode", "everything")
    assert outcome.code == 0
    apart = list((tmp_path / "out").glob("*.unfinished.dump"))
    lines = [line for path in apart for line in path.read_bytes().splitlines()[5:-1]]
    assert Counter(lines[::2]) == Counter(b" " + version.key.hex().encode() for version in open_)


def test_salvage_report(tmp_path: Path) -> None:
    """The salvage report adds up, and its gaps are where the damage is."""
    home = copied("v26-basic", tmp_path)
    damage = damage_files(home, random.Random(5), 3)
    with (home / "00000000.jdb").open("ab") as file:
        file.write(bytes(100))
    outcome = je_tools("salvage", home, "--output", tmp_path / "out", "--format", "jsonl")
    assert outcome.code == 3
    lines = (tmp_path / "out" / "report.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    gaps = [row for row in rows if row["kind"] == "gap" and row["gap"] == "damaged"]
    spans = [[int(part, 16) for part in row["start"].split("/")] for row in gaps]
    stops = {(file << 32) + at: row["bytes"] for (file, at), row in zip(spans, gaps, strict=True)}
    for spot in damage:
        assert any(start <= spot.start < start + size for start, size in stops.items())
    assert all(row["before"] and row["after"] for row in gaps)
    for row in (row for row in rows if row["kind"] == "database"):
        told = (tmp_path / "out" / row["file"]).read_text().splitlines()
        assert len(told) == sum(row["records"].values())
        counts = Counter(json.loads(line)["confidence"] for line in told)
        assert counts == Counter(row["records"])
        lost = [r for r in rows if r["kind"] == "lost-key" and r["db"] == row["db"]]
        assert len(lost) == row["lost_keys"]
        unsure = [r for r in rows if r["kind"] == "record" and r["db"] == row["db"]]
        assert len(unsure) == sum(
            n for grade, n in counts.items() if grade not in ("committed", "non-transactional")
        )
    assert (tmp_path / "out" / "summary.txt").read_bytes() == outcome.out
    assert outcome.out.count(b"damaged: ") == outcome.out.count(b"tail: 1 gap, 100 bytes") == 1


@pytest.mark.parametrize("mode", list(Mode))
def test_a_deletion_is_no_record_that_is_left_out(mode: Mode, tmp_path: Path) -> None:
    """Of two transactions whose end is lost, the one that only deleted has nothing to report."""
    log = OldDuplicates()
    head = {"db_id": 9, "flags": 0, "abort_lsn": NULL, "txn_prev_lsn": NULL}
    log.put("LN_TX", head | {"txn_id": 4, "key": b"written", "data": b"v"})
    gone = {"txn_id": 5, "key": b"gone", "data": None}
    log.put("LN_TX", head | gone)
    log.put("DelDupLN_TX", head | gone | {"data_as_key": b"v"})
    hurt = log.file.trace(50)
    log.file.data[hurt.start + 20] ^= 1
    log.file.trace(50)
    home = log.write(tmp_path / "env")
    outcome = je_tools("salvage", home, "--output", tmp_path / "out", "--mode", mode)
    assert outcome.code == 3
    lines = (tmp_path / "out" / "report.jsonl").read_text().splitlines()
    left_out = [row["key"] for row in map(json.loads, lines) if row["kind"] == "undecided"]
    assert left_out == ([b"written".hex()] if mode is Mode.COMMITTED else [])


@pytest.mark.parametrize("form", ["dump", "jsonl", "csv", "parquet"])
@pytest.mark.parametrize("mode", list(Mode))
def test_every_form_in_every_mode(form: str, mode: Mode, tmp_path: Path) -> None:
    home = environment("v26-dbops").home
    options = ("--format", form, "--mode", mode.value, "--data", "length")
    outcome = je_tools("salvage", home, "--output", tmp_path / "out", *options)
    assert outcome.code == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {f"people.{form}", f"new-name.{form}", "report.jsonl", "summary.txt"} <= names
    assert (f"gone.{form}" in names) == (mode is Mode.EVERYTHING)


def test_files_named_one_by_one(tmp_path: Path) -> None:
    """Slots name records of files that were not given, though nothing else shows such files."""
    home = environment("v17-erase-after").home
    log = read_intact(home)
    paths = sorted(home.glob("*.jdb"))
    last = int(paths[-1].stem, 16)
    outcome = je_tools("salvage", paths[-1], "--output", tmp_path / "out", "--format", "jsonl")
    assert outcome.code == 3
    lines = (tmp_path / "out" / "report.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    told = [row for row in rows if row["kind"] in ("record", "lost-key")]
    assert told
    assert {int(row["lsn"].split("/")[0], 16) < last for row in told} == {True}
    keys = {version.key.hex() for version in log.versions}
    assert {row["key"] for row in told} <= keys


@pytest.mark.parametrize("name", ["v8-cleaned"])
def test_files_that_the_cleaner_has_removed_are_no_damage(name: str, tmp_path: Path) -> None:
    outcome = je_tools("salvage", environment(name).home, "--output", tmp_path / "out")
    assert outcome.code == 0
    assert b"no-file: " in outcome.out


def test_file_numbers_with_their_highest_bit_set(tmp_path: Path) -> None:
    """Their LSNs are negative in int64 columns."""
    number = 0x80000001
    file = LogFile(no=number)
    file.trace(60)
    home = write_log(tmp_path / "env", [file])
    done = salvaged(home)
    assert [gap.kind for gap in done.gaps] == [GapKind.NO_FILE]
    assert done.gaps[0].stop == number << 32


@pytest.mark.parametrize(("unit", "says_hours"), [(HOUR_MS, False), (DAY_MS, True)])
def test_expirations_in_another_unit_than_the_node_says(
    tmp_path: Path, unit: int, says_hours: bool
) -> None:
    """The record is only in a slot, and the number decides the unit."""
    log = TreeLog()
    lost = log.ln(b"a", b"1")
    log.next_file()
    count = CREATED_MS // unit
    held = slot(join_two_part(b"a", b"1"), lost, state=SlotState.EMBEDDED) | {
        "expiration_offset": 3
    }
    more = {"expiration_base": count, "booleans": NodeFlag.IN_HOURS if says_hours else 0}
    log.database(b"db", log.tree([held], **more))
    log.checkpoint()
    home = log.write(tmp_path / "env")
    (home / "00000000.jdb").unlink()
    done = salvaged(home)
    (records,) = (batch for each in done.databases() for batch in done.dangling_batches(each))
    assert records.key[0] == b"a"
    assert records.expires_ms.tolist() == [(count + 2) * unit]


@pytest.mark.timeout(30)
def test_ids_of_nodes_that_were_chosen(tmp_path: Path) -> None:
    """These ids would collide in a table that is indexed by their bits."""
    count = 400_000
    lsns = np.arange(2 * count, dtype=np.int64)
    ids = np.tile(np.arange(count) << 32, 2)
    first, second = node_identities(np.full(2 * count, 6), ids, new_seed())
    deltas = lsns >= count
    for is_delta, expected in ((deltas, lsns), (~deltas, lsns[count:])):
        leaves = RowTable(Spill(0, lambda: tmp_path), NODE_KINDS, digest=2)
        leaves.append((lsns, first, second, is_delta))
        assert np.array_equal(newest_nodes(leaves), expected)


def test_what_is_refused(tmp_path: Path) -> None:
    home = copied("v17-dups", tmp_path)
    inside = je_tools("salvage", home, "--output", home / "out")
    assert inside.code == 6
    assert sorted(path.suffix for path in home.iterdir()) == [".jdb"]
    (tmp_path / "there").mkdir()
    assert je_tools("salvage", home, "--output", tmp_path / "there").code == 6
    options = ("--format", "jsonl", "--print")
    assert je_tools("salvage", home, "--output", tmp_path / "new", *options).code == 2


def test_examples_of_the_help_work_as_they_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = TreeLog(files=[LogFile(3)])
    log.ln(b"a", b"1")
    log.files.append(LogFile(5))
    log.ln(b"b", b"2")
    for name in ("env", "meta/bdb"):
        log.write(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    lines = salvage_command.get_help(click.Context(salvage_command)).splitlines()
    examples = [line.split()[1:] for line in lines if line.strip().startswith("je-tools salvage")]
    assert len(examples) >= 3
    for words in examples:
        assert je_tools(*words).code in (0, 3), words
        shutil.rmtree(words[words.index("--output") + 1])


def test_only_what_encodes_speaks_of_processes() -> None:
    for name in COMMANDS:
        told = je_tools(name, "--help").out.decode()
        assert ("or processes that read" in told) == (name == "dump"), name


@pytest.mark.parametrize("given", ["home", "file"])
def test_lost_records_are_damage(given: str, tmp_path: Path) -> None:
    """This holds even if no place of the given files is damaged."""
    home = copied("v8-cleaned", tmp_path)
    source = home
    if given == "home":
        (home / "00000002.jdb").unlink()
    else:
        source = home / "00000003.jdb"
    code, _, err = je_tools("salvage", str(source), "--output", str(tmp_path / "out"))
    assert code == 3
    assert "730 records lost" in err
    words = ("salvage", str(source), "--output", str(tmp_path / "zero"), "--exit-zero")
    assert je_tools(*words)[0] == 0


@pytest.mark.parametrize("mode", [mode.value for mode in Mode])
def test_nobody_misses_what_was_erased(mode: str, tmp_path: Path) -> None:
    home = environment("v17-erase-after").home
    words = ("salvage", str(home), "--mode", mode, "--output", str(tmp_path / "out"))
    code, _, err = je_tools(*words)
    assert (code, err) == (0, "")
