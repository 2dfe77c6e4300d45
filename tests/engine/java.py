"""Find a JDK, 17 or newer, that can run a single-file Java program.

`python -m tests.engine.java` prints its path, or says what to install (exit 1).
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

OLDEST = 17


class NoJavaError(Exception):
    """No JDK that is new enough; the text says what to install."""


@functools.cache
def find_java() -> Path:
    """Return the `java` launcher of a JDK of version 17 or newer.

    Tries JAVA_HOME, then PATH, then the folders in which Linux distributions install JDKs. A JRE
    is not enough: running a source file needs the module jdk.compiler.

    Raises:
        NoJavaError: none was found; the text names each launcher that was tried.
    """
    seen: list[str] = []
    for launcher in _launchers():
        verdict = _judge(launcher)
        if verdict is None:
            return launcher
        seen.append(f"  {launcher}: {verdict}")
    looked = "\n".join(seen) or "  no java in JAVA_HOME or on PATH"
    raise NoJavaError(
        f"the engine's tests need a JDK {OLDEST} or newer (Debian, Ubuntu: apt-get install "
        f"default-jdk-headless; or set JAVA_HOME):\n{looked}"
    )


def _launchers() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    yield from sorted(Path("/usr/lib/jvm").glob("*/bin/java"), reverse=True)


def _judge(launcher: Path) -> str | None:
    """Return why this launcher is unsuitable, or None."""
    try:
        told = subprocess.run(
            [launcher, "--list-modules"], capture_output=True, text=True, timeout=600, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    # A line reads "jdk.compiler@17.0.15". Java 8 does not know the option and prints usage.
    modules = dict(line.split("@", 1) for line in told.stdout.split() if "@" in line)
    if "java.base" not in modules:
        return "older than Java 9"
    version = modules["java.base"]
    if int(version.split(".")[0].split("-")[0]) < OLDEST:
        return f"is Java {version}"
    if "jdk.compiler" not in modules:
        return f"is a Java {version} runtime without the compiler"
    return None


def main() -> int:
    """Print the launcher's path, or what is missing."""
    try:
        print(find_java())
    except NoJavaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
