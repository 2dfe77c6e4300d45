"""`make demo` in a clone in which nothing has been built yet."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.corpus import ROOT

FAKE = """#!/bin/sh
while [ $# -gt 0 ]; do
    if [ "$1" = --output ]; then
        test -d "$(dirname "$2")" && echo "an output beside what is there: $2"
    fi
    shift
done
"""


def test_the_audit_has_a_directory_to_write_to(tmp_path: Path) -> None:
    for folder in ("scripts", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    demo = shutil.copy(ROOT / "scripts" / "demo.sh", tmp_path / "scripts")
    fake = tmp_path / ".venv" / "bin" / "je-tools"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    done = subprocess.run([demo], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "an output beside what is there: build/audit" in done.stdout
