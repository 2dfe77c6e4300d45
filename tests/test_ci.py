"""Continuous integration runs `make test` and nothing else, with the corpus if there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.corpus import ROOT

FAKE_MAKE = """#!/bin/sh
echo "make $*, corpus ${JE_TOOLS_CORPUS-none}, in $(pwd -P)"
exit 7
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a folder with `.ci/run`, and first on PATH a `make` that prints its call."""
    (tmp_path / "project" / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", tmp_path / "project" / ".ci")
    fake = tmp_path / "bin" / "make"
    fake.parent.mkdir()
    fake.write_text(FAKE_MAKE)
    fake.chmod(0o755)
    return tmp_path / "project"


def run_ci(checkout: Path, **variables: str) -> tuple[int, str]:
    """Run `.ci/run` from another directory, and return its exit code and output."""
    kept = {name: value for name, value in os.environ.items() if name != "JE_TOOLS_CORPUS"}
    path = f"{checkout.parent / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        [checkout / ".ci" / "run"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=kept | {"PATH": path} | variables,
    )
    return done.returncode, done.stdout + done.stderr


def test_it_is_make_test(checkout: Path) -> None:
    assert run_ci(checkout) == (7, f"make test, corpus none, in {checkout.resolve()}\n")


def test_over_the_corpus_where_that_is(checkout: Path) -> None:
    corpus = checkout.parent / "shared" / "corpus"
    corpus.mkdir(parents=True)
    told = f"make test, corpus {corpus.resolve()}, in {checkout.resolve()}\n"
    assert run_ci(checkout) == (7, told)


def test_a_corpus_that_was_chosen_stays(checkout: Path) -> None:
    (checkout.parent / "shared" / "corpus").mkdir(parents=True)
    _, told = run_ci(checkout, JE_TOOLS_CORPUS="elsewhere")
    assert "corpus elsewhere," in told
