"""Meaning of the options of `jelog`, and errors for meaningless ones."""

from __future__ import annotations

import pytest

from je_tools.errors import UsageError
from je_tools.spark.options import parse_options

WRONG = [
    ("txn", "[]", "'[]' names nothing"),
    ("type", "[]", "'[]' names nothing"),
    ("db", " [ ]", "' [ ]' names nothing"),
    ("columns", "[]", "'[]' names nothing"),
    ("paths", "[]", "'[]' names nothing"),
    ("txn", "", "'' names nothing"),
    ("txn", "7,,8", "'7,,8' names nothing"),
    ("txn", "abc", "'abc' is no whole number"),
    ("txn", "7,abc", "'abc' is no whole number"),
    ("txn", "[7, 1.5]", "'1.5' is no whole number"),
    ("to_vlsn", "1.5", "'1.5' is no whole number"),
    ("from_vlsn", "0x10", "'0x10' is no whole number"),
    ("txn", "[7", "'[7' is no list"),
    ("type", '["Commit"', "is no list"),
]


@pytest.mark.parametrize(("name", "text", "reason"), WRONG)
def test_what_means_nothing_is_told(name: str, text: str, reason: str) -> None:
    """Refuse an empty list, which would be no condition and select all rows."""
    with pytest.raises(UsageError) as caught:
        parse_options({"path": "/log", name: text})
    assert str(caught.value).startswith(f"option {name}: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize("text", ["7,-8", "[7, -8]", '["7", "-8"]', " 7 , -8 "])
def test_numbers_of_transactions(text: str) -> None:
    assert parse_options({"path": "/log", "txn": text}).selection.txn_ids == {7, -8}
