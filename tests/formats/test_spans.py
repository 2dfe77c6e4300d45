"""Spans as columns: what is too long for one is an error, and never a wrapped offset."""

from __future__ import annotations

import numpy as np
import pytest

from je_tools.formats import spans


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("sizes", [[2**31 - 1], [2**30, -1, 2**30], [2**31 - 1] * 3])
def test_too_long_to_be_counted_in_32_bits(sizes: list[int], fast: bool) -> None:
    with pytest.raises(spans.TooLongError):
        spans.offsets_of(np.array(sizes, np.int64), 2, fast=fast)


@pytest.mark.parametrize("fast", [False, True])
def test_offsets_leave_out_what_is_null(fast: bool) -> None:
    offsets = spans.offsets_of(np.array([3, -1, 0, 5], np.int64), 2, fast=fast)
    assert offsets.tolist() == [0, 6, 6, 6, 16]


@pytest.mark.parametrize("fast", [False, True])
def test_as_long_as_may_be(fast: bool) -> None:
    offsets = spans.offsets_of(np.array([spans.GATHERED_MAX], np.int64), fast=fast)
    assert offsets.tolist() == [0, spans.GATHERED_MAX]
