"""BINs with few changes are written as deltas, by the engine's rule, and others in full."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from je_tools.checkpoint.apply import apply_checkpoint, plan_checkpoint
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.checkpoint.pending_work import is_needed
from je_tools.errors import RefusedError
from je_tools.formats.je.btree.keys import slot_parts
from je_tools.formats.je.entry.entries import decode_entry
from je_tools.log.scan import Scanner
from tests.builders.trees import FIRST_ID, TreeLog, slot
from tests.corpus import FIXTURES
from tests.formats.logs import log_rows
from tests.je_tools.checkpoint.test_checkpoint import content_of, snapshot_of

BIN, DELTA, FILE_SUMMARY = 13, 37, 11
NULL = -1
GONE_LSN = 0x7FFF << 32 | 0x100
SIZES, IN_HOURS = 4, 32
KNOWN_DELETED, DIRTY, PENDING_DELETED = 1, 2, 8
NODE_ID = 7
DAY, HOUR = 20_000, 480_000
EXPIRES = 0x80

Fields = dict[str, Any]


def key(number: int) -> bytes:
    return b"k%03d" % number


@dataclass
class Grown:
    """A database of one BIN at rest; entries written after it are left to recovery.

    Attributes:
        log: The log, which grows.
        full: LSN of the full version of the BIN.
        delta: LSN of the delta that the root names, or `NULL`.
    """

    log: TreeLog = field(default_factory=TreeLog)
    full: int = NULL
    delta: int = NULL

    @classmethod
    def of(
        cls,
        slots: int,
        *,
        changed: Iterable[int] = (),
        gone: Iterable[int] = (),
        states: dict[int, int] | None = None,
        sized: bool = True,
        apart: bool = False,
        **more: Any,
    ) -> Grown:
        """Build a full version with keys from 0 on, and a delta if some are changed or gone.

        If `apart`, everything after the full version is in another file.
        """
        made = cls()
        made.full = made.log.node(
            [made.slot(i, states.get(i, 0) if states else 0, sized) for i in range(slots)],
            node_id=NODE_ID,
            **{"booleans": SIZES, **more},
        )
        if apart:
            made.log.next_file()
        changed, gone = set(changed), set(gone)
        child = made.full
        if changed | gone:
            differing = [
                made.slot(i, DIRTY | (KNOWN_DELETED if i in gone else 0))
                for i in sorted(changed | gone)
            ]
            count = slots + sum(i >= slots for i in changed | gone)
            child = made.delta = made.log.delta(
                differing, made.full, node_id=NODE_ID, full_slot_count=count, booleans=SIZES
            )
        root = made.log.node([slot(b"", child)], level=2, is_root=True)
        made.log.database(b"db", root)
        made.log.checkpoint()
        return made

    def slot(self, number: int, state: int = 0, sized: bool = True) -> Fields:
        made = slot(key(number), self.log.ln(key(number), b"old %d" % number), state)
        return made | {"logged_size": 40 if sized else 0}

    def write(self, numbers: Iterable[int], data: bytes | None = b"new", **more: Any) -> None:
        """Log records for recovery to find, or deletions if `data` is None."""
        for number in numbers:
            self.log.ln(key(number), data, **more)


def written(made: Grown, folder: Path, *, properties: str = "") -> Fields:
    """Return the BIN that a checkpoint writes; assert that records stay and nothing is left."""
    home = made.log.write(folder)
    if properties:
        (home / "je.properties").write_text(properties)
    before = content_of(snapshot_of(home, 0))
    _, outcome = apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), 0)
    after = snapshot_of(home, 0)
    assert content_of(after) == before
    assert not is_needed(after)
    assert not after.faults.damage
    assert outcome.checkpoint is not None
    found = []
    for rows in log_rows(home / "00000000.jdb"):
        kinds = np.isin(rows.type, (BIN, DELTA)) & (rows.lsn > outcome.checkpoint.start_lsn)
        for row in np.flatnonzero(kinds).tolist():
            entry = decode_entry(rows.entry_bytes(row), rows.version)
            if entry.fields["db_id"] == FIRST_ID:
                found.append({"type": int(rows.type[row]), **entry.fields})
    (bin_,) = found
    kind = "NewBINDelta" if bin_["type"] == DELTA else "BIN"
    assert outcome.checkpoint.node_counts[FIRST_ID, 1, kind] == 1
    return bin_


def states(bin_: Fields) -> dict[bytes, int]:
    """Return the state of the slot of each key."""
    prefix = bin_.get("key_prefix") or b""
    return {prefix + slot_parts(each)[0]: each["state"] for each in bin_["slots"]}


def test_few_slots_differ(tmp_path: Path) -> None:
    made = Grown.of(40)
    made.write([3, 17, 50])
    delta = written(made, tmp_path)
    assert delta["type"] == DELTA
    assert delta["last_full_lsn"] == made.full
    assert (delta["full_slot_count"], delta["full_max_entries"]) == (41, 128)
    assert delta["max_entries"] == 10
    assert delta["node_id"] == NODE_ID
    assert delta["identifier_key"] == key(0)
    assert states(delta) == dict.fromkeys([key(3), key(17), key(50)], DIRTY)


@pytest.mark.parametrize(("count", "kind"), [(9, DELTA), (10, DELTA), (11, BIN)])
def test_a_quarter_may_differ(tmp_path: Path, count: int, kind: int) -> None:
    made = Grown.of(40)
    made.write(range(count))
    assert written(made, tmp_path)["type"] == kind


@pytest.mark.parametrize(
    ("percent", "count", "kind"), [(0, 1, BIN), (75, 30, DELTA), (75, 31, BIN)]
)
def test_the_share_is_that_of_je_properties(
    tmp_path: Path, percent: int, count: int, kind: int
) -> None:
    made = Grown.of(40)
    made.write(range(count))
    properties = f"je.tree.binDelta={percent}\n"
    assert written(made, tmp_path, properties=properties)["type"] == kind


def test_what_goes_leaves_a_slot_where_the_full_version_has_it(tmp_path: Path) -> None:
    made = Grown.of(40, changed=[5, 60, 61], gone=[6, 62])
    made.write([7, 60, 63], None)
    made.write([64])
    delta = written(made, tmp_path)
    gone = KNOWN_DELETED | DIRTY
    assert states(delta) == {
        key(5): DIRTY,
        key(6): gone,
        key(7): gone,
        key(61): DIRTY,
        key(64): DIRTY,
    }
    assert delta["full_slot_count"] == 42
    assert {each["state"]: each.get("lsn") for each in delta["slots"]}[gone] in (NULL, None)


def test_what_is_deleted_in_the_full_version_needs_no_slot(tmp_path: Path) -> None:
    made = Grown.of(40, changed=[9], states={9: KNOWN_DELETED, 11: PENDING_DELETED})
    made.write([9], None)
    made.write([2])
    delta = written(made, tmp_path)
    assert states(delta) == {key(2): DIRTY}
    assert delta["full_slot_count"] == 40


def test_the_delta_before_goes_on(tmp_path: Path) -> None:
    """All differences from the full version count, and that version stays."""
    made = Grown.of(40, changed=[1, 2, 3, 4])
    made.write([4, 5])
    delta = written(made, tmp_path / "few")
    assert delta["last_full_lsn"] == made.full
    assert states(delta) == dict.fromkeys(map(key, range(1, 6)), DIRTY)
    made = Grown.of(40, changed=range(8))
    made.write(range(8, 11))
    assert written(made, tmp_path / "many")["type"] == BIN


def test_an_emptied_bin_is_no_delta(tmp_path: Path) -> None:
    made = Grown.of(4, states=dict.fromkeys(range(3), KNOWN_DELETED))
    made.write([3], None)
    bin_ = written(made, tmp_path)
    assert (bin_["type"], bin_["slots"]) == (BIN, [])


def test_a_bin_that_overflows_with_what_is_deleted_is_written_anew(tmp_path: Path) -> None:
    made = Grown.of(40, states={0: KNOWN_DELETED}, max_entries=40)
    made.write([50])
    bin_ = written(made, tmp_path)
    assert (bin_["type"], len(bin_["slots"])) == (BIN, 40)


def test_sizes_that_are_lost_are_mended_in_a_full_version(tmp_path: Path) -> None:
    made = Grown.of(40, sized=False)
    made.write([3])
    bin_ = written(made, tmp_path)
    assert bin_["type"] == BIN
    assert all(each["logged_size"] > 0 for each in bin_["slots"])


class Expiring(Grown):
    """A database of one BIN whose slots all expire."""

    def slot(self, number: int, state: int = 0, sized: bool = True) -> Fields:
        return Grown.slot(self, number, state, sized) | {"expiration_offset": 1}


@pytest.mark.parametrize(
    ("base", "in_hours", "expires", "kind", "unit"),
    [
        (DAY, False, None, DELTA, 0),
        (HOUR, True, None, DELTA, IN_HOURS),
        (DAY, False, DAY + 1, DELTA, 0),
        (HOUR, True, HOUR + 7, DELTA, IN_HOURS),
        (DAY, False, HOUR + 7, BIN, None),
        # Hours marked as days, and the reverse.
        (HOUR, False, None, BIN, None),
        (DAY, True, None, BIN, None),
    ],
)
def test_the_unit_of_expirations_is_that_of_the_full_version(
    tmp_path: Path, base: int, in_hours: bool, expires: int | None, kind: int, unit: int | None
) -> None:
    """Engines up to 18.3 apply the unit of the delta to all slots."""
    booleans = SIZES | (IN_HOURS if in_hours else 0)
    made = Expiring.of(40, expiration_base=base, booleans=booleans)
    made.write([3], **({} if expires is None else {"expiration": expires, "flags": EXPIRES}))
    bin_ = written(made, tmp_path)
    assert bin_["type"] == kind
    if unit is not None:
        assert bin_["booleans"] & IN_HOURS == unit


def test_logs_of_old_engines_have_none() -> None:
    snapshot = snapshot_of(FIXTURES / "v8-crash-txn-ckpt" / "env", 0)
    checkpoint = plan_checkpoint(snapshot, CheckpointOptions(cuts=True)).checkpoint
    assert checkpoint is not None
    assert {kind for _, _, kind in checkpoint.node_counts} == {"BIN", "IN"}


@pytest.mark.parametrize("changed", [(), (1,)])
def test_the_full_version_is_not_obsolete(tmp_path: Path, changed: tuple[int, ...]) -> None:
    """A BIN written in full makes it obsolete; an earlier delta is obsolete in both cases."""
    counts = []
    for percent in (0, 25):
        made = Grown.of(40, changed=changed)
        made.write([3])
        folder = tmp_path / str(percent)
        written(made, folder, properties=f"je.tree.binDelta={percent}\n")
        counts.append(obsolete_nodes(folder))
    assert counts[0] == counts[1] + 1


@pytest.mark.parametrize(("child", "count"), [("gone", 0), ("BIN", 1), ("delta", 2)])
def test_a_node_that_no_search_reaches_is_obsolete(tmp_path: Path, child: str, count: int) -> None:
    """The engine counts the versions of a node that it removes from its parent, too."""
    counts = []
    for is_reached in (True, False):
        made = Grown.of(1)
        log = made.log
        full = log.node([made.slot(35)], node_id=NODE_ID + 1, booleans=SIZES)
        lsn = {"gone": GONE_LSN, "BIN": full}.get(child) or log.delta(
            [made.slot(35, DIRTY)], full, node_id=NODE_ID + 1, full_slot_count=1, booleans=SIZES
        )
        bins = [(35, lsn)] * (not is_reached)
        bins += [(n, log.node([made.slot(n)], booleans=SIZES)) for n in (36, 50)]
        high = log.node([slot(key(n), each) for n, each in bins], level=2)
        low = log.node([slot(key(10), log.node([made.slot(10)], booleans=SIZES))], level=2)
        root = log.node([slot(b"", low), slot(key(37), high)], level=3, is_root=True)
        log.database(b"other", root, db=FIRST_ID)
        log.mapped.pop(0)
        log.named.pop(0)
        log.checkpoint()
        made.write([52])
        home = log.write(tmp_path / str(is_reached))
        apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), 0)
        counts.append(obsolete_nodes(home))
    assert counts[1] - counts[0] == count


def obsolete_nodes(home: Path) -> int:
    """Return the number of obsolete nodes that the checkpoint records for the file."""
    (found,) = (
        decode_entry(rows.entry_bytes(row), rows.version).fields["summary"]["obsolete_in_count"]
        for rows in log_rows(home / "00000000.jdb")
        for row in np.flatnonzero(rows.type == FILE_SUMMARY).tolist()
    )
    return int(found)


def test_stray_slots_go_with_a_full_version(tmp_path: Path) -> None:
    made = Grown()
    left = made.log.node([made.slot(i) for i in (*range(20), 30)], booleans=SIZES)
    right = made.log.node([made.slot(i) for i in range(25, 40)], booleans=SIZES)
    root = made.log.node([slot(b"", left), slot(key(25), right)], level=2, is_root=True)
    made.log.database(b"db", root)
    made.log.checkpoint()
    made.write([3])
    bin_ = written(made, tmp_path)
    assert bin_["type"] == BIN
    assert list(states(bin_)) == [key(i) for i in range(20)]


def test_a_delta_without_its_full_version_is_refused(tmp_path: Path) -> None:
    made = Grown.of(40, changed=[1], apart=True)
    made.write([3])
    home = made.log.write(tmp_path)
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[made.full + 20] ^= 1
    path.write_bytes(data)
    with pytest.raises(RefusedError, match="damaged"):
        apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), 0)
