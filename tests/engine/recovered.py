"""Records that the real engine finds in environments: one JVM for many of them."""

from __future__ import annotations

import hashlib
import os
import selectors
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.corpus import ROOT
from tests.truth.contents import Contents, Refusal, parse_contents

FOLDER = Path(__file__).parent
CLASSES = ROOT / "build" / "test-classes"
PROGRAMS = (
    *("Acceptance", "Crashes", "Cuts", "Dumps", "Eraser", "Group", "HardLogs", "Holds", "Nodes"),
    *("Properties", "Questions", "Records", "Stress", "Workload", "Writer"),
)
NEWER_PROGRAMS = ("Expiring", "Tools")
"""Programs that do not compile against an engine before 7.0."""

QUICK_START = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    # The verifier of class files takes a sixth of the CPU time of a start.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
    "-Xshare:auto",
    "-Xmx400m",
    "-Dfile.encoding=UTF-8",
)


def compile_java(java: Path, jar: Path, sources: Sequence[Path], needs: Sequence[Path] = ()) -> str:
    """Compile programs against an engine, and return the class path to run them with.

    `needs` are jars that the engine needs. What was compiled stays below build/ and is used again:
    compiling costs more CPU time than most tests.
    """
    jars = os.pathsep.join(map(str, (jar, *needs)))
    digest = hashlib.sha256(f"{java.resolve()}\n{jar.name}\n".encode())
    for source in sources:
        digest.update(source.read_bytes())
    classes = CLASSES / digest.hexdigest()[:16]
    if not classes.is_dir():
        CLASSES.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CLASSES) as folder:
            compiler = [java, *QUICK_START, "--module", "jdk.compiler/com.sun.tools.javac.Main"]
            words = ["-proc:none", "-cp", jars, "-d", f"{folder}/made", *sources]
            subprocess.run([*compiler, *words], check=True)
            # Another process may have been faster.
            with suppress(OSError):
                Path(folder, "made").rename(classes)
    return f"{jars}{os.pathsep}{classes}"


def engine_class_path(java: Path, jar: Path) -> str:
    """Compile all programs for an engine, which costs little more than to compile one."""
    names = PROGRAMS if jar.name.startswith("je-5.") else (*PROGRAMS, *NEWER_PROGRAMS)
    return compile_java(java, jar, [FOLDER / f"{name}.java" for name in names])


def checks_whole_files(class_path: str) -> bool:
    """Return whether recovery by an engine checks all entries of the files that it reads.

    JE 5.0.73 checks only the entries that its passes select, and opens a log with damage in
    others. JE 18.3.12 checks whole files beside the passes, and refuses the log.

    Source: FileReader.readNextEntry, JE 5.0.73; RecoveryManager.VerifyCheckpointInterval,
    JE 18.3.12.
    """
    return not Path(class_path.split(os.pathsep)[0]).name.startswith("je-5.")


class Engine:
    """An engine that opens environments one after the other.

    Each open recovers the environment, and so writes to it, unless it is read-only. If the engine
    hangs or its JVM dies, that is the answer, and the next question starts a new JVM.

    Attributes:
        seconds: time limit for one environment.
    """

    def __init__(
        self,
        java: Path,
        class_path: str,
        seconds: float = 300,
        *,
        program: str = "Records",
        options: Sequence[str] = (),
    ) -> None:
        self.seconds = seconds
        self._command = [java, *QUICK_START, *options, "-cp", class_path, program]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def ask(self, home: Path, now_ms: int = 0, *, read_only: bool = False) -> Contents | Refusal:
        """Return the records of an environment, or the engine's refusal.

        Args:
            home: its directory.
            now_ms: time at which records expire; 0 for the system clock.
            read_only: do not change the directory.
        """
        told = self.tell(home, "ro" if read_only else "rw", now_ms)
        return told if isinstance(told, Refusal) else parse_contents(told)

    def tell(self, home: Path, *words: object) -> list[str] | Refusal:
        """Return the lines of the answer to a question that this engine's program understands.

        Args:
            home: the directory; an answer file is written beside it and removed.
            words: words of the question.
        """
        answer = home.with_name(home.name + ".answer")
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write("\t".join(map(str, (home, answer, *words))) + "\n")
            process.stdin.flush()
            failure = self._wait(process, home)
        except BrokenPipeError:
            failure = "died"
        try:
            if failure is None:
                with answer.open(encoding="utf-8", newline="\n") as lines:
                    return list(lines)
            self.stop()
            return Refusal(failure, f"after {self.seconds} s" if failure == "hung" else "the JVM")
        finally:
            answer.unlink(missing_ok=True)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, text=True)
        return self._process

    def _wait(self, process: subprocess.Popen[str], home: Path) -> str | None:
        """Return how the process failed to answer; None if it has answered."""
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(self.seconds):
                return "hung"
        line = process.stdout.readline()
        return None if line == f"{home}\n" else "died"

    def stop(self) -> None:
        """Kill the JVM; the next question starts another one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
