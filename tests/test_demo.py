"""`make demo` in a clone in which nothing has been built yet."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.corpus import ROOT

FAKE = """#!/bin/sh
while [ $# -gt 0 ]; do
    if [ "$1" = --output ]; then
        test -d "$(dirname "$2")" && echo "an output beside what is there: $2"
        exit "$AUDIT_CODE"
    fi
    shift
done
"""


@pytest.mark.parametrize(("code", "expected"), [(3, 0), (0, 1), (5, 5)])
def test_the_audit_finds_damage(tmp_path: Path, code: int, expected: int) -> None:
    for folder in ("scripts", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    demo = shutil.copy(ROOT / "scripts" / "demo.sh", tmp_path / "scripts")
    fake = tmp_path / ".venv" / "bin" / "je-tools"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    env = os.environ | {"AUDIT_CODE": str(code)}
    done = subprocess.run([demo], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == expected, done.stderr
    assert "an output beside what is there: build/audit" in done.stdout
