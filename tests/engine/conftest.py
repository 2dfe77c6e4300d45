"""Engines as judges of written environments."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.acceptance import Judge
from tests.engine.ignite import IgniteEngine, ignite_engine
from tests.engine.jars import JE_5, JE_18


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with Judge.of(JE_18, tmp_path_factory.mktemp("judge") / "new") as made:
        yield made


@pytest.fixture(scope="module")
def old_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with Judge.of(JE_5, tmp_path_factory.mktemp("judge") / "old") as made:
        yield made


@pytest.fixture(scope="module")
def ignite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IgniteEngine]:
    with ignite_engine(tmp_path_factory.mktemp("ignite")) as engine:
        yield engine
