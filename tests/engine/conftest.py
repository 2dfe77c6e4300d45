"""Engines as judges of written environments."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.acceptance import Judge
from tests.engine.ignite import IgniteEngine, ignite_engine
from tests.engine.jars import JE_5, JE_18


@pytest.fixture(scope="session")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Judge]]:
    """Start the JVMs of two engines once for all modules."""
    folder = tmp_path_factory.mktemp("judge")
    with Judge.of(JE_18, folder / "new") as new, Judge.of(JE_5, folder / "old") as old:
        yield {JE_18: new, JE_5: old}


@pytest.fixture(scope="module")
def judge(judges: dict[str, Judge], tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return judges[JE_18].at(tmp_path_factory.mktemp("new"))


@pytest.fixture(scope="module")
def old_judge(judges: dict[str, Judge], tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return judges[JE_5].at(tmp_path_factory.mktemp("old"))


@pytest.fixture(scope="module")
def ignite() -> Iterator[IgniteEngine]:
    with ignite_engine() as engine:
        yield engine
