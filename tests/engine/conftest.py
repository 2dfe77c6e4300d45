"""Engines as judges of written environments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.acceptance import Judge
from tests.engine.holder import Holder
from tests.engine.ignite import IgniteEngine, ignite_engine
from tests.engine.jars import JE_5, JE_18


@pytest.fixture(scope="module")
def judge(judges: dict[str, Judge], tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return judges[JE_18].at(tmp_path_factory.mktemp("new"))


@pytest.fixture(scope="module")
def old_judge(judges: dict[str, Judge], tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return judges[JE_5].at(tmp_path_factory.mktemp("old"))


@pytest.fixture(scope="session")
def ignite() -> Iterator[IgniteEngine]:
    with ignite_engine() as engine:
        yield engine


@pytest.fixture(scope="session")
def holder(java: Path, class_path: str) -> Iterator[Holder]:
    with Holder(java, class_path) as running:
        yield running
