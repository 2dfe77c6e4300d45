"""Sets of pages: the parts of a range are those of a comparison page by page."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from je_tools.formats.ignite.page_ids import place_id
from je_tools.ignite.pages.page_sets import PageSet

_NUMBERS = st.integers(0, 12)


@given(
    st.sets(st.tuples(st.sampled_from([-5, 7]), st.integers(0, 1), _NUMBERS)), _NUMBERS, _NUMBERS
)
def test_parts_are_maximal_and_true(
    places: set[tuple[int, int, int]], start: int, count: int
) -> None:
    pages = PageSet((group, place_id(partition, index)) for group, partition, index in places)
    parts = list(pages.split(7, 1, start, start + count))
    found = [(page, is_in) for first, stop, is_in in parts for page in range(first, stop)]
    assert found == [(page, (7, 1, page) in places) for page in range(start, start + count)]
    assert all(first < stop for first, stop, _ in parts)
    states = [is_in for _, _, is_in in parts]
    assert all(one != other for one, other in itertools.pairwise(states))
