"""Invariants of erasures of damaged logs, and of searches in them."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from pathlib import Path

from je_tools.core.masking import DataMode, Masking
from je_tools.erase.completion import complete_erasure
from je_tools.erase.options import ErasureOptions
from je_tools.erase.proof.needles import Needle, NeedleKind, NeedleSearch
from je_tools.erase.proof.run import ProofOptions, search_tree
from je_tools.erase.run import run_erasure
from je_tools.errors import InputError, JeToolsError, RefusedError, UsageError
from je_tools.findings import Severity
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.verify.judge import verify
from je_tools.verify.totals import Totals
from tests.je_tools.snapshots import NOW_MS, contents_of, snapshot_of
from tests.truth.contents import Contents

REFUSALS = (RefusedError, InputError, UsageError)


def judge_erasure(home: Path, rng: random.Random) -> None:
    """Erase a copy of a log, and search in it; any exception is a bug.

    The erasure is refused, or the log keeps its records and gets no new errors.
    """
    copy = home.parent / "erased"
    shutil.copytree(home, copy)
    try:
        search_for_its_own_bytes(copy, rng)
        erase_some_way(copy, rng)
    finally:
        shutil.rmtree(copy)


def erase_some_way(home: Path, rng: random.Random) -> None:
    scanner = Scanner(threads=1)
    options = ErasureOptions(
        checkpoint_first=rng.random() < 0.7,
        force=rng.random() < 0.5,
        keep_reserved=rng.random() < 0.5,
    )
    before, errors = records_or_none(home), error_codes(home)
    if rng.random() < 0.2:
        with suppress(*REFUSALS):
            complete_erasure(home, scanner)
        assert records_or_none(home) == before
    try:
        run_erasure(home, scanner, options, NOW_MS)
    except REFUSALS:
        assert records_or_none(home) == before
        return
    assert before is not None
    assert records_or_none(home) == before
    assert error_codes(home) <= errors


def records_or_none(home: Path) -> Contents | None:
    """Return the records that recovery finds, or None if it finds no way."""
    try:
        return contents_of(snapshot_of(home))
    except JeToolsError:
        return None


def error_codes(home: Path) -> set[str]:
    """Return the codes of errors that `verify` finds."""
    found = verify(open_environment([home]), Scanner(threads=1), Totals(""))
    return {each.code for each in found if each.severity is Severity.ERROR}


def search_for_its_own_bytes(home: Path, rng: random.Random) -> None:
    """Assert that a search finds each needle that was cut out of a file."""
    path = rng.choice(sorted(path for path in home.iterdir() if path.is_file()))
    data = path.read_bytes()
    needles = []
    for _ in range(rng.choice([1, 2, 40])):
        start = rng.randrange(len(data) + 1)
        needles.append(data[start : start + rng.choice([1, 4, 9, 200])])
    found = [Needle(NeedleKind.LITERAL, "--match", each, len(each)) for each in needles if each]
    if not found:
        return
    search = NeedleSearch(found)
    masking = Masking(DataMode.HASH)
    searched = search_tree(home, search, ProofOptions(masking, threads=rng.choice([1, 2])))
    assert searched.counts().all()
