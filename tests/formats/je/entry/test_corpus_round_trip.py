"""Entries that engines wrote: each decodes with no byte left over, and encodes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.formats.je.entry.entries import decode_entry, encode_entry
from je_tools.formats.je.log.entry_rows import Rows
from tests.corpus import Environment, log_files
from tests.formats.logs import log_rows, sampled

SAMPLE = 40
"""Largest number of entries of each type, per batch of rows (some megabytes of log)."""


def _round_trip(rows: Rows) -> int:
    for row in range(len(rows)):
        data = rows.entry_bytes(row)
        entry = decode_entry(data, rows.version)
        assert encode_entry(entry) == data, (rows.file_no, int(rows.offset[row]))
    return len(rows)


def test_a_sample_of_every_type(environment: Environment) -> None:
    files = log_files(environment.home)
    assert sum(_round_trip(sampled(rows, SAMPLE)) for path in files for rows in log_rows(path))


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_all_entries(environment: Environment) -> None:
    assert sum(_round_trip(rows) for path in log_files(environment.home) for rows in log_rows(path))


def test_old_releases(legacy_file: Path) -> None:
    assert sum(_round_trip(sampled(rows, SAMPLE)) for rows in log_rows(legacy_file))


@pytest.mark.exhaustive
def test_all_entries_of_old_releases(legacy_file: Path) -> None:
    assert sum(_round_trip(rows) for rows in log_rows(legacy_file))
