"""Tables of erasures for people fit into narrow terminals."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.damage.running import je_tools
from tests.je_tools.erase.erasing import copy_of


@pytest.mark.parametrize("width", [60, 80])
def test_the_tables_of_a_run_fit(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    home = copy_of("v17-erase-after", tmp_path / "env")
    (home / "00000000.jdb").rename(tmp_path / "log")
    (home / "00000000.jdb").hardlink_to(tmp_path / "log")
    assert je_tools("erase", "abort", home, "00000001.jdb").code == 0
    done = je_tools("erase", "run", home, "--apply")
    assert done.code == 0, done.err
    lines = done.out.decode().splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(lines)
    assert "protected" in text, "no word of a reason is broken"
    assert "bytes written" in text
