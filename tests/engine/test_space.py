"""Utilization compared with the engine's DbSpace: counted, recounted, and with expirations."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.opening import take_snapshot
from je_tools.space.recount import recount
from je_tools.space.usage import measure_space
from tests.corpus import FIXTURES, Environment, environments_in
from tests.engine.tools import Tools

READABLE = ("v8-", "v15-", "v17-")
"""Environments of log versions that the engine reads."""

EVERY = [each for each in environments_in(FIXTURES) if each.name.startswith(READABLE)]

pytestmark = pytest.mark.engine

NOW_MS = 1_700_000_000_000
"""Time at which nothing has expired: the engine counts expired records as obsolete."""

_RECOUNTED = re.compile(r'^Recalc util 0x(\w+) .* totalSize="(\d+)".* getObsoleteSize="(\d+)"')
_ROW = re.compile(r"^([0-9a-f]{8})\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)$")


def db_space(tools: Tools, home: Path, *options: object) -> list[str]:
    """Return the output of DbSpace on a directory, which it opens read-only."""
    return tools.run("DbSpace", "-h", home, *options).decode().splitlines()


@pytest.mark.parametrize("each", EVERY, ids=[each.name for each in EVERY])
def test_recount(each: Environment, tmp_path: Path, tools: Tools) -> None:
    home = tmp_path / "env"
    shutil.copytree(each.home, home)
    with tools.clock(NOW_MS):
        lines = db_space(tools, home, "-r", "-d")
    told = filter(None, map(_RECOUNTED.match, lines))
    expected = {int(m[1], 16): (int(m[2]), int(m[3])) for m in told}
    assert expected
    snapshot = take_snapshot(open_environment([each.home]), Scanner(), now_ms=NOW_MS)
    counted = recount(snapshot)
    found = {no: (size, counted.obsolete_size(no)) for no, size in counted.total.items()}
    assert found == expected


@pytest.fixture(scope="module")
def expiring(tmp_path_factory: pytest.TempPathFactory, tools: Tools) -> Path:
    """Write an environment of several files with records that expire."""
    home = tmp_path_factory.mktemp("expiring")
    tools.run("Expiring", home)
    return home


@pytest.mark.parametrize("hours", [0, 20, 60, 24 * 5, 24 * 30])
def test_what_expires(hours: int, expiring: Path, tools: Tools) -> None:
    when = (datetime.now(UTC) + timedelta(hours=hours)).replace(minute=0, second=0, microsecond=0)
    now_ms = int(when.timestamp() * 1000)
    lines = db_space(tools, expiring, "-t", now_ms)
    expected = {
        int(m[1], 16): [int(n) for n in m.groups()[1:]] for m in map(_ROW.match, lines) if m
    }
    snapshot = take_snapshot(open_environment([expiring]), Scanner(), now_ms=now_ms)
    space = measure_space(snapshot)
    assert len(space.files) > 2
    last = max(expected)
    for each in space.files:
        used = each.counted
        assert used is not None
        if each.file.file_no == last:
            # The engine also counted the entries that recovery read.
            continue
        row = [used.total_size // 1024, used.average, used.least, used.most]
        assert row == expected[each.file.file_no]
    pending = sum(each.pending_size or 0 for each in space.files)
    assert (pending > 0) == (hours < 24 * 30)
