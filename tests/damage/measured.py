"""Commands in their own process, measured."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

POLL = 0.02
CALL = "import sys; from je_tools.commands.main import group, run; sys.exit(run(group))"


class Measured(NamedTuple):
    """Exit code, seconds of CPU, and the largest anonymous memory that was seen, in bytes."""

    code: int
    seconds: float
    anonymous: int


def measured(*arguments: object) -> Measured:
    """Run `je-tools`, and discard its output."""
    command = [sys.executable, "-c", CALL, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    while True:
        peak = max(peak, anonymous_memory(process.pid))
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return Measured(process.returncode, usage.ru_utime + usage.ru_stime, peak)
        time.sleep(POLL)


def anonymous_memory(pid: int) -> int:
    """Return the bytes of anonymous memory of a process, or 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = re.search(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) << 10 if found else 0
