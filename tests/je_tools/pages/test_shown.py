"""Names as pages, metrics and tables show them."""

from __future__ import annotations

import pytest

from je_tools.pages.shown import distinct


@pytest.mark.parametrize(
    ("names", "different"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a~2", "a~3"]),
        (["a", "a", "a~2"], ["a", "a~3", "a~2"]),
        (["a~2", "a", "a", "a~2"], ["a~2", "a", "a~3", "a~2~2"]),
        (["{}", "{}"], ["{}", "{}~2"]),
    ],
)
def test_equal_names_are_told_apart(names: list[str], different: list[str]) -> None:
    assert distinct(names) == different


def test_a_fleet_of_equal_names() -> None:
    """Long paths that begin alike are cut to the same text; each is examined only a few times."""
    count = 60_000
    assert distinct(["n"] * count)[-1] == f"n~{count}"
