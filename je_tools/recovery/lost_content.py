"""Content after the end of a log: what recovery would cut off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.arrays import Ints, rows_by
from je_tools.formats.files.image import Image, ImagePart
from je_tools.formats.je.btree.keysort import group_keys
from je_tools.formats.je.header import NULL_LSN, lsn_of
from je_tools.formats.je.log.fetch import fetch_entry
from je_tools.formats.spans import Spans
from je_tools.log.images import mapped
from je_tools.recovery.database import NAME_DB
from je_tools.recovery.end import EndReason, LogEnd
from je_tools.recovery.interval import ReplayInterval, read_interval

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner

_FOREVER = 1 << 62


class LostTransaction(Struct, frozen=True):
    """A committed transaction after the end of the log.

    Attributes:
        txn_id, time_ms: id and time in its Commit.
        lsn: LSN of the Commit.
        ln_count: number of its LNs after the end of the log.
    """

    txn_id: int
    time_ms: int
    lsn: int
    ln_count: int


class LostKeys(Struct, frozen=True):
    """Records of one database after the end of the log.

    Attributes:
        db_id: id of the database.
        name: its name in the log up to the end, else in the lost part; None if neither has it.
        is_lost: True if the database itself would be lost, since it was created after the end.
        ln_count: number of LNs that write its records.
        keys: keys of these records, each once.
    """

    db_id: int
    name: str | None
    is_lost: bool
    ln_count: int
    keys: Spans

    @property
    def key_count(self) -> int:
        """Number of different keys that are written."""
        return len(self.keys)


class LostContent(Struct, frozen=True):
    """Content after the end of a log, which recovery would cut off.

    Attributes:
        transactions: transactions with a whole Commit, in log order.
        databases: databases that were written to.
        size: bytes after the end.
    """

    transactions: tuple[LostTransaction, ...]
    databases: tuple[LostKeys, ...]
    size: int

    @property
    def txn_count(self) -> int:
        """Number of different transactions with a whole Commit."""
        return len({each.txn_id for each in self.transactions})

    @property
    def key_count(self) -> int:
        """Number of different keys that are written, committed or not."""
        return sum(each.key_count for each in self.databases)

    @property
    def newest_ms(self) -> int | None:
        """Newest time of a Commit, in ms since 1970; None without a Commit."""
        return max((each.time_ms for each in self.transactions), default=None)


NOTHING_LOST = LostContent((), (), 0)


def lost_after(
    environment: Environment, end: LogEnd, scanner: Scanner, names: Mapping[int, str | None]
) -> LostContent:
    """Return the content after the end of a log.

    Args:
        environment: the log.
        end: end of the log.
        scanner: options of the scan.
        names: names of the databases of the log up to its end, by id; None for one without.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    skipped = {each.file.file_no for each in end.skipped}
    files = [
        file
        for file in environment.files
        if file.file_no >= end.files[-1].file_no and file.file_no not in skipped
    ]
    size = sum(file.size for file in files) - end.next_offset
    if end.reason in (EndReason.CLEAN, EndReason.ZEROS, EndReason.TORN) or size <= 0:
        return replace(NOTHING_LOST, size=max(size, 0))
    with mapped([ImagePart(f.path, f.file_no, f.version, f.size) for f in files]) as image:
        interval = _read_after(environment, files, image, scanner, end)
        keys = _lost_keys(interval, image, names, scanner)
    ends = interval.ends
    commits = np.flatnonzero(ends.is_commit)
    counts = count_values(ends.txn_id[commits], interval.lns.txn_id)
    transactions = tuple(
        LostTransaction(
            int(ends.txn_id[row]), int(ends.time_ms[row]), int(ends.lsn[row]), int(counts[i])
        )
        for i, row in enumerate(commits.tolist())
    )
    return LostContent(transactions, keys, size)


def _read_after(
    environment: Environment, files: list[LogFile], image: Image, scanner: Scanner, end: LogEnd
) -> ReplayInterval:
    quiet = replace(scanner, progress=None)
    begin = max(end.next_lsn, lsn_of(files[0].file_no, 0))
    return read_interval(
        environment,
        files,
        image,
        quiet,
        first_lsn=begin,
        nodes_from=begin,
        last_lsn=None,
        next_lsn=_FOREVER,
        end_lsn=NULL_LSN,
    )


def count_values(ids: Ints, values: Ints) -> Ints:
    """Return how often each id occurs among the values, int64."""
    ordered = np.sort(values)
    after = np.searchsorted(ordered, ids, side="right")
    counts: Ints = after - np.searchsorted(ordered, ids)
    return counts


def _lost_keys(
    interval: ReplayInterval, image: Image, names: Mapping[int, str | None], scanner: Scanner
) -> tuple[LostKeys, ...]:
    lns = interval.lns
    created = _names_of(image, lns.lsn[lns.db_id == NAME_DB])
    found = []
    for db_id, rows in rows_by(lns.db_id).items():
        own = lns.select(rows)
        keys = Spans(image.data, own.key_position, own.key_size.astype(np.int64))
        order_of_keys, is_new = group_keys(keys, two_part=False)
        keys = keys.select(order_of_keys[is_new])
        is_lost = db_id not in names and db_id in created
        name = created.get(db_id) if is_lost else names.get(db_id)
        found.append(LostKeys(db_id, name, is_lost, len(own), keys))
    return tuple(found)


def _names_of(image: Image, lsns: Ints) -> dict[int, str]:
    """Return names of databases by id from some NameLN entries."""
    found = {}
    for lsn in lsns.tolist():
        entry = fetch_entry(image, lsn)
        fields = entry.fields if entry is not None else {}
        if "name_db_id" in fields and not fields["deleted"]:
            found[int(fields["name_db_id"])] = bytes(fields["key"]).decode("utf-8", "replace")
    return found
