"""Small logs with an entry of each type, built from the single entries shipped as vectors."""

from __future__ import annotations

import json
from functools import cache
from typing import NamedTuple

from tests.builders.logs import CKPT_END, ERASED, RESTORE_REQUIRED, ROLLBACK_START, LogFile
from tests.builders.trees import TreeLog, rooted
from tests.corpus import VECTORS

LONGEST = 400
"""Size of the largest item used, in bytes: the logs are read thousands of times."""

LEFT_OUT = {25, CKPT_END, ERASED, RESTORE_REQUIRED, ROLLBACK_START}
"""File headers, and types that have findings of their own or change the meaning of the rest."""


class Vector(NamedTuple):
    """A single entry: log version, type, header size and bytes."""

    version: int
    type_no: int
    header_size: int
    data: bytes

    @property
    def item(self) -> bytes:
        return self.data[self.header_size :]


@cache
def vectors() -> list[Vector]:
    """Return every entry of fixtures/vectors."""
    rows = (json.loads(line) for line in VECTORS.read_text().splitlines())
    return [
        Vector(
            row["log_version"],
            row["entry_type"],
            row["header"]["header_size"],
            bytes.fromhex(row["hex"]),
        )
        for row in rows
    ]


def small_log(version: int, files: int = 2) -> list[LogFile]:
    """Return files with one entry of each type of the vectors, and some replicated Traces.

    A root and a checkpoint are there, so that an engine would find where recovery begins.
    """
    made = [rooted(LogFile(0, version))]
    kept = [each for each in vectors() if each.version == version and len(each.item) <= LONGEST]
    by_type = {each.type_no: each for each in kept if each.type_no not in LEFT_OUT}
    several = list(by_type.values())
    share = -(-len(several) // files)
    vlsn = 1
    root = made[0].last
    for i in range(files):
        if i:
            made.append(made[-1].follower())
        if i == files - 1:
            TreeLog(made).ckpt_end(root, root)
        for each in several[i * share : (i + 1) * share]:
            made[-1].add(each.type_no, each.item)
        for size in (9, 30, 200):
            made[-1].trace(size, vlsn=vlsn)
            made[-1].trace(size)
            vlsn += 1
    return made
