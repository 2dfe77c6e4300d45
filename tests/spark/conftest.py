"""One Spark session for all tests that use `spark`, so that only one JVM starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.session import open_session


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of the session."""
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session", params=[pytest.param("local[2,4]", id="spark")])
def spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """Start a session with the format `jelog`; without a JDK, fail and say what to install.

    The parameter adds `spark` to the name of each of its tests, as tests/conftest.py requires.
    """
    session = open_session(tmp_path_factory.mktemp("spark"), request.param)
    from je_tools.spark import register

    register(session)
    yield session
    session.stop()
