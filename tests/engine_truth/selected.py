"""Environments over which the tests of this package run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus import FIXTURES, Environment, environments, environments_in


def with_truth(name: str, only: Path | None = None) -> list[Environment]:
    """Return environments for which an engine's tool wrote the file `name`.

    Args:
        name: a file of `truth/`.
        only: directory of the environments; None for all.
    """
    every = environments() if only is None else environments_in(only)
    return [each for each in every if each.truth and (each.truth / name).is_file()]


def over(chosen: list[Environment]) -> pytest.MarkDecorator:
    """Parametrize a test over environments."""
    return pytest.mark.parametrize("env", chosen, ids=[each.name for each in chosen])


PRINTLOG = "printlog.xml.gz"
PRINTED = with_truth(PRINTLOG)
PRINTED_FIXTURES = with_truth(PRINTLOG, FIXTURES)
UNPRINTED = [each for each in environments() if each not in PRINTED]
