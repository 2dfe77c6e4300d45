"""One JVM for many environments: questions, answers, and the cost of a bad case."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.engine.recovered import Engine
from tests.engine.workloads import CLOSE, sessions_of, write_environment
from tests.truth.contents import Refusal

_FAKE = f"""#!{sys.executable}
import sys, time
for line in sys.stdin:
    home, answer, mode, now = line.rstrip("\\n").split("\\t")
    if "hangs" in home:
        time.sleep(3600)
    if "dies" in home:
        sys.exit(1)
    with open(answer, "w") as out:
        out.write("#db\\tsaid\\n00\\t" + now.encode().hex() + "\\n")
        if mode == "ro":
            out.write("#refused\\topen\\tSome\\tread only\\n")
    print(home, flush=True)
"""


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    launcher = tmp_path / "java"
    launcher.write_text(_FAKE)
    launcher.chmod(0o755)
    return launcher


def test_a_bad_case_loses_no_other(fake: Path, tmp_path: Path) -> None:
    good = {"said": [(b"\0", b"7")]}
    with Engine(fake, "") as engine:
        assert engine.ask(tmp_path / "one", 7) == good
        assert engine.ask(tmp_path / "dies", 7) == Refusal("died", "the JVM")
        assert engine.ask(tmp_path / "two", 7) == good
        engine.seconds, patience = 1, engine.seconds
        assert engine.ask(tmp_path / "hangs", 7) == Refusal("hung", "after 1 s")
        engine.seconds = patience
        assert engine.ask(tmp_path / "three", 7) == good
        assert engine.ask(tmp_path / "four", 7, read_only=True) == Refusal(
            "open", "Some", "read only"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["java"]


@pytest.mark.engine
def test_what_stress_writes_is_read(java: Path, class_path: str, tmp_path: Path) -> None:
    """Ask about an environment read-only, then for writing, and about one that does not exist."""
    home = tmp_path / "home"
    session = sessions_of(1, small=True, serial=True)[0] | {"end": CLOSE, "ttl": 0, "structure": 1}
    write_environment(java, class_path, home, [session])
    logged = {path.name: path.read_bytes() for path in home.glob("*.jdb")}
    with Engine(java, class_path) as engine:
        found = engine.ask(home, read_only=True)
        assert {path.name: path.read_bytes() for path in home.glob("*.jdb")} == logged
        assert isinstance(found, dict)
        assert {"plain", "narrow nodes", "dups", "präfix/a:b"} <= found.keys()
        assert any(name.startswith("made ") for name in found)
        assert sum(map(len, found.values())) > 50
        keys = [key for key, _ in found["dups"]]
        assert len(keys) > len(set(keys))
        assert engine.ask(home) == found
        refused = engine.ask(tmp_path / "nothing")
        assert isinstance(refused, Refusal)
        assert refused.stage == "open"
