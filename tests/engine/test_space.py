"""Utilization beside the engine's DbSpace: as it has counted, counted anew, and what expires."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from je_tools.environment import open_environment
from je_tools.recount import recount
from je_tools.scan import Scanner
from je_tools.snapshot import take_snapshot
from je_tools.space import measure_space
from tests.corpus import FIXTURES, Environment, environments_in

READABLE = ("v8-", "v15-", "v17-")
"""Environments of log versions that the engine reads."""

EVERY = [each for each in environments_in(FIXTURES) if each.name.startswith(READABLE)]

pytestmark = pytest.mark.engine

_RECOUNTED = re.compile(r'^Recalc util 0x(\w+) .* totalSize="(\d+)".* getObsoleteSize="(\d+)"')
_ROW = re.compile(r"^([0-9a-f]{8})\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)$")


def db_space(java: Path, jar: Path, home: Path, *options: str) -> list[str]:
    """What DbSpace says of a directory, which it opens read-only."""
    command = [java, "-cp", jar, "com.sleepycat.je.util.DbSpace", "-h", home, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.splitlines()


@pytest.mark.parametrize("each", EVERY, ids=[each.name for each in EVERY])
def test_recount(each: Environment, tmp_path: Path, java: Path, je_jar: Path) -> None:
    home = tmp_path / "env"
    shutil.copytree(each.home, home)
    told = filter(None, map(_RECOUNTED.match, db_space(java, je_jar, home, "-r", "-d")))
    expected = {int(m[1], 16): (int(m[2]), int(m[3])) for m in told}
    assert expected
    for fast in (False, True):
        snapshot = take_snapshot(open_environment([each.home]), Scanner(fast=fast), now_ms=0)
        counted = recount(snapshot)
        found = {no: (size, counted.obsolete_size(no)) for no, size in counted.total.items()}
        assert found == expected


@pytest.fixture(scope="module")
def expiring(tmp_path_factory: pytest.TempPathFactory, java: Path, je_jar: Path) -> Path:
    """An environment of several files with records that expire."""
    home = tmp_path_factory.mktemp("expiring")
    source = Path(__file__).with_name("Expiring.java")
    subprocess.run([java, "-cp", je_jar, source, home], check=True, timeout=120)
    return home


@pytest.mark.parametrize("hours", [0, 20, 60, 24 * 5, 24 * 30])
def test_what_expires(hours: int, expiring: Path, java: Path, je_jar: Path) -> None:
    when = (datetime.now(UTC) + timedelta(hours=hours)).replace(minute=0, second=0, microsecond=0)
    lines = db_space(java, je_jar, expiring, "-t", when.strftime("%Y-%m-%dT%H+0000"))
    expected = {
        int(m[1], 16): [int(n) for n in m.groups()[1:]] for m in map(_ROW.match, lines) if m
    }
    now_ms = int(when.timestamp() * 1000)
    snapshot = take_snapshot(open_environment([expiring]), Scanner(), now_ms=now_ms)
    space = measure_space(snapshot)
    assert len(space.files) > 2
    last = max(expected)
    for each in space.files:
        used = each.counted
        assert used is not None
        if each.file.file_no == last:
            # The engine has counted what recovery read, too.
            continue
        row = [used.total_size // 1024, used.average, used.least, used.most]
        assert row == expected[each.file.file_no]
    pending = sum(each.pending_size for each in space.files)
    assert (pending > 0) == (hours < 24 * 30)
