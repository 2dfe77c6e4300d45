"""Sets of keys, checked against Python's sets and `startswith`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from je_tools.formats.je.btree.key_sets import NOT_IN_SET, KeySet, PrefixSet
from je_tools.formats.spans import Spans

KEYS = st.text("\0a\x7f", max_size=4).map(str.encode) | st.binary(max_size=3)


@given(keys=st.lists(KEYS, max_size=12), searched=st.lists(KEYS | st.none(), max_size=20))
def test_ranks(keys: list[bytes], searched: list[bytes | None]) -> None:
    order = sorted(set(keys))
    expected = [order.index(key) if key in order else NOT_IN_SET for key in searched]
    assert KeySet.of(keys).ranks(Spans.of(searched)).tolist() == expected


@given(prefixes=st.lists(KEYS, max_size=12), searched=st.lists(KEYS, max_size=20))
def test_prefixes(prefixes: list[bytes], searched: list[bytes]) -> None:
    expected = [key.startswith(tuple(prefixes)) for key in searched]
    assert PrefixSet.of(prefixes).begin(Spans.of(searched)).tolist() == expected
