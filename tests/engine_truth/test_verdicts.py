"""`verify` finds no damage in the logs that the engine's DbVerifyLog passes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.corpus import Environment, log_files
from tests.engine_truth.running import json_rows
from tests.engine_truth.selected import over, with_truth

_VERDICT = "verifylog.txt"
_PASSED = re.compile(
    r"(?:SUCCESS\n\[VerifyLogSummary canceled=false fileReads=\d+ bytesRead=(\d+)"
    r" filesVerified=(\d+) filesWithErrors=0 filesDeleted=0 allErrors={}\]\n)?exit 0\n"
)
_NO_SUCH_TOOL = "Error: Could not find or load main class com.sleepycat.je.util.DbVerifyLog\n"
"""Output for JE 3.3."""


def judged(only: Path | None = None) -> list[Environment]:
    """Return the environments that the engine has verified."""
    every = with_truth(_VERDICT, only)
    return [each for each in every if not verdict(each).startswith(_NO_SUCH_TOOL)]


def verdict(env: Environment) -> str:
    """Return the output of DbVerifyLog."""
    assert env.truth is not None
    return (env.truth / _VERDICT).read_text()


def check(env: Environment, stats: Path) -> None:
    """Compare the findings and totals of a log with its verdict, which is that it is intact."""
    passed = _PASSED.fullmatch(verdict(env))
    assert passed, f"not understood: {verdict(env)}"
    code, findings = json_rows("verify", env.home, "--stats", str(stats))
    assert code == 0
    # The tool of the log's own engine does not report what newer engines do with old deltas.
    told = [each for each in findings if each["code"] != "old-delta-in-v8"]
    assert {finding["severity"] for finding in told} <= {"note"}
    totals = json.loads(stats.read_bytes())
    assert totals["files"] == len(log_files(env.home))
    if passed[1] is not None:
        assert (totals["bytes"], totals["files"]) == (int(passed[1]), int(passed[2]))


@over(judged())
def test_whole_logs(env: Environment, tmp_path: Path) -> None:
    """Logs cut inside their last entry pass, too, with a note; JE 25.3 also prints totals."""
    check(env, tmp_path / "stats.json")
