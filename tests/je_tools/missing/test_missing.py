"""`missing`: the reported losses of a file equal what lay there, as known beforehand."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from je_tools.btree.children import Children, bound
from je_tools.btree.replay import KeyOrder
from je_tools.btree.tree import Tree
from je_tools.core.masking import Masking
from je_tools.formats.je.btree.keys import join_two_part
from je_tools.formats.je.flags import SlotState
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.spans import Spans, joined_spans
from je_tools.log.opening import open_environment
from je_tools.log.parsing import parse_key
from je_tools.log.scan import Scanner
from je_tools.missing.losses import DatabaseLoss, LossOptions, LossReport, LostRange
from je_tools.missing.lost_ranges import range_bounds
from je_tools.missing.run import report_missing
from je_tools.output.views.key_tables import shown_key
from je_tools.recovery.database import NAME_DB, Database
from je_tools.recovery.opening import take_snapshot
from je_tools.recovery.snapshot import Snapshot
from je_tools.salvage import survivors
from je_tools.salvage.survivors import Survivors
from tests.builders.trees import TreeLog, slot
from tests.corpus import FIXTURES, Environment, environments, log_files, marked_beyond_fixtures
from tests.je_tools.dumped import Done, je_tools
from tests.truth.key_order import order_of

DAYS_OF_2030 = 22_000
"""Days from 1970 to the year 2030."""

SEVERAL = [each for each in environments() if len(log_files(each.home)) > 1]


class Bin(NamedTuple):
    """A bottom node: its key range, the files of the nodes that lead to it, its slots.

    `slots` maps each key to its LSN, and to True if the record is in the slot itself.
    """

    low: bytes | None
    high: bytes | None
    files: frozenset[int]
    slots: dict[bytes, tuple[int, bool]]


def snapshot_of(home: Path) -> Snapshot:
    return take_snapshot(open_environment([home]), Scanner(threads=1), now_ms=0)


def bins_of(tree: Tree, children: Children, above: frozenset[int]) -> Iterator[Bin]:
    """Yield the bottom nodes below some nodes, reading each node alone."""
    for row in range(len(children)):
        loaded = tree.read(children.select(slice(row, row + 1)))
        logged, _ = loaded.logged
        files = above | {int(logged.lsn[0]) >> 32}
        if logged.is_delta[0]:
            files |= {int(logged.last_full_lsn[0]) >> 32}
        if loaded.children.level > 1:
            yield from bins_of(tree, tree.children_of(loaded), files)
            continue
        slots, _ = tree.slots_in_range(loaded)
        own = {}
        for at in range(len(slots)):
            is_here = tree.two_part or bool(slots.state[at] & SlotState.EMBEDDED)
            own[slots.key[at] or b""] = (int(slots.lsn[at]), is_here)
        yield Bin(children.low[row], children.high[row], files, own)


def holds(low: bytes | None, high: bytes | None, key: bytes, *, two_part: bool) -> bool:
    at = order_of(key, two_part=two_part)
    return (low is None or order_of(low, two_part=two_part) <= at) and (
        high is None or at < order_of(high, two_part=two_part)
    )


def needs_of(snapshot: Snapshot, database: Database) -> dict[bytes, frozenset[int]]:
    """Return, for each record of a database, the files without which it is lost."""
    tree = snapshot.tree(database)
    bins = list(bins_of(tree, tree.root(), frozenset()))
    place = {key: each for each in bins for key in each.slots}
    needs = {}
    for batch in snapshot.records(database, show_expired=True):
        for row in range(len(batch)):
            key, lsn = batch.key[row] or b"", int(batch.lsn[row])
            if tree.two_part:
                key = join_two_part(key, batch.data[row])
            if key not in place:
                place[key] = next(
                    each for each in bins if holds(each.low, each.high, key, two_part=tree.two_part)
                )
            named, is_here = place[key].slots.get(key, (NULL_LSN, False))
            own = frozenset() if is_here and named == lsn else frozenset({lsn >> 32})
            needs[key] = place[key].files | own
    return needs


@functools.cache
def lain(home: Path) -> dict[str, dict[bytes, frozenset[int]]]:
    """Return, by database and key, the files without which a record is lost."""
    snapshot = snapshot_of(home)
    found = {
        database.name or f"id:{database.db_id}": needs_of(snapshot, database)
        for database in snapshot.databases.values()
        if database.root_lsn != NULL_LSN
    }
    for database in snapshot.databases.values():
        name = database.name or f"id:{database.db_id}"
        if database.map_ln_lsn != NULL_LSN and name in found:
            descriptor = found["_jeIdMap"][str(database.db_id).encode()]
            found[name] = {key: files | descriptor for key, files in found[name].items()}
    return found


def lost_of(loss: DatabaseLoss, keys: Iterable[bytes], *, two_part: bool) -> set[bytes]:
    """Return those of some keys that a loss covers."""
    if loss.descriptor_lsn is not None:
        return set(keys)
    alone = {loss.keys[row] for row in range(len(loss.keys))}
    return {
        key
        for key in keys
        if key in alone
        or any(holds(one.low, one.high, key, two_part=two_part) for one in loss.ranges)
    }


def report_of(home: Path, without: tuple[int, ...] = ()) -> LossReport:
    wanted = LossOptions(0, frozenset(without))
    return report_missing(open_environment([home]), Scanner(threads=1), wanted)


def lost_keys(report: LossReport, home: Path) -> dict[str, set[bytes]]:
    """Return the keys of the complete log that a report counts as lost, by database."""
    losses = {loss.db_id: loss for loss in report.losses}
    lost = {}
    for database in snapshot_of(home).databases.values():
        name = database.name or f"id:{database.db_id}"
        if database.db_id in losses:
            keys = lain(home).get(name, {})
            found = lost_of(losses[database.db_id], keys, two_part=database.has_duplicates)
            lost |= {name: found} if found else {}
    return lost


def lying_in(file_no: int, home: Path) -> dict[str, set[bytes]]:
    return {
        name: lost
        for name, records in lain(home).items()
        if (lost := {key for key, files in records.items() if file_no in files})
    }


CASES = [
    pytest.param(each, int(path.stem, 16), marks=marked_beyond_fixtures(each))
    for each in SEVERAL
    for path in log_files(each.home)
]


@pytest.mark.parametrize(("each", "file_no"), CASES, ids=lambda case: getattr(case, "name", case))
def test_what_would_be_lost_is_what_lies_there(each: Environment, file_no: int) -> None:
    report = report_of(each.home, (file_no,))
    assert lost_keys(report, each.home) == lying_in(file_no, each.home)


@pytest.mark.parametrize(("each", "file_no"), CASES, ids=lambda case: getattr(case, "name", case))
def test_what_is_lost_is_what_lay_there(each: Environment, file_no: int, tmp_path: Path) -> None:
    home = tmp_path / "env"
    shutil.copytree(each.home, home, ignore=shutil.ignore_patterns(f"{file_no:08x}.jdb"))
    report = report_of(home)
    if report.refused is not None:
        return
    whole, left = snapshot_of(each.home), snapshot_of(home)
    if (
        left.checkpoint.end_lsn != whole.checkpoint.end_lsn
        or left.end.last_lsn != whole.end.last_lsn
    ):
        # Without its end a log is an earlier one; `--without` knows what the later one had.
        assert file_no in {whole.end.last_lsn >> 32, whole.checkpoint.end_lsn >> 32}
        return
    assert lost_keys(report, each.home) == lying_in(file_no, each.home)


def test_nothing_is_missing() -> None:
    done = je_tools("missing", FIXTURES / "v8-cleaned" / "env")
    assert (done.code, done.out) == (0, b"")
    assert "no file in use is missing" in done.err


def test_kept_records_are_those_of_other_files() -> None:
    """Only the database's MapLN is lost; all its records are still there."""
    home = FIXTURES / "v17-erase-after" / "env"
    report = report_of(home, (1,))
    small = next(loss for loss in report.losses if loss.name == "small")
    assert small.descriptor_lsn is not None
    records = snapshot_of(home)
    database = next(each for each in records.databases.values() if each.name == "small")
    assert small.kept_count == sum(len(batch) for batch in records.records(database))


@pytest.mark.parametrize(("now_ms", "lost_count"), [(0, 1), (4_102_444_800_000, 0)])
def test_expired_records_are_not_lost(now_ms: int, lost_count: int, tmp_path: Path) -> None:
    """The record expires in the year 2030, by a slot whose file is there."""
    log = TreeLog()
    lost = log.ln(b"a", b"1")
    log.next_file()
    expiring = slot(b"a", lost) | {"expiration_offset": 1}
    log.database(b"db", log.tree([expiring], expiration_base=DAYS_OF_2030))
    log.checkpoint()
    home = log.write(tmp_path / "env")
    (home / "00000000.jdb").unlink()
    report = report_missing(open_environment([home]), Scanner(threads=1), LossOptions(now_ms))
    assert sum(len(loss.keys) for loss in report.losses) == lost_count


def test_a_file_that_is_not_there_cannot_be_left_out() -> None:
    done = je_tools("missing", FIXTURES / "v8-cleaned" / "env", "--without", "0x7")
    assert (done.code, done.out) == (2, b"")
    assert "--without 0x7: the log has no such file" in done.err


def test_json_lines_have_every_key() -> None:
    home = FIXTURES / "v8-cleaned" / "env"
    done = je_tools("missing", home, "--without", "00000002.jdb", "--format", "jsonl")
    rows = [json.loads(line) for line in done.out.splitlines()]
    keys = {bytes.fromhex(row["key"]) for row in rows if row["section"] == "key"}
    assert done.code == 3
    assert keys == lying_in(2, home)["people"]


def salvaged_keys(home: Path, folder: Path) -> dict[int, list[tuple[bytes, bytes | None]]]:
    """Return key and data of what a salvage writes, by database id."""
    done = je_tools("salvage", home, "--internal", "--output", folder, "--format", "jsonl")
    assert done.code in (0, 3), done.err
    report = [json.loads(line) for line in (folder / "report.jsonl").read_text().splitlines()]
    found = {}
    for row in (row for row in report if row["kind"] == "database"):
        records = [json.loads(line) for line in (folder / row["file"]).read_text().splitlines()]
        found[row["db_id"]] = [
            (bytes.fromhex(each["key"]), bytes.fromhex(each["data"] or "")) for each in records
        ]
    return found


def kept_by(
    loss: DatabaseLoss, records: list[tuple[bytes, bytes | None]], *, two_part: bool
) -> list[int]:
    """Count the salvaged records of each range, of a wholly lost database, and of lone keys."""
    keys = [join_two_part(key, data or b"") if two_part else key for key, data in records]
    ranges = [
        sum(holds(one.low, one.high, key, two_part=two_part) for key in keys) for one in loss.ranges
    ]
    alone = {loss.keys[row] for row in range(len(loss.keys))}
    whole = len(keys) if loss.descriptor_lsn is not None else 0
    return [*ranges, whole, len(alone & set(keys))]


@pytest.mark.parametrize(("each", "file_no"), CASES, ids=lambda case: getattr(case, "name", case))
def test_what_is_kept_is_what_a_salvage_writes(
    each: Environment, file_no: int, tmp_path: Path
) -> None:
    home = tmp_path / "env"
    shutil.copytree(each.home, home, ignore=shutil.ignore_patterns(f"{file_no:08x}.jdb"))
    records = salvaged_keys(home, tmp_path / "out") if any(home.glob("*.jdb")) else {}
    for report in (report_of(each.home, (file_no,)), report_of(home)):
        databases = snapshot_of(each.home).databases
        for loss in report.losses:
            database = databases.get(loss.db_id)
            two_part = database is not None and database.has_duplicates
            two_part = two_part and not database.old_duplicates
            kept = kept_by(loss, records.get(loss.db_id, []), two_part=two_part)
            told = [one.kept_count for one in loss.ranges]
            assert [*told, loss.whole_kept_count, int(loss.kept.sum())] == kept, loss.name
            assert loss.kept_count == sum(kept)


def test_names_that_are_lost_are_told_of_databases_that_are_left(tmp_path: Path) -> None:
    home = FIXTURES / "v17-erase-after" / "env"
    lost = {name for name, file_no in files_of_names(home).items() if file_no == 0}
    report = report_of(home, (0,))
    told = {loss.name for loss in report.losses if loss.name_lost and not loss.is_internal}
    assert told == lost == {"people", "small", "visits"}
    gone = without(home, tmp_path, 0)
    report = report_of(gone)
    left = {loss.name for loss in report.losses if loss.name_lost and not loss.is_internal}
    # An internal database's MapLN is lost too, and nothing else holds its name.
    assert left == lost | {"id:3"}
    done = je_tools("missing", gone)
    assert "the names of id:3, people (id:6), small (id:7), visits (id:8)." in done.err


def files_of_names(home: Path) -> dict[str, int]:
    """Return the number of the file that names each application database."""
    snapshot = snapshot_of(home)
    return {
        (batch.key[row] or b"").decode(): int(batch.lsn[row]) >> 32
        for batch in snapshot.records(snapshot.databases[NAME_DB], with_data=False)
        for row in range(len(batch))
        if not (batch.key[row] or b"").startswith(b"_je")
    }


def without(home: Path, folder: Path, *file_nos: int) -> Path:
    """Copy a log without some of its files."""
    names = [f"{file_no:08x}.jdb" for file_no in file_nos]
    return shutil.copytree(home, folder / "env", ignore=shutil.ignore_patterns(*names))


def files_of(home: Path, *options: str) -> tuple[list[tuple[int, str, int]], Done]:
    """Return number, state and place count of each file that `missing` lists, and its output."""
    done = je_tools("missing", home, "--format", "jsonl", *options)
    rows = [json.loads(line) for line in done.out.splitlines()]
    files = [row for row in rows if row["section"] == "file"]
    return [(row["file_no"], row["state"], row["place_count"]) for row in files], done


def test_a_file_that_is_there_is_not_called_missing(tmp_path: Path) -> None:
    """If a short, damaged or erased file were called missing, people would look for it in vain."""
    home = without(FIXTURES / "v17-erase-after" / "env", tmp_path, 2)
    path = home / "00000000.jdb"
    whole = path.read_bytes()
    ((_, state, _),) = files_of(home)[0]
    path.write_bytes(whole[:1000])
    assert (0, "too short") in [file[:2] for file in files_of(home)[0]]
    path.write_bytes(whole[:100] + bytes(len(whole) - 100))
    assert (0, "damaged") in [file[:2] for file in files_of(home)[0]]
    assert state == "erased"


def test_every_file_that_was_named_is_told() -> None:
    home = FIXTURES / "v8-cleaned" / "env"
    files, done = files_of(home, "--without", "2", "--without", "3")
    assert [file[:2] for file in files] == [(2, "taken as missing"), (3, "taken as missing")]
    assert done.code == 3


def test_what_is_lost_as_a_whole_is_counted() -> None:
    """Without all its files every record of a database is lost, and none is kept."""
    home = FIXTURES / "v17-erase-after" / "env"
    snapshot = snapshot_of(home)
    counts = {each.name: snapshot.count(each) for each in snapshot.databases.values()}
    everything = tuple(file.file_no for file in snapshot.end.files)
    report = report_of(home, everything)
    found = {loss.name: loss.key_count for loss in report.losses if loss.key_count}
    assert found == {name: count for name, count in counts.items() if count}
    assert not any(loss.kept_count for loss in report.losses)
    done = je_tools("missing", home, *(f"--without={number}" for number in everything))
    whole = [loss for loss in report.losses if loss.is_whole]
    records = sum(counts[loss.name] for loss in whole)
    assert f"{len(whole)} whole databases with {records:,} records" in done.err


def test_keys_of_lost_nodes_are_counted_while_the_nodes_are_there(tmp_path: Path) -> None:
    home = FIXTURES / "v17-erase-after" / "env"
    lost = lying_in(0, home)
    for loss in report_of(home, (0,)).losses:
        assert loss.key_count == len(lost.get(loss.name, ())), loss.name
    gone = report_of(without(home, tmp_path, 0))
    assert {one.key_count for loss in gone.losses for one in loss.ranges} == {None}


def test_a_log_that_the_engine_refuses_is_no_sound_one(tmp_path: Path) -> None:
    home = without(FIXTURES / "v8-cleaned" / "env", tmp_path)
    (home / "7fffffff.jdb").write_bytes(b"")
    done = je_tools("missing", home)
    assert done.code == 3
    assert "recovery-refused" in done.err
    assert done.err.endswith("no file in use is missing, but see above\n")


@pytest.mark.parametrize("width", [60, 80])
def test_ranges_are_told_apart_on_a_narrow_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    home = FIXTURES / "v17-erase-after" / "env"
    lines = je_tools("missing", home, "--without", "0").out.decode().splitlines()
    first = next(row for row, line in enumerate(lines) if line.startswith("Key ranges")) + 2
    lines = lines[first : lines.index("", first)]
    ranges = [line.split() for line in lines]
    assert max(map(len, lines)) <= width
    assert any("~" in key for _, key, *_ in ranges)
    assert len({(name, key) for name, key, *_ in ranges}) == len(ranges) > 10


def test_keys_are_spelled_as_get_takes_them() -> None:
    home = FIXTURES / "v8-cleaned" / "env"
    lines = je_tools("missing", home, "--without", "2").out.decode().splitlines()
    key = next(line.split()[1] for line in lines if line.startswith("people") and "none" in line)
    assert je_tools("get", home, "--db", "people", key).code == 0


@pytest.mark.parametrize("text", [b"long:7", b"hex:00", b"int:x", b"str:name"])
def test_a_key_that_looks_like_the_spelling_of_another_is_hexadecimal(text: bytes) -> None:
    spelling = shown_key(Masking(), text)
    assert spelling is not None
    assert parse_key(spelling).needle == text
    assert shown_key(Masking(), b"ratio:1") == "ratio:1"


def test_of_keys_of_no_known_order_those_are_kept_that_must_be() -> None:
    """In an unknown order only a range of all keys is certain to hold a key."""
    tree = snapshot_of(FIXTURES / "v8-cleaned" / "env")
    database = next(each for each in tree.databases.values() if each.name == "people")
    unordered = replace(tree.tree(database), order=KeyOrder(ordered=False))
    keys = joined_spans([bound(b"b"), bound(b"a")])
    ranges = [LostRange(None, None, 2, 0), LostRange(None, b"b", 1, 0)]
    assert range_bounds(unordered, keys, ranges) == [(0, 2), (0, 0)]


@pytest.mark.parametrize("without", [0, 1, 2])
def test_survivors_are_counted_in_groups(without: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of a large database do not fit in memory at once."""
    home = FIXTURES / "v17-erase-after" / "env"
    words = ("missing", home, "--without", str(without), "--format", "jsonl")
    done = je_tools(*words)
    groups = []
    keys, pieces = Survivors.keys, Survivors._pieces

    def counted(self: Survivors, db_id: int, *, two_part: bool) -> Iterator[Spans]:
        found = list(keys(self, db_id, two_part=two_part))
        groups.append(len(found))
        return iter(found)

    def small(self: Survivors, db_id: int, two_part: bool) -> Iterator[Spans]:
        for one in pieces(self, db_id, two_part):
            yield from (one.select(slice(at, at + 3)) for at in range(0, len(one), 3))

    monkeypatch.setattr(survivors, "GROUP_SIZE", 0)
    monkeypatch.setattr(Survivors, "keys", counted)
    monkeypatch.setattr(Survivors, "_pieces", small)
    assert je_tools(*words) == done
    assert max(groups) > 1
