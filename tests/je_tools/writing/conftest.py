"""Fixtures for tests of writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.je_tools.writing.operations import small_log


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a small log."""
    return small_log(tmp_path / "env")
