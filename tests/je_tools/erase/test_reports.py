"""Reports of erasures that stop early, files that stay, and hints how to continue."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from je_tools.erase.kept_files import kept_texts
from je_tools.erase.options import ErasureOptions
from je_tools.erase.plan import plan_erasure
from je_tools.erase.run_report import RunReport
from je_tools.errors import RefusedError
from je_tools.log.opening import open_environment
from tests.je_tools.erase.erasing import copy_of
from tests.je_tools.snapshots import snapshot_of


def test_the_report_of_a_run_that_stops_is_kept(tmp_path: Path) -> None:
    environment = open_environment([copy_of("v17-basic", tmp_path / "env")])
    path = tmp_path / "report.jsonl"

    def run() -> None:
        with RunReport.opened(path, environment) as report:
            report.note_fsync(environment.files[0].path, 7)
            raise RefusedError("no space")

    with pytest.raises(RefusedError, match="no space"):
        run()
    first, last = [json.loads(line) for line in path.read_text().splitlines()]
    assert first == {"record": "fsync", "file": "00000000.jdb", "time_ms": 7}
    assert last == {"record": "stopped", "reason": "no space"}


def test_a_run_that_is_refused_leaves_no_report(tmp_path: Path) -> None:
    environment = open_environment([copy_of("v17-basic", tmp_path / "env")])
    path = tmp_path / "report.jsonl"
    with pytest.raises(RefusedError), RunReport.opened(path, environment):
        raise RefusedError("in use")
    assert not path.exists()


def test_files_that_stay_are_named_with_what_lets_them_go(tmp_path: Path) -> None:
    home = copy_of("v17-erase-after", tmp_path / "env")
    (tmp_path / "backup").hardlink_to(home / "00000000.jdb")
    options = ErasureOptions(protected=frozenset({1}))
    linked, protected = kept_texts(plan_erasure(snapshot_of(home), options))
    assert linked.startswith("00000000.jdb stays as it is: the file has another name")
    assert linked.endswith("remove its other name, or put a copy of the file in its place")
    assert protected.startswith("00000001.jdb stays as it is: the file is protected")
    assert protected.endswith("--release`")


def test_the_last_file_of_an_old_log_stays_without_a_checkpoint(tmp_path: Path) -> None:
    home = copy_of("v8-basic", tmp_path / "env")
    (text,) = kept_texts(plan_erasure(snapshot_of(home), ErasureOptions()))
    assert "--checkpoint-first begins another file" in text
    assert (
        list(kept_texts(plan_erasure(snapshot_of(home), ErasureOptions(checkpoint_first=True))))
        == []
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (ErasureOptions(), ""),
        (ErasureOptions(checkpoint_first=True, force=True), " --checkpoint-first --force"),
        (ErasureOptions(period_ms=30 * 86_400_000), " --period 30d"),
        (ErasureOptions(period_ms=7 * 86_400_000, vlsn_below=9), " --vlsn-below 9 --period 1w"),
        (ErasureOptions(period_ms=90_000), " --period 90s"),
        (ErasureOptions(rewritten=frozenset({"a b", "c"})), " --rewrite 'a b' --rewrite c"),
    ],
)
def test_options_are_told_as_they_were_given(options: ErasureOptions, words: str) -> None:
    assert options.words == words
