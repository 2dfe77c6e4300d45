"""Files are searched in ranges, and hits across their borders are found once."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from je_tools.erase.proof import raw_search
from je_tools.erase.proof.file_tree import list_tree
from je_tools.erase.proof.needle_files import read_needles, write_needles
from je_tools.erase.proof.needle_options import key_needles, match_needles
from je_tools.erase.proof.needles import NO_HASHED, HashedNeedles, NeedleSearch
from je_tools.erase.proof.raw_search import RawHits, RawSearch

NEEDLES = ["carol@example", "carol", "aa"]


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_search, "PIECE_SIZE", 64)
    monkeypatch.setattr(raw_search, "TASK_SIZE", 256)


def hashed(folder: Path) -> HashedNeedles:
    """Return the needles as a file of hashes has them."""
    out = io.BytesIO()
    write_needles([*key_needles(NEEDLES)], out)
    path = folder / "needles"
    path.write_bytes(out.getvalue())
    return read_needles(path)


def searches(folder: Path) -> Iterator[NeedleSearch]:
    yield NeedleSearch(key_needles(NEEDLES))
    yield NeedleSearch([], hashed(folder))
    yield NeedleSearch(match_needles(f"re:{each}" for each in NEEDLES))


def hits_of(search: NeedleSearch, home: Path, threads: int) -> list[RawHits]:
    return list(RawSearch(search, threads).hits_in(list_tree(home).files))


@pytest.mark.parametrize("threads", [1, 2])
def test_hits_across_borders_are_found_once(threads: int, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    rng = random.Random(1)
    for name in ("empty", "one", "three"):
        data = bytearray(rng.randbytes(256 * len(name)) if name != "empty" else b"")
        for at in range(10, len(data) - 20, 27):
            data[at : at + 13] = b"carol@example"
        (home / name).write_bytes(data)
    expected = [
        [(home / name).read_bytes().count(each.encode()) for each in NEEDLES]
        for name in ("empty", "one", "three")
    ]
    assert sum(map(sum, expected)) > 100
    for search in searches(tmp_path):
        found = hits_of(search, home, threads)
        assert [sorted(each.counts.tolist()) for each in found] == list(map(sorted, expected))
        assert all((np.diff(each.start) >= 0).all() for each in found)
        assert [each.read_size for each in found] == [0, 768, 1280]


def test_word_boundaries_are_seen_across_borders(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 63 + b"xcat " + b" " * 59 + b"cat dog" + b" " * 200)
    search = NeedleSearch(match_needles([r"re:\bcat\b"]))
    (found,) = hits_of(search, tmp_path, 1)
    assert found.start.tolist() == [127]


def test_a_hashed_needle_needs_its_digest(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"carol@example")
    needles = hashed(tmp_path)
    wrong = tuple(replace(each, sha256="0" * 64) for each in needles.needles)
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "file").write_bytes(b"carol@example")
    for some, count in ((needles.needles, 2), (wrong, 0)):
        search = NeedleSearch([], replace(needles, needles=some))
        (found,) = hits_of(search, folder, 1)
        assert int(found.counts.sum()) == count
    assert NO_HASHED.needles == ()


def test_all_hits_are_counted_and_some_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_search, "HITS_MAX", 100)
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"a" * 1001)
    found = hits_of(NeedleSearch(key_needles(["aa"])), tmp_path, 1)
    assert [int(each.counts.sum()) for each in found] == [1000, 1000]
    assert [len(each.start) for each in found] == [100, 16]
    assert [each.not_kept for each in found] == [900, 984]
