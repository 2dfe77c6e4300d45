"""`explain` recognises the engine's messages about logs that it refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from je_tools.explain.recognition import Recognition, recognise_text
from je_tools.writing.lock import EnvironmentLock
from tests.builders.trees import simple
from tests.corpus import FIXTURES
from tests.engine.jars import JE_18
from tests.engine.recovered import Engine
from tests.truth.contents import Refusal

BASIC, NEWER, LONG = (
    FIXTURES / name / "env" for name in ("v17-basic", "v26-basic", "v17-erase-after")
)


@pytest.fixture
def engine(engines: dict[str, Engine]) -> Engine:
    return engines[JE_18]


def refused(engine: Engine, home: Path, *, read_only: bool = False) -> Recognition:
    """Return what is recognised in the engine's refusal of an environment."""
    said = engine.ask(home, read_only=read_only)
    assert isinstance(said, Refusal)
    return recognise_text(f"{said.reason}: {said.message}")


def rename(home: Path) -> None:
    (home / "00000000.jdb").rename(home / "00000001.jdb")


def change_header(home: Path) -> None:
    with (home / "00000000.jdb").open("r+b") as file:
        file.seek(20)
        file.write(b"XX")


def remove_first(home: Path) -> None:
    min(home.glob("*.jdb")).unlink()


def remove_all(home: Path) -> None:
    for path in home.glob("*.jdb"):
        path.unlink()


@pytest.mark.engine
@pytest.mark.parametrize(
    ("source", "harm", "name", "place"),
    [
        (BASIC, rename, "wrong-file-number", "00000001.jdb"),
        (BASIC, change_header, "checksum", "0x0/0x0"),
        (NEWER, lambda _: None, "version-mismatch", "00000000.jdb"),
        (LONG, remove_first, "file-not-found", None),
        (BASIC, remove_all, "environment-not-found", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_refusal_is_recognised(
    engine: Engine,
    tmp_path: Path,
    source: Path,
    harm: Callable[[Path], None],
    name: str,
    place: str | None,
) -> None:
    home = tmp_path / "env"
    shutil.copytree(source, home)
    harm(home)
    found = refused(engine, home, read_only=harm is remove_all)
    assert [each.case.name for each in found.sightings] == [name]
    assert place is None or place in {each.place.text for each in found.places}


@pytest.mark.engine
def test_a_lock_is_recognised(engine: Engine, tmp_path: Path) -> None:
    home = tmp_path / "env"
    shutil.copytree(BASIC, home)
    with EnvironmentLock(home):
        found = refused(engine, home)
    assert [each.case.name for each in found.sightings] == ["environment-locked"]


@pytest.mark.engine
@pytest.mark.parametrize("kind", ["NETWORK_RESTORE", "LOG_CHECKSUM", "BTREE_CORRUPTION"])
def test_a_restore_that_is_asked_for_is_recognised(
    engine: Engine, tmp_path: Path, kind: str
) -> None:
    log = simple({b"a": b"1"})
    log.put("RestoreRequired", {"failure_type": kind, "time_ms": 1, "properties": "ex=x\n"})
    found = refused(engine, log.write(tmp_path / "env"))
    assert [each.case.name for each in found.sightings] == ["restore-marker"]
