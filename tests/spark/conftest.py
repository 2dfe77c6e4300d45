"""One Spark session for all tests that ask for `spark`, so that one JVM is started for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.session import open_session


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests of the session together: with `--dist loadgroup` in one worker of xdist."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session that knows the format `jelog`; without a JDK it fails and says what to install."""
    session = open_session(tmp_path_factory.mktemp("spark"), "local[2,4]")
    from je_tools.spark import register

    register(session)
    yield session
    session.stop()
