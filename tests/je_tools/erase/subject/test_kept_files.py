"""Traces in files that stay whole, as the last one before log version 17, have their states too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders.secrets import secret, secrets_log
from tests.damage.running import je_tools


def states(home: Path, where: str) -> set[str]:
    """Return the states of the traces of one secret."""
    done = je_tools("erase", "subject", home, "--match", secret(where).decode(), "--format", "json")
    return {each["state"] for each in json.loads(done.out)["traces"]}


@pytest.mark.parametrize("kind", ["plain", "hard link", "protected"])
@pytest.mark.parametrize("version", [15, 17, 26])
def test_what_is_live_is_called_live(version: int, kind: str, tmp_path: Path) -> None:
    home = secrets_log(tmp_path / "env", version)
    if kind == "hard link":
        (tmp_path / "backup").hardlink_to(home / "00000001.jdb")
    elif kind == "protected":
        assert je_tools("erase", "abort", home, "00000001.jdb").code == 0
    assert "live record" in states(home, "value")
    assert states(home, "slot") == {"deleted slot in use"}
