"""File names from database names: any name becomes a separate file in the folder."""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from je_tools.output.files.file_names import file_stem, file_stems


def test_readable_where_that_is_safe() -> None:
    assert file_stem("people-2_b.c d") == "people-2_b.c d"
    assert file_stem("счета") == "счета"
    assert file_stem("中文db") == "中文db"
    assert file_stem("a/b:c d") == "a%2fb%3ac d"
    assert file_stem("100%") == "100%25"
    assert file_stem(".hidden.") == "%2ehidden%2e"
    assert file_stem("..") == "%2e%2e"
    assert file_stem("NUL") == "%4eUL"
    assert file_stem("\udcff\n\x1b") == "%ff%0a%1b"


def test_those_that_a_file_system_mixes_up_stay_apart() -> None:
    names = [(1, "Ab"), (2, "aB"), (3, "é"), (4, "e\u0301"), (5, "x" * 300), (6, "x" * 301)]
    names += [(7, "ab~2"), (8, ""), (9, "%")]
    stems = file_stems(names)
    folded = {unicodedata.normalize("NFKC", stem).casefold() for stem in stems.values()}
    assert len(folded) == len(names)
    assert (stems[1], stems[2]) == ("Ab", "aB~2")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["a", "A"])))
def test_any_names(names: list[str]) -> None:
    stems = file_stems(enumerate(names))
    assert len(stems) == len(names)
    assert len({unicodedata.normalize("NFKC", s).casefold() for s in stems.values()}) == len(names)
    for stem in stems.values():
        assert PurePosixPath(stem).name == stem
        assert stem not in (".", "..")
        assert not stem.startswith(".")
        assert len(stem.encode()) < 240
        assert stem.isprintable()


def test_files_of_others_and_second_files_are_names_too() -> None:
    names = [(1, "report"), (2, "x"), (3, "x.unfinished"), (4, "X.Unfinished"), (5, "y")]
    tails = (".jsonl", ".unfinished.jsonl")
    stems = file_stems(names, tails, ("Report.jsonl",))
    assert stems == {1: "report~1", 2: "x", 3: "x.unfinished~3", 4: "X.Unfinished~4", 5: "y"}
    other = file_stems([(3, "x.unfinished"), (2, "x")], tails)
    assert other == {3: "x.unfinished", 2: "x~2"}
    assert file_stems(names[:3], [".csv"], ("summary.txt",)) == {
        1: "report",
        2: "x",
        3: "x.unfinished",
    }
