"""A fleet of generated environments in which some have planted faults, and others are hostile."""

from __future__ import annotations

import os
import random
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from je_tools.core.escaping import clean_text
from je_tools.errors import EXIT_DAMAGE, EXIT_OK
from je_tools.formats.je.entry.entries import decode_entry
from je_tools.formats.je.header import entry_checksum
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.verify.row_damage import LISTED
from tests.builders.trees import simple
from tests.corpus import FIXTURES
from tests.damage.planted_findings import PLANTED
from tests.damage.running import je_tools

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows

Codes = Counter[tuple[str, str]]
"""Number of findings by code and severity."""

CANARY = b"canary-91c7"
"""Part of each hostile key and value: it must be in no output."""

HOSTILE_KEYS = (
    b"<script>alert(1)</script>",
    b"'; DROP TABLE findings; --",
    b'=HYPERLINK("http://evil.example")',
    b"line\nbreak\r\x00\x1b[31m",
    b"not utf-8 \xff\x80",
    "\u202egnp.exe".encode(),
)

HOSTILE_NAMES = (
    b"<img src=x onerror=alert(1)>",
    b"'; DROP TABLE findings; --",
    b"=1+1",
    b"line\nbreak\r\x1b[31m",
    b"not utf-8 \xff\x80",
    b"-rf *",
    b"a,b;c\td",
)

_GROUP = ("group-unreadable", "warning"), ("vlsn-index-lost", "error")
CONSEQUENCES: dict[str, tuple[tuple[str, str], ...]] = {
    "bad-file-header": (),
    "damaged-entry": (("damaged-end", "error"), *_GROUP),
    "damaged-gap": (("damaged-end", "error"), *_GROUP),
    "erased-not-zero": _GROUP,
    "last-entry-mismatch": (("backward-jump", "error"), *_GROUP),
    "missing-file": (("recovery-refused", "error"),),
    "torn-tail": _GROUP,
    "unknown-type": (("damaged-end", "error"), *_GROUP),
    "zero-tail": (("recovery-refused", "error"), *_GROUP),
}
"""Findings of recovery that follow from each kind of planted fault in a file.

The root of these logs says that they are of a node of a group, but names no database of one.
"""

_NODES = ("node1", "node2", "node3")


class Campaign(NamedTuple):
    """A fleet.

    Attributes:
        root: directory of all environments.
        planted: findings of each environment that has some, by its name in the tables.
        kinds: number of faults of each kind.
        count: number of environments.
    """

    root: Path
    planted: dict[str, Codes]
    kinds: Counter[str]
    count: int


def make_campaign(root: Path, count: int, each: int, groups: int, seed: int) -> Campaign:
    """Build a fleet.

    Args:
        root: directory, which need not exist.
        count: number of environments.
        each: number of faults of each of the 12 kinds.
        groups: number of groups without a fault.
        seed: decides everything that is random.
    """
    rng = random.Random(seed)
    planted: dict[str, Codes] = {}
    kinds: Counter[str] = Counter()
    for kind, consequences in CONSEQUENCES.items():
        for number in range(each):
            folder = root / f"rack{number}" / kind
            told = PLANTED[kind](folder)[1]
            planted[str(folder)] = Counter((one.code, one.severity) for one in told)
            planted[str(folder)].update(consequences)
            kinds[kind] += 1
    made = len(planted)
    for kind, plant in _GROUP_PLANTS.items():
        for number in range(each):
            planted |= plant(root / "groups" / f"{kind}-{number}", rng)
            kinds[kind] += 1
            made += 2 if kind == "group-member-missing" else 3
    for number in range(groups):
        _copy_group(root / "groups" / f"sound-{number}", rng)
        made += 3
    for number in range(count - made):
        name = os.fsdecode(HOSTILE_NAMES[number]) if number < len(HOSTILE_NAMES) else str(number)
        _sound(root / f"sound{number % 7}" / name, rng)
    return Campaign(root, planted, kinds, count)


def shown(path: Path) -> str:
    """Return the name of an environment in the tables."""
    return clean_text(str(path))


def many_findings(home: Path, count: int) -> Path:
    """Write a sound log with that many damaged entries after it, no two of them adjacent.

    A file has fewer of them than `verify` lists one by one.
    """
    log = simple({b"key": b"data"})
    for number in range(count):
        if number and number % (LISTED // 2) == 0:
            log.next_file()
        file = log.file
        at = len(file.data)
        file.trace(20)
        file.data[at + 20] ^= 1
        file.trace(20)
    return log.write(home)


def _sound(home: Path, rng: random.Random) -> None:
    keys = rng.sample(HOSTILE_KEYS, 2)
    records = {key + CANARY: CANARY * rng.randrange(1, 5) for key in keys}
    records |= {b"%04d" % i: CANARY + bytes(rng.randrange(80)) for i in range(rng.randrange(30))}
    simple(records).write(home)


_COMMITTED_ID = uuid.UUID("89b950cd-5a8a-474c-a727-3a8e2e799492")
_COMMITTED = {name: FIXTURES / "v26-rep-committed" / name for name in _NODES}


def _copy_group(folder: Path, rng: random.Random, homes: Mapping[str, Path] = _COMMITTED) -> None:
    """Copy nodes of a group; the copies are a group with an id of its own."""
    group_id = uuid.UUID(int=rng.getrandbits(128))
    for name, home in homes.items():
        shutil.copytree(home, folder / name)
        for path in (folder / name).glob("*.jdb"):
            _patch(path, lambda entry: entry.replace(_stored(_COMMITTED_ID), _stored(group_id)))


def _stored(group_id: uuid.UUID) -> bytes:
    """Return an id as a record of the group holds it: two numbers with their signs inverted."""
    return bytes(byte ^ 0x80 * (i % 8 == 0) for i, byte in enumerate(group_id.bytes))


def _patch(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change entries of a file, and give those that differ a right checksum."""
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    for start, size, version in _places(path):
        entry = bytes(data[start : start + size])
        changed = change(entry)
        if changed != entry:
            summed = entry_checksum(changed, version).to_bytes(4, "little") + changed[4:]
            data[start : start + size] = summed
    path.write_bytes(data)


def _places(path: Path) -> list[tuple[int, int, int]]:
    """Return offset, size and log version of each entry of a file."""
    environment = open_environment([path])
    version = environment.files[0].version

    def places(rows: Rows) -> list[tuple[int, int, int]]:
        sizes = (rows.header_size + rows.item_size).tolist()
        return [(at, size, version) for at, size in zip(rows.offset.tolist(), sizes, strict=True)]

    found = Scanner(threads=1, wide=True).scan(environment, places)
    return [place for part in found for result in part.results for place in result]


def _of_diverged(folder: Path, rng: random.Random) -> dict[str, Codes]:
    """Let the last Commits of a node come from another master."""
    _copy_group(folder, rng)

    def change(entry: bytes) -> bytes:
        decoded = decode_entry(entry, 26, spans=True)
        if decoded.type_name != "Commit" or (decoded.header.vlsn or 0) <= 1000:
            return entry
        (at,) = (span.start for span in decoded.spans if span.path == "master_node_id")
        return entry[:at] + bytes([entry[at] + 2]) + entry[at + 1 :]

    _patch(folder / "node3" / "00000000.jdb", change)
    return {str(folder / "node3"): Counter({("group-diverged", "error"): 1})}


def _of_end_missing(folder: Path, rng: random.Random) -> dict[str, Codes]:
    """Cut the log of the node that was master; the other nodes show what it lacks."""
    _copy_group(folder, rng)
    cut = folder / "cut"
    options = ("--to-vlsn", 900, "--force", "--apply", "--output", cut)
    done = je_tools("recover", folder / "node1", *options)
    assert done.code in (EXIT_OK, EXIT_DAMAGE), done.err
    shutil.rmtree(folder / "node1")
    cut.rename(folder / "node1")
    (folder / "node1" / "je.properties").write_text("je.rep.nodeName=node1\n")
    # A transaction that had begun at the cut has no end, and is undone too.
    codes = (("group-end-missing", "error"), ("group-lag", "note"), ("group-diverged", "note"))
    return {str(folder / "node1"): Counter(codes)}


def _of_member_missing(folder: Path, rng: random.Random) -> dict[str, Codes]:
    """Leave the log of a member out."""
    _copy_group(folder, rng, {name: home for name, home in _COMMITTED.items() if name != "node1"})
    return {str(folder / "node2"): Counter({("group-member-missing", "warning"): 1})}


_GROUP_PLANTS = {
    "group-diverged": _of_diverged,
    "group-end-missing": _of_end_missing,
    "group-member-missing": _of_member_missing,
}
