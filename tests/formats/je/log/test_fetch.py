"""Fetching entries and nodes by LSN, compared with a walk over the log and single entries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from je_tools.formats.files.image import Image, ImagePart
from je_tools.formats.je.btree.keys import slot_parts
from je_tools.formats.je.btree.nodes import read_nodes
from je_tools.formats.je.entry.entries import decode_entry
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.log.fetch import Entries, Found, fetch, fetch_entry
from je_tools.formats.je.types import ENTRY_TYPES, ERASED_NO, Family
from tests.builders.logs import write_log
from tests.builders.trees import simple
from tests.corpus import Environment, log_files
from tests.damage.small import small_log
from tests.formats.logs import log_rows, sampled

SAMPLE = 60
NODES = [no for no, each in ENTRY_TYPES.items() if each.family is Family.NODE]


def image_of(paths: list[Path]) -> Image:
    """Return an image of whole files, in the log versions that their headers name."""
    parts = []
    for path in paths:
        version = int.from_bytes(path.read_bytes()[34:38], "little")
        parts.append(ImagePart(path, int(path.stem, 16), version, path.stat().st_size))
    return Image(parts)


def some_rows(environment: Environment) -> Iterator[Rows]:
    """Yield some entries of each type; a batch is valid until the next one."""
    for path in log_files(environment.home):
        for rows in log_rows(path):
            yield sampled(rows, SAMPLE)


def test_entries_are_those_of_the_walk(some_environment: Environment) -> None:
    image = image_of(log_files(some_environment.home))
    for rows in some_rows(some_environment):
        entries = fetch(image, rows.lsn[::-1])
        erased = rows.type[::-1] == ERASED_NO
        assert (entries.found == np.where(erased, Found.ERASED, Found.GOOD)).all()
        for mine, its in (
            (entries.type, rows.type),
            (entries.flags, rows.flags),
            (entries.header_size, rows.header_size),
            (entries.size, rows.size),
        ):
            assert (mine == its[::-1]).all()
        has_vlsn = rows.has_vlsn[::-1]
        assert (entries.vlsn == np.where(has_vlsn, rows.vlsn[::-1], -1)).all()


def test_copies_are_the_entries_themselves(some_environment: Environment) -> None:
    """Entries are copied if all of them fit into `room_size`; otherwise none is."""
    image = image_of(log_files(some_environment.home))
    for rows in some_rows(some_environment):
        there = fetch(image, rows.lsn[::-1])
        size = int(there.size.sum())
        near = fetch(image, rows.lsn[::-1], room_size=size)
        assert (near.data is image.data) == (not there.good.any())
        less = fetch(image, rows.lsn[::-1], room_size=size - 1)
        assert not there.good.all() or less.data is image.data
        for entries in (near, less):
            assert (entries.found == there.found).all()
            assert (entries.size == there.size).all()
            for row in np.flatnonzero(there.good).tolist():
                assert entry_at(entries, row) == entry_at(there, row)


def entry_at(entries: Entries, row: int) -> bytes:
    start, size = int(entries.position[row]), int(entries.size[row])
    return entries.data[start : start + size].tobytes()


def test_copies_of_what_is_good_beside_what_is_not(tmp_path: Path) -> None:
    (path,) = log_files(write_log(tmp_path, small_log(17, 1)))
    (rows,) = log_rows(path)
    known = fetch(image_of([path]), rows.lsn)
    whole = [entry_at(known, row) for row in range(len(rows))]
    content = bytearray(path.read_bytes())
    content[int(rows.offset[3]) + 20] ^= 1
    path.write_bytes(content)
    lsns = np.concatenate((rows.lsn, [NULL_LSN, 1 << 40, int(rows.lsn[0]) + 1]))
    entries = fetch(image_of([path]), lsns, room_size=len(content))
    assert np.flatnonzero(~entries.good[: len(rows)]).tolist() == [3]
    assert entries.found[3] == Found.BAD
    assert not entries.good[len(rows) :].any()
    for row in np.flatnonzero(entries.good).tolist():
        assert entry_at(entries, row) == whole[row]


def test_nodes_are_those_of_single_entries(some_environment: Environment) -> None:
    image = image_of(log_files(some_environment.home))
    for rows in some_rows(some_environment):
        rows = rows.select(np.flatnonzero(np.isin(rows.type, NODES)))
        if not len(rows) or rows.version < 6:
            continue
        nodes = read_nodes(fetch(image, rows.lsn))
        assert nodes.good.all()
        for row in range(len(rows)):
            fields = decode_entry(rows.entry_bytes(row), rows.version).fields
            assert nodes.node_id[row] == fields["node_id"]
            assert nodes.db_id[row] == fields["db_id"]
            assert nodes.identifier_key[row] == fields["identifier_key"]
            first, stop = nodes.first[row : row + 2].tolist()
            assert stop - first == len(fields["slots"])
            prefix = fields.get("key_prefix") or b""
            for slot, place in zip(fields["slots"], range(first, stop), strict=True):
                key, data = slot_parts(slot)
                assert nodes.slots.key[place] == prefix + key
                size = int(nodes.slots.data_size[place])
                assert size == (-1 if data is None else len(data))
                start = int(nodes.slots.data_start[place])
                assert image.data[start : start + max(size, 0)].tobytes() == (data or b"")


def test_what_is_no_entry(tmp_path: Path) -> None:
    log = simple({b"a": b"1", b"b": b"2"})
    data = log.file.data
    one, other = log.file.placed[1:3]
    data[other.stop - 1] ^= 1
    path = tmp_path / "00000000.jdb"
    path.write_bytes(data)
    image = image_of([path])
    size = len(data)
    lsns = [one.start, other.start, size - 5, size, 1 << 32, -1, one.start, 2]
    found = fetch(image, np.array(lsns)).found.tolist()
    no_file, no_entry = Found.NO_FILE, Found.NO_ENTRY
    assert found[:7] == [Found.GOOD, Found.BAD, no_entry, no_file, no_file, no_file, Found.GOOD]
    assert found[7] in (Found.BAD, no_entry)
    unchecked = fetch(image, np.array(lsns), check=False)
    assert unchecked.found.tolist()[1] == Found.GOOD
    assert fetch_entry(image, other.start) is None
    entry = fetch_entry(image, one.start)
    assert entry is not None
    assert entry.fields["key"] == b"a"
