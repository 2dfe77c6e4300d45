"""The places that `tests/mutations.py` breaks are in the code, and the tests that notice exist."""

from __future__ import annotations

from tests.corpus import ROOT
from tests.mutations import Mutation, read_mutations


def count_of(mutation: Mutation) -> int:
    return (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.old)


def has_test(mutation: Mutation) -> bool:
    if mutation.file.endswith(".rs"):
        function = f"fn {mutation.test.rpartition('::')[2]}("
        sources = (ROOT / "formats" / "native" / "core" / "src").rglob("*.rs")
        return any(function in path.read_text(encoding="utf-8") for path in sources)
    file, _, name = mutation.test.partition("::")
    function = name.partition("[")[0]
    return f"def {function}(" in (ROOT / file).read_text(encoding="utf-8")


def test_each_place_is_in_its_file_once() -> None:
    counts = {each.name: count_of(each) for each in read_mutations()}
    assert {name: count for name, count in counts.items() if count != 1} == {}


def test_each_test_exists() -> None:
    assert [each.name for each in read_mutations() if not has_test(each)] == []
