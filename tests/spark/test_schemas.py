"""Columns of the formats, which stored tables and streams depend on: tests/spark/schemas.txt.

A release may add columns, and fields of structs. After that, run this with `--rewrite-golden`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from je_tools.spark import sources

SCHEMAS = Path(__file__).with_name("schemas.txt")


def lines(name: str, kind: pa.DataType) -> Iterator[str]:
    """Yield a column or field with its type, and then those in it."""
    if pa.types.is_list(kind):
        yield from lines(f"{name}[]", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from lines(f"{name}.{field.name}", field.type)
    else:
        yield f"{name} {kind}"


def test_columns_stay(request: pytest.FixtureRequest) -> None:
    every = [
        line
        for source in sources()
        for field in source.relation.schema()
        for line in lines(f"{source.name()}.{field.name}", field.type)
    ]
    text = "".join(f"{line}\n" for line in every)
    if request.config.getoption("--rewrite-golden"):
        SCHEMAS.write_text(text, encoding="utf-8")
    assert SCHEMAS.read_text(encoding="utf-8") == text
