"""A store that tests share: a server on loopback, started once."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from je_tools.formats.files import remote_store
from tests.s3_store import S3Store, s3_store


@pytest.fixture(scope="session")
def server() -> Iterator[tuple[S3Store, dict[str, str]]]:
    with s3_store() as made:
        yield made


@pytest.fixture
def store(server: tuple[S3Store, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> S3Store:
    monkeypatch.setattr(remote_store, "_PAUSES", (0.01, 0.01))
    server[0].fail("", 0)
    server[0].requests.clear()
    return server[0]


@pytest.fixture
def variables(server: tuple[S3Store, dict[str, str]]) -> dict[str, str]:
    return {**os.environ, **server[1]}
