"""Damaged files are searched whole: every occurrence is found, and nothing fails."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from je_tools.core.masking import DataMode, Masking
from je_tools.erase.proof.hit_places import Where
from je_tools.erase.proof.needle_options import match_needles
from je_tools.erase.proof.needles import NeedleSearch
from je_tools.erase.proof.run import ProofOptions, prove
from je_tools.erase.proof.search_results import SearchVerdict
from tests.corpus import FIXTURES
from tests.je_tools.erase.proof.planted_tree import planted_tree

NEEDLES = [b"user0000", b"city1", b"\0\0\0\0\0\0"]
OPTIONS = ProofOptions(Masking(DataMode.HASH), 1)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return a file with some bytes changed, removed or inserted, perhaps cut."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 30)):
        at = rng.randrange(len(changed))
        kind = rng.randrange(4)
        if kind == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[at : at + rng.randrange(1, 50)]
        elif kind == 2:
            changed[at:at] = rng.randbytes(rng.randrange(1, 50))
        else:
            changed[at : at + 4] = rng.choice([b"\xff\xff\xff\x7f", bytes(4), b"\x2b\0\0\0"])
    return bytes(changed[: rng.randrange(len(changed) // 2, len(changed))])


@pytest.mark.parametrize("seed", range(6))
def test_every_occurrence_is_found_in_damaged_files(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    source = FIXTURES / "v17-dups" / "env"
    if seed % 2:
        source = planted_tree(tmp_path / "planted")
    data = mutated((source / "00000000.jdb").read_bytes(), rng)
    home = tmp_path / "env"
    home.mkdir()
    (home / "00000000.jdb").write_bytes(data)
    search = NeedleSearch(match_needles(f"hex:{each.hex()}" for each in NEEDLES))
    proof, found = prove(home, search, OPTIONS)
    expected = [len(occurrences(data, each)) for each in NEEDLES]
    assert found.files[0].raw.counts.tolist() == expected
    joined = sum(hit.where is Where.PREFIXED_KEY for hit in proof.hits)
    assert proof.hit_count == sum(expected) + joined
    assert proof.verdict is SearchVerdict.LEFT


def occurrences(data: bytes, needle: bytes) -> list[int]:
    """Return the offsets of all occurrences, also of those that overlap."""
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), len(needle))
    found: list[int] = np.flatnonzero((windows == np.frombuffer(needle, np.uint8)).all(1)).tolist()
    return found
