"""Rows of `je-tools dump --format parquet` in the form of JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq

from je_tools.commands.main import group
from je_tools.formats.je.types import BY_NAME


def parquet_rows(home: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of a log, written as Parquet and read with Arrow."""
    with TemporaryDirectory() as folder:
        output = Path(folder) / "rows.parquet"
        form = ["--format", "parquet", "--output", str(output)]
        assert not group.main(["dump", str(home), "--threads", "1", *form], standalone_mode=False)
        with pq.ParquetFile(output) as file:
            for batch in file.iter_batches(batch_size=1024):
                yield from map(_row, batch.to_pylist())


def _row(columns: dict[str, Any]) -> dict[str, Any]:
    assert columns["undecodable"] is None
    family = BY_NAME[columns["type"]].family.value
    row = {name: _value(name, value) for name, value in columns.items()}
    row["entry"] = _value("entry", columns.get(family)) or {}
    return row


def _value(name: str, value: Any) -> Any:
    """Return a value as in JSON: bytes in hexadecimal, LSNs as text, absent fields omitted."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {k: _value(k, v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_value(name, item) for item in value]
    if isinstance(value, int) and (name == "lsn" or name.endswith("_lsn")):
        return f"0x{value >> 32:x}/0x{value & 0xFFFFFFFF:x}"
    return value
