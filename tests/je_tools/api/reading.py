"""Results of the API and of commands as plain values, and damaged logs to read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.corpus import environment
from tests.je_tools.dumped import Done, je_tools

DAMAGED_AT = 0x1E3
"""Offset of the Commit of 27 bytes that `damaged` breaks."""

MANY_FILES = "v8-cleaned"


def home_of(name: str) -> Path:
    """Return the home of an environment of fixtures/."""
    return environment(name).home


def damaged(folder: Path) -> Path:
    """Return a copy of v17-basic with one wrong byte."""
    home = folder / "hurt"
    shutil.copytree(home_of("v17-basic"), home)
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[DAMAGED_AT + 20] ^= 0xFF
    path.chmod(0o644)
    path.write_bytes(data)
    return home


def by_command(verb: str, folder: Path, *arguments: str | Path) -> tuple[pa.Table, Done]:
    """Return the Parquet that a command writes, and its other output."""
    path = folder / f"{verb}.parquet"
    done = je_tools(verb, *arguments, "--format", "parquet", "--output", path)
    table = pq.read_table(path)
    path.unlink()
    return table, done


def assert_same(one: pa.Table, other: pa.Table) -> None:
    """Check that two tables have the same columns, types and rows."""
    assert one.schema.remove_metadata() == other.schema.remove_metadata()
    assert one.num_rows == other.num_rows
    for name in one.schema.names:
        # Equal texts may be in dictionaries of different order.
        if not one[name].equals(other[name]):
            assert plain(one[name]) == plain(other[name]), name


def plain(column: Any) -> list[Any]:
    """Return the values of a column."""
    values: list[Any] = column.to_pylist()
    return values
