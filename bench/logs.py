"""The logs that the bench reads, written by the engine itself and kept between runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MAKERS = Path(__file__).parent / "make"
ONE_FILE = 1 << 30
"""Size in bytes of the largest file that the engine writes."""


@dataclass(frozen=True)
class LogKind:
    """A log to make: its name, its size, and the size at which the engine flips files."""

    name: str
    megabytes: int
    file_max: int = 10_000_000
    maker: str = "MakeLog.java"

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of the maker after the directory."""
        return str(self.megabytes), "1", str(self.file_max)


@dataclass(frozen=True)
class RecordsKind:
    """A log of one database: numbers of records and of writes, and size of values."""

    name: str
    records: int
    writes: int
    value_bytes: int
    end: str
    maker: str = "MakeRecords.java"

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of the maker after the directory."""
        return str(self.records), str(self.writes), str(self.value_bytes), self.end


MB_1 = LogKind("1m", 1)
MB_64 = LogKind("64m", 64)
GB_1 = LogKind("1g", 1024)
GB_4 = LogKind("4g", 4096)
GB_1_ONE_FILE = LogKind("1g-onefile", 1024, ONE_FILE)
RECORDS_2M = RecordsKind("records-2m", 2_200_000, 2_200_000, 440, "closed")
CRASHED_1M = RecordsKind("crashed-1m", 800_000, 1_000_000, 220, "crashed")


def default_folder() -> Path:
    """Return JE_TOOLS_BENCH_LOGS, or a folder in the system's temporary directory."""
    chosen = os.environ.get("JE_TOOLS_BENCH_LOGS")
    return Path(chosen) if chosen else Path(tempfile.gettempdir()) / "je-tools-bench"


def ensure(kind: LogKind | RecordsKind, folder: Path, java: Path, jar: Path) -> Path:
    """Return the directory of this log; make it if it is missing or incomplete."""
    maker = [java, "-cp", jar, MAKERS / kind.maker]
    return ensure_made(folder / kind.name, maker, kind.arguments)


def ensure_made(home: Path, maker: Sequence[str | Path], arguments: Sequence[str]) -> Path:
    """Return the directory `home`; let a program make it if it is missing or incomplete."""
    made = home.with_name(f"{home.name}.made")
    if not made.is_file():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        program = [*maker, home, *arguments]
        shown = subprocess.run(program, check=True, capture_output=True, text=True)
        made.write_text(shown.stdout, encoding="utf-8")
    return home
