"""Finding Java and the engine's jars: suitable ones are used, and errors say what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine import jars, java


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    yield
    java.find_java.cache_clear()
    jars.engine_jar.cache_clear()


def _launcher(folder: Path, modules: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' {modules}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("modules", "verdict"),
    [
        ("java.base@17.0.15 jdk.compiler@17.0.15", None),
        ("java.base@25-ea jdk.compiler@25-ea", None),
        ("java.base@11.0.2 jdk.compiler@11.0.2", "is Java 11.0.2"),
        ("java.base@21 java.sql@21", "is a Java 21 runtime without the compiler"),
        ("Unrecognized", "older than Java 9"),
    ],
)
def test_which_java_does(tmp_path: Path, modules: str, verdict: str | None) -> None:
    assert java._judge(_launcher(tmp_path, modules)) == verdict


def test_no_java_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = _launcher(tmp_path, "java.base@11 jdk.compiler@11")
    monkeypatch.setattr(java, "_launchers", lambda: iter([old]))
    java.find_java.cache_clear()
    with pytest.raises(java.NoJavaError, match=r"default-jdk-headless(.|\n)*is Java 11"):
        java.find_java()


def test_a_jar_at_hand_is_used_without_a_look_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "org.example" / "engine-1.jar"
    jar.parent.mkdir()
    jar.write_bytes(b"PK")
    monkeypatch.setenv("JE_TOOLS_JARS", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    assert jars.engine_jar("org.example:engine:1") == jar


def test_no_way_to_a_jar_tells_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_way(coordinate: str, folder: Path) -> None:
        raise jars._WayError(f"nothing for {coordinate}")

    for way in ("_with_maven", "_with_apt_maven", "_with_ivy"):
        monkeypatch.setattr(jars, way, no_way)
    monkeypatch.setenv("JE_TOOLS_JARS", str(tmp_path))
    with pytest.raises(jars.NoEngineError) as caught:
        jars.engine_jar("org.example:engine:1")
    for name in ("  Maven:", "Maven installed with apt:", "PySpark's Ivy:"):
        assert f"{name} nothing for org.example:engine:1" in str(caught.value)


@pytest.mark.engine
def test_the_engine_is_there(je_jar: Path, java: Path) -> None:
    assert je_jar.name == "je-18.3.12.jar"
    assert java.name == "java"
