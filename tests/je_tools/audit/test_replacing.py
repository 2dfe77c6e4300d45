"""An audit's folder replaces an earlier one, or leaves it unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.audit.output_folder import BEGIN, MARK, replacing
from je_tools.errors import RefusedError

PART = "part-00000.parquet"


def write_audit(folder: Path, text: str) -> None:
    for name in ("environments", "findings"):
        (folder / name).mkdir(parents=True)
        (folder / name / PART).write_text(text)
    (folder / MARK).write_bytes(BEGIN)


def replaced(output: Path, text: str) -> None:
    with replacing(output) as new:
        write_audit(new, text)


def text_in(output: Path) -> str:
    assert [path.name for path in output.parent.iterdir()] == [output.name]
    return (output / "findings" / PART).read_text()


@pytest.mark.parametrize("is_there", [False, True])
def test_two_audits_into_one_folder(tmp_path: Path, *, is_there: bool) -> None:
    """A nightly audit may still run when the next one starts; the last to end is kept."""
    output = tmp_path / "audits" / "out"
    if is_there:
        replaced(output, "before")
    with replacing(output) as new:
        replaced(output, "quick")
        write_audit(new, "slow")
    assert text_in(output) == "slow"


def test_what_has_come_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    output = tmp_path / "out"

    def replaced_late() -> None:
        with replacing(output) as new:
            write_audit(new, "late")
            output.mkdir()
            (output / "photo").write_text("mine")

    with pytest.raises(RefusedError, match="is not from an audit"):
        replaced_late()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "photo"]


def test_an_earlier_audit_stays_when_its_place_cannot_be_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out"
    replaced(output, "before")
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if path.suffix == ".new":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replaced(output, "after")
    assert text_in(output) == "before"


def test_what_a_killed_audit_has_left_goes_with_the_next(tmp_path: Path) -> None:
    """The folder of a running audit stays, and so do folders with similar names."""
    output = tmp_path / "out"
    left = tmp_path / ".out.0123abcd.new"
    others = [tmp_path / name for name in (".out.new", ".other.0123abcd.new", ".out.old")]
    for folder in (left, *others):
        (folder / ".staging").mkdir(parents=True)
    with replacing(output) as first:
        assert not left.exists()
        with replacing(output) as second:
            assert first.exists()
            write_audit(second, "second")
        write_audit(first, "first")
    assert {path.name for path in tmp_path.iterdir()} == {"out", *(path.name for path in others)}


def test_what_a_killed_audit_has_replaced_goes_with_the_next(tmp_path: Path) -> None:
    """It stays until the next audit is complete: it may be the only one left."""
    old = tmp_path / ".out.0123abcd.old"
    write_audit(old, "the only one")
    other = tmp_path / ".out.4567abcd.old"
    write_audit(other, "with what somebody has put there")
    (other / "photo").write_text("mine")
    output = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt), replacing(output):
        raise KeyboardInterrupt
    assert old.exists()
    replaced(output, "after")
    assert {path.name for path in tmp_path.iterdir()} == {"out", other.name}
    assert (other / "photo").read_text() == "mine"


FOREIGN = (
    "notes.txt",
    "backup/00000000.jdb",
    "findings/notes.txt",
    "findings/backup/00000000.jdb",
    "findings/part-00001.parquet/00000000.jdb",
    "report.html/00000000.jdb",
    ".hidden",
    "txns",
)


@pytest.mark.parametrize("name", FOREIGN)
def test_an_audit_that_holds_what_no_audit_writes_is_not_replaced(
    tmp_path: Path, name: str
) -> None:
    """Replacing the audit would remove the foreign file with it."""
    output = tmp_path / "out"
    replaced(output, "before")
    (output / name).parent.mkdir(exist_ok=True)
    (output / name).write_text("mine")
    first = name if name.startswith("findings/n") else name.removesuffix("/00000000.jdb")
    with pytest.raises(RefusedError, match=f"holds {first}, which is not from an audit"):
        replaced(output, "after")
    assert (output / name).read_text() == "mine"
    assert text_in(output) == "before"


def test_an_audit_that_holds_a_link_is_not_replaced(tmp_path: Path) -> None:
    output = tmp_path / "out"
    replaced(output, "before")
    (output / "txns").symlink_to(tmp_path)
    with pytest.raises(RefusedError, match="holds txns"):
        replaced(output, "after")
    assert (output / "txns").is_symlink()
