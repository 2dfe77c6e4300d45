"""Key ranges as users write them."""

from __future__ import annotations

import pytest

from je_tools.btree.key_ranges import KeyRange, parse_key_range, range_of
from je_tools.errors import UsageError
from je_tools.log.parsing import KeyPattern


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("..", KeyRange()),
        ("a..b", KeyRange(b"a", b"b\0")),
        ("a..", KeyRange(b"a", None)),
        ("..b", KeyRange(None, b"b\0")),
        ("a..a", KeyRange(b"a", b"a\0")),
        ("hex:0a*..hex:0a*", KeyRange(b"\x0a", b"\x0b")),
        ("hex:00..hex:0aff*", KeyRange(b"\0", b"\x0b")),
        ("..hex:ff*", KeyRange(None, None)),
        ("int:-1..int:1", KeyRange(b"\x7f\xff\xff\xff", b"\x80\0\0\1\0")),
        ("a..b..c", KeyRange(b"a", b"b..c\0")),
    ],
)
def test_parsed(text: str, expected: KeyRange) -> None:
    assert parse_key_range("--key-range", text) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a", "--key-range a: a range is written FROM..TO"),
        ("b..a", "--key-range b..a: no key lies between the first"),
        ("hex:0..a", "--key-range hex:0: '0' is not pairs"),
        ("int:x..", "--key-range int:x: 'x' is not a whole number"),
    ],
)
def test_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_key_range("--key-range", text)
    assert str(caught.value).startswith(told)


def test_a_prefix_of_highest_bytes_is_open() -> None:
    assert range_of(KeyPattern(b"\xff\xff", whole=False)) == KeyRange(b"\xff\xff", None)
    assert range_of(KeyPattern(b"", whole=False)) == KeyRange(b"", None)
