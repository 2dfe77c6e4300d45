"""The logs that the bench reads, written by the engine itself and kept between runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

MAKER = Path(__file__).parent / "make" / "MakeLog.java"
ONE_FILE = 1 << 30
"""The largest file the engine writes, in bytes."""


@dataclass(frozen=True)
class LogKind:
    """A log to make: its name, its size, and the size at which the engine flips files."""

    name: str
    megabytes: int
    file_max: int = 10_000_000


MB_1 = LogKind("1m", 1)
MB_64 = LogKind("64m", 64)
GB_1 = LogKind("1g", 1024)
GB_4 = LogKind("4g", 4096)
GB_1_ONE_FILE = LogKind("1g-onefile", 1024, ONE_FILE)


def default_folder() -> Path:
    """JE_TOOLS_BENCH_LOGS, else a folder of the system's temporary one."""
    chosen = os.environ.get("JE_TOOLS_BENCH_LOGS")
    return Path(chosen) if chosen else Path(tempfile.gettempdir()) / "je-tools-bench"


def ensure(kind: LogKind, folder: Path, java: Path, jar: Path) -> Path:
    """The directory of this log, made when it is missing or was left half made."""
    home = folder / kind.name
    made = folder / f"{kind.name}.made"
    if not made.is_file():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        program = [java, "-cp", jar, MAKER, home, str(kind.megabytes), "1", str(kind.file_max)]
        told = subprocess.run(program, check=True, capture_output=True, text=True)
        made.write_text(told.stdout, encoding="utf-8")
    return home
