"""Entries of engine-written log files: all of them, or a sample of each type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from je_tools.formats.files.source import Source
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.log.reader import RangeReader, ReadState
from je_tools.formats.je.log.walk import Checksum
from je_tools.formats.je.types import LOG_VERSION_MAX
from je_tools.log.file_names import log_file_no

_VERSION_AT = 34


def log_rows(path: Path) -> Iterator[Rows]:
    """Yield all rows of a log file, asserting that it has no gaps and no other damage."""
    with Source(path) as source:
        version = int.from_bytes(source.read_bytes(_VERSION_AT, _VERSION_AT + 4), "little")
        # One of the engine's test files claims a version that no release has; its entries are old.
        version = version if version <= LOG_VERSION_MAX else 1
        no = log_file_no(path) or 0
        reader = RangeReader(source, no, version, 0, source.size, place=ReadState())
        for rows in reader:
            assert not (rows.checksum == Checksum.BAD).any(), path
            yield rows
        assert not reader.state.gaps, path
        assert not reader.state.chain_breaks, path


def sampled(rows: Rows, most: int) -> Rows:
    """Return at most `most` rows of each type, evenly spread."""
    index = [
        places[:: -(-len(places) // most)]
        for type_no in np.unique(rows.type)
        for places in [np.flatnonzero(rows.type == type_no)]
    ]
    return rows.select(np.sort(np.concatenate(index)))
