"""Damage to the database of the VLSN index, beyond that to its records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from je_tools.formats.je.internal.names import REP_GROUP_DB, VLSN_MAP_DB
from je_tools.formats.je.internal.records import database_key
from je_tools.formats.je.write.transactions import NO_LN
from je_tools.group.members import read_group
from je_tools.recovery.database import ID_DB, NAME_DB
from je_tools.recovery.internal_databases import internal_database
from je_tools.vlsn.index import VlsnIndex
from je_tools.vlsn.recovered_index import read_index
from je_tools.vlsn.stored_index import read_stored
from tests.je_tools.checkpoint.nodes import OFFSET
from tests.je_tools.dumped import je_tools
from tests.je_tools.vlsn.indexes import append_entry, snapshot_of_node, write_records
from tests.je_tools.vlsn.test_check import CASES, Records, short

_ROOTED = {"tree_exists": 1, "root_key": b"", "root_state": 0}
_OLD = {"max_dup_entries": 128, "file_count": 0, "file_utilization": ()}


def write_map_ln(home: Path, *, root_lsn: int | None) -> None:
    """Append a descriptor of the index: with another root, or deleted."""
    database = internal_database(snapshot_of_node(home), VLSN_MAP_DB)
    assert database is not None
    record = {**_OLD, "trigger_count": 0, "triggers": (), **database.record, **_ROOTED}
    record["root_lsn"] = database.root_lsn if root_lsn is None else root_lsn
    fields = {**NO_LN, "db_id": ID_DB, "key": database_key(database.db_id), "database": record}
    is_gone = root_lsn is None
    fields |= {"data": None, "deleted": 1} if is_gone else {"data": b"", "deleted": 0}
    append_entry(home, "MapLN", fields)


def lose_tree(home: Path) -> None:
    """Let the descriptor name an entry that is no node, as its root."""
    write_map_ln(home, root_lsn=snapshot_of_node(home).end.last_lsn)


def lose_database(home: Path) -> None:
    """Remove the name and the descriptor of the index."""
    database = internal_database(snapshot_of_node(home), VLSN_MAP_DB)
    assert database is not None
    fields = {**NO_LN, "db_id": NAME_DB, "key": VLSN_MAP_DB.encode(), "data": None}
    fields |= {"operation": 2, "name_db_id": database.db_id, "deleted": 1}
    write_map_ln(home, root_lsn=None)
    append_entry(home, "NameLN", fields)


Damage = Callable[[Path], None]


def _of_records(make: Callable[[VlsnIndex], Records]) -> Damage:
    def damage(home: Path) -> None:
        write_records(home, make(read_index(snapshot_of_node(home))))

    return damage


def _go_on_in_new_file(home: Path) -> None:
    """Let the log and its last checkpoint lie in files after the first one."""
    settings = home / "je.properties"
    settings.write_text("je.env.recoveryForceNewFile=true\n")
    write_records(home, short(read_index(snapshot_of_node(home))))
    for words in (("vlsn", "rebuild"), ("checkpoint",)):
        assert je_tools(*words, home, "--apply").code == 0
    settings.unlink()


def _flip_byte(home: Path, lsn: int) -> None:
    path = home / f"{lsn >> 32:08x}.jdb"
    data = bytearray(path.read_bytes())
    data[(lsn & OFFSET) + 20] ^= 1
    path.write_bytes(data)


def spoil_record(home: Path) -> None:
    """Damage the LN of the first bucket."""
    _go_on_in_new_file(home)
    records = read_stored(snapshot_of_node(home)).records
    _flip_byte(home, next(each.lsn for each in records if each.key == 1))
    assert read_stored(snapshot_of_node(home)).unreadable


def spoil_node(home: Path) -> None:
    """Damage the bottom node of the index, in a file before those that recovery reads."""
    _go_on_in_new_file(home)
    settings = home / "je.properties"
    settings.write_text("je.env.recoveryForceNewFile=true\n")
    node = read_group(snapshot_of_node(home)).nodes[0]
    write_records(home, dict([node.encode()]), REP_GROUP_DB)
    assert je_tools("checkpoint", home, "--apply").code == 0
    settings.unlink()
    snapshot = snapshot_of_node(home)
    database = internal_database(snapshot, VLSN_MAP_DB)
    assert database is not None
    (children,) = snapshot.record_reader(database, False, True).children()
    lsn = int(children.lsn[0])
    assert lsn >> 32 < snapshot.end.files[-1].file_no
    _flip_byte(home, lsn)
    assert read_stored(snapshot_of_node(home)).is_damaged


DAMAGES: dict[str, Damage] = {
    **{name: _of_records(make) for name, (make, _) in CASES.items()},
    "unreadable entry": spoil_record,
    "unreadable node": spoil_node,
    "no tree": lose_tree,
    "no database": lose_database,
}
"""Every damage of an index, by name."""
