"""Meaning of the options of `jelog`, and errors for meaningless ones."""

from __future__ import annotations

import pytest

from je_tools.errors import UsageError
from je_tools.spark.entry_options import OPTIONS, parse_entry_query
from je_tools.spark.entry_plan import EntryQuery
from je_tools.spark.option_texts import OptionTexts, option_texts

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
    ("tasks", "0", "0 is not 1 or more"),
    ("tasks", "many", "'many' is no whole number"),
    ("unreadable", "ignore", "'ignore' is none of fail, skip"),
    ("file_no", "x7", "'x7' is neither the number of a file nor a range"),
    ("file_no", "5-", "'5-' is neither the number of a file nor a range"),
    ("txn", "[7", "'[7' is not a JSON list"),
    ("type", '["Commit"', "is not a JSON list"),
]


def parsed(name: str, text: str) -> EntryQuery:
    """Return the options of a read with one more than the path."""
    return parse_entry_query(OptionTexts({"path": "/log", name: text}, OPTIONS))


@pytest.mark.parametrize(("name", "text", "reason"), WRONG)
def test_what_means_nothing_is_told(name: str, text: str, reason: str) -> None:
    """Refuse an empty list, which would be no condition and select all rows."""
    with pytest.raises(UsageError) as caught:
        parsed(name, text)
    assert str(caught.value).startswith(f"option {name}: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize("text", ["7,-8", "[7, -8]", '["7", "-8"]', " 7 , -8 "])
def test_numbers_of_transactions(text: str) -> None:
    assert parsed("txn", text).selection.txn_ids == {7, -8}


def test_numbers_of_files() -> None:
    query = parsed("file_no", "7, 0x1F ,10-0xc")
    assert query.file_nos == ((7, 7), (31, 31), (10, 12))
    assert [no for no in range(40) if query.wants(no)] == [7, 10, 11, 12, 31]


def test_properties_of_a_table_are_no_options() -> None:
    """CREATE TABLE gives every option twice, and also words that are no options."""
    properties = {
        "provider": "jelog",
        "owner": "someone",
        "location": "file:/log",
        "path": "file:/log",
        "option.Columns": "lsn",
        "columns": "lsn",
        "colour": "red",
    }
    assert option_texts(properties) == {"path": "file:/log", "columns": "lsn"}
    assert option_texts({"Path": "/log", "colour": "red"}) == {"path": "/log", "colour": "red"}
