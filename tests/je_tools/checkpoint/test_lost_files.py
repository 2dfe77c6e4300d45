"""Writing to a log in which a file is missing that is in use: never a silent loss."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from je_tools.checkpoint import checks
from je_tools.checkpoint.apply import apply_checkpoint
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.errors import EXIT_DAMAGE, EXIT_OK, EXIT_REFUSED, EXIT_USAGE, RefusedError
from je_tools.log.scan import Scanner
from je_tools.recovery.findings import missing_findings
from tests.corpus import FIXTURES
from tests.je_tools.checkpoint.test_checkpoint import hashes
from tests.je_tools.dumped import je_tools
from tests.je_tools.snapshots import snapshot_of


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """Return a log that needs a checkpoint."""
    return shutil.copytree(FIXTURES / "v17-crash-txn" / "env", tmp_path / "env")


@pytest.fixture
def _lacks_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "missing_in_use", lambda _: [2])


@pytest.mark.usefixtures("_lacks_a_file")
def test_a_loss_is_not_made_permanent_unasked(crashed: Path) -> None:
    before = hashes(crashed)
    with pytest.raises(RefusedError, match=r"in use are missing: 00000002\.jdb\..*--accept-loss"):
        apply_checkpoint(crashed, Scanner(threads=1), CheckpointOptions(cuts=True), 0)
    assert hashes(crashed) == before
    _, outcome = apply_checkpoint(
        crashed, Scanner(threads=1), CheckpointOptions(cuts=True, accept_loss=True), 0
    )
    assert outcome.changes


@pytest.mark.usefixtures("_lacks_a_file")
@pytest.mark.parametrize("verb", ["checkpoint", "recover"])
def test_the_commands_ask_for_it(verb: str, crashed: Path) -> None:
    refused = je_tools(verb, crashed, "--apply")
    assert refused.code == EXIT_REFUSED
    assert "--accept-loss" in refused.err
    assert je_tools(verb, crashed, "--apply", "--accept-loss").code == EXIT_OK


def test_a_plan_needs_no_consent(crashed: Path) -> None:
    assert je_tools("recover", crashed, "--accept-loss").code == EXIT_USAGE


def test_the_loss_is_still_reported_afterwards(tmp_path: Path) -> None:
    """The engine removes its records of files that are gone; here they show the loss."""
    home = tmp_path / "env"
    home.mkdir()
    shutil.copy(FIXTURES / "v8-cleaned" / "env" / "00000003.jdb", home)
    before = [each.file_no for each in missing_findings(snapshot_of(home))]
    assert before == [2]
    options = CheckpointOptions(cuts=True, accept_loss=True)
    apply_checkpoint(home, Scanner(threads=1), options, 0)
    assert [each.file_no for each in missing_findings(snapshot_of(home))] == before
    for verb in ("count", "recover", "missing"):
        assert je_tools(verb, home).code == EXIT_DAMAGE, verb
