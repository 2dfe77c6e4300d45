"""Fetch the engine's jars by Maven coordinate into a cache folder.

A jar that is already in the folder is used without network access. Three ways to get one are tried
in turn: Maven on PATH; Maven installed with apt, if that needs no interaction; the Ivy jar inside
PySpark. Their own configuration determines the registry.

`python -m tests.engine.jars [COORDINATE...]` prints the path of each jar; without a coordinate, of
those that the tests use.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from tests.engine.java import NoJavaError, find_java

JE_18 = "com.sleepycat:je:18.3.12"
JE_5 = "com.sleepycat:je:5.0.73"
STARROCKS = "com.starrocks:starrocks-bdb-je:18.3.20"
IGNITE = "org.apache.ignite:ignite-core:2.18.0"
IGNITE_NEEDS = ("javax.cache:cache-api:1.0.0", "org.jetbrains:annotations:16.0.3")

ROOT = Path(__file__).resolve().parents[2]
MINUTES_15 = 15 * 60


class NoEngineError(Exception):
    """No way to get a jar worked; the text has the error of each."""


def cache_folder() -> Path:
    """Return the folder of jars: JE_TOOLS_JARS, or a folder of the user's cache."""
    chosen = os.environ.get("JE_TOOLS_JARS")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "je-tools-test" / "jars"


@functools.cache
def engine_jar(coordinate: str = JE_18) -> Path:
    """Return the path of the jar `group:artifact:version`, after fetching it if it is missing.

    Several processes may call this at once: one fetches, the others wait.

    Raises:
        NoEngineError: every way failed. It is not a reason to skip a test.
    """
    group, artifact, version = coordinate.split(":")
    folder = cache_folder()
    jar = folder / group / f"{artifact}-{version}.jar"
    if jar.is_file():
        return jar
    jar.parent.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.is_file():
            _fetch(coordinate, jar)
    return jar


def _fetch(coordinate: str, jar: Path) -> None:
    ways: list[tuple[str, Callable[[str, Path], None]]] = [
        ("Maven", _with_maven),
        ("Maven installed with apt", _with_apt_maven),
        ("PySpark's Ivy", _with_ivy),
    ]
    failures = []
    for name, way in ways:
        with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
            try:
                way(coordinate, Path(folder))
                found = _only_jar(Path(folder), jar.name)
            except (_WayError, NoJavaError, OSError, subprocess.TimeoutExpired) as error:
                failures.append(f"  {name}: {error}")
                continue
            # Renamed within one folder, so that a half-copied jar never has its final name.
            found.replace(jar)
            return
    raise NoEngineError(f"cannot get {coordinate} into {jar.parent}:\n" + "\n".join(failures))


class _WayError(Exception):
    """This way of getting a jar does not work here."""


def _only_jar(folder: Path, name: str) -> Path:
    found = folder / name
    if not found.is_file() or not zipfile.is_zipfile(found):
        raise _WayError(f"left no {name}")
    return found


def _run(command: list[str | Path], cwd: Path) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=MINUTES_15, check=False, cwd=cwd
    )
    if done.returncode:
        tail = " / ".join((done.stdout + done.stderr).strip().splitlines()[-3:])
        raise _WayError(f"{Path(command[0]).name} failed ({done.returncode}): {tail}")


def _with_maven(coordinate: str, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise _WayError("no mvn on PATH")
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    artifact, out = f"-Dartifact={coordinate}", f"-DoutputDirectory={folder}"
    _run([maven, "--batch-mode", "--quiet", goal, artifact, out], cwd=folder)


def _with_apt_maven(coordinate: str, folder: Path) -> None:
    if shutil.which("mvn"):
        raise _WayError("it is there already")
    _run(["bash", "-c", ". scripts/apt.sh && apt_install maven"], cwd=ROOT)
    _with_maven(coordinate, folder)


def _with_ivy(coordinate: str, folder: Path) -> None:
    ivy = _ivy_jar()
    group, artifact, version = coordinate.split(":")
    pattern = f"{folder}/[artifact]-[revision].[ext]"
    command: list[str | Path] = [find_java(), "-jar", ivy, "-cache", folder / "ivy"]
    command += ["-m2compatible", "-notransitive", "-dependency", group, artifact, version]
    _run([*command, "-retrieve", pattern, "-types", "jar", "bundle"], cwd=folder)


def _ivy_jar() -> Path:
    """Return the Ivy jar of this Python's PySpark, or of a PySpark installed only for that."""
    places = [Path(sysconfig.get_path("purelib")), cache_folder().parent / "pyspark"]
    for place in places:
        found = sorted(place.glob("pyspark/jars/ivy-*.jar"))
        if found:
            return found[-1]
    pip: list[str | Path] = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    _run([*pip, "--target", places[1], "pyspark>=4"], cwd=cache_folder())
    found = sorted(places[1].glob("pyspark/jars/ivy-*.jar"))
    if not found:
        raise _WayError("this PySpark holds no ivy-*.jar")
    return found[-1]


def main() -> int:
    """Print the path of each coordinate's jar."""
    try:
        for coordinate in sys.argv[1:] or [JE_18, JE_5, IGNITE, *IGNITE_NEEDS]:
            print(engine_jar(coordinate))
    except NoEngineError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
